"""Socket calls with addresses and messages: recvfrom, recvmsg, sendto, sendmsg, connect. See sockets.pyx for
the frequent ones.

The standard library's own methods are called, because they know the addresses of every family, with a flag
that forbids them to wait.

Hosts that are numbers go to the C library, which answers for them without asking anybody.
"""

import _socket
import os
from functools import partial

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcpy, memset, strcmp, strlen, strspn

from syncless._core cimport scheduler
from syncless._core.calls.portable cimport MSG_FASTOPEN, MSG_NOSIGNAL
from syncless._core.calls.sockets cimport (
    NO_WAIT, await_ready, begin, goes_on, limit_of, peer_name, send_rest, sends_all, sockaddr_storage, socket,
    wait,
)
from syncless._core.cpython.layouts cimport socket
from syncless._core.poll.poller cimport READ, WRITE

from syncless._core.calls.files import FileFunction
from syncless._core.calls.sockets import connect_error
from syncless._core.cpython.functions import original_of

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>
    static int syncless_inet_aton(const char *text) {
        struct in_addr address;
        return inet_aton(text, &address);
    }
    """
    int AF_INET, AF_INET6
    int inet_pton(int family, const char* text, void* address) nogil
    int syncless_inet_aton(const char* text) nogil


cdef bint is_number(const char* text, Py_ssize_t size) noexcept:
    cdef char room[16]
    cdef char plain[64]
    cdef const char* scope
    if size != <Py_ssize_t> strlen(text):
        return True                                     # refused at once
    if size == 0 or inet_pton(AF_INET, text, room) == 1:
        return True
    scope = <const char*> memchr(text, 37, size)        # %
    if scope != NULL:
        size = scope - text
        if size >= <Py_ssize_t> sizeof(plain):
            return False
        memcpy(plain, text, size)
        plain[size] = 0
        text = plain
    if (inet_pton(AF_INET6, text, room) == 1 or inet_pton(AF_INET, text, room) == 1
            or strcmp(text, "<broadcast>") == 0):
        return True
    # the old forms, 127.1 and 0x7f000001
    return strspn(text, "0123456789abcdefABCDEFxX.") == <size_t> size and syncless_inet_aton(text) != 0


def is_numeric(host) -> bool:
    """Return whether the C library answers for this host without asking anybody."""
    cdef Py_ssize_t size
    cdef const char* text
    if host is None:
        return True
    if not isinstance(host, str):
        host = bytes(host)
        return is_number(PyBytes_AS_STRING(host), len(host))
    try:
        text = PyUnicode_AsUTF8AndSize(host, &size)
    except UnicodeEncodeError:
        return True             # refused at once
    return is_number(text, size)


def names_host(socket self not None, address) -> bool:
    """Return whether the address has a host name that must be looked up before it can be used with this
    socket."""
    if ((self.sock_family != AF_INET and self.sock_family != AF_INET6) or type(address) is not tuple
            or len(<tuple> address) < 2):
        return False
    host = (<tuple> address)[0]
    return isinstance(host, (str, bytes)) and not is_numeric(host)


cdef extern from *:
    """
    #include <sys/socket.h>
    #include <sys/un.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>
    """
    int AF_UNIX, MSG_DONTWAIT, SOL_SOCKET, SO_ERROR
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    struct sockaddr_un:
        char sun_path[108]
    struct sockaddr_in:
        unsigned short sin_family, sin_port
        int sin_addr
    int inet_pton(int family, const char* text, void* address) nogil
    unsigned short htons(unsigned short number) nogil
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        void* msg_name
        socklen_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        int msg_flags
    int c_connect "connect"(int fd, const sockaddr* address, socklen_t length) nogil
    int getsockopt(int fd, int level, int name, void* value, socklen_t* length) nogil
    ssize_t c_sendmsg "sendmsg"(int fd, msghdr* message, int flags) nogil
    ssize_t c_recvmsg "recvmsg"(int fd, msghdr* message, int flags) nogil
    ssize_t c_sendto "sendto"(int fd, const void* data, size_t size, int flags, const sockaddr* address,
        socklen_t length) nogil
    ssize_t c_recvfrom "recvfrom"(int fd, void* data, size_t size, int flags, sockaddr* address,
        socklen_t* length) nogil

cdef extern from "Python.h":
    # NULL with an exception, which is looked at without raising it
    PyObject* PyObject_CallObject(object function, object args)
    Py_buffer* PyMemoryView_GET_BUFFER(object view)
    int PySys_Audit(const char* event, const char* format, ...) except -1
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    PIECES = 16         # buffers of a message that is sent without the standard library's method

cdef object native_recvfrom = original_of(_socket.socket.recvfrom)
cdef object native_recvfrom_into = original_of(_socket.socket.recvfrom_into)
cdef object native_recvmsg = original_of(_socket.socket.recvmsg)
cdef object native_recvmsg_into = original_of(_socket.socket.recvmsg_into)
cdef object native_sendto = original_of(_socket.socket.sendto)
cdef object native_sendmsg = original_of(_socket.socket.sendmsg)
cdef object native_connect_ex = original_of(_socket.socket.connect_ex)
cdef object native_bind = original_of(_socket.socket.bind)


cdef int raise_unless_it_must_wait(bint never_waits) except -1:
    if never_waits or not PyErr_ExceptionMatches(BlockingIOError):
        return -1               # with the exception that is set
    PyErr_Clear()
    return 0


cdef inline object resolved(socket self, object address):
    return scheduler.look_up(self, address) if names_host(self, address) else address


cdef object run(socket self, int bit, int flags, object method, tuple args):
    """method(*args), as soon as it can be done without waiting."""
    cdef int64_t deadline = limit_of(self, flags)
    cdef long long timeout = self.sock_timeout
    cdef PyObject* result
    begin(self, bit)
    while True:
        if timeout > 0:
            self.sock_timeout = -1      # or the method would wait for itself
        result = PyObject_CallObject(method, args)
        self.sock_timeout = timeout
        if result != NULL:
            found = <object> result
            Py_DECREF(found)
            return found
        raise_unless_it_must_wait(timeout == 0 or deadline == NO_WAIT)
        await_ready(self, bit, &deadline)


def recvfrom(socket self not None, Py_ssize_t bufsize, int flags=0, /):
    """recvfrom(bufsize[, flags]) -> (bytes, address); parks until something comes."""
    cdef int64_t deadline = limit_of(self, flags)
    cdef sockaddr_storage address
    cdef socklen_t length
    cdef ssize_t n
    if self.sock_family != AF_INET and self.sock_family != AF_INET6:
        return run(self, READ, flags, native_recvfrom, (self, bufsize, flags | MSG_DONTWAIT))
    if bufsize < 0:
        raise ValueError("negative buffersize in recvfrom")
    data = PyBytes_FromStringAndSize(NULL, bufsize)
    begin(self, READ)
    while True:
        length = sizeof(address)
        n = c_recvfrom(self.sock_fd, PyBytes_AS_STRING(data), bufsize, flags | MSG_DONTWAIT,
            <sockaddr*> &address, &length)
        if n >= 0:
            name = peer_name(&address) if length else None
            return data if n == bufsize else PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n), name
        wait(self, READ, &deadline)


def recvfrom_into(socket self not None, buffer, nbytes=0, int flags=0):
    """recvfrom_into(buffer[, nbytes[, flags]]) -> (count, address); parks until something comes."""
    return run(self, READ, flags, native_recvfrom_into, (self, buffer, nbytes, flags | MSG_DONTWAIT))


cdef object unix_name(sockaddr_un* address, Py_ssize_t length):
    """Return the path, or the bytes of an abstract name."""
    if length and address.sun_path[0] == 0:
        return address.sun_path[:length]
    return os.fsdecode(<bytes> address.sun_path)


def recvmsg(socket self not None, bufsize, ancbufsize=0, int flags=0, /):
    """recvmsg(bufsize[, ancbufsize[, flags]]) -> (data, ancdata, msg_flags, address); parks until something
    comes."""
    cdef int64_t deadline = limit_of(self, flags)
    cdef sockaddr_storage address
    cdef Py_ssize_t size
    cdef msghdr message
    cdef iovec vector
    cdef ssize_t n
    if (type(bufsize) is int and type(ancbufsize) is int and ancbufsize == 0
            and self.sock_family in (AF_UNIX, AF_INET, AF_INET6)):
        size = bufsize
        if size < 0:
            raise ValueError("negative buffer size in recvmsg()")
        data = PyBytes_FromStringAndSize(NULL, size)
        memset(&message, 0, sizeof(message))
        vector.iov_base = PyBytes_AS_STRING(data)
        vector.iov_len = size
        message.msg_iov = &vector
        message.msg_iovlen = 1
        message.msg_name = &address
        begin(self, READ)
        while True:
            message.msg_namelen = sizeof(address)
            n = c_recvmsg(self.sock_fd, &message, flags | MSG_DONTWAIT)
            if n >= 0:
                break
            wait(self, READ, &deadline)
        if n < size:
            data = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n)
        if message.msg_namelen == 0:
            name = None
        elif address.ss_family == AF_UNIX:
            (<char*> &address)[min(<size_t> message.msg_namelen, sizeof(address) - 1)] = 0
            name = unix_name(<sockaddr_un*> &address,
                message.msg_namelen - <Py_ssize_t> sizeof(address.ss_family))
        else:
            name = peer_name(&address)
        return data, [], message.msg_flags, name
    return run(self, READ, flags, native_recvmsg, (self, bufsize, ancbufsize, flags | MSG_DONTWAIT))


def recvmsg_into(socket self not None, buffers, ancbufsize=0, int flags=0, /):
    """recvmsg_into(buffers[, ancbufsize[, flags]]) -> (count, ancdata, msg_flags, address); parks until
    something comes."""
    return run(self, READ, flags, native_recvmsg_into,
        (self, list(buffers), ancbufsize, flags | MSG_DONTWAIT))


cdef bint is_four(socket self, object address, sockaddr_in* found) except -1:
    """Return whether it is an address of IPv4 in numbers, which is found then."""
    cdef Py_ssize_t size
    cdef const char* text
    if self.sock_family != AF_INET or type(address) is not tuple or len(<tuple> address) != 2:
        return False
    host, port = (<tuple> address)[0], (<tuple> address)[1]
    if type(host) is not str or type(port) is not int or not 0 <= port <= 65535:
        return False
    try:
        text = PyUnicode_AsUTF8AndSize(host, &size)
    except UnicodeEncodeError:
        return False
    memset(found, 0, sizeof(found[0]))
    found.sin_family = AF_INET
    found.sin_port = htons(<unsigned short> port)
    return inet_pton(AF_INET, text, &found.sin_addr) == 1 and size == <Py_ssize_t> strlen(text)


def sendto(socket self not None, data, *args):
    """sendto(data[, flags], address) -> count; parks until it can be sent."""
    cdef int flags
    cdef int64_t deadline
    cdef sockaddr_in four
    cdef ssize_t n
    if not 1 <= len(args) <= 2:
        raise TypeError(f"sendto() takes 2 or 3 arguments ({len(args) + 1} given)")
    flags = args[0] if len(args) == 2 else 0
    if type(data) is bytes and is_four(self, args[len(args) - 1], &four):
        PySys_Audit("socket.sendto", "OO", <PyObject*> self, <PyObject*> args[len(args) - 1])
        deadline = limit_of(self, flags)
        begin(self, WRITE)
        while True:
            n = c_sendto(self.sock_fd, PyBytes_AS_STRING(data), len(<bytes> data), flags | MSG_DONTWAIT,
                <sockaddr*> &four, sizeof(four))
            if n >= 0:
                break
            wait(self, WRITE, &deadline)
    else:
        address = resolved(self, args[len(args) - 1])
        method = reaching(self, address, native_sendto)
        n = run(self, WRITE, flags, method, (self, data, flags | MSG_DONTWAIT, address))
    if not sends_all(self, flags) or n >= memoryview(data).nbytes:
        return n
    # the address, and the flag that connects, went with the first part
    return send_rest(self, data, n, flags & ~MSG_FASTOPEN)


cdef Py_ssize_t take_piece(object piece, iovec* place) except -1:
    """Notes where a piece lies; returns its size."""
    if type(piece) is bytes:
        place.iov_base = PyBytes_AS_STRING(piece)
        place.iov_len = len(<bytes> piece)
    else:
        place.iov_base = PyMemoryView_GET_BUFFER(piece).buf
        place.iov_len = PyMemoryView_GET_BUFFER(piece).len
    return place.iov_len


cdef list pieces_of(list buffers, bint convert):
    """Return the same as bytes objects and memoryviews, held while this tasklet is parked; None for what must
    be left to the standard library."""
    cdef list pieces = list(buffers)
    cdef Py_ssize_t i
    for i in range(len(pieces)):
        if type(pieces[i]) is not bytes:
            if not convert:
                return None
            try:
                pieces[i] = memoryview(pieces[i])
            except TypeError:
                return None
            if not pieces[i].c_contiguous:
                return None
    return pieces


cdef Py_ssize_t send_pieces(socket self, list pieces, int flags) except -1:
    """Send them without the standard library's method: all, or what can be sent at once. Return the number of
    bytes."""
    cdef int64_t deadline = limit_of(self, flags)
    cdef bint all = sends_all(self, flags)
    cdef Py_ssize_t done = 0, first = 0, skip = 0, i, size, total = 0, count = len(pieces)
    cdef iovec vector[PIECES]
    cdef msghdr message
    cdef ssize_t n
    memset(&message, 0, sizeof(message))
    message.msg_iov = vector
    for i in range(count if all else 0):
        total += take_piece(pieces[i], vector)
    begin(self, WRITE)
    while True:
        for i in range(min(count - first, <Py_ssize_t> PIECES)):
            take_piece(pieces[first + i], &vector[i])
        message.msg_iovlen = min(count - first, <Py_ssize_t> PIECES)
        if skip:
            vector[0].iov_base = <char*> vector[0].iov_base + skip
            vector[0].iov_len -= skip
        n = c_sendmsg(self.sock_fd, &message, flags | MSG_DONTWAIT | MSG_NOSIGNAL)
        if n >= 0:
            done += n
            if not all or done >= total:
                return done
            begin(self, WRITE)
            skip += n
            while skip >= (size := take_piece(pieces[first], vector)):
                skip -= size
                first += 1
        elif not goes_on(self, done, &deadline):
            return done


def sendmsg(socket self not None, buffers, ancdata=(), int flags=0, address=None, /):
    """sendmsg(buffers[, ancdata[, flags[, address]]]) -> count; parks until some can be sent, without a
    timeout until all is."""
    cdef bint all = sends_all(self, flags)
    cdef list pieces = None
    if type(buffers) is not list:
        buffers = list(buffers)
    if all or (address is None and not ancdata and len(buffers) <= PIECES):
        pieces = pieces_of(buffers, all)
    if address is None and not ancdata and pieces is not None:
        PySys_Audit("socket.sendmsg", "OO", <PyObject*> self, <PyObject*> None)
        return send_pieces(self, pieces, flags)
    if type(ancdata) is not tuple:
        ancdata = list(ancdata)
    if address is None:
        arguments = (self, buffers, ancdata, flags | MSG_DONTWAIT)
    else:
        arguments = (self, buffers, ancdata, flags | MSG_DONTWAIT, resolved(self, address))
    sent = run(self, WRITE, flags, reaching(self, address, native_sendmsg), arguments)
    if pieces is None or not all or sent >= sum([memoryview(piece).nbytes for piece in pieces]):
        return sent
    # descriptors and addresses went with the first part
    return send_rest(self, b"".join(pieces), sent, flags & ~MSG_FASTOPEN)


def _of_path(path, method, *args):
    """method(*args), which looks for a path; an argument of FileFunction."""
    return method(*args)


cdef object by_path = FileFunction(_of_path)


cdef object reaching(socket self, object address, object method):
    """Return the method, as it is to be called with this address. The file of a UNIX socket may lie on a slow
    disk; an abstract name does not."""
    if self.sock_family != AF_UNIX or not address or type(address) not in (str, bytes):
        return method
    return method if address[0] in (0, "\0") else partial(by_path, address, method)


def connect(socket self not None, address, /):
    """connect(address); parks until connected. Raise OSError or TimeoutError."""
    try:
        error = connect_error(self, reaching(self, address, native_connect_ex), resolved(self, address))
    except (TypeError, OverflowError) as wrong:
        raise type(wrong)(str(wrong).replace("connect_ex()", "connect()")) from None
    if error < 0:
        raise TimeoutError("timed out")
    if error:
        raise OSError(error, os.strerror(error))


def connect_ex(socket self not None, address, /):
    """connect_ex(address) -> 0 or an errno; parks until it is decided."""
    error = connect_error(self, reaching(self, address, native_connect_ex), resolved(self, address))
    return EAGAIN if error < 0 else error


def abort_connect(socket self not None) -> None:
    """End the attempt to connect that is under way, if any; the socket is as before it, and still watched."""
    cdef sockaddr nowhere
    cdef int error
    cdef socklen_t length = sizeof(int)
    memset(&nowhere, 0, sizeof(nowhere))                # of the family AF_UNSPEC, which is 0
    c_connect(self.sock_fd, &nowhere, sizeof(nowhere))
    getsockopt(self.sock_fd, SOL_SOCKET, SO_ERROR, &error, &length)    # it says that this was reset


def bind(socket self not None, address, /):
    """bind(address)."""
    reaching(self, address, native_bind)(self, resolved(self, address))
