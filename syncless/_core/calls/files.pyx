"""Functions of the operating system that may wait for a file system, as objects that decide for each call
where it is made.

The functions themselves stay what they are: their arguments, errors and audit events. See filesystems.pyx for
the rule.

Opening a file that must lie beneath a directory, wherever symbolic links lead: takes a path that strangers
have chosen. Fact: between a look at a path and its opening somebody may put a symbolic link into it.
Decision: the kernel itself refuses to leave the directory (openat2 with RESOLVE_BENEATH). Where it cannot
(Linux before 5.6, some sandboxes), the path is opened part by part, and any symbolic link is refused. Price:
a system call for each part there. Guarded by tests/core/test_beneath.py.

Nothing waits for the other end of a FIFO, and no terminal becomes the process's own: look at `mode` before
you read. A missing file is a number and no exception, because looking for one is common, and an exception
costs as much as five system calls.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.errno cimport EINVAL, ENOENT, errno
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from libc.stdio cimport SEEK_CUR, SEEK_SET
from libc.string cimport strlen
from posix.unistd cimport close as close_fd

from syncless._core.calls.filesystems cimport (
    FileSystem, Kind, Trial, any_slow, begin_call, forget, in_pool, in_pool_of, look_at, never, of_descriptor,
    of_path, pools_all, reads_at_once, timed, took, tried,
)
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.cpython.vectorcall cimport (
    PyObject_Vectorcall, PyVectorcall_NARGS, Vectorcall, call_by,
)
from syncless._core.current cimport may_park, take_turns
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport is_poll_due
from syncless._core.threadloop cimport peek_loop

from syncless._core.calls.filesystems import forget_directories
from syncless._core.calls.threads import ThreadPool, run_unwaited
from syncless._core.cpython.functions import original_of

cdef object fifos = ThreadPool(1024)  # the other end of a FIFO may itself wait for a thread of the usual pool

cdef object IS_A_FIFO = object()
cdef object list_directory = original_of(os.listdir)

# flags by which open() waits for no other end of a FIFO: O_DIRECTORY is one bit of O_TMPFILE; both of the
# others make a new file
cdef long NEVER_WAITS = os.O_NONBLOCK | getattr(os, "O_DIRECTORY", 0), IS_NEW = os.O_CREAT | os.O_EXCL


cdef bint never_waits(object flags) except -1:
    cdef long bits
    if type(flags) is not int or not 0 <= flags <= INT_MAX:
        return False
    bits = flags
    return bits & NEVER_WAITS or bits & IS_NEW == IS_NEW

cdef enum:
    ENTRY_NS = 2_000_000


cpdef bint may_use_threads() noexcept:
    """Return whether this is a tasklet whose file calls may be made in threads."""
    return may_park() and not never() and not Py_IsFinalizing()


cdef Trial FREE = Trial(FileSystem(0))  # of a call that asks no file system
FREE.left = 0


cdef class FileFunction:
    """A function whose first argument is a path or a descriptor.

    Most calls are made directly, and are to cost little more than the function itself: call_quickly() has
    no tuple of the arguments, and asks trial() whether it may. made() has the rule for all others."""
    cdef Vectorcall vectorcall
    cdef readonly object original
    cdef Trial latest                   # most calls are on one file system
    cdef dict __dict__                  # names borrowed from the original
    cdef object in_thread
    cdef bint listed, two, last, asks

    def __init__(self, original, *, in_thread=None, bint listed=False, bint two=False, bint last=False,
            bint asks=False):
        """`in_thread`: the function to call there instead; `listed`: the path is a directory that is looked
        into; `two`: there are two paths, and the file systems of both matter; `last`: only the second is
        one; `asks`: it changes nothing, and may be called again and again until something has changed."""
        self.original = original_of(original)
        self.in_thread = in_thread if in_thread is not None else self.original
        self.listed = listed
        self.two = two
        self.last = last
        self.asks = asks

    def __cinit__(self, *args, **kwargs):
        self.vectorcall = call_quickly

    def __call__(self, *args, **kwargs):
        return self.made(args, kwargs)

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        """Of the call with these arguments, of which there is at least one; None for what is left to made().
        `started` is set if something has been asked of the file system already."""
        cdef FileSystem system
        path = <object> args[0]
        if self.two or self.last or type(path) is int:
            return None
        system = of_path(path, self.listed, None)
        return None if system is None else self.trial_on(system)

    cdef Trial trial_on(self, FileSystem system):
        if self.latest is None or self.latest.system is not system:
            self.latest = system.trial_of(self.trial_key())
        return self.latest

    cdef object made(self, tuple args, dict kwargs):
        if self.asks:
            take_turns()
        return self.call(args, kwargs) if may_use_threads() else self.original(*args, **kwargs)

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
        for name in ("__name__", "__qualname__", "__doc__"):
            setattr(method, name, getattr(self.original, name))
        return method

    def is_quick(self, path):
        """Return whether it would be called directly."""
        return answers_at_once(self.trial_key(), path, None)

    cdef object trial_key(self):
        return self.original

    def __repr__(self):
        owner = getattr(self.original, "__objclass__", self.original)       # a method's module is its class's
        return f"<cooperative {owner.__module__}.{self.original.__qualname__}>"


cdef PyObject* call_quickly(PyObject* function, PyObject** args, size_t flags, PyObject* names) except NULL:
    cdef FileFunction this = <FileFunction> function
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags), i
    cdef Loop loop = peek_loop()
    cdef Trial trial = None
    cdef int64_t started = 0
    if count and loop is not None and loop.current is not None and not has_directory(names):
        if this.asks and is_poll_due(&loop.clock):
            loop.yield_()
        if not never() and not Py_IsFinalizing():
            trial = this.trial(args, count, &started)
            if trial is FREE:
                return PyObject_Vectorcall(this.original, args, flags, names)
            if trial is not None and trial.direct():
                return timed(started if started else begin_call(), trial, this.original, args, flags, names)
    named = {}
    if names != NULL:
        for i in range(len(<tuple> names)):
            named[(<tuple> names)[i]] = <object> args[count + i]
    found = this.made(tuple([<object> args[i] for i in range(count)]), named)
    Py_INCREF(found)
    return <PyObject*> found


cdef bint has_directory(PyObject* names) noexcept:
    """Return whether one of these arguments may name a directory to which the path is relative."""
    if names == NULL:
        return False
    for name in <tuple> names:
        if name != "follow_symlinks" and name != "mode":
            return True
    return False


cdef class DescriptorFunction(FileFunction):
    """One of a descriptor: fstat, close, ftruncate. Direct for other descriptors than files."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        cdef FileSystem system
        fd = <object> args[0]
        if type(fd) is not int or not 0 <= fd <= INT_MAX:
            return None
        system = of_descriptor(fd)
        return FREE if system is None else self.trial_on(system)

    cdef object made(self, tuple args, dict kwargs):
        if self.asks:
            take_turns()
        if args and type(args[0]) is int and 0 <= args[0] <= INT_MAX:
            return tried_on(args[0], self.original, self.original, args, kwargs)
        return self.original(*args, **kwargs)


