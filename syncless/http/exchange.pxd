"""A request and its response. See exchange.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.recorder cimport WaitRecorder
from syncless._core.scheduler cimport Thrown
from syncless._core.tasklet cimport Tasklet, begin_anew, renew_context
from syncless.http.body cimport Body
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Incoming, Peer
from syncless.http.request cimport Request
from syncless.http.response cimport Response, begin_response
from syncless.http.wire cimport head, is_head_request


cdef class Upgrade:
    cdef readonly Exchange exchange
    cdef object handler         # of the other protocol, once it has begun
    cdef tuple expected         # exceptions that are no fault of the application then
    cdef Peer peer(self)


cdef class Exchange(Tasklet):
    cdef Listener listener
    cdef Request request            # what the client asks for, to everything but the application
    cdef Peer peer                  # the connection, while the request is queued or running
    cdef Response response
    cdef Body body                  # of the request
    cdef int64_t head_serial        # of which remembered head it came, or 0
    cdef bint too_large             # the request says that its body is larger than allowed
    cdef int mount                  # of which of several applications, see application.pyx
    cdef bint upgraded              # the connection speaks another protocol now: nothing is HTTP any more
    cdef object handler             # of that protocol, if the client asks for one
    cdef readonly bint interruptible    # ClientGone is raised in it when the client leaves
    cdef Thrown gone                # the ClientGone that was thrown at it; None otherwise
    cdef int64_t started            # ns
    cdef double queued              # seconds, as a trusted proxy tells; negative: it does not
    cdef readonly object ids        # RequestIds, where the listener gives them, else None
    cdef int64_t own_id             # 0: nobody has asked for it

    # each kind of application defines these
    cdef int respond(self) noexcept
    cdef int forget(self) except -1
    cdef int tell_ids(self, str request_id, str traceparent) except -1
    cdef bint ends_with_client(self) except? -1

    cdef inline int begin(self, const Incoming* incoming) except -1:
        """It becomes the exchange for the request, in an object that may have been another before."""
        cdef const head* found = incoming.found
        begin_anew(self)
        (<WaitRecorder> self.recorder).begin()
        renew_context(self)
        self.peer.begin(incoming)
        begin_response(
            self.response, is_head_request(incoming.data, found), found.minor, found.keep_alive)
        self.body.begin(self.peer, found.content_length, found.chunked, found.expect_continue)
        self.too_large = found.content_length > self.listener.limits.body_bytes
        self.upgraded = self.interruptible = False
        self.own_id = 0
        return 0

    cdef inline int end(self) except -1:
        """It is over, or will never run."""
        self.peer.end()
        self.body.end()
        return 0

    cdef Body new_body(self)
    cdef str name_of(self, object method, object path)
    cdef bint left(self) noexcept
    cdef int end_with_client(self, bint look) except -1
    cdef int interrupt(self, Loop loop) except -1
    cdef int interrupt_no_more(self) except -1
    cdef int tell_stop(self, bint at_last) except -1

    cdef void count(self) noexcept
    cdef int respond_within_limits(self) except -1
    cdef bint knows_start(self) except? -1
    cdef int look_at_start(self) except -1
    cdef int conclude(self, Loop loop, BaseException failure) except -1
    cdef int log_access(self, Loop loop) except -1
    cdef int report_slow(self, Loop loop) except -1
    cdef int fail(self, Loop loop, BaseException error) except -1
    cdef int end_in_child(self, BaseException failure) except -1
    cdef BaseException end_upgrade(self, BaseException failure)
    cdef int send_error_page(self, int status, BaseException error) except -1
    cdef int drain(self) except -1
    cdef int log_failure(self, BaseException error) except -1
