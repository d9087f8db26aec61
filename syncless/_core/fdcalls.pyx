"""read and write of any descriptor: tried without waiting first; what would wait parks the tasklet.

Fact: whether a descriptor blocks belongs to its open file description, which other processes share: a pipe to a child, the terminal.
Danger: O_NONBLOCK set here makes their reads fail with EAGAIN. Decision: each call says for itself that it must not wait (RWF_NOWAIT). Where
the kernel knows no such flag for a descriptor it is asked for readiness first, and written in pieces that a ready pipe takes whole.
Price: one more system call there. Guarded by tests/core/test_fdcalls.py::test_the_mode_of_a_shared_pipe_is_left_alone.

Regular files are read and written as they always were, without parking.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EINTR, EINVAL, ENOSYS, EOPNOTSUPP, errno
from libc.string cimport strerror

from syncless._core.clock cimport NEVER
from syncless._core.loop cimport Loop, peek_loop
from syncless._core.poller cimport READ, WRITE

import _io
import os

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <poll.h>
    #include <sys/stat.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #ifndef RWF_NOWAIT      /* another system than Linux: never supported */
    #define RWF_NOWAIT 0
    static ssize_t syncless_nowait(int fd, struct iovec *iov, int count, int writing) { errno = EOPNOTSUPP; return -1; }
    #else
    static ssize_t syncless_nowait(int fd, struct iovec *iov, int count, int writing) {
        return writing ? pwritev2(fd, iov, count, -1, RWF_NOWAIT) : preadv2(fd, iov, count, -1, RWF_NOWAIT);
    }
    #endif
    static int syncless_ready(int fd, int writing) {
        struct pollfd asked = {fd, writing ? POLLOUT : POLLIN, 0};
        return poll(&asked, 1, 0);
    }
    static void set_errno(int error) { errno = error; }
    static int syncless_is_file(int fd) {
        struct stat about;
        return fstat(fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) || S_ISBLK(about.st_mode));
    }
    static int syncless_never_blocks(int fd) { int flags = fcntl(fd, F_GETFL); return flags != -1 && (flags & O_NONBLOCK); }
    typedef struct { PyObject_HEAD int fd; } SynclessFileIO;
    """
    struct iovec:
        void* iov_base
        size_t iov_len
    ctypedef struct SynclessFileIO:
        int fd
    ssize_t syncless_nowait(int fd, iovec* iov, int count, int writing) nogil
    int syncless_ready(int fd, int writing) nogil
    void set_errno(int error) nogil
    int syncless_is_file(int fd) nogil
    int syncless_never_blocks(int fd) nogil
    ssize_t c_readv "readv"(int fd, iovec* iov, int count) nogil
    ssize_t c_writev "writev"(int fd, iovec* iov, int count) nogil
    int PyErr_CheckSignals() except -1

cdef enum:
    PIECE = 4096            # PIPE_BUF: a pipe that is ready takes so many bytes without blocking

cdef object file_type = _io.FileIO
cdef object original_readinto = _io.FileIO.readinto
cdef object original_readall = _io.FileIO.readall
cdef object original_read = _io.FileIO.read


cdef ssize_t blocking(int fd, iovec* piece, bint writing) noexcept:
    cdef ssize_t n
    with nogil:
        n = c_writev(fd, piece, 1) if writing else c_readv(fd, piece, 1)
    return n


cdef ssize_t without_waiting(int fd, iovec* piece, bint writing) noexcept:
    """Fails with EAGAIN where it would wait, whatever the descriptor's mode."""
    cdef ssize_t n = syncless_nowait(fd, piece, 1, writing)
    cdef int error = errno
    cdef iovec shorter
    if n >= 0 or error not in (EAGAIN, EOPNOTSUPP, EINVAL, ENOSYS):
        return n
    if syncless_is_file(fd):
        return blocking(fd, piece, writing)
    if error == EAGAIN:
        return n
    if syncless_ready(fd, writing) == 0:
        set_errno(EAGAIN)
        return -1
    shorter = piece[0]
    if writing and shorter.iov_len > PIECE:
        shorter.iov_len = PIECE
    return blocking(fd, &shorter, writing)


