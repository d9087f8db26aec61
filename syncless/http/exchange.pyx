"""Exchange: one request and its response, seen through to the end, whatever goes wrong.

An Exchange is the tasklet in which an application answers. The leader calls it inline, so an application that
never waits costs no switch. It has the Body of the request and the Response. Each kind of
application calls its application in its own way: it defines respond() and forget(), and has a Request of its
own. An error in mid-stream resets the connection: it must never look like a clean end.

Next to read: exchange/application.pxi, from which a connection gets it.
"""

import os
import re

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport raised
from syncless._core.loop cimport Loop, Watcher
from syncless._core.recorder cimport WaitRecorder, time_went
from syncless._core.scheduler cimport DEBUG_BUILD, Scheduler, main_of
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport end_process, forks, get_loop
from syncless._core.timeout cimport stop_throwing, throw_in_time
from syncless._core.wait.waitqueue cimport wake_all
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Body, Carried, Incoming, Peer
from syncless.http.request cimport Request
from syncless.http.requestheads cimport RequestHeads
from syncless.http.response cimport Response
from syncless.http.stream cimport PIECE, Stream, is_receivable, read_now, receive
from syncless.http.wire.wire cimport BY_LENGTH, CODES, HTTP_2, NO_BODY, R_BUSY, R_FAILED, decode_path

from syncless._core.exits import TaskletExit, is_interrupt
from syncless._core.tasklet import spawn
from syncless._core.timeout import Timeout
from syncless.http.errors import (
    PHRASES, REFUSALS, BodyTooLarge, ClientError, ClientGone, ConnectionLost, QueuedTooLong, RequestTimeout,
    reason_of, refusal_page,
)
from syncless.http.log.notices import visible
from syncless.http.request import known_field
from syncless.http.requestids import begin as begin_ids
from syncless.http.requestids import outgoing_trace, state_of
from syncless.http.timeleft import RequestEnd, current_end
from syncless.http.trust import REQUEST_START, REQUEST_TIMEOUT, seconds_left, seconds_since
from syncless.http.wire.wire import is_field

include "exchange/upgrade.pxi"
include "exchange/ids.pxi"

cdef int TRACEPARENT = known_field("traceparent")

cdef extern from "Python.h":
    # borrowed; without a look for an error, which a dict of str never has
    PyObject* value_in "PyDict_GetItemWithError"(PyObject* values, PyObject* key)


ctypedef int (*Unchecked)(Exchange exchange) noexcept       # negative: an exception is set
cdef Unchecked unchecked_within_limits = <Unchecked> Exchange.respond_within_limits


