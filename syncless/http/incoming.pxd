from cpython.object cimport PyObject

from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin

cdef enum Incoming:         # why there is no request; else the status with which it is refused
    NOT_YET = 0             # the client has to send more
    NEVER = -1              # it sends no more

cdef Exchange next_request(const Origin* origin, bint remember, int* outcome)

cdef extern from *:
    """
    static int syncless_has_weakrefs(PyObject *o) { return *PyObject_GET_WEAKREFS_LISTPTR(o) != NULL; }
    """
    bint has_weakrefs "syncless_has_weakrefs" (PyObject* o) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef inline int give_back(Listener listener, Exchange request, int fd) except -1:
    """The request has ended; `fd` is -1 if its connection has, too. It may be used again if the caller has
    the only reference to it and no tasklet-local data hangs on it that the next request would find."""
    if request.handler is not None:             # an application that keeps it keeps this exchange and peer
        request.handler = None
        return request.forget()
    if Py_REFCNT(<PyObject*> request) == 1 and not has_weakrefs(<PyObject*> request):
        request._exception = None               # its traceback would keep the request's objects alive
        return (<Application> listener.application).take_back(request, fd)
    return request.forget()
