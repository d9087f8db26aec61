"""Socket calls that park the tasklet instead of blocking the thread, as functions that work as methods of any
socket object.

Each tries its system call without blocking first (MSG_DONTWAIT where there is such a flag) and parks only on
EAGAIN. When it waits, and how long (calls of C libraries have the same rule, patches/libraries/transfers.c):

| the socket's timeout | the call waits |
|---|---|
| 0 | never: BlockingIOError |
| seconds | so long in all: TimeoutError |
| None | as long as SO_RCVTIMEO or SO_SNDTIMEO says: BlockingIOError, as the kernel's; without them for ever |
| None, with MSG_DONTWAIT or MSG_ERRQUEUE | never: BlockingIOError |

Fact: the standard library's C methods first poll() for as long as the timeout allows, stopping the thread.
Decision: the frequent calls are made here; the rare ones, with addresses of every family, stay the standard
library's, run while the object's timeout field says None, so that they go straight to the system call. Price:
another OS thread that uses the same socket at that instant may see no timeout. cpython/layouts.pxd
declares the fields.
"""

import _socket
import socket as _stdlib

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EALREADY, EINPROGRESS, EINTR, errno
from libc.stdint cimport int64_t
from libc.string cimport strerror
from posix.types cimport off_t
from posix.unistd cimport close

from syncless._core.calls.portable cimport (
    MSG_ERRQUEUE, MSG_NOSIGNAL, accept_connection, begin_nonblocking, end_nonblocking, kernel_limit,
    sendfile as c_sendfile,
)
from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.layouts cimport require, socket
from syncless._core.current cimport may_park, take_turns, take_turns_on, wait_fd
from syncless._core.loop cimport Loop
from syncless._core.poll.now cimport has_failed, is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport TIMED_OUT
from syncless._core.threadloop cimport get_loop, peek_loop

