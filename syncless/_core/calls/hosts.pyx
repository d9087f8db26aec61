"""Which hosts are numbers, so that the C library answers for them without asking anybody."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memchr, memcpy, strcmp, strlen, strspn

from syncless._core.cpython.layouts cimport socket

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
    """Whether the C library answers for this host without asking anybody."""
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
    """Whether the address has a host name that must be looked up before it can be used with this socket."""
    if ((self.sock_family != AF_INET and self.sock_family != AF_INET6) or type(address) is not tuple
            or len(<tuple> address) < 2):
        return False
    host = (<tuple> address)[0]
    return isinstance(host, (str, bytes)) and not is_numeric(host)