cdef bint asks_for_the_end(tuple args, Py_ssize_t whence) except -1:
    """Return whether these arguments of a seek have it ask the file system, for the size or for holes. From
    the start and from the place where it stands, a number changes in the kernel."""
    return len(args) > whence and not (type(args[whence]) is int and args[whence] in (SEEK_SET, SEEK_CUR))


cdef class SeekFunction(DescriptorFunction):
    """lseek."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        if count < 3 or type(<object> args[2]) is int and <object> args[2] in (SEEK_SET, SEEK_CUR):
            return FREE
        return DescriptorFunction.trial(self, args, count, started)

    cdef object made(self, tuple args, dict kwargs):
        if asks_for_the_end(args, 2):
            return DescriptorFunction.made(self, args, kwargs)
        return self.original(*args, **kwargs)


cpdef int close_under_waiters(int fd) except -1:
    """To be called before the descriptor is closed: tasklets of this thread that wait for it get EBADF."""
    cdef Loop loop = peek_loop()
    forget(fd)
    return 0 if loop is None else loop.fds.close_under_waiters(fd)


cdef class _Closing:
    """A call that closes something, once. If its tasklet is killed before a thread has
    begun with it, another one does it, for which nobody waits: else the file would be open for ever."""
    cdef object original
    cdef tuple args
    cdef dict kwargs
    cdef bint begun

    def __call__(self, *args, **kwargs):
        if self.begun:
            return None
        self.begun = True
        return self.original(*args, **kwargs)

    def later(self):
        try:
            self(*self.args, **self.kwargs)
        except Exception:
            pass                        # there is nobody to tell


cdef object closed_by(FileSystem system, object key, object function, tuple args, dict kwargs):
    """As tried(), for what closes something: it does so though its tasklet is killed meanwhile."""
    cdef _Closing closing
    cdef Trial trial
    if system is None or not may_use_threads():
        return function(*args, **kwargs)
    trial = system.trial_of(key)
    if trial.direct():
        return tried(trial, function, args, kwargs)
    closing = _Closing.__new__(_Closing)
    closing.original = function
    try:
        return tried(trial, closing, args, kwargs)
    except BaseException:
        if not closing.begun:
            closing.args, closing.kwargs = args, kwargs
            run_unwaited(closing.later)
        raise


cdef class ClosingFunction(DescriptorFunction):
    """close."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        fd = <object> args[0]
        if type(fd) is int and 0 <= fd <= INT_MAX:
            close_under_waiters(fd)
        return DescriptorFunction.trial(self, args, count, started)

    cdef object made(self, tuple args, dict kwargs):
        fd = args[0] if args else kwargs.get("fd")
        if type(fd) is not int or not 0 <= fd <= INT_MAX:
            return self.original(*args, **kwargs)
        close_under_waiters(fd)
        return closed_by(
            of_descriptor(fd) if may_use_threads() else None, self.original, self.original, args, kwargs)


