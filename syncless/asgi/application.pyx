"""ASGIApplication: makes a Request with its scope of each request head."""

from cpython.dict cimport PyDict_Copy

from syncless.asgi.request cimport Request
from syncless.asgi.scope cimport ScopeMaker
from syncless.asgi.websocket cimport WebSocketRequest
from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin
from syncless.http.wire cimport head, is_get_request
from syncless.http.upgrade cimport Upgrade

from syncless.http.websocket import has_library


cdef class ASGIApplication(Application):
    """ASGIApplication(call, template, most): `template` is the part of the scope that all requests have."""

    def __init__(
        self, call, dict template not None, int most=0, *, tasks, loop, limits, dict state=None, forward=None,
    ):
        Application.__init__(self, most)
        self.call = call
        self.tasks = tasks
        self.loop = loop
        self.state = state
        self.limits = limits
        self.scopes = ScopeMaker(template, self.heads, forward)

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        cdef dict scope = self.scopes.make(origin, data, found)
        cdef Request request
        if self.state is not None:
            scope["state"] = PyDict_Copy(<dict> self.state)
        if found.websocket and found.minor and is_get_request(data, found):
            return self.websocket(scope, origin, data, found)
        request = self.spare
        self.spare = None
        if request is None:
            request = Request(<Listener> origin.listener, self.call, self.tasks, self.loop)
        request.fill(scope)
        request.begin(origin, data, found)
        return request

    cdef Exchange websocket(self, dict scope, const Origin* origin, const char* data, head* found):
        """The client asks for a WebSocket."""
        cdef WebSocketRequest request = WebSocketRequest(
            <Listener> origin.listener, self.call, self.tasks, self.loop)
        request.fill(scope)
        request.begin(origin, data, found)
        request.handler = Upgrade(request)
        if self.websockets is None:
            self.websockets = has_library((<Listener> origin.listener).error_log)
        request.offer(self.limits, self.websockets)
        return request

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        self.spare = <Request> exchange
        return self.spare.forget()

    def close(self) -> None:
        """Lets go of the objects kept for later requests."""
        self.spare = None
