"""The seam between HTTP and applications. See application.pyx."""

from cpython.object cimport PyObject

from syncless._core.loop cimport Loop
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Incoming
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire cimport head

cdef extern from *:
    """
    static int syncless_has_weakrefs(PyObject *o) { return *PyObject_GET_WEAKREFS_LISTPTR(o) != NULL; }
    """
    bint has_weakrefs "syncless_has_weakrefs" (PyObject* o) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef enum:
    SPARES = 32         # as many requests that wait, or come together on connections of HTTP/2, are likely

cdef class Application:
    cdef readonly RequestHeads heads    # of the connections that it answers
    cdef readonly bint stays            # its requests must run in the thread in which it was made
    cdef list spares                    # exchanges that have ended, to be used again for any head
    cdef int spare                      # how many; the rest of the list is None, and nothing allocates

    cdef Exchange exchange(self, const Incoming* incoming)
    cdef int take_back(self, Exchange exchange, int fd) except -1

    cdef inline Exchange take_spare(self):
        """One of them, or None."""
        cdef Exchange exchange
        if self.spare == 0:
            return None
        self.spare -= 1
        exchange = <Exchange> self.spares[self.spare]
        self.spares[self.spare] = None
        return exchange

    cdef inline int keep_spare(self, Exchange exchange) except -1:
        exchange.forget()
        if self.spare < SPARES:
            self.spares[self.spare] = exchange
            self.spare += 1
        return 0

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1


cdef inline int give_back(Application application, Exchange request, int fd) except -1:
    """The request has ended; `fd` is -1 if its connection has, too. It may be used again if the caller has
    the only reference to it and no tasklet-local data hangs on it that the next request would find."""
    if request.handler is not None:             # an application that keeps it keeps this exchange and peer
        request.handler = None
        return request.forget()
    if Py_REFCNT(<PyObject*> request) == 1 and not has_weakrefs(<PyObject*> request):
        request._exception = None               # its traceback would keep the request's objects alive
        return application.take_back(request, fd)
    return request.forget()


cdef class Session:
    cdef bint over                  # nothing more is to be done
    cdef int live(self, Loop loop) except -1
    cdef int fill(self, Loop loop) except -1
    cdef int sent_all(self, Loop loop) except -1
    cdef int expired(self, Loop loop) except -1
    cdef int lost(self, Loop loop) except -1
    cdef int interrupt(self, Loop loop) except -1
    cdef int tell_stop(self, bint at_last) except -1


cdef class Sessions:
    cdef Session begin(self, const Incoming* incoming)


cdef class MountedApplications(Application):
    cdef list prefixes              # bytes without the slash at the end, the longest first
    cdef list applications          # of the prefixes, then of the pages
    cdef dict pages                 # path -> index of its application

    cdef int choose(self, const char* data, const head* found) except -1
