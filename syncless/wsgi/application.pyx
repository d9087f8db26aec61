"""WSGIApplication: makes a Request with its environ of each request head, or gives the last one again.

A request whose head is the same to the last byte as the connection's last one gets the same environ once
more, if the application cannot notice: see Request.reusable(). That is asked once, when the last request has
ended; nothing can reach the environ after that.
"""

from libc.stdint cimport int64_t

from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin
from syncless.http.requestheads cimport Memory, memory_of
from syncless.http.scanner cimport head
from syncless.http.tls cimport TlsLayer
from syncless.http.upgrade cimport Upgrade
from syncless.wsgi.environ cimport EnvironMaker
from syncless.wsgi.request cimport Request


cdef class WSGIApplication(Application):
    """WSGIApplication(call, template, most): `template` is the part of the environ that all requests have."""

    def __init__(self, call, dict template not None, int most=0, *, forward=None, websocket=None,
            dict pages=None):
        Application.__init__(self, most)
        self.call = call
        self.environs = EnvironMaker(template, self.heads)
        self.forward = forward
        self.websocket = websocket
        self.pages = pages

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        cdef Memory* memory = memory_of(self.heads, origin.stream.fd)
        cdef Request request = None
        if memory != NULL:
            request = <Request> self.heads.spares[memory.index]
            if request is not None:
                self.heads.spares[memory.index] = None
        if request is None or request.head_serial != self.heads.scanned:
            request = self.fill(request, origin, data, found)
        request.begin(origin, data, found)
        if found.websocket and found.minor and self.websocket is not None:
            request.handler = Upgrade(request)
            self.websocket(request.handler, request.environ)
        return request

    cdef Request fill(self, Request request, const Origin* origin, const char* data, head* found):
        """A Request, this one if there is one, with an environ of its own."""
        cdef int64_t serial = self.heads.scanned
        cdef dict environ = self.environs.make(
            data, found, origin.stream.fd, <object> origin.address, origin.port, origin.trusted)
        if request is None:
            request = self.spare
            self.spare = None
        if request is None:
            request = Request(<Listener> origin.listener, self.call)
        if origin.stream.layer != NULL:
            environ.update((<TlsLayer> origin.stream.layer).variables)
        if origin.trusted:
            self.forward(environ)
        if origin.stream.layer != NULL or origin.trusted:
            environ["wsgi.url_scheme"] = "https" if "HTTPS" in environ else "http"
        if self.pages is not None:
            request.call = self.pages.get(environ["PATH_INFO"], self.call)
        request.fill(environ)
        request.head_serial = serial
        return request

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        cdef Request request = <Request> exchange
        cdef Memory* memory
        if fd >= 0 and request.head_serial:
            memory = memory_of(self.heads, fd)
            if memory != NULL and request.head_serial == memory.serial and request.reusable():
                self.heads.spares[memory.index] = request
                return 0
        self.spare = request
        return request.forget()

    def close(self) -> None:
        """Drops the objects kept for later requests."""
        self.spare = None
