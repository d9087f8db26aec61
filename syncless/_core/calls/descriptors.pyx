"""read and write of any descriptor: tried without waiting first; a call that would wait parks the tasklet.

Fact: whether a descriptor blocks belongs to its open file description, which other processes share: a pipe to
a child, the terminal. Danger: O_NONBLOCK set here makes their reads fail with EAGAIN. Decision: each call
says for itself that it must not wait (RWF_NOWAIT). Where the kernel knows no such flag for a descriptor it is
asked for readiness first, and written in pieces that a ready pipe takes whole. Price: one more system call
there. Guarded by tests/core/test_descriptors.py::test_the_mode_of_a_shared_pipe_is_left_alone.

Fact: a terminal is ready when it has room for a few bytes, and a call waits until it has taken all. Danger:
who reads the other end may be another tasklet, or nobody. Decision: it is opened once more, for a write that
takes what there is room for; in small pieces where that cannot be. Price: an open and a close for each write.
Guarded by tests/core/test_descriptors.py::test_writer_parks_while_a_terminal_has_no_room.

Files are always ready, and wait all the same. Cached data is read at once; a read of other data, or a write,
goes the way of its file system (filesystems.pyx): directly, or in a thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, EINVAL, ENOSYS, EOPNOTSUPP, errno
from libc.stdint cimport int64_t
from libc.string cimport strerror
from posix.types cimport off_t

from syncless._core.calls.filesystems cimport (
    READS, WRITES, FileSystem, Kind, Trial, begin_call, begin_in_thread, fresh_ns, in_pool, look, never,
    of_device, took,
)
from syncless._core.calls.portable cimport (
    kernel_limit, never_blocks, set_errno, sigaddset, sigemptyset, signal_descriptor, sigset_t,
)
from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.current cimport may_park, take_turns, take_turns_on, wait_foreign_fd
from syncless._core.poll.now cimport has_failed, is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport TIMED_OUT
from syncless._core.threadloop cimport get_loop


cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <sys/ioctl.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #include "syncless_config.h"
    #if !SYNCLESS_PREADV2   /* another system than Linux: never supported */
    static ssize_t syncless_nowait(int fd, struct iovec *iov, int count, off_t position, int writing) {
        errno = EOPNOTSUPP;
        return -1;
    }
    #else
    static ssize_t syncless_nowait(int fd, struct iovec *iov, int count, off_t position, int writing) {
        return writing ? pwritev2(fd, iov, count, position, RWF_NOWAIT)
                       : preadv2(fd, iov, count, position, RWF_NOWAIT);
    }
    #endif
    static ssize_t syncless_move(int fd, struct iovec *iov, off_t position, int writing) {
        if (position < 0)
            return writing ? writev(fd, iov, 1) : readv(fd, iov, 1);
        return writing ? pwrite(fd, iov->iov_base, iov->iov_len, position)
                       : pread(fd, iov->iov_base, iov->iov_len, position);
    }
    /* As much as it takes without waiting. -2: this terminal is not written to in that way. */
    static ssize_t syncless_write_to_terminal(int fd, struct iovec *piece) {
    #ifdef TIOCGPTN
        char path[32];
        int own, number, flags = fcntl(fd, F_GETFL);
        ssize_t n;
        int error;
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || !ioctl(fd, TIOCGPTN, &number))
            return -2;                          /* the last: the other end, whose path opens a new terminal */
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own < 0)
            return -2;
        n = write(own, piece->iov_base, piece->iov_len);
        error = errno;
        close(own);
        errno = error;
        return n;
    #else
        return -2;
    #endif
    }
    """
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t syncless_nowait(int fd, iovec* iov, int count, off_t position, int writing) nogil
    ssize_t syncless_move(int fd, iovec* iov, off_t position, int writing) nogil
    int isatty(int fd)
    ssize_t syncless_write_to_terminal(int fd, iovec* piece) nogil
    off_t lseek(int fd, off_t offset, int whence) nogil
    int SEEK_CUR, SEEK_SET
    int PyErr_CheckSignals() except -1

