"""Socket calls with addresses and messages: recvfrom, recvmsg, sendto, sendmsg, connect. See sockcalls.pyx for the frequent ones.

The standard library's own methods are called, because they know the addresses of every family, with a flag that forbids them to wait.
"""

import _socket
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN
from libc.stdint cimport int64_t
from libc.string cimport memset

from syncless._core.poller cimport READ, WRITE
from syncless._core.sockcalls cimport NO_WAIT, UNKNOWN, await_ready, begin, peer_name, sockaddr_storage, socket, wait

from syncless._core.sockcalls import connect_error, names_host

cdef extern from "<sys/socket.h>":
    int AF_INET, AF_INET6, MSG_DONTWAIT
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t c_sendmsg "sendmsg"(int fd, msghdr* message, int flags) nogil
    ssize_t c_recvfrom "recvfrom"(int fd, void* data, size_t size, int flags, sockaddr* address, socklen_t* length) nogil

cdef extern from "Python.h":
    PyObject* PyObject_CallObject(object function, object args)     # NULL with an exception, which is looked at without raising it

cdef enum:
    PIECES = 16         # buffers of a message that is sent without the standard library's method

cdef object native_recvfrom = _socket.socket.recvfrom
cdef object native_recvfrom_into = _socket.socket.recvfrom_into
cdef object native_recvmsg = _socket.socket.recvmsg
cdef object native_recvmsg_into = _socket.socket.recvmsg_into
cdef object native_sendto = _socket.socket.sendto
cdef object native_sendmsg = _socket.socket.sendmsg
cdef object native_connect_ex = _socket.socket.connect_ex
cdef object native_bind = _socket.socket.bind
cdef object lookup = None


def set_lookup(function) -> None:
    """function(socket, address) gives an address whose host name has become a number."""
    global lookup
    lookup = function


cdef int raise_unless_it_must_wait(bint never_waits) except -1:
    if never_waits or not PyErr_ExceptionMatches(BlockingIOError):
        return -1               # with the exception that is set
    PyErr_Clear()
    return 0


cdef inline object resolved(socket self, object address):
    return lookup(self, address) if names_host(self, address) else address


cdef object run(socket self, int bit, int flags, object method, tuple args):
    """method(*args), as soon as it can be done without waiting."""
    cdef int64_t deadline = UNKNOWN
    cdef long long timeout = self.sock_timeout
    cdef PyObject* result
    begin(self)
    while True:
        if timeout > 0:
            self.sock_timeout = -1      # or the method would wait for itself
        result = PyObject_CallObject(method, args)
        self.sock_timeout = timeout
        if result != NULL:
            found = <object> result
            Py_DECREF(found)
            return found
        raise_unless_it_must_wait(timeout == 0 or flags & MSG_DONTWAIT)
        await_ready(self, bit, &deadline)


def recvfrom(socket self not None, Py_ssize_t bufsize, int flags=0, /):
    """recvfrom(bufsize[, flags]) -> (bytes, address); parks until something comes."""
    cdef int64_t deadline = NO_WAIT if flags & MSG_DONTWAIT else UNKNOWN
    cdef sockaddr_storage address
    cdef socklen_t length
    cdef ssize_t n
    if self.sock_family != AF_INET and self.sock_family != AF_INET6:
        return run(self, READ, flags, native_recvfrom, (self, bufsize, flags | MSG_DONTWAIT))
    if bufsize < 0:
        raise ValueError("negative buffersize in recvfrom")
    data = PyBytes_FromStringAndSize(NULL, bufsize)
    begin(self)
    while True:
        length = sizeof(address)
        n = c_recvfrom(self.sock_fd, PyBytes_AS_STRING(data), bufsize, flags | MSG_DONTWAIT, <sockaddr*> &address, &length)
        if n >= 0:
            name = peer_name(&address) if length else None
            return data if n == bufsize else PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n), name
        wait(self, READ, &deadline)


