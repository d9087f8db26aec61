"""Functions of the operating system that may wait for a file system, as objects that decide for each call
where it is made.

The functions themselves stay what they are: their arguments, errors and audit events. See filesystems.pyx for
the rule.
"""

from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from posix.unistd cimport close as close_fd

from syncless._core.calls.filesystems cimport (
    FileSystem, Kind, Trial, any_slow, in_pool, in_pool_of, look_at, never, of_descriptor, of_path, pools_all,
    tried,
)
from syncless._core.clock cimport monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.current cimport may_park, take_turns
from syncless._core.loop cimport Loop
from syncless._core.threadloop cimport peek_loop

from syncless._core.calls.filesystems import forget_directories
from syncless._core.calls.threads import ThreadPool

cdef object fifos = ThreadPool(1024)  # the other end of a FIFO may itself wait for a thread of the usual pool

cdef object IS_A_FIFO = object()

cdef enum:
    ENTRY_NS = 2_000_000


cpdef bint may_use_threads() noexcept:
    """Whether this is a tasklet whose file calls may be made in threads."""
    return may_park() and not never() and not Py_IsFinalizing()


cdef class FileFunction:
    """A function whose first argument is a path or a descriptor."""
    cdef readonly object original
    cdef dict __dict__
    cdef object in_thread
    cdef bint listed, two, last, asks

    def __init__(self, original, *, in_thread=None, bint listed=False, bint two=False, bint last=False,
            bint asks=False):
        """`in_thread`: the function to call there instead; `listed`: the path is a directory that is looked
        into; `two`: there are two paths, and the file systems of both matter; `last`: only the second is
        one; `asks`: it changes nothing, and may be called again and again until something has changed."""
        self.original = original
        self.in_thread = in_thread if in_thread is not None else original
        self.listed = listed
        self.two = two
        self.last = last
        self.asks = asks
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__"):
            setattr(self, name, getattr(original, name, None))
        self.__wrapped__ = original         # inspect.signature looks there

    def __call__(self, *args, **kwargs):
        if not may_use_threads():
            return self.original(*args, **kwargs)
        if self.asks:
            take_turns()
        return self.call(args, kwargs)

    cdef object call(self, tuple args, dict kwargs):
        cdef FileSystem system
        path = args[0] if args else kwargs.get("path", kwargs.get("src"))
        dir_fd = kwargs.get("dir_fd", kwargs.get("src_dir_fd")) if kwargs else None
        if self.last or self.two:
            second = args[1] if len(args) > 1 else kwargs.get("dst")
            second_fd = kwargs.get("dir_fd", kwargs.get("dst_dir_fd")) if kwargs else None
            if self.last or not answers_at_once(self.original, second, second_fd):
                path, dir_fd = second, second_fd
        system = of_path(path, self.listed, dir_fd)
        if system is None and type(path) is int:         # a pipe, a socket, or nothing
            return self.original(*args, **kwargs)
        if system is None or not system.trial_of(self.original).direct():
            return in_pool_of(path, self.listed, dir_fd, self.original, self.in_thread, args, kwargs)
        return tried(system.trial_of(self.original), self.original, args, kwargs)

    def method(self):
        """As a method of a class, for objects that are paths or descriptors."""
        def method(this, *args, **kwargs):
            return self(this, *args, **kwargs)
        method.__name__, method.__qualname__, method.__doc__ = self.__name__, self.__qualname__, self.__doc__
        return method

    def is_quick(self, path):
        """Whether it would be called directly."""
        return answers_at_once(self.trial_key(), path, None)

    cdef object trial_key(self):
        return self.original

    def __reduce__(self):
        return self.__qualname__

    def __repr__(self):
        return f"<cooperative {self.__module__}.{self.__qualname__}>"


cdef class DescriptorFunction(FileFunction):
    """One of a descriptor: fstat, close, ftruncate. Direct for other descriptors than files."""

    def __call__(self, *args, **kwargs):
        if args and type(args[0]) is int and 0 <= args[0] <= INT_MAX:
            return tried_on(args[0], self.original, self.original, args, kwargs)
        return self.original(*args, **kwargs)


cpdef int close_under_waiters(int fd) except -1:
    """To be called before the descriptor is closed: tasklets of this thread that wait for it get EBADF."""
    cdef Loop loop = peek_loop()
    return 0 if loop is None else loop.fds.close_under_waiters(fd)


cdef class ClosingFunction(DescriptorFunction):
    """close, and dup2 by the descriptor that it closes."""

    def __call__(self, *args, **kwargs):
        fd = args[0] if args else kwargs.get("fd")
        if type(fd) is int and 0 <= fd <= INT_MAX:
            close_under_waiters(fd)
        return DescriptorFunction.__call__(self, *args, **kwargs)


