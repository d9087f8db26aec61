"""The exchanges in which an ASGI application answers. See exchange.pyx."""

from libc.stdint cimport int64_t

from syncless._core.cpython.tracing cimport KeptFunctions
from syncless._core.loop cimport Loop
from syncless.apps.asgi.operations cimport BodyMessages, Conversation, Operations
from syncless.asyncio.callbacks cimport FirstStep
from syncless.asyncio.dispatcher cimport Dispatcher
from syncless.http.request cimport Request
from syncless.http.websocket.websocket cimport WebSocket


cdef enum Stage:            # of the response, as the application tells of it
    NOT_STARTED
    STARTED                 # http.response.start
    TRAILING                # the body has ended, trailers follow
    ENDED


cdef class ScopeRequest(Request):
    cdef dict scope


cdef class ASGIExchange(Conversation):
    cdef object call                # the application
    cdef object tasks               # Tasks: those that go on after their response
    cdef Dispatcher dispatcher              # of the asyncio loop
    cdef FirstStep first_step
    cdef BodyMessages messages      # receive() of the request body
    cdef dict scope
    cdef object kept                # KeptScope of the scope, or None
    cdef Operations operations      # knows the request while it lasts
    cdef object receive             # its methods, given to the application
    cdef object send
    cdef readonly object task       # the application's
    cdef object other_task          # the current task, while others run in its place
    cdef Stage stage
    cdef bint trailers              # the application has announced them
    cdef bytes trailer_lines        # those that it has given
    cdef bint disconnected          # http.disconnect is due
    cdef bint stops                 # because the server stops
    cdef bint waits                 # for its response, which is given from elsewhere
    cdef list receivers             # futures of receive() that wait for the client to leave
    cdef object turns               # Lock of those that send and wait, or None
    cdef object held_here           # what the application holds and this request must go on with, or None

    cdef int fill(self, dict scope) except -1
    cdef int renew(self) except -1
    cdef int answer(self) except -1
    cdef KeptFunctions trace_anew(self)
    cdef int wait_for_answer(self) except -1
    cdef int listen_for_end(self) except -1
    cdef int pause(self, Loop engine, const char* why, int64_t until) except -1
    cdef int leave_task(self) except -1
    cdef int fail_unfinished(self) except -1
    cdef object send_to_nobody(self)
    cdef int check_client(self) except -1
    cdef int go_on(self) except -1

    cdef object following_message(self)
    cdef object wait_for_end(self)
    cdef int client_left(self) except -1

    cdef int start_response(self, dict message) except -1
    cdef object send_body(self, dict message)
    cdef object later(self, object function, tuple args)
    cdef int end_body(self, bint more) except -1


cdef enum WebSocketStage:
    CONNECTING              # websocket.connect has not been given
    OFFERED                 # it has
    OPEN                    # accepted
    DENIED                  # answered by a response of HTTP
    OVER                    # closed, by either side


cdef class WebSocketExchange(ASGIExchange):
    cdef WebSocket websocket
    cdef WebSocketStage progress
    cdef object inbox               # messages that have come and have not been asked for
    cdef Py_ssize_t held            # bytes in it
    cdef bint silent                # the client sends no more messages
    cdef bint reads                 # it waits for the client's next message
    cdef int64_t heard              # when the client has sent something last, ns
    cdef object ended               # is thrown when the application has ended meanwhile

    cdef int offer(self, object limits) except -1
    cdef int begin_websocket(self) except -1
    cdef int wake_receivers(self) except -1
    cdef bint has_room(self) except -1
    cdef bint listen(self, Loop engine) except -1
    cdef bint hear_all(self) except -1
    cdef int keep(self, object message) except -1
    cdef int accept(self, dict message) except -1
    cdef object send_data(self, dict message)
    cdef object send_close(self, dict message)
    cdef object deny(self, str kind, dict message)