cdef class EntryMethod(FileFunction):
    """A method of os.DirEntry: most know the response already, so it is on trial only when that has taken
    long."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        return None

    cdef object made(self, tuple args, dict kwargs):
        cdef int64_t started
        cdef FileSystem system
        if not may_use_threads():
            return self.original(*args, **kwargs)
        if any_slow():
            return self.call(args, kwargs)
        started = begin_call()
        try:
            return self.original(*args, **kwargs)
        finally:
            started = took(started)
            system = of_path(args[0], False, None) if started > ENTRY_NS else None
            if system is not None:
                system.trial_of(self.original).answered(started, False)


cdef class SlowFunction(FileFunction):
    """One that waits for a disk by its nature: fsync. Always in a thread."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        return None

    cdef object made(self, tuple args, dict kwargs):
        if not may_use_threads():
            return self.original(*args, **kwargs)
        return in_pool(args[0] if args and type(args[0]) is int and args[0] <= INT_MAX else -1, self.original,
            args, kwargs)


cdef class OpenFunction(FileFunction):
    """os.open. A FIFO may wait for its other end for ever: each has a thread of its own."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        cdef Trial trial = FileFunction.trial(self, args, count, started)
        cdef Kind kind
        if trial is None or not trial.direct() or (count > 1 and never_waits(<object> args[1])):
            return trial
        started[0] = begin_call()
        return None if look_at(<object> args[0], -1, &kind) == 0 and kind.fifo else trial

    cdef object call(self, tuple args, dict kwargs):
        path = args[0] if args else kwargs.get("path")
        return opened(self.original, args, kwargs, path, kwargs.get("dir_fd"))

    cdef object trial_key(self):
        return "open"


cdef class ChangeDirectory(FileFunction):
    """os.chdir: relative names mean others from then on."""

    cdef Trial trial(self, PyObject** args, Py_ssize_t count, int64_t* started):
        return None

    cdef object made(self, tuple args, dict kwargs):
        try:
            return FileFunction.made(self, args, kwargs)
        finally:
            forget_directories()


cdef FileFunction one = FileFunction.__new__(FileFunction)
call_by(FileFunction, <char*> &one.vectorcall - <char*> <PyObject*> one)


cpdef bint is_slow(int fd) except -1:
    """Return whether a descriptor is of a file system that does not answer at once, so that a thread is to be
    asked."""
    cdef FileSystem system
    if not any_slow() or not may_use_threads():
        return False
    system = of_descriptor(fd)
    return system is not None and (system.slow > 0 or pools_all())


def any_is_slow() -> bool:
    """Return whether closing some descriptor of this process may wait for a disk."""
    if not any_slow() or not may_use_threads():
        return False
    try:
        descriptors = list_directory("/dev/fd")
    except OSError:                     # nobody knows
        return True
    return any([is_slow(int(each)) for each in descriptors])


def must_read_first(int fd, object offset, object count) -> bool:
    """Return whether sendfile or splice of that part of a file would wait for a disk: it is to be read by
    other means, or in a thread."""
    cdef FileSystem system = of_descriptor(fd) if may_use_threads() else None
    if system is None:
        return False
    return not reads_at_once(system, fd, max(<int64_t> offset, 0), max(<int64_t> count, 1))


cdef object tried_on(int fd, object key, object function, tuple args, dict kwargs):
    """function(*args, **kwargs), directly or in a thread, by the file system of the descriptor. `key`: the
    operation on trial."""
    cdef FileSystem system = of_descriptor(fd) if may_use_threads() else None
    if system is None:
        return function(*args, **kwargs)
    return tried(system.trial_of(key), function, args, kwargs)


def is_file(int fd) -> bool:
    """Return whether a descriptor is of a regular file, a directory or a disk."""
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
    started = begin_call()
    if look_at(path, fd, &kind) == 0 and kind.fifo:
        return in_fifos(original, args, kwargs)
    try:
        return original(*args, **kwargs)
    finally:
        trial.answered(took(started), False)


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


cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include "syncless_config.h"
    #include <limits.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #define SYNCLESS_OPEN (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    #ifndef O_PATH
    #define O_PATH O_RDONLY
    #endif
    #ifdef __APPLE__
    #define SYNCLESS_MODIFIED st_mtimespec
    #else
    #define SYNCLESS_MODIFIED st_mtim
    #endif

    static int syncless_walks = 0;      /* whether the kernel cannot do it */

    static int syncless_walk(int directory, const char *path) {
        char part[NAME_MAX + 1];
        int here = directory, next, error;
        for (;;) {
            const char *slash = strchr(path, '/'), *end = slash ? slash : path + strlen(path);
            size_t size = end - path;
            int flags = *end ? O_PATH | O_DIRECTORY | O_CLOEXEC : SYNCLESS_OPEN;
            next = -1;
            if (size > NAME_MAX)
                errno = ENAMETOOLONG;
            else if (size == 0)
                errno = ENOENT;
            else if (size == 2 && !memcmp(path, "..", 2))
                errno = EXDEV;
            else {
                memcpy(part, path, size);
                part[size] = 0;
                next = openat(here, part, flags | O_NOFOLLOW);
            }
            if (here != directory) {
                error = errno;
                close(here);
                errno = error;
            }
            if (next < 0 || !*end)
                return next;
            here = next;
            path = end + 1;
        }
    }

    static int syncless_open_beneath(int directory, const char *path) {
    #if SYNCLESS_OPENAT2
    #ifndef SYS_openat2
    #define SYS_openat2 437
    #endif
        struct { unsigned long long flags, mode, resolve; } how = {
            SYNCLESS_OPEN, 0, 0x08 /* RESOLVE_BENEATH */ | 0x02 /* RESOLVE_NO_MAGICLINKS */
        };
        int tries, fd;
        for (tries = 0; !syncless_walks && tries < 32; tries++) {
            fd = (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
            if (fd >= 0 || (errno != EAGAIN && errno != ENOSYS && errno != EPERM))
                return fd;
            if (errno != EAGAIN)        /* else somebody renames directories: once more */
                syncless_walks = 1;
        }
        if (!syncless_walks)
            return -1;
    #endif
        return syncless_walk(directory, path);
    }

    static int syncless_open_directory(const char *path) {
        return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }

    static int syncless_about(int fd, unsigned *mode, long long *size, long long *modified) {
        struct stat about;
        if (fstat(fd, &about))
            return -1;
        *mode = about.st_mode;
        *size = (long long) about.st_size;
        *modified = about.SYNCLESS_MODIFIED.tv_sec * 1000000000LL + about.SYNCLESS_MODIFIED.tv_nsec;
        return 0;
    }

    static ssize_t syncless_from_memory(int fd, char *into, size_t size) {
    #if SYNCLESS_PREADV2
        struct iovec piece = {into, size};
        return size ? preadv2(fd, &piece, 1, 0, RWF_NOWAIT) : 0;
    #else
        return -1;
    #endif
    }
    """
    int syncless_walks
    int syncless_open_beneath(int directory, const char* path) nogil
    int syncless_open_directory(const char* path) nogil
    int syncless_about(int fd, unsigned int* mode, long long* size, long long* modified) nogil
    ssize_t syncless_from_memory(int fd, char* into, size_t size) nogil
    int close_now "close" (int fd) nogil
    int S_ISREG(unsigned int mode) nogil