cdef class EntryMethod(FileFunction):
    """A method of os.DirEntry: most know the answer already, so it is on trial only when that has taken
    long."""

    def __call__(self, *args, **kwargs):
        cdef int64_t started
        cdef FileSystem system
        if not may_use_threads():
            return self.original(*args, **kwargs)
        if any_slow():
            return self.call(args, kwargs)
        started = monotonic_ns()
        try:
            return self.original(*args, **kwargs)
        finally:
            system = of_path(args[0], False, None) if monotonic_ns() - started > ENTRY_NS else None
            if system is not None:
                system.trial_of(self.original).answered(monotonic_ns() - started, False)


cdef class SlowFunction(FileFunction):
    """One that waits for a disk by its nature: fsync. Always in a thread."""

    def __call__(self, *args, **kwargs):
        if not may_use_threads():
            return self.original(*args, **kwargs)
        return in_pool(args[0] if args and type(args[0]) is int and args[0] <= INT_MAX else -1, self.original,
            args, kwargs)


cdef class OpenFunction(FileFunction):
    """os.open. A FIFO may wait for its other end for ever: each has a thread of its own."""

    cdef object call(self, tuple args, dict kwargs):
        path = args[0] if args else kwargs.get("path")
        return opened(self.original, args, kwargs, path, kwargs.get("dir_fd"))

    cdef object trial_key(self):
        return "open"


cdef class ChangeDirectory(FileFunction):
    """os.chdir: relative names mean others from then on."""

    def __call__(self, *args, **kwargs):
        try:
            return FileFunction.__call__(self, *args, **kwargs)
        finally:
            forget_directories()


cpdef bint is_slow(int fd) except -1:
    """Whether a descriptor is of a file system that does not answer at once, so that a thread is to be
    asked."""
    cdef FileSystem system
    if not any_slow() or not may_use_threads():
        return False
    system = of_descriptor(fd)
    return system is not None and (system.slow > 0 or pools_all())


cdef object tried_on(int fd, object key, object function, tuple args, dict kwargs):
    """function(*args, **kwargs), directly or in a thread, by the file system of the descriptor. `key`: the
    operation on trial."""
    cdef FileSystem system = of_descriptor(fd) if may_use_threads() else None
    if system is None:
        return function(*args, **kwargs)
    return tried(system.trial_of(key), function, args, kwargs)


def is_file(int fd) -> bool:
    """Whether a descriptor is of a regular file, a directory or a disk."""
    return of_descriptor(fd) is not None


cdef bint answers_at_once(object key, object path, object dir_fd) except -1:
    cdef FileSystem system = of_path(path, False, dir_fd)
    return system is not None and system.trial_of(key).direct()


cdef class _Opening:
    """A call in a thread that opens a descriptor. If its tasklet is killed meanwhile, no code gets the
    descriptor, so it is closed."""
    cdef object original
    cdef list made                      # the descriptor, until one side has taken it out
    cdef bint abandoned

    def __init__(self, original):
        self.original = original
        self.made = []

    def __call__(self, *args, **kwargs):
        made = self.original(*args, **kwargs)
        if type(made) is int:
            self.made.append(made)
            if self.abandoned:
                self.close()
        return made

    cdef int abandon(self) except -1:
        self.abandoned = True
        return self.close()

    cdef int close(self) except -1:
        if self.made:
            close_fd(<int> self.made.pop())
        return 0


cdef object opened(object original, tuple args, dict kwargs, object path, object dir_fd):
    cdef FileSystem system = of_path(path, False, dir_fd)
    cdef Trial trial = system.trial_of("open") if system is not None else None
    cdef int64_t started
    cdef Kind kind
    cdef _Opening opening
    cdef int fd = dir_fd if type(dir_fd) is int else -1
    if trial is None or not trial.direct():
        opening = _Opening(original)
        try:
            made = in_pool_of(path, False, dir_fd, "open", unless_it_is_a_fifo,
                (opening, args, kwargs, path, fd), {})
        except BaseException:
            opening.abandon()
            raise
        return in_fifos(original, args, kwargs) if made is IS_A_FIFO else made
    started = monotonic_ns()
    if look_at(path, fd, &kind) == 0 and kind.fifo:
        return in_fifos(original, args, kwargs)
    try:
        return original(*args, **kwargs)
    finally:
        trial.answered(monotonic_ns() - started, False)


cdef object in_fifos(object original, tuple args, dict kwargs):
    cdef _Opening opening = _Opening(original)
    try:
        return fifos.run(opening, *args, **kwargs)
    except BaseException:
        opening.abandon()
        raise


def unless_it_is_a_fifo(original, args, kwargs, path, int dir_fd):
    """In a thread of the pool, which must not wait there for the other end."""
    cdef Kind kind
    if look_at(path, dir_fd, &kind) == 0 and kind.fifo:
        return IS_A_FIFO
    return original(*args, **kwargs)
