"""ASGIApplication: makes a Request with its scope of each request head."""

from cpython.dict cimport PyDict_Copy

from syncless.asgi.request cimport Request
from syncless.asgi.scope cimport ScopeMaker
from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin
from syncless.http.scanner cimport head


cdef class ASGIApplication(Application):
    """ASGIApplication(call, template, most): `template` is the part of the scope that all requests have."""

    def __init__(
        self, call, dict template not None, int most=0, *, tasks, loop, dict state=None, forward=None,
    ):
        Application.__init__(self, most)
        self.call = call
        self.tasks = tasks
        self.loop = loop
        self.state = state
        self.scopes = ScopeMaker(template, self.heads, forward)

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        cdef dict scope = self.scopes.make(origin, data, found)
        cdef Request request = self.spare
        self.spare = None
        if request is None:
            request = Request(<Listener> origin.listener, self.call, self.tasks, self.loop)
        if self.state is not None:
            scope["state"] = PyDict_Copy(<dict> self.state)
        request.fill(scope)
        request.begin(origin, data, found)
        return request

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        self.spare = <Request> exchange
        return self.spare.forget()

    def close(self) -> None:
        """Lets go of what is kept for requests to come."""
        self.spare = None