def recvfrom_into(socket self not None, buffer, nbytes=0, int flags=0):
    """recvfrom_into(buffer[, nbytes[, flags]]) -> (count, address); parks until something comes."""
    return run(self, READ, flags, native_recvfrom_into, (self, buffer, nbytes, flags | MSG_DONTWAIT))


def recvmsg(socket self not None, bufsize, ancbufsize=0, int flags=0, /):
    """recvmsg(bufsize[, ancbufsize[, flags]]) -> (data, ancdata, msg_flags, address); parks until something comes."""
    return run(self, READ, flags, native_recvmsg, (self, bufsize, ancbufsize, flags | MSG_DONTWAIT))


def recvmsg_into(socket self not None, buffers, ancbufsize=0, int flags=0, /):
    """recvmsg_into(buffers[, ancbufsize[, flags]]) -> (count, ancdata, msg_flags, address); parks until something comes."""
    return run(self, READ, flags, native_recvmsg_into, (self, list(buffers), ancbufsize, flags | MSG_DONTWAIT))


def sendto(socket self not None, data, *args):
    """sendto(data[, flags], address) -> count; parks until it can be sent."""
    cdef int flags
    if not 1 <= len(args) <= 2:
        raise TypeError(f"sendto() takes 2 or 3 arguments ({len(args) + 1} given)")
    flags = args[0] if len(args) == 2 else 0
    return run(self, WRITE, flags, native_sendto, (self, data, flags | MSG_DONTWAIT, resolved(self, args[len(args) - 1])))


cdef Py_ssize_t send_pieces(socket self, list pieces, int flags) except -1:
    """The message of a few bytes objects, without the standard library's method. -2 if it is another one."""
    cdef int64_t deadline = NO_WAIT if flags & MSG_DONTWAIT else UNKNOWN
    cdef Py_ssize_t i, count = len(pieces)
    cdef iovec vector[PIECES]
    cdef msghdr message
    cdef ssize_t n
    for i in range(count):
        if type(pieces[i]) is not bytes:
            return -2
        vector[i].iov_base = PyBytes_AS_STRING(pieces[i])
        vector[i].iov_len = len(<bytes> pieces[i])
    memset(&message, 0, sizeof(message))
    message.msg_iov = vector
    message.msg_iovlen = count
    pieces = list(pieces)           # held while this tasklet is parked
    begin(self)
    while True:
        n = c_sendmsg(self.sock_fd, &message, flags | MSG_DONTWAIT)
        if n >= 0:
            return n
        wait(self, WRITE, &deadline)


def sendmsg(socket self not None, buffers, ancdata=(), int flags=0, address=None, /):
    """sendmsg(buffers[, ancdata[, flags[, address]]]) -> count; parks until some can be sent."""
    cdef Py_ssize_t sent
    if type(buffers) is not list:
        buffers = list(buffers)
    if address is None and not ancdata and len(buffers) <= PIECES:
        sent = send_pieces(self, buffers, flags)
        if sent != -2:
            return sent
    if type(ancdata) is not tuple:
        ancdata = list(ancdata)
    if address is None:
        return run(self, WRITE, flags, native_sendmsg, (self, buffers, ancdata, flags | MSG_DONTWAIT))
    return run(self, WRITE, flags, native_sendmsg, (self, buffers, ancdata, flags | MSG_DONTWAIT, resolved(self, address)))


def connect(socket self not None, address, /):
    """connect(address); parks until connected. Raises OSError or TimeoutError."""
    try:
        error = connect_error(self, native_connect_ex, resolved(self, address))
    except (TypeError, OverflowError) as wrong:
        raise type(wrong)(str(wrong).replace("connect_ex()", "connect()")) from None
    if error:
        raise OSError(error, os.strerror(error))


def connect_ex(socket self not None, address, /):
    """connect_ex(address) -> 0 or an errno; parks until it is decided."""
    try:
        return connect_error(self, native_connect_ex, resolved(self, address))
    except TimeoutError:
        return EAGAIN


def bind(socket self not None, address, /):
    """bind(address)."""
    native_bind(self, resolved(self, address))