cdef object close = original_of(os.close)


cdef class OpenFile:
    """A descriptor that is closed when the object goes, and what the file was when it was opened: `mode`,
    `size` in bytes, `modified` in nanoseconds. `which`: of the names, the one that there is. `data`: its
    content, if that was asked for and lay in memory; then it is closed already, and `fd` is -1."""
    cdef readonly int fd
    cdef readonly unsigned int mode
    cdef readonly long long size, modified
    cdef readonly int which
    cdef readonly bytes data

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close_now(self.fd)

    def close(self) -> None:
        """Close it, as its file system does: directly or in a thread."""
        cdef int fd = self.fd
        self.fd = -1
        if fd >= 0:
            tried_on(fd, close, close, (fd,), {})

    cdef int take(self, int directory, const char* name) noexcept:
        """Open it; the error, or 0. `directory`: -1 for a path that is a directory of our own."""
        cdef int error = 0
        with nogil:
            if directory >= 0:
                self.fd = syncless_open_beneath(directory, name)
            else:
                self.fd = syncless_open_directory(name)
            if self.fd < 0 or syncless_about(self.fd, &self.mode, &self.size, &self.modified):
                error = errno
        return error

    cdef int read_from_memory(self) except -1:
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> self.size)
        cdef char* into = PyBytes_AS_STRING(data)
        cdef ssize_t n
        with nogil:
            n = syncless_from_memory(self.fd, into, <size_t> self.size)
            if n == self.size:
                close_now(self.fd)
        if n == self.size:
            self.fd = -1
            self.data = data
        return 0