from syncless._core.calls.threads import Share

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>
    #include <sys/un.h>

    static int syncless_lingers(int fd) {
        struct linger asked;
        socklen_t size = sizeof asked;
        return getsockopt(fd, SOL_SOCKET, SO_LINGER, &asked, &size) == 0 && asked.l_onoff
            && asked.l_linger > 0;
    }
    """
    int syncless_lingers(int fd) nogil
    int MSG_DONTWAIT, MSG_WAITALL, SOCK_STREAM
    int AF_INET, AF_INET6, AF_UNIX, SOL_SOCKET, SO_ERROR
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    struct sockaddr_in:
        unsigned short sin_port
        int sin_addr
    struct sockaddr_in6:
        unsigned short sin6_port
        unsigned int sin6_flowinfo, sin6_scope_id
        int sin6_addr
    unsigned int ntohl(unsigned int number) nogil
    unsigned short ntohs(unsigned short number) nogil
    const char* inet_ntop(int family, void* address, char* text, socklen_t size) nogil
    ssize_t c_recv "recv"(int fd, void* data, size_t size, int flags) nogil
    ssize_t c_send "send"(int fd, void* data, size_t size, int flags) nogil
    int getsockopt(int fd, int level, int option, void* value, socklen_t* length) nogil


cdef object original_init = _stdlib.socket.__init__
cdef object original_detach = _stdlib.socket.detach
cdef object native_close = _socket.socket.close
cdef object lingering = Share(128)

cdef enum:
    SEND_SLICE = 1 << 20        # bytes that are sent before others get a turn


require("socket objects")


cdef int begin(socket self, int bit) except -1:
    """Before a call. `bit` 0: only the call itself will tell whether the socket is ready."""
    return 0 if self.sock_timeout == 0 else take_turns_on(self.sock_fd, bit)


cdef int64_t limit_of(socket self, int flags) noexcept:
    """Return the deadline of a call before it has had to wait."""
    if flags & MSG_DONTWAIT or (flags & MSG_ERRQUEUE and self.sock_timeout < 0):
        return NO_WAIT
    return UNKNOWN


cdef int64_t deadline_of(socket self, int bit) noexcept:
    """Return the deadline of a call that has to wait now."""
    cdef long long limit = self.sock_timeout
    if limit < 0:
        limit = kernel_limit(self.sock_fd, bit == WRITE) or -1
    return NEVER if limit < 0 else monotonic_ns() + limit


cdef int wait(socket self, int bit, int64_t* deadline) except -1:
    """After a call failed: parks if that may help, otherwise raises. *deadline starts as UNKNOWN or
    NO_WAIT."""
    cdef int error = errno
    if error == EINTR:
        PyErr_CheckSignals()
        return 0
    if error != EAGAIN or self.sock_timeout == 0 or deadline[0] == NO_WAIT:
        if error == EAGAIN:
            take_turns()
        raise OSError(error, strerror(error).decode())
    return await_ready(self, bit, deadline)


cdef int await_ready(socket self, int bit, int64_t* deadline) except -1:
    if deadline[0] == UNKNOWN:
        deadline[0] = deadline_of(self, bit)
    if wait_fd(get_loop(), self.sock_fd, bit, deadline[0], "socket read" if bit == READ else "socket write",
            self) == TIMED_OUT:
        if self.sock_timeout < 0:           # the kernel's limit
            raise BlockingIOError(EAGAIN, strerror(EAGAIN).decode())
        raise TimeoutError("timed out")
    return 0


cdef Py_ssize_t receive(socket self, char* data, Py_ssize_t size, int flags) except -1:
    cdef int64_t deadline = limit_of(self, flags)
    cdef ssize_t n
    cdef Py_ssize_t done = 0
    begin(self, READ)
    while True:
        n = c_recv(self.sock_fd, data + done, size - done, flags | MSG_DONTWAIT)
        if n >= 0:
            done += n
            if n == 0 or done == size or not flags & MSG_WAITALL or self.sock_timeout == 0:
                return done
        else:
            try:
                wait(self, READ, &deadline)
            except BlockingIOError:
                if done:
                    return done
                raise


def recv(socket self not None, Py_ssize_t buffersize, int flags=0, /) -> bytes:
    """recv(buffersize[, flags]) -> bytes, as socket.socket.recv; parks until there is something."""
    if buffersize < 0:
        raise ValueError("negative buffersize in recv")
    data = PyBytes_FromStringAndSize(NULL, buffersize)
    cdef Py_ssize_t n = receive(self, PyBytes_AS_STRING(data), buffersize, flags)
    if n == buffersize:
        return data
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n)


def recv_into(socket self not None, buffer, Py_ssize_t nbytes=0, int flags=0) -> int:
    """recv_into(buffer[, nbytes[, flags]]) -> bytes read, as socket.socket.recv_into; parks until there is
    something."""
    cdef Py_buffer view
    if nbytes < 0:
        raise ValueError("negative buffersize in recv_into")
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        if nbytes > view.len:
            raise ValueError("buffer too small for requested bytes")
        return receive(self, <char*> view.buf, nbytes or view.len, flags)
    finally:
        PyBuffer_Release(&view)


def send(socket self not None, data, int flags=0, /) -> int:
    """send(data[, flags]) -> bytes sent, as socket.socket.send; parks until some can be, without a timeout
    until all are."""
    return send_rest(self, data, 0, flags)


cdef bint sends_all(socket self, int flags) noexcept:
    """Return whether the kernel itself would send all before it returns."""
    return self.sock_timeout < 0 and self.sock_type == SOCK_STREAM and not flags & MSG_DONTWAIT


cdef bint goes_on(socket self, Py_ssize_t done, int64_t* deadline) except -1:
    """After a call that sends failed: parks if that may help. False: the caller returns the bytes that were
    sent before, and the error stays for the next call, as the kernel leaves it."""
    if done and errno != EAGAIN and errno != EINTR:
        return False
    try:
        wait(self, WRITE, deadline)
    except BlockingIOError:
        if done:
            return False
        raise
    return not done or not has_failed(self.sock_fd)


cdef Py_ssize_t send_rest(socket self, object data, Py_ssize_t done, int flags) except -1:
    """Send what follows the bytes that are done: all, or what can be sent at once. Return how many are done
    then."""
    cdef Py_buffer view
    cdef int64_t deadline = limit_of(self, flags)
    cdef bint all = sends_all(self, flags)
    cdef Py_ssize_t size
    cdef ssize_t n
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(self, WRITE)
        while True:
            size = min(view.len - done, <Py_ssize_t> SEND_SLICE) if all else view.len - done
            n = c_send(self.sock_fd, <char*> view.buf + done, size, flags | MSG_DONTWAIT | MSG_NOSIGNAL)
            if n >= 0:
                done += n
                if not all or done >= view.len:
                    return done
                begin(self, WRITE)
            elif not goes_on(self, done, &deadline):
                return done
    finally:
        PyBuffer_Release(&view)


def sendall(socket self not None, data, int flags=0, /) -> None:
    """sendall(data[, flags]), as socket.socket.sendall; parks until all is sent, the timeout being for the
    whole."""
    cdef Py_buffer view
    cdef int64_t deadline = limit_of(self, flags)
    cdef Py_ssize_t done = 0, turn = 0
    cdef ssize_t n
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(self, WRITE)
        while True:
            n = c_send(self.sock_fd, <char*> view.buf + done, min(view.len - done, <Py_ssize_t> SEND_SLICE),
                       flags | MSG_DONTWAIT | MSG_NOSIGNAL)
            if n >= 0:
                done += n
                if done >= view.len:
                    return None
                if self.sock_timeout < 0:
                    deadline = limit_of(self, flags)    # the kernel's limit is for each of its calls
                turn += n
                if turn >= SEND_SLICE and self.sock_timeout != 0:
                    turn = 0
                    begin(self, WRITE)
            else:
                wait(self, WRITE, &deadline)
    finally:
        PyBuffer_Release(&view)


cdef object peer_name(sockaddr_storage* address):
    """Return the address as the standard library forms it, or None where it is to be asked for it."""
    cdef char text[64]
    cdef sockaddr_in* four = <sockaddr_in*> address
    cdef sockaddr_in6* six = <sockaddr_in6*> address
    if address.ss_family == AF_INET and inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text)) != NULL:
        return text.decode("ascii"), ntohs(four.sin_port)
    if address.ss_family == AF_INET6 and inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text)) != NULL:
        return text.decode("ascii"), ntohs(six.sin6_port), ntohl(six.sin6_flowinfo), six.sin6_scope_id
    return None


def accept(socket self not None, kind):
    """Wait for a connection; return a socket of that class, close-on-exec and blocking, and the peer's
    address."""
    cdef sockaddr_storage address
    cdef int fd = accept_fd(self, &address)
    try:
        sock = kind(self.sock_family, self.sock_type, self.sock_proto, fileno=fd)
    except BaseException:
        close(fd)
        raise
    name = peer_name(&address)
    if name is None:
        try:
            name = sock.getpeername()
        except OSError:         # it has gone again: the caller learns by its first read
            name = ""
    return sock, name


cdef int accept_fd(socket self, sockaddr_storage* address) except -1:
    cdef int64_t deadline = UNKNOWN
    cdef int fd, flags
    cdef socklen_t length
    begin(self, READ)
    while True:
        flags = begin_nonblocking(self.sock_fd)
        length = sizeof(address[0])
        address.ss_family = 0
        fd = accept_connection(self.sock_fd, address, &length, True)
        end_nonblocking(self.sock_fd, flags)
        if fd >= 0:
            return fd
        wait(self, READ, &deadline)


def sendfile(socket self not None, int source, int64_t offset, Py_ssize_t count) -> int:
    """Send a piece of a file; park until some of it can be sent. Return the number of bytes; 0 at the file's
    end."""
    cdef int64_t deadline = UNKNOWN
    cdef off_t position
    cdef ssize_t n
    cdef int flags
    begin(self, WRITE)
    while True:
        position = offset
        flags = begin_nonblocking(self.sock_fd)
        n = c_sendfile(self.sock_fd, source, &position, count)
        end_nonblocking(self.sock_fd, flags)
        if n >= 0:
            return n
        wait(self, WRITE, &deadline)


def connect_error(socket self not None, method, address) -> int:
    """Connect by the standard library's connect_ex(); park until it is decided. Return 0, an errno, or -1 if
    the socket's time is over."""
    cdef int64_t deadline = UNKNOWN
    cdef long long timeout = self.sock_timeout
    cdef int fd, flags, error
    cdef socklen_t length = sizeof(int)
    begin(self, 0)
    while True:
        fd = self.sock_fd
        flags = begin_nonblocking(fd)
        self.sock_timeout = -1
        try:
            error = method(self, address)
        finally:
            self.sock_timeout = timeout
            if self.sock_fd == fd:                      # else closed by code that ran meanwhile
                end_nonblocking(self.sock_fd, flags)
        if timeout == 0:
            return error
        if deadline == UNKNOWN:
            deadline = deadline_of(self, WRITE)
        if error == EINPROGRESS or error == EALREADY or error == EINTR:
            if not is_ready(self.sock_fd, WRITE):       # on loopback it is decided already
                if wait_fd(get_loop(), self.sock_fd, WRITE, deadline, "socket write", self) == TIMED_OUT:
                    return -1 if timeout > 0 else EINPROGRESS
            if getsockopt(self.sock_fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0:
                error = errno
            return error
        if error != EAGAIN or timeout > 0:              # with a timeout Python does not wait for room either
            return error
        # a UNIX socket whose peer's backlog is full: no event tells when there is room
        if deadline != NEVER and monotonic_ns() >= deadline:
            return EAGAIN
        get_loop().park("room in a backlog", self, monotonic_ns() + 2000000)


def forget(int fd) -> None:
    """To be called before a descriptor is closed and when a new one is taken: late events of its past are
    ignored."""
    cdef Loop loop = peek_loop()
    if loop is not None:
        loop.fds.forget(fd)


def init(self, family=-1, type=-1, proto=-1, fileno=None):
    """socket.socket.__init__; the loop is told that the descriptor's number is somebody else's."""
    original_init(self, family, type, proto, fileno)
    forget((<socket> self).sock_fd)


def real_close(self, _ss=None):
    """socket.socket._real_close; the loop is told that the descriptor's number is nobody's.

    One with SO_LINGER waits until the peer has taken all: in a thread.
    """
    cdef int fd = (<socket> self).sock_fd
    cdef bint lingers = fd >= 0 and may_park() and syncless_lingers(fd)
    forget(fd)
    if lingers:
        lingering.run(native_close, self)
    else:
        native_close(self)


def detach(self) -> int:
    """detach() -> the descriptor, which is the caller's from now on."""
    forget((<socket> self).sock_fd)
    return original_detach(self)
