"""A request and its response. See exchange.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from syncless._core.loop cimport Loop, Watcher
from syncless._core.recorder cimport WaitRecorder
from syncless._core.scheduler cimport Thrown
from syncless._core.tasklet cimport Tasklet, begin_anew, renew_context
from syncless.http.listener cimport NORMAL, Listener
from syncless.http.peer cimport Body, Incoming, Peer
from syncless.http.request cimport Request
from syncless.http.requestheads cimport RequestHeads
from syncless.http.response cimport Response, begin_response
from syncless.http.wire.wire cimport head, is_head_request

cdef extern from *:
    """
    static int syncless_has_weakrefs(PyObject *o) { return *PyObject_GET_WEAKREFS_LISTPTR(o) != NULL; }
    """
    bint has_weakrefs "syncless_has_weakrefs" (PyObject* o) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef class Upgrade:
    cdef readonly Exchange exchange
    cdef object handler         # of the other protocol, once it has begun
    cdef tuple expected         # exceptions that are no fault of the application then
    # called if the request ends without a word of the other protocol; or None
    cdef public object untaken
    cdef bint over              # by its rules the client sends nothing more; or nobody cares
    cdef Peer peer(self)
    cpdef bytes read(self)
    cdef bytes read_now(self)
    cdef bytes read_rest(self, Py_ssize_t most)
    cdef bint is_behind(self) noexcept
    cdef int make_room(self) except -1
    cdef int write_whole(self, bytes data) except -1


cdef class Exchange(Tasklet):
    cdef Listener listener
    cdef Request request            # what the client asks for, to everything but the application
    cdef Peer peer                  # the connection, while the request is queued or running
    cdef Response response
    cdef Body body                  # of the request
    cdef int64_t head_serial        # of which remembered head it came, or 0
    cdef bint too_large             # the request says that its body is larger than allowed
    cdef int mount                  # of which of several applications
    cdef readonly bint upgraded     # the connection speaks another protocol now: nothing is HTTP any more
    cdef object handler             # of that protocol, if the client asks for one
    cdef Session held               # by which its response goes on when the request has ended, or None
    cdef readonly bint interruptible    # ClientGone is raised in it when the client leaves
    cdef bint hears                 # hear() is called when the client has sent something or has left
    cdef Thrown gone                # the ClientGone that was thrown at it; None otherwise
    cdef int64_t started            # ns
    cdef double queued              # seconds, as a trusted proxy tells; negative: it does not
    cdef readonly object ids        # RequestIds, where the listener gives them or traces it, else None
    cdef int64_t untraced_head      # head_serial of one for which nothing has bounds, or UNKNOWN_HEAD
    cdef bint sampled               # it is to be traced, if no traceparent decides
    cdef uint8_t rank               # of http/priorities.py, where the limit `requests` is set
    cdef object span                # of the listener's tracer, while the request is traced
    cdef int64_t own_id             # 0: nobody has asked for it

    # each kind of application defines these
    cdef int respond(self) noexcept
    cdef int forget(self) except -1
    cdef int tell_ids(self, str request_id, str traceparent) except -1
    cdef int tell_trace(self, str traceparent) except -1
    cdef bint ends_with_client(self) except? -1

    cdef inline int begin(self, const Incoming* incoming) except -1:
        """It becomes the exchange for the request, in an object that may have been another before."""
        cdef const head* found = incoming.found
        begin_anew(self)
        if self.recorder is not None:
            (<WaitRecorder> self.recorder).begin()
        renew_context(self, self.listener.context)
        self.peer.begin(incoming)
        begin_response(
            self.response, is_head_request(incoming.data, found), found.minor, found.keep_alive)
        self.body.begin(self.peer, found.content_length, found.chunked, found.expect_continue)
        self.too_large = found.content_length > self.listener.limits.body_bytes
        self.upgraded = self.interruptible = self.hears = False
        self.own_id = 0
        self.rank = NORMAL
        return self.take_rank() if self.listener.admission.priority is not None else 0

    cdef inline int end(self) except -1:
        """It is over, or will never run."""
        self.peer.end()
        self.body.end()
        return 0

    cdef inline bint is_bound(self) noexcept:
        """Whether respond_within_limits() has something to do, at a listener with bounds."""
        self.sampled = self.listener.draw()
        return self.sampled or self.head_serial != self.untraced_head

    cdef int take_rank(self) except -1
    cdef Body new_body(self)
    cdef str name_of(self, object method, object path)
    cdef bint left(self) noexcept
    cdef int end_with_client(self, bint look) except -1
    cdef int hear(self) except -1
    cdef int interrupt(self, Loop loop) except -1
    cdef int interrupt_no_more(self) except -1
    cdef int tell_stop(self, bint at_last) except -1
    cdef int end_response(self) except -1

    cdef inline void count(self) noexcept:
        """It has ended."""
        if self.listener.counters is not None:
            self.count_answer()

    cdef void count_answer(self) noexcept
    cdef int respond_within_limits(self) except -1
    cdef int respond_in_time(self) except -1
    cdef double allowed_seconds(self) except -1
    cdef int begin_span(self) except -1
    cdef int ask_tracer(self, str parent, bint sampled) except -1
    cdef int end_span(self, Loop loop, BaseException failure) except -1
    cdef bint knows_start(self) except? -1
    cdef int look_at_start(self) except -1
    cdef int conclude(self, Loop loop, BaseException failure) except -1
    cdef int log_access(self, Loop loop) except -1
    cdef int report_slow(self, Loop loop) except -1
    cdef int fail(self, Loop loop, BaseException error) except -1
    cdef int end_in_child(self, BaseException failure) except -1
    cdef BaseException end_upgrade(self, BaseException failure)
    cdef int send_error_page(self, int reason, BaseException error) except -1
    cdef int drain(self) except -1
    cdef int log_failure(self, BaseException error) except -1


cdef enum:
    UNKNOWN_HEAD = -1   # no request has this head_serial
    SPARES = 32         # as many requests that wait, or come together on connections of HTTP/2, are likely

cdef class Application:
    cdef readonly RequestHeads heads    # of the connections that it answers
    cdef readonly bint stays            # its requests must run in the thread in which it was made
    cdef list spares                    # exchanges that have ended, to be used again for any head: the first
    cdef int spare_count                # so many, then None

    cdef Exchange exchange(self, const Incoming* incoming)
    cdef int take_back(self, Exchange exchange, int fd) except -1

    cdef inline Exchange take_spare(self):
        """One of them, or None."""
        cdef Exchange exchange
        if self.spare_count == 0:
            return None
        self.spare_count -= 1
        exchange = <Exchange> self.spares[self.spare_count]
        self.spares[self.spare_count] = None
        return exchange

    cdef inline int keep_spare(self, Exchange exchange) except -1:
        exchange.forget()
        if self.spare_count < SPARES:
            self.spares[self.spare_count] = exchange
            self.spare_count += 1
        return 0

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1
    cdef int let_go(self, int fd) except -1


cdef int drop_handler(Exchange request) except -1


cdef inline int give_back(Application application, Exchange request, int fd) except -1:
    """The request has ended; `fd` is -1 if its connection has, too. It may be used again if the caller has
    the only reference to it and no tasklet-local data hangs on it that the next request would find."""
    if request.handler is not None:             # an application that keeps it keeps this exchange and peer
        drop_handler(request)
        return request.forget()
    if Py_REFCNT(<PyObject*> request) == 1 and not has_weakrefs(<PyObject*> request):
        request._exception = None               # its traceback would keep the request's objects alive
        return application.take_back(request, fd)
    return request.forget()


cdef class Session:
    cdef bint over                  # nothing more is to be done
    cdef bint quiet                 # the client has sent nothing for a while: nothing is on its way from it
    cdef int live(self, Loop loop) except -1
    cdef int fill(self, Loop loop) except -1
    cdef int sent_all(self, Loop loop) except -1
    cdef int expired(self, Loop loop) except -1
    cdef int lost(self, Loop loop) except -1
    cdef int interrupt(self, Loop loop) except -1
    cdef int stop(self, bint at_last) except -1
    cdef bint has_an_end(self) except -1
    cdef int tell_stop(self, bint at_last) except -1
    cdef int take_over(self, Watcher connection, bint chunked) except -1


cdef class Sessions:
    cdef Session begin(self, const Incoming* incoming)


cdef class MountedApplications(Application):
    cdef list prefixes              # bytes without the slash at the end, the longest first
    cdef list applications          # of the prefixes, then of the pages
    cdef dict pages                 # path -> index of its application
    cdef readonly bint some_stay    # as `stays`, of one of them at least
    cdef public bint away           # this is another thread: it does not answer for those

    cdef int choose(self, const char* data, const head* found) except -1