def open_beneath(tuple names not None, *, int dir_fd, int most=0) -> OpenFile | int:
    """Return the first file that there is of these relative paths (bytes) below a directory, or the number of
    the error of the last one: EXDEV if it leads out of the directory. `most`: a regular file up to this
    number of bytes is read as well."""
    cdef OpenFile file = OpenFile()
    cdef int error = ENOENT
    cdef Py_ssize_t which
    for which in range(len(names)):
        name = <bytes?> names[which]
        error = EINVAL
        if <Py_ssize_t> strlen(PyBytes_AS_STRING(name)) == PyBytes_GET_SIZE(name):
            error = file.take(dir_fd, PyBytes_AS_STRING(name))
        if error == 0:
            file.which = <int> which
            if S_ISREG(file.mode) and file.size <= most:
                file.read_from_memory()
            return file
    return error


def open_directory(bytes path not None) -> OpenFile:
    """Return a directory for open_beneath(). Raise OSError on failure."""
    cdef OpenFile file = OpenFile()
    cdef int error = file.take(-1, PyBytes_AS_STRING(path))
    if error:
        raise OSError(error, os.strerror(error), os.fsdecode(path))
    return file


def walk_parts(bint wanted) -> bool:
    """Return whether paths are opened part by part, as where the kernel cannot do it; returns what it was
    before."""
    global syncless_walks
    was, syncless_walks = syncless_walks, wanted
    return bool(was)
