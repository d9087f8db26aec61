from syncless._core.loop cimport Loop
from syncless.asgi.bodymessages cimport BodyMessages
from syncless.asgi.operations cimport Conversation
from syncless.asyncio.dispatcher cimport Dispatcher


cdef enum Stage:            # of the response, as the application tells of it
    NOT_STARTED
    STARTED                 # http.response.start
    TRAILING                # the body has ended, trailers follow
    ENDED


cdef class Request(Conversation):
    cdef object call                # the application
    cdef object tasks               # Tasks: those that go on after their response
    cdef Dispatcher dispatcher              # of the asyncio loop
    cdef BodyMessages messages      # receive() of the request body
    cdef dict scope
    cdef object receive             # given to the application; knows the request while it lasts
    cdef object send                # the same
    cdef readonly object task       # the application's
    cdef object other_task          # the current task, while others run in its place
    cdef Stage stage
    cdef bint trailers              # the application has announced them
    cdef bytes trailer_lines        # those that it has given
    cdef bint told                  # http.disconnect is due
    cdef bint stops                 # because the server stops
    cdef bint waits                 # for its response, which is given from elsewhere
    cdef list ears                  # futures of receive() that wait for the client to leave
    cdef object turns               # Lock of those that send and wait, or None

    cdef int fill(self, dict scope) except -1
    cdef int renew(self) except -1
    cdef int answer(self) except -1
    cdef int wait_for_answer(self) except -1
    cdef int listen_for_end(self) except -1
    cdef int pause(self, Loop engine, const char* why) except -1
    cdef int leave_task(self) except -1
    cdef int fail_unfinished(self) except -1
    cdef object say_to_nobody(self)
    cdef int check_client(self) except -1
    cdef int go_on(self) except -1

    cdef object wait_for_end(self)
    cdef int client_left(self) except -1

    cdef int start_response(self, dict message) except -1
    cdef object say_body(self, dict message)
    cdef object later(self, object function, tuple args)
    cdef object say_trailers(self, dict message)
    cdef int say_bytes(self, bytes data) except -1
    cdef int end_body(self, bint more) except -1
