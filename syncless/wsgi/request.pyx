"""Request: the exchange in which a WSGI application answers (PEP 3333).

Calls the application with its environ, and gives the response the head from start_response() and the data
from write() and the returned iterable. exchange.pyx decides what becomes of
the request when the application fails.
"""

import sys

cimport cython
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM

from syncless._core.cpython.compat cimport dict_version
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.wsgi.input cimport Input

from syncless.http.filepart import FilePart
from syncless.http.notices import visible
from syncless.wsgi.filewrapper import FileWrapper

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

ctypedef int (*Unchecked)(Request request) noexcept       # negative: an exception is set
cdef Unchecked unchecked_answer = <Unchecked> Request.answer

# the very object that is in the template: found without a comparison
cdef str INPUT = sys.intern("wsgi.input")


cdef class StartResponse:
    """Owner of the start_response() callable."""

    @cython.binding(False)      # a plain C function is called without a tuple for its arguments
    def start_response(self, status, headers, exc_info=None):
        """start_response(status, headers, exc_info=None) -> write"""
        if self.request is None:
            raise RuntimeError("start_response() was called after the response had ended")
        self.request.accept_head(status, headers, exc_info)
        return self.write


cdef class Write:
    """The write() callable: sends a part of the body at once."""

    def __call__(self, data, /):
        if self.request is None:
            raise RuntimeError("write() was called after the response had ended")
        self.request.put(data, False)


@cython.final
cdef class Request(Exchange):
    """Request(listener, call): `call` is the application."""

    def __init__(self, Listener listener not None, call):
        Exchange.__init__(self, listener)
        self.call = call
        self.renew_input()
        self.renew_start()

    cdef int renew_start(self) except -1:
        self.start = StartResponse()
        self.start.write = Write()
        self.start_response = self.start.start_response
        return 0

    cdef int renew_input(self) except -1:
        self.input = Input(self.new_body())
        return 0

    # -- its parts -------------------------------------------------------------------------------------------

    cdef int fill(self, dict environ) except -1:
        """The application gets this environ, and objects that belong to no other request."""
        self.environ = None
        if Py_REFCNT(<PyObject*> self.input) > 1:
            self.renew_input()
        environ[INPUT] = self.input
        self.environ = environ
        self.environ_version = dict_version(environ)
        return 0

    cdef bint reusable(self) noexcept:
        """Whether the environ is as the application got it, and nothing refers to it or its input any more:
        the same request could have it again."""
        return (
            Py_REFCNT(<PyObject*> self.environ) == 1 and dict_version(self.environ) == self.environ_version
            and Py_REFCNT(<PyObject*> self.input) == 2)

    cdef int forget(self) except -1:
        self.environ = None
        return 0

    cdef dict variables(self):
        return self.environ

    cdef str label(self):
        if self.environ is None:
            return "request"
        return visible(f"{self.environ.get('REQUEST_METHOD')} {self.environ.get('PATH_INFO')}")

    # -- its life --------------------------------------------------------------------------------------------

    cdef int respond(self) noexcept:
        cdef int outcome = unchecked_answer(self)
        self.start.request = self.start.write.request = None
        return outcome

    cdef int answer(self) except -1:
        """Calls the application and sends what it returns."""
        if Py_REFCNT(<PyObject*> self.start_response) > 1 or Py_REFCNT(<PyObject*> self.start.write) > 1:
            self.renew_start()                      # the application has kept the last request's
        self.start.request = self.start.write.request = self
        result = self.call(self.environ, self.start_response)
        if ((type(result) is list or type(result) is tuple) and self.response.status is not None
                and not self.upgraded):
            # no close(), and the length is known without a question
            if not self.body.framing.ended and not self.body.drainable(self.listener.limits.drain_bytes):
                self.response.keep_alive = False    # the head says so
            if len(result) == 1:
                only = <object> (PyList_GET_ITEM(result, 0) if type(result) is list
                    else PyTuple_GET_ITEM(result, 0))
                if PyBytes_CheckExact(only):
                    if not self.response.committed:
                        self.response.commit(self.peer, PyBytes_GET_SIZE(only))
                    if self.response.put(self.peer, only, True):
                        self.tell_cut()
                    return self.response.end(self.peer)
            return self.answer_parts(result)
        return self.answer_in_turn(result)

    cdef int answer_in_turn(self, object result) except -1:
        """Sends what an iterable gives, as it comes; or a file."""
        try:
            if self.upgraded:
                return 0
            if result is None:
                raise TypeError("the application returned None; PEP 3333 wants an iterable of bytes")
            if (type(result) is FileWrapper or type(result) is FilePart) and self.send_wrapped_file(result):
                return self.response.end(self.peer)
            for part in result:
                self.put(part, False)
            if not self.upgraded:
                self.response.end(self.peer)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        return 0

    cdef int answer_parts(self, object parts) except -1:
        """Sends a list or a tuple."""
        cdef Py_ssize_t total = 0
        for part in parts:
            if not isinstance(part, bytes):
                raise TypeError(f"the body must be bytes, not {type(part).__name__}")
            total += PyBytes_GET_SIZE(part)
        if not self.response.committed:
            self.response.commit(self.peer, total)
        for part in parts:
            self.put(part, True)
        return self.response.end(self.peer)

    # -- calls of the application ----------------------------------------------------------------------------

    cdef int accept_head(self, object status, object headers, object exc_info) except -1:
        """The arguments of start_response()."""
        if self.upgraded:
            return 0                                # a framework's view has to return something
        if exc_info is not None:
            if self.response.committed:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self.response.status is not None:
            raise AssertionError("start_response() was called a second time without exc_info (PEP 3333)")
        if not isinstance(status, str):
            raise TypeError(f"status must be a str, not {type(status).__name__}")
        if not isinstance(headers, list):
            raise TypeError(f"headers must be a list of (name, value), not {type(headers).__name__}")
        return self.response.set_head(status, <list> headers)

    cdef int put(self, object data, bint last) except -1:
        """A part of the body."""
        if not self.upgraded and self.response.put(self.peer, data, last):
            self.tell_cut()
        return 0

    cdef int tell_cut(self) except -1:
        length = self.response.length
        self.listener.error_log.warning(
            f"{self.name}: the body is longer than its Content-Length of {length}; cut off", self)
        return 0

    cdef bint send_wrapped_file(self, object wrapper) except -1:
        """The body is a file: by sendfile, if it is one that has a descriptor. Returns whether it was
        sent."""
        if self.response.status is None or self.response.committed:
            return False
        found = wrapper.region()
        if found is None:
            return False
        fd, offset, size = found
        self.response.put_file(self.peer, fd, offset, size)
        return True