cdef Py_ssize_t transfer(int fd, iovec* piece, bint writing) except -1:
    """One readv or writev that has had an effect; parks until it can have one."""
    cdef Loop loop = peek_loop()
    cdef bint parks = loop is not None and loop.current is not None
    cdef ssize_t n
    while True:
        n = without_waiting(fd, piece, writing) if parks else blocking(fd, piece, writing)
        if n >= 0:
            return n
        if errno == EINTR:
            PyErr_CheckSignals()
        elif errno == EAGAIN and parks and not syncless_never_blocks(fd):
            loop.wait_foreign_fd(fd, WRITE if writing else READ, NEVER)
        else:
            raise OSError(errno, strerror(errno).decode())


cdef Py_ssize_t read_into(int fd, char* data, Py_ssize_t size) except -1:
    """One read; of a regular file as much as there is, as the system's own."""
    cdef iovec piece
    cdef Py_ssize_t done, n
    piece.iov_base = data
    piece.iov_len = size
    done = transfer(fd, &piece, False)
    while 0 < done < size and syncless_is_file(fd):       # only a part was in memory, or this is the end
        piece.iov_base = data + done
        piece.iov_len = size - done
        n = transfer(fd, &piece, False)
        if n == 0:
            break
        done += n
    return done


cdef Py_ssize_t write_from(int fd, const char* data, Py_ssize_t size) except -1:
    """Writes all, as a descriptor that blocks does; one that does not takes what it can."""
    cdef iovec piece
    cdef Py_ssize_t done = 0
    while True:
        piece.iov_base = <void*> (data + done)
        piece.iov_len = size - done
        try:
            done += transfer(fd, &piece, True)
        except BlockingIOError:
            if done:
                return done
            raise
        if done >= size or syncless_is_file(fd):
            return done


def read(int fd, Py_ssize_t length, /) -> bytes:
    """os.read, cooperative."""
    cdef Py_ssize_t n
    if length < 0:
        raise OSError(EINVAL, strerror(EINVAL).decode())
    data = PyBytes_FromStringAndSize(NULL, length)
    n = read_into(fd, PyBytes_AS_STRING(data), length)
    return data if n == length else PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n)


def write(int fd, data, /) -> int:
    """os.write, cooperative."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return write_from(fd, <const char*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def readv(int fd, buffers, /) -> int:
    """os.readv, cooperative: into the first buffers as much as comes at once."""
    cdef Py_ssize_t total = 0, n
    cdef Py_buffer view
    if not hasattr(buffers, "__getitem__"):
        raise TypeError("readv() arg 2 must be a sequence")
    for buffer in buffers:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            if total and not syncless_ready(fd, False):
                break
            n = read_into(fd, <char*> view.buf, view.len)
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


# -- io.FileIO: what the buffered and text files stand on --------------------------------------------------------------------------


cdef int fd_of(object self) except -2:
    """The descriptor, or -1 if the file's own method is to be called: it is closed, or nothing can be parked."""
    cdef Loop loop = peek_loop()
    if loop is None or loop.current is None or not isinstance(self, file_type):
        return -1
    return (<SynclessFileIO*> <PyObject*> self).fd


def file_readinto(self, buffer, /):
    """io.FileIO.readinto, cooperative."""
    cdef Py_buffer view
    cdef int fd = fd_of(self)
    if fd < 0 or not self.readable() or syncless_is_file(fd):
        return original_readinto(self, buffer)
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        return read_into(fd, <char*> view.buf, view.len)
    except BlockingIOError:
        return None
    finally:
        PyBuffer_Release(&view)


def file_read(self, size=-1, /):
    """io.FileIO.read, cooperative."""
    cdef int fd = fd_of(self)
    if fd < 0 or not self.readable() or syncless_is_file(fd):
        return original_read(self, size)
    if size is None or size < 0:
        return file_readall(self)
    try:
        return read(fd, size)
    except BlockingIOError:
        return None


def file_readall(self):
    """io.FileIO.readall, cooperative."""
    cdef int fd = fd_of(self)
    if fd < 0 or not self.readable() or syncless_is_file(fd):
        return original_readall(self)
    pieces = []
    while True:
        try:
            piece = read(fd, 65536)
        except BlockingIOError:
            return b"".join(pieces) if pieces else None
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _check_layout():
    with _io.FileIO(os.devnull) as opened:
        if (<SynclessFileIO*> <PyObject*> opened).fd != opened.fileno():
            raise ImportError("this Python's io.FileIO has an unknown layout; syncless supports CPython 3.10 to 3.13")

_check_layout()