cdef enum:
    SHARE = 1 << 20         # bytes that are copied before others get a turn
    FILE_PIECE = 1 << 16    # bytes of a file that are sent at once
    LARGE = 1 << 18         # bytes of a write to a file that is always made in a thread
    ROOM = 32               # bytes for which a ready terminal has room: 256 bytes, and a tab becomes eight
    UNKNOWN = -2



cdef ssize_t directly(int fd, iovec* piece, off_t position, bint writing) noexcept:
    cdef ssize_t n
    with nogil:
        n = syncless_move(fd, piece, position, writing)
    return n


cdef class Transfer:
    """One read or write of a file, made in a thread. Holds the memory, should the tasklet be killed
    meanwhile."""
    cdef int fd
    cdef object owner
    cdef char* data
    cdef Py_ssize_t size
    cdef off_t position
    cdef bint writing
    cdef Trial trial        # None if it does not count: a file system that says what is in memory

    def __call__(self):
        cdef iovec piece
        cdef Py_ssize_t done = 0
        cdef ssize_t n = 0
        cdef int error
        cdef int64_t fresh = fresh_ns(self.fd), spent
        with nogil:
            spent = begin_in_thread()
            while done < self.size:
                piece.iov_base = self.data + done
                piece.iov_len = self.size - done
                n = syncless_move(self.fd, &piece, HERE if self.position < 0 else self.position + done,
                    self.writing)
                if n <= 0:
                    break
                done += n
            error = errno
            spent = took(spent)
        if self.trial is not None:
            self.trial.answered(max(fresh, spent * LARGE // max(done, LARGE)), False)
        if n < 0 and done == 0:
            if error == EINTR:
                return 0, True
            raise OSError(error, strerror(error).decode())
        return done, False


cdef Py_ssize_t in_thread(int fd, object owner, iovec* piece, off_t position, bint writing,
        Trial trial) except -1:
    cdef Transfer transfer
    again = True
    while again:
        transfer = Transfer()
        transfer.fd = fd
        transfer.owner = owner if type(owner) is bytes else memoryview(owner)
        transfer.data = <char*> piece.iov_base
        transfer.size = piece.iov_len
        transfer.position = position
        transfer.writing = writing
        transfer.trial = trial
        done, again = in_pool(fd, transfer, (), {})
    return done


cdef Py_ssize_t of_file(int fd, object owner, iovec* piece, off_t position, bint writing, bint absent,
        FileSystem system) except -2:
    """A read of data that is not in memory (`absent`, or unknown), or a write, of a file. -1 with errno."""
    cdef Trial trial = system.trial_of("write" if writing else "read")
    cdef int64_t started
    cdef ssize_t n
    if never() or (trial.direct() and not absent and (not writing or piece.iov_len <= LARGE)):
        started = begin_call()
        n = directly(fd, piece, position, writing)
        trial.answered(took(started), False)
        return n
    return in_thread(fd, owner, piece, position, writing, None if absent else trial)


cdef Py_ssize_t transfer(
    int fd, object owner, iovec* whole, off_t position, bint writing, bint* file, bint more=False,
    FileSystem system=None
) except -1:
    """One read or write that has had an effect; parks until it can have one. Tell whether it was of a file,
    if that had to be found out. `more`: bytes were written before, so an error is left to the next call, as
    the kernel leaves it, and 0 is returned. `system`: of a file, if it is known."""
    cdef bint parks = may_park()
    cdef iovec piece = whole[0]
    cdef Kind kind
    cdef FileSystem found
    cdef ssize_t n
    cdef int error
    cdef int64_t deadline = 0
    if parks and piece.iov_len > SHARE and not writing:
        piece.iov_len = SHARE
    while True:
        if not parks:
            n = directly(fd, &piece, position, writing)
        elif system is not None and system.mute & (WRITES if writing else READS):
            n = of_file(fd, owner, &piece, position, writing, False, system)
        else:
            n = syncless_nowait(fd, &piece, 1, position, writing)
            error = errno
            if n < 0 and error in (EAGAIN, EOPNOTSUPP, EINVAL, ENOSYS):
                if look(fd, &kind):
                    pass
                elif kind.file:
                    file[0] = True
                    found = of_device(kind.device)
                    if error == EOPNOTSUPP:
                        found.mute |= WRITES if writing else READS
                    n = of_file(fd, owner, &piece, position, writing, error == EAGAIN, found)
                elif position >= 0:         # a pipe or a terminal has none: ESPIPE
                    n = directly(fd, &piece, position, writing)
                elif error == EAGAIN:
                    set_errno(EAGAIN)
                elif not is_ready(fd, WRITE if writing else READ):
                    set_errno(EAGAIN)
                else:
                    n = UNKNOWN
                    if writing and piece.iov_len > ROOM and isatty(fd):
                        n = syncless_write_to_terminal(fd, &piece)
                        if n == UNKNOWN:
                            piece.iov_len = ROOM
                    elif writing and piece.iov_len > PIECE:
                        piece.iov_len = PIECE
                    if n == UNKNOWN:
                        n = directly(fd, &piece, position, writing)
        if n >= 0:
            return n
        if errno == EINTR:
            PyErr_CheckSignals()
            system = None
        elif errno == EAGAIN and parks and not never_blocks(fd):
            if deadline == 0:
                deadline = kernel_limit(fd, writing)
                deadline = NEVER if deadline == 0 else monotonic_ns() + deadline
            if wait_foreign_fd(get_loop(), fd, WRITE if writing else READ, deadline) == TIMED_OUT:
                if more:
                    return 0
                raise BlockingIOError(EAGAIN, strerror(EAGAIN).decode())
            if more and has_failed(fd):
                return 0
            piece = whole[0]
            system = None
        elif more:
            return 0
        else:
            raise OSError(errno, strerror(errno).decode())


cdef Py_ssize_t read_into(
    int fd, object owner, char* data, Py_ssize_t size, off_t position, FileSystem system=None
) except -1:
    """One read; of a file as much as there is, as the system's own."""
    cdef iovec piece
    cdef Kind kind
    cdef Py_ssize_t done, n
    cdef bint file = system is not None
    piece.iov_base = data
    piece.iov_len = size
    done = transfer(fd, owner, &piece, position, False, &file, False, system)
    if not 0 < done < size:
        return done
    # most are pipes: lseek tells soonest
    if not file and (lseek(fd, 0, SEEK_CUR) < 0 or look(fd, &kind) or not kind.file):
        return done
    while done < size:              # only a part was in memory, or this is the end
        take_turns()
        piece.iov_base = data + done
        piece.iov_len = size - done
        n = transfer(fd, owner, &piece, HERE if position < 0 else position + done, False, &file)
        if n == 0:
            break
        done += n
    return done


cdef Py_ssize_t write_from(
    int fd, object owner, const char* data, Py_ssize_t size, off_t position, bint more=False,
    FileSystem system=None
) except -1:
    """Write all, as a descriptor that blocks does; one that does not takes what it can, and a full disk, too.
    `more` as for transfer()."""
    cdef iovec piece
    cdef Py_ssize_t done = 0, n
    cdef bint file = system is not None
    while True:
        piece.iov_base = <void*> (data + done)
        piece.iov_len = size - done
        more = more or done > 0
        n = transfer(fd, owner, &piece, HERE if position < 0 else position + done, True, &file, more, system)
        done += n
        if done >= size or file or n == 0:
            return done
        take_turns()


def read(int fd, Py_ssize_t length, /) -> bytes:
    """os.read, cooperative."""
    take_turns_on(fd, READ)
    return reading(fd, length, HERE)


def pread(int fd, Py_ssize_t length, off_t offset, /) -> bytes:
    """os.pread, cooperative."""
    if offset < 0:
        raise OSError(EINVAL, strerror(EINVAL).decode())
    take_turns_on(fd, READ)
    return reading(fd, length, offset)


cdef object reading(int fd, Py_ssize_t length, off_t position, FileSystem system=None):
    cdef Py_ssize_t n
    if length < 0:
        raise OSError(EINVAL, strerror(EINVAL).decode())
    data = PyBytes_FromStringAndSize(NULL, length)
    n = read_into(fd, data, PyBytes_AS_STRING(data), length, position, system)
    return data if n == length else PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n)


def write(int fd, data, /) -> int:
    """os.write, cooperative."""
    take_turns_on(fd, WRITE)
    return writing(fd, data, HERE)


def pwrite(int fd, data, off_t offset, /) -> int:
    """os.pwrite, cooperative."""
    if offset < 0:
        raise OSError(EINVAL, strerror(EINVAL).decode())
    take_turns_on(fd, WRITE)
    return writing(fd, data, offset)


cdef Py_ssize_t writing(int fd, object data, off_t position, FileSystem system=None) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return write_from(fd, data, <const char*> view.buf, view.len, position, False, system)
    finally:
        PyBuffer_Release(&view)


def readinto(int fd, buffer, /) -> int:
    """os.readinto, cooperative."""
    cdef Py_buffer view
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    except (BufferError, TypeError):
        raise TypeError(
            "readinto() argument 2 must be read-write bytes-like object, "
            f"not {type(buffer).__name__}") from None
    try:
        take_turns_on(fd, READ)
        return read_into(fd, buffer, <char*> view.buf, view.len, HERE)
    finally:
        PyBuffer_Release(&view)


def readv(int fd, buffers, /) -> int:
    """os.readv, cooperative: into the first buffers as much as comes at once."""
    cdef Py_ssize_t total = 0, n
    cdef Py_buffer view
    if not hasattr(buffers, "__getitem__"):
        raise TypeError("readv() arg 2 must be a sequence")
    take_turns_on(fd, READ)
    for buffer in buffers:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            if total and not is_ready(fd, READ):
                break
            n = read_into(fd, buffer, <char*> view.buf, view.len, HERE)
            total += n
            if n < view.len:
                break
        finally:
            PyBuffer_Release(&view)
    return total


def writev(int fd, buffers, /) -> int:
    """os.writev, cooperative."""
    if not hasattr(buffers, "__getitem__"):
        raise TypeError("writev() arg 2 must be a sequence")
    return write(fd, b"".join(buffers))


def sendfile(int out_fd, int in_fd, offset, Py_ssize_t count) -> int:
    """os.sendfile to a descriptor that blocks, cooperative: all up to the file's end, or what was sent before
    an error."""
    cdef off_t begin
    cdef Py_ssize_t sent = 0, n = 0
    if count < 0:
        raise OSError(EINVAL, strerror(EINVAL).decode())
    begin = lseek(in_fd, 0, SEEK_CUR) if offset is None else offset
    try:
        while sent < count:
            piece = pread(in_fd, min(count - sent, <Py_ssize_t> FILE_PIECE), begin + sent)
            if not piece:
                break
            n = write_from(out_fd, piece, PyBytes_AS_STRING(piece), len(<bytes> piece), HERE, sent > 0)
            sent += n
            if n < len(<bytes> piece):
                break
            take_turns()
    finally:
        if offset is None and sent:
            lseek(in_fd, begin + sent, SEEK_SET)
    return sent


def pending_descriptor(numbers) -> int:
    """Return a new descriptor that is readable while one of these signals is pending; -1 if none can be had.
    The signals stay pending."""
    cdef sigset_t signals
    sigemptyset(&signals)
    for number in numbers:
        sigaddset(&signals, number)
    return signal_descriptor(&signals)
