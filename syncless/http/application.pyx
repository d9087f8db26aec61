"""Application: the seam between a connection and the code that answers its requests.

A kind of application (WSGI is one) is a subclass. A connection gives it a request head that
RequestHeads.scan() has found and gets the exchange in which the application answers; the kind decides what it
makes of the head.

A Session answers in place of an Exchange where a connection carries many requests at a time.

MountedApplications are several applications, of any kinds, each for the paths below a prefix. The path
decides, as the client means it: percent-encoded characters are decoded first. "/api" is the prefix of /api
and /api/x, not of /apix; the longest prefix wins. The applications must remember no heads (Application(0)):
each kind would keep objects that the others cannot use.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.string cimport memcmp

from syncless._core.loop cimport Loop
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Incoming
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire cimport decode_path, head


cdef class Application:
    """Application(most): remembers the heads of that many connections.

    exchange()   one for a request that has come: no allocation may come between RequestHeads.scan() and the
                 call, because it may run a finaliser that switches to another connection. None: this request
                 is not the application's, nor is its connection from now on
    pass_on()    gives such a connection away, with its bytes; here it is closed afterwards
    take_back()  an exchange has ended and has no other owner: it may be used again, for the same head if it
                 comes from the same connection, whose descriptor is `fd`; -1: the connection is closed
    close()      the server has stopped: nothing is kept any more
    """

    def __init__(self, int most=0):
        self.heads = RequestHeads(most)
        self.spares = [None] * SPARES

    cdef Exchange exchange(self, const Incoming* incoming):
        raise NotImplementedError

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return 0

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        return 0

    def close(self) -> None:
        """Lets go of the objects kept for later requests."""
        while self.take_spare() is not None:
            pass


cdef class Session:
    """A connection that carries requests of its client by the frames of another protocol. Its connection
    tells it:

    live()       bytes may have come: it reads them, as far as it is its turn
    fill()       puts what there is to send behind that which is pending; the connection sends it
    sent_all()   that is gone
    expired()    the time to begin or to go on has passed
    lost()       the connection is closed
    interrupt()  the server stops and waits no longer for the requests that run
    tell_stop()  as of an exchange
    """

    cdef int live(self, Loop loop) except -1:
        return 0

    cdef int fill(self, Loop loop) except -1:
        return 0

    cdef int sent_all(self, Loop loop) except -1:
        return 0

    cdef int expired(self, Loop loop) except -1:
        return 0

    cdef int lost(self, Loop loop) except -1:
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        return 0

    cdef int tell_stop(self, bint at_last) except -1:
        return 0


cdef class Sessions:
    """begin()   a session for a connection whose first bytes are no request; None: not for this one"""

    cdef Session begin(self, const Incoming* incoming):
        return None


cdef class MountedApplications(Application):
    """MountedApplications(mounts, pages, rest): by prefix, by the whole path, and for all other paths."""

    def __init__(self, mounts, pages, Application rest not None):
        Application.__init__(self, 0)
        longest_first = sorted(mounts.items(), key=lambda mount: -len(mount[0]))
        self.prefixes = [prefix.rstrip("/").encode() for prefix, _ in longest_first]
        self.applications = [application for _, application in longest_first]
        self.applications.append(rest)
        self.stays = any(application.stays for application in self.applications)
        self.pages = {}
        for path, application in pages.items():
            self.pages[path.encode()] = len(self.applications)
            self.applications.append(application)

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef int mount = self.choose(incoming.data, incoming.found)
        cdef Exchange exchange = (<Application> self.applications[mount]).exchange(incoming)
        exchange.mount = mount
        return exchange

    cdef int choose(self, const char* data, const head* found) except -1:
        """Which of the applications."""
        cdef bytes path = PyBytes_FromStringAndSize(data + found.path, found.path_size)
        cdef bytes prefix
        cdef Py_ssize_t size
        cdef int i
        if found.escaped:
            path = decode_path(data + found.path, found.path_size)
        if self.pages:
            page = self.pages.get(path)
            if page is not None:
                return page
        for i in range(PyList_GET_SIZE(self.prefixes)):
            prefix = self.prefixes[i]
            size = PyBytes_GET_SIZE(prefix)
            if (
                PyBytes_GET_SIZE(path) >= size
                and memcmp(PyBytes_AS_STRING(path), PyBytes_AS_STRING(prefix), size) == 0
                and (PyBytes_GET_SIZE(path) == size or PyBytes_AS_STRING(path)[size] == c"/")
            ):
                return i
        return PyList_GET_SIZE(self.prefixes)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return (<Application> self.applications[exchange.mount]).take_back(exchange, fd)

    def close(self) -> None:
        """Lets go of the objects kept for later requests."""
        for application in self.applications:
            application.close()