cdef class Exchange(Tasklet):
    """Exchange(listener, request): for one request after the other; `request` describes the one at hand.

    respond()    calls the application and gives what it answers to the response; negative if it raises (so
                 that no line of this file is in the traceback)
    forget()     the request is over: drops everything that the client sent
    tell_ids()   gives its IDs to the application, which is not called yet
    tell_trace() gives it this traceparent as that of the client
    ends_with_client()   whether ClientGone is raised in all of it (Server's on_hangup)
    """

    def __init__(self, Listener listener not None, Request request not None):
        self.listener = listener
        self.request = request
        self.response = Response(listener)
        self.untraced_head = UNKNOWN_HEAD
        if listener.recorded_waits:
            self.recorder = WaitRecorder(listener.recorded_waits)

    cdef int respond(self) noexcept:
        return 0

    cdef int forget(self) except -1:
        return 0

    cdef int tell_ids(self, str request_id, str traceparent) except -1:
        return 0

    cdef int tell_trace(self, str traceparent) except -1:
        return 0

    cdef bint ends_with_client(self) except? -1:
        return False

    cdef Body new_body(self):
        """Return a Body of its own."""
        self.body = Body()
        self.peer = self.response.peer = Peer(self.listener)        # the body's, too
        return self.body

    # -- its life --------------------------------------------------------------------------------------------

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        cdef int outcome
        if self.listener.bounds and self.is_bound() or self.too_large:
            outcome = unchecked_within_limits(self)
        else:
            outcome = self.respond()
        if (
            outcome or self.upgraded or not self.body.framing.ended
            or self.listener.access_log is not None or loop.orphan is self
            or self.listener.slow_ns != NEVER and monotonic_ns() - self.started >= self.listener.slow_ns
        ):
            self.conclude(<Loop> loop, raised() if outcome < 0 else None)
        self.response.forget()
        Py_INCREF(None)
        return <PyObject*> None

    cdef int failed(self, Scheduler loop) except -1:
        return 0                                    # the client has been told

    cdef int respond_within_limits(self) except -1:
        """Return 1 if something is to be done at its end."""
        if self.listener.tracer is not None:
            self.begin_span()
        if self.listener.always_bounds or self.too_large:
            self.respond_in_time()
        elif self.respond() < 0:
            return -1                               # with its error
        return self.span is not None

    cdef int begin_span(self) except -1:
        """If it is to be traced."""
        cdef bint sampled = self.sampled
        cdef PyObject* found = NULL
        if self.ids is not None:
            self.ids = None
        if self.listener.parents_count:
            if self.request.values is None:         # its fields lie elsewhere
                return self.ask_tracer(self.request.get("traceparent", TRACEPARENT), sampled)
            found = value_in(<PyObject*> self.request.values, self.request.field_keys[TRACEPARENT])
        if found != NULL:
            return self.ask_tracer(<object> found, sampled)
        if sampled or self.listener.tells_all:
            return self.ask_tracer(None, sampled)
        if self.head_serial and not self.listener.always_bounds:
            self.untraced_head = self.head_serial   # it need not be looked at again
        return 0

    cdef int ask_tracer(self, str parent, bint sampled) except -1:
        """`parent`: its traceparent."""
        if parent is None and not (sampled or self.listener.tells_all):
            return 0
        if (self.listener.parents_decide and parent is not None and parent.endswith("-00")
                and len(parent) == 55):     # a later version may have more at its end
            outgoing_trace.set((parent, state_of(self.request.field("tracestate"))))
            return 0
        self.span = self.listener.tracer.begin(self, parent, sampled)
        if self.span is not None:
            self.untraced_head = UNKNOWN_HEAD       # the next request drops the IDs
            self.ids = self.span.ids
            self.tell_trace(self.ids.traceparent)
        return 0

    cdef int end_span(self, Loop loop, BaseException failure) except -1:
        cdef int code = self.response.code if self.response.committed else 0
        span, self.span = self.span, None
        if self.upgraded:
            code = 101
        try:
            self.listener.tracer.end(
                span, self, self.request, code, monotonic_ns() - self.started, failure)
        except BaseException as error:
            loop.report(self, error)
        return 0

    def add_event(self, str name, dict attributes) -> None:
        """Add an event to its span, if it has one; from any thread."""
        span = self.span
        if span is not None:
            span.add_event(name, attributes)

    cdef int respond_in_time(self) except -1:
        cdef double seconds
        cdef BaseException failure = None
        cdef object clock = None, end = None
        if self.listener.request_ids:
            if self.span is None:
                given = self.request.field("traceparent") if self.peer.trusted else None
                self.ids = begin_ids(self.id, given)
            self.tell_ids(self.ids.request_id, self.ids.traceparent)
        if self.knows_start():
            self.look_at_start()
        if self.too_large:
            raise BodyTooLarge(f"the body is larger than {self.listener.limits.body_bytes} bytes")
        seconds = self.allowed_seconds()
        if self.ends_with_client():
            self.end_with_client(self.peer.may_have_left())
        if seconds:
            late = RequestTimeout(f"the request took longer than {seconds} s")
            clock = Timeout.start_new(seconds, late)
            if self.listener.pass_deadline:
                end = RequestEnd(seconds)
                current_end.set(end)
        if self.respond() < 0:
            failure = raised()
            if clock is not None and failure is clock.exception:
                failure.args = (f"{failure}{time_went(self, 0)}",)
        self.interrupt_no_more()
        if clock is not None:
            clock.cancel()
        if end is not None:
            end.when = None
        if failure is not None:
            raise failure
        return 0

    cdef double allowed_seconds(self) except -1:
        """How long it may take; 0: for ever. RequestTimeout: its caller waits no longer."""
        cdef double most = self.listener.limits.request_ns / 1e9
        given = left = None
        if self.listener.tells_timeout and self.peer.trusted:
            given = self.request.field(REQUEST_TIMEOUT)
        if given is not None:
            left = seconds_left(given)
        if left is None:
            return most
        if left == 0:
            raise RequestTimeout("the time that its caller had for the request was over before it began")
        return min(left, most) if most else left

    cdef bint knows_start(self) except? -1:
        """Return whether its peer is trusted to say when it took the request."""
        return self.peer.trusted and self.listener.tells_start

    cdef int look_at_start(self) except -1:
        """How long the client has waited before this, in the proxy and in the queue."""
        given = self.request.field(REQUEST_START)
        found = None if given is None else seconds_since(given)
        self.queued = -1 if found is None else found
        if found is not None:
            if self.listener.counters is not None:
                self.listener.counters.count_queued(<int64_t> (self.queued * 1e9))
            if self.queued * 1e9 > self.listener.limits.queue_ns:
                raise QueuedTooLong(f"the request waited {self.queued:.3f} s before it could begin")
        return 0

    cdef int conclude(self, Loop loop, BaseException failure) except -1:
        """End the request after the application has done its part, or has failed."""
        if loop.orphan is self:
            self.end_in_child(failure)
        try:
            if self.upgraded:
                failure = self.end_upgrade(failure)
            if failure is not None:
                self.fail(loop, failure)
            if not self.body.framing.ended and not self.peer.is_gone():
                self.drain()
        except TaskletExit:
            self.response.keep_alive = False        # killed while the rest of the body was read away
        except BaseException as error:
            self.response.keep_alive = False
            loop.report(self, error)
        if self.listener.access_log is not None:
            self.log_access(loop)
        if self.listener.slow_ns != NEVER and not self.upgraded:
            self.report_slow(loop)
        if self.span is not None:
            self.end_span(loop, failure)
        self._exception = failure                   # until the object is used again
        return 0

    cdef int log_access(self, Loop loop) except -1:
        """A value that the application has put there may raise when it is written. That harms no client."""
        try:
            self.listener.access_log.log(
                self.request, self.response.status, self.response.body_sent, self.started,
                self.response.headers, self)
        except BaseException as error:
            loop.report(self, error)
        return 0

    cdef int report_slow(self, Loop loop) except -1:
        cdef int64_t ns = monotonic_ns() - self.started
        if ns < self.listener.slow_ns:
            return 0
        try:
            self.listener.slow_requests.ended(self, ns / 1e9)
        except BaseException as error:
            loop.report(self, error)
        return 0

    cdef void count_answer(self) noexcept:
        """The listener counts answers. An upgraded connection took as long as it was used, which says nothing
        of the application."""
        cdef int code = self.response.code
        if self.upgraded:
            self.listener.counters.count_request(101, -1)
        else:
            self.listener.counters.count_request(
                code if self.response.committed and code < CODES else 0, monotonic_ns() - self.started)

    # -- when it goes wrong ----------------------------------------------------------------------------------

    cdef int fail(self, Loop loop, BaseException error) except -1:
        """The application raised, or its response cannot be sent."""
        if isinstance(error, ClientGone) or self.peer.is_gone():
            self.response.keep_alive = False
            return self.peer.abort() if self.response.committed else 0
        interrupted = is_interrupt(error)
        if interrupted:
            loop.throw(main_of(loop), error)
        elif not isinstance(error, (ClientError, TaskletExit)):
            self.log_failure(error)
        if self.response.complete:
            return 0                                # the client has, or will have, all of it
        self.response.keep_alive = False
        if self.response.committed:
            return self.peer.abort()
        if isinstance(error, ClientError):
            return self.send_error_page(reason_of(error), error)
        stopped = interrupted or isinstance(error, (TaskletExit, RequestTimeout))
        return self.send_error_page(R_BUSY if stopped else R_FAILED, error)

    cdef int end_in_child(self, BaseException failure) except -1:
        """The application has forked, and this is the child: the parent answers, and the process ends with
        the request."""
        if isinstance(failure, ClientGone):         # it would have gone on sending
            failure = None
        if failure is not None and not isinstance(failure, (KeyboardInterrupt, SystemExit, TaskletExit)):
            self.log_failure(failure)
        end_process(failure)
        return 0

    cdef BaseException end_upgrade(self, BaseException failure):
        """The other protocol's handler says goodbye; an error is logged here, because no HTTP response can
        tell of it."""
        if self.held is not None and failure is None:
            (<Upgrade> self.handler).handler = None     # which refers to it
            self.response.complete = True
            return None
        self.held = None
        if not self.handler.expects(failure):
            self.log_failure(failure)
        try:
            self.handler.end(failure)
        except ClientGone:
            pass
        except BaseException as error:
            self.log_failure(error)
        self.response.complete = True
        return failure if is_interrupt(failure) else None

    cdef int send_error_page(self, int reason, BaseException error) except -1:
        """A response of the server's own; the connection closes after it."""
        cdef int status = REFUSALS[reason].status
        body = refusal_page(reason).encode()
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if isinstance(error, ClientError):
            headers += error.headers
        if status == 503:
            headers.append(("Retry-After", f"{self.listener.limits.retry_ns / 1e9:.0f}"))
        self.response.set_head(f"{status} {PHRASES[status]}", headers)
        self.response.keep_alive = False
        self.response.commit(len(body))
        self.response.put(body, True)
        self.response.complete = True
        return 0

    cdef int log_failure(self, BaseException error) except -1:
        try:
            self.listener.error_log.error(f"Error in {self.name}:", error, self)
        except Exception:
            if DEBUG_BUILD:                         # else the client gets its answer all the same
                raise
        return 0

    cdef int drain(self) except -1:
        """Read away what the application left of the body, up to a limit, so that the connection can be
        kept."""
        if not self.response.keep_alive or self.response.minor == HTTP_2:
            return 0
        self.response.keep_alive = False
        if self.body.drainable(self.listener.limits.drain_bytes) and not self.body.is_read():
            self.peer.send_soon()
            try:
                self.response.keep_alive = self.body.drain(self.listener.limits.drain_bytes)
            except ClientError:
                pass
        return 0

    # -- the client ------------------------------------------------------------------------------------------

    cdef bint left(self) noexcept:
        return self.peer.has_left()

    @property
    def client_gone(self) -> bool:
        """Whether the client has closed the connection, or at least its sending half; True after the
        request's end, too."""
        return self.left()

    def interrupt_when_client_leaves(self, bint wanted=True) -> None:
        """From now on ClientGone is raised in this request when its client closes the connection, wherever it
        waits."""
        self.interrupt_no_more()
        if wanted:
            self.end_with_client(True)

    def send_early_hints(self, list fields not None) -> None:
        """Send a 103 (RFC 8297) with these fields, pairs of bytes: the client can load what the response
        will need. Do nothing once the response has begun, or for a client of HTTP/1.0. ValueError: a field
        that cannot be sent."""
        lines = [b"HTTP/1.1 103 Early Hints\r\n"]
        for name, value in fields:
            if not (isinstance(name, bytes) and isinstance(value, bytes) and is_field(name, value)):
                raise ValueError(f"early hints cannot have the field {name!r} with the value {value!r}")
            lines.append(b"%b: %b\r\n" % (name, value))
        lines.append(b"\r\n")
        if self.response.minor and not (self.response.committed or self.upgraded or self.peer.is_gone()):
            text = <bytes> b"".join(lines)
            self.peer.append(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
            self.peer.send_soon()

    def hold(self, Session session not None, int64_t sent) -> bool:
        """The session goes on with the response when the request has ended. `sent`: bytes of the body that
        the application has given. Return False if the response cannot go on so: its length is known, or the
        client gets other bytes (compressed, perhaps), or by the frames of HTTP/2. After Upgrade.begin() the
        other protocol goes on so, and its handler is not called."""
        cdef Response response = self.response
        if self.peer.is_gone():
            return True                             # nothing is to go on
        if self.peer.stream.carried or get_loop() is not self.listener.loop:
            return False
        if not self.upgraded:
            if response.committed and response.framing == NO_BODY:
                return True
            if not response.committed or response.framing == BY_LENGTH or response.body_sent != sent:
                return False
        self.held = session
        return True

    cdef int end_response(self) except -1:
        """The application has given all of it."""
        if self.held is None:
            return self.response.end()
        self.response.complete = True
        return 0

    cdef int end_with_client(self, bint look) except -1:
        """`look`: whether it has left is worth a system call."""
        if self.peer.stream == NULL:
            return 0
        self.peer.watch_end()
        if look and self.left():
            self.listener.hangups += 1
            raise ClientGone("the client has left")
        self.interruptible = True
        return 0

    cdef int hear(self) except -1:
        """In the loop, which cannot wait; it owns this meanwhile."""
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        """The client has left."""
        if self.interruptible:
            self.interruptible = False              # once
            self.gone = throw_in_time(self, ClientGone("the client has left"))
        return 0

    cdef int interrupt_no_more(self) except -1:
        self.interruptible = False
        if self.gone is not None:                   # it may have met a wait that cannot be interrupted
            thrown, self.gone = self.gone, None
            if thrown.exception is None:            # it was raised
                self.listener.hangups += 1
            else:
                stop_throwing(self, thrown)
        return 0

    cdef int tell_stop(self, bint at_last) except -1:
        """The server stops, and what goes on for ever has to end; `at_last`: all that might. Is called again
        and again."""
        if self.upgraded and self.handler is not None:
            self.handler.tell_stop()
        return 0

    cdef str name_of(self, object method, object path):
        """Return the tasklet's name, which tells the streams of one connection apart."""
        cdef str name = visible(f"{method} {path}")
        if self.peer.stream != NULL and self.peer.stream.carried:
            return f"{name} (stream {(<Carried> self.peer.owner).id})"
        return name

    cdef int take_rank(self) except -1:
        """By http/priorities.py; where there are none, all have that of the beginning."""
        priorities = self.listener.admission.priority
        value = self.request.field(priorities.header) if priorities.header and self.peer.trusted else None
        self.rank = priorities.rank(f"{self.request.root_path or ''}{self.request.path or ''}", value)
        return 0

    # -- its description for logs ----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The X-Request-ID of a trusted proxy, or an ID of our own, unique among all processes and made at
        the first use."""
        given = id_of(self.request, self.peer is not None and self.peer.trusted)    # a session has none
        if given is not None:
            return given
        if self.own_id == 0:
            self.own_id = next_number()
        return f"{id_of_process()}-{self.own_id:x}"

    @property
    def trace_id(self):
        """Of its traceparent, where the server gives its requests IDs; else None."""
        return None if self.ids is None else self.ids.trace_id

    def field(self, str name not None):
        """Return a header field, whose name is in lower case, or None."""
        return self.request.field(name)

    @property
    def client(self) -> str:
        """The client's address; - for a UNIX socket."""
        return self.request.client or "-"

    @property
    def queue_seconds(self):
        """Seconds from the time in the X-Request-Start of a trusted proxy to the request's begin; None if it
        does not tell."""
        return self.queued if self.knows_start() and self.queued >= 0 else None

    @property
    def cancel_seconds(self):
        """The limit of this name, for patches/queries.py."""
        return self.listener.cancel_seconds

    def summary(self) -> dict:
        """Return a summary of the request for status pages, in any thread. Its path is as the client meant it
        and may hold any character."""
        path = f"{self.request.root_path or ''}{self.request.path or ''}"
        try:
            path = path.encode("latin-1").decode("utf-8", "replace")
        except UnicodeError:
            pass                                    # the application has put another one there
        return {
            "id": self.id,
            "method": str(self.request.method or ""),
            "path": path,
            "client": str(self.request.client or ""),
            "seconds": (monotonic_ns() - self.started) / 1e9,
            "upgraded": self.upgraded,
        }

    @property
    def ending(self) -> str:
        """How its response ended (Apache's %X): X if it was cut off, + if the connection is kept, - if it is
        closed."""
        if not self.response.complete or self.peer.is_gone():
            return "X"
        return "+" if self.response.keep_alive else "-"


cdef int drop_handler(Exchange request) except -1:
    """The request has ended: nobody needs its Upgrade any more."""
    cdef Upgrade upgrade = request.handler
    request.handler = None
    if upgrade.untaken is not None and not request.upgraded:
        upgrade.untaken()
    return 0


include "exchange/application.pxi"
include "exchange/mounted.pxi"
