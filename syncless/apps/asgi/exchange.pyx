"""ASGIExchange: the exchange in which an ASGI application answers.

Calls the application with its scope as a task of the thread's asyncio loop, and makes the task's first step
at once (FirstStep). An application that answers in it costs no turn of the loop. Else the request waits,
and the loop makes the further steps, until the response is complete. The request does not wait for the rest
of the task (tasks.py). receive() and send() wait by futures, so their cancellation is asyncio's; a wait for
the client is that of a tasklet (call_in_tasklet).

On a WebSocket (WebSocketExchange) the request's own tasklet reads meanwhile: it takes messages off the
connection before they are asked for, up to a bound, and wakes the receive() that waits for one. So a message
costs no tasklet. Sent messages go into the connection's buffer and leave together at the end of the turn;
when the client is slow, send() waits.

exchange.pyx decides what becomes of the request when the application fails.
"""

from asyncio import current_task
from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject

from syncless._core.clock cimport NEVER
from syncless._core.cpython.tracing cimport (
    UNKNOWN_HOOKS, KeptFunctions, begin_settings, functions_now, is_traced, names_of_threading,
)
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport PARKED, RUNNING, TIMED_OUT, WOKEN, BaseTasklet, is_poll_due
from syncless._core.threadloop cimport get_loop
from syncless.apps.asgi.operations cimport BodyMessages, Conversation, Operations, new_function
from syncless.asyncio.callbacks cimport Callbacks, FirstStep
from syncless.asyncio.dispatcher cimport take_functions_back
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.request cimport (
    CLIENT, CLIENT_PORT, HOST, LOCAL_NAME, LOCAL_PORT, METHOD, PATH, QUERY, ROOT_PATH, SCHEME, VERSION, Part,
    Request,
)
from syncless.http.websocket.websocket cimport MESSAGE, NOTHING, Heard, WebSocket
from syncless.http.wire.wire cimport BY_LENGTH, K_HOST

from syncless._core.exits import TaskletExit, is_interrupt
from syncless._core.tasklet import spawn
from syncless._core.wait.sync import Lock
from syncless.apps.asgi.extensions import (
    HOLD, STOPPING, file_region, is_event_stream, open_regular, takes_trailers, trailer_lines,
)
from syncless.apps.asgi.operations import given
from syncless.asyncio.tasklets import call_in_tasklet
from syncless.http.content.filepart import blocks
from syncless.http.errors import ClientGone, ConnectionLost
from syncless.http.websocket.websocket import STOPS, WebSocketClosed
from syncless.tools.runningloop import swap_current_task

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef enum:
    SMALL = 16384           # bytes of a response body that are put into the connection's buffer
    OUT_MOST = 49152        # bytes in it with which nothing more is, until the client takes some
    OUT_ALONE = 262144      # bytes of a message that is put there while nothing else is

ctypedef int (*Unchecked)(ASGIExchange request) noexcept       # negative: an exception is set
cdef Unchecked unchecked_answer = <Unchecked> ASGIExchange.answer

cdef const char* ANSWERS = "ASGI application"
cdef object swap_task = swap_current_task
cdef object task_now = current_task


cdef tuple SECURE = ("https", "wss")
# the strings that applications have sent for these types: mostly the same objects again
cdef object last_start = "http.response.start"
cdef object last_body = "http.response.body"


cdef str as_bytes(str text):
    """Each character a byte of its UTF-8, as the parts of a Request are."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")


cdef class ScopeRequest(Request):
    """ScopeRequest(scope=None): as its scope says."""

    def __init__(self, dict scope=None):
        self.scope = scope

    cdef object part(self, Part part):
        cdef dict scope = self.scope
        cdef bint secure
        if scope is None:
            return None
        if part == METHOD:
            return scope.get("method", "GET")       # a WebSocket's has none
        if part == ROOT_PATH:
            return as_bytes(scope["root_path"])
        if part == PATH:
            path, root = as_bytes(scope["path"]), as_bytes(scope["root_path"])
            return path[len(root):] if root and path.startswith(root) else path
        if part == QUERY:
            return scope["query_string"].decode("latin-1")
        if part == VERSION:
            return "HTTP/" + scope["http_version"]
        if part == HOST:
            return self.get("host", K_HOST)
        if part == CLIENT or part == CLIENT_PORT:
            address, port = scope["client"] or ("", "")
            return address if part == CLIENT else str(port or "")
        secure = scope["scheme"] in SECURE
        if part == SCHEME:
            return "https" if secure else "http"
        if part == LOCAL_NAME or part == LOCAL_PORT:
            host, port = scope["server"] or ("", None)
            if port is None:        # a UNIX socket; neither may be empty (RFC 3875, 4.1.14 and 4.1.15)
                host, port = "localhost", 443 if secure else 80
            return host if part == LOCAL_NAME else str(port)
        return None

    cdef int change(self, Part part, object value) except -1:
        cdef dict scope = self.scope
        if part == CLIENT or part == CLIENT_PORT:
            address, port = scope["client"] or ("", 0)
            scope["client"] = (value, port) if part == CLIENT else (address, int(value or 0))
        elif part == SCHEME:
            scope["scheme"] = value
        elif part == LOCAL_PORT:
            scope["server"] = (scope["server"][0], int(value))
        elif part == HOST:
            scope["headers"] = [
                (b"host", value.encode("latin-1")), *(one for one in scope["headers"] if one[0] != b"host")]
        return 0

    def left(self, str key not None):
        return None if self.scope is None else self.scope.get(key)

    cdef object get(self, str name, int known):
        cdef bytes wanted = name.encode("latin-1", "replace")
        cdef str text = None
        if self.scope is None:
            return None
        for one, value in self.scope["headers"]:
            if one == wanted:
                text = joined(text, name, value)
        return text

    cdef list fields(self):
        cdef dict found = {}
        for one, value in self.scope["headers"]:
            name = one.decode("latin-1")
            found[name] = joined(found.get(name), name, value)
        return list(found.items())


cdef str joined(str before, str name, bytes value):
    text = value.decode("latin-1")
    return text if before is None else f"{before}{'; ' if name == 'cookie' else ','}{text}"


cdef class ASGIExchange(Conversation):
    """ASGIExchange(listener, call, tasks, loop): `call` is the application, `tasks` a Tasks."""

    def __init__(self, Listener listener not None, call, tasks, Callbacks loop not None):
        Exchange.__init__(self, listener, ScopeRequest())
        self.call = call
        self.tasks = tasks
        self.dispatcher = loop.dispatcher
        self.first_step = FirstStep(loop.dispatcher)
        self.messages = BodyMessages(self.new_body(), self.peer, listener.buffers, loop.dispatcher.loop)
        self.renew()

    cdef int renew(self) except -1:
        self.operations = Operations()
        self.receive, self.send = new_function(self.operations, 0), new_function(self.operations, 1)
        return 0

    # -- making and filling it -------------------------------------------------------------------------------

    cdef int fill(self, dict scope) except -1:
        self.scope = (<ScopeRequest> self.request).scope = scope
        self.stage = NOT_STARTED
        self.trailers = self.messages.complete = self.disconnected = self.stops = self.waits = False
        self.held_here = None
        return 0

    cdef int forget(self) except -1:
        self.scope = (<ScopeRequest> self.request).scope = self.response.fields = None
        return 0

    cdef int tell_ids(self, str request_id, str traceparent) except -1:
        self.scope["extensions"]["syncless.request"] = {"id": request_id, "traceparent": traceparent}
        return 0

    cdef int tell_trace(self, str traceparent) except -1:
        kept = [one for one in self.scope["headers"] if one[0] != b"traceparent"]
        self.scope["headers"] = [*kept, (b"traceparent", traceparent.encode())]
        return 0

    cdef str label(self):
        if self.scope is None:
            return "request"
        return self.name_of(self.scope.get("method", "GET"), self.scope["path"])

    # -- its life --------------------------------------------------------------------------------------------

    cdef int respond(self) noexcept:
        cdef int outcome = unchecked_answer(self)
        self.operations.request = None
        return outcome

    cdef int answer(self) except -1:
        """Call the application and wait for its response."""
        cdef bint waited = False
        cdef KeptFunctions own = self.trace_anew() if is_traced(self.loop.thread_state) else None
        cdef PyObject* before = functions_now() if is_traced(self.loop.thread_state) else NULL
        if Py_REFCNT(<PyObject*> self.receive) > 1 or Py_REFCNT(<PyObject*> self.send) > 1:
            self.renew()                            # somebody keeps the last request's
        self.operations.request = self
        self.dispatcher.enter(None)
        self.switch_hook = self
        try:
            self.task = self.first_step.begin(self.call(self.scope, self.receive, self.send))
        finally:
            self.switch_hook = None
            self.dispatcher.leave()
            if is_traced(self.loop.thread_state) and functions_now() != before:
                take_functions_back(self.task, None)
            if own is not None:
                own.exchange()
        own = None
        if self.task is not None and not self.task.done():
            if self.listener.loop.orphan is self:
                raise RuntimeError("the child of a fork cannot await: its asyncio loop runs in the parent")
            try:
                self.wait_for_answer()
            finally:
                self.leave_task()
            waited = True
        task, self.task = self.task, None
        if task is not None:
            if not task.done():
                return 0
            try:
                task.result()
            except KeyboardInterrupt as error:
                if waited and is_interrupt(error):  # the loop has given it to the main tasklet
                    raise TaskletExit from None
                raise
        if not self.response.complete:
            self.fail_unfinished()
        return 0

    cdef KeptFunctions trace_anew(self):
        """A tool that follows all threads takes the task for another than the tasklet that makes its first
        step. Return the functions of the tasklet; None if there is no such tool."""
        cdef KeptFunctions own
        if names_of_threading.get("_trace_hook") is None and names_of_threading.get("_profile_hook") is None:
            return None
        own = KeptFunctions()
        own.exchange()
        begin_settings(False, UNKNOWN_HOOKS)
        return own

    def __call__(self, leaving):
        """The switch hook: others run in the place of the task's first step, or it goes on."""
        if leaving:
            self.other_task = swap_task(self.dispatcher.loop, None)
            self.dispatcher.leave()
            if self.peer.pending():
                self.peer.send_soon()
        elif self.listener.loop.orphan is self:
            swap_task(self.dispatcher.loop, self.other_task)
        else:
            self.dispatcher.enter(self.other_task)
            self.other_task = None

    cdef BaseTasklet acts_for(self):
        """The task's first step is in the thread that runs the loop, as all others are."""
        return self if self.dispatcher.thread is None else self.dispatcher.thread

    cdef object owner_of_locks(self):
        task = self.other_task
        if self.state == RUNNING and self.switch_hook is self:
            task = task_now(self.dispatcher.loop)
        return self if task is None else task

    cdef object step(self):
        return self.scope if self.switch_hook is self else None

    cdef int wait_for_answer(self) except -1:
        """The task goes on in the loop. Park until it has answered or ended."""
        cdef Loop engine = get_loop()
        if self.peer.pending():
            self.peer.send_soon()
        self.task.add_done_callback(self._woken)
        try:
            while not (self.response.complete or self.task.done()):
                self.listen_for_end()
                self.pause(engine, ANSWERS, NEVER)
        except BaseException:
            self.task.cancel()
            raise
        return 0

    cdef int listen_for_end(self) except -1:
        """From now on it hears when the client leaves."""
        if self.interruptible or self.disconnected:
            return 0
        self.interruptible = True
        self.peer.watch_end()
        if self.left():
            self.client_left()
        return 0

    cdef int pause(self, Loop engine, const char* why, int64_t until) except -1:
        """Park until go_on(), or until the client leaves; or TIMED_OUT."""
        self.waits = True
        try:
            return engine.park(why, self.task, until)
        except ClientGone:
            self.client_left()
        finally:
            self.waits = False
        return WOKEN

    def _woken(self, task):
        self.go_on()

    cdef int go_on(self) except -1:
        """It need not wait for its response any more."""
        cdef Loop engine = self.listener.loop
        if self.waits and self.state == PARKED:
            self.waits = False
            engine.wake(self, None)
        return 0

    cdef int leave_task(self) except -1:
        """The request ends here. Its task may go on; nothing of the client concerns it any more."""
        self.interruptible = False
        self.client_left()
        self.messages.end()
        if not self.task.done():
            self.tasks.keep(self.task, self.name, self.listener.error_log)
        return 0

    cdef int fail_unfinished(self) except -1:
        """The application has returned without a whole response: it may, once the client has left."""
        if self.left():
            raise ConnectionLost("the client has left")
        if self.stops and self.stage == STARTED and is_event_stream(self.response.fields):
            self.trailers = False
            return self.end_body(False)
        if self.stage == NOT_STARTED:
            raise RuntimeError("the application returned without a response (http.response.start)")
        raise RuntimeError(
            "the application returned before its response was complete: the last http.response.body must "
            "have more_body false")

    cdef int tell_stop(self, bint at_last) except -1:
        """An event stream is told as if the client had left; `at_last` any response of unknown length."""
        if self.stage == STARTED and self.response.length < 0 and not self.stops:
            self.stops = at_last or is_event_stream(self.response.fields)
            if self.stops:
                self.client_left()
                self.messages.end()
        return 0

    cdef object send_to_nobody(self):
        """There is no connection any more. The child of a fork never had one: the parent answers."""
        if self.listener.loop.orphan is None:
            self.check_client()
        return None

    cdef int check_client(self) except -1:
        if self.peer.is_gone():
            raise ConnectionLost("the client has left")
        return 0

    # -- receive() -------------------------------------------------------------------------------------------

    cdef object next_message(self):
        """Return the iterator that gives the next message."""
        if not self.messages.complete and is_poll_due(&get_loop().clock) and self.peer.may_have_more():
            return self._message_in_turn()
        return self.following_message()

    def _message_in_turn(self):
        """As following_message(), when the others have had a turn: a client that is fast enough never makes
        receive() wait. If it is cancelled meanwhile, nothing is lost. The request may end meanwhile; what
        waits here keeps its exchange from the next one."""
        yield
        return (yield from self.following_message())

    cdef object following_message(self):
        """First what the client has sent, then that it has left."""
        if self.response.complete or self.stops:
            return given({"type": "http.disconnect"})
        if not self.messages.complete:
            return self.messages.next_message()
        return self.wait_for_end()

    cdef object wait_for_end(self):
        """There is nothing more to tell than that the client has left."""
        if self.disconnected or self.peer.is_gone():
            return given({"type": "http.disconnect"})
        future = self.dispatcher.loop.create_future()
        if self.receivers is None:
            self.receivers = []
        self.receivers.append(future)
        return future.__await__()

    cdef int client_left(self) except -1:
        """The client has left, or its request has ended: all who listen hear of it."""
        self.disconnected = True
        if self.held_here is not None:
            self.held_here.leave()
        receivers, self.receivers = self.receivers, None
        for future in receivers or ():
            if not future.done():
                future.set_result({"type": "http.disconnect"})
        return 0

    # -- send() ----------------------------------------------------------------------------------------------

    cdef object take_message(self, object message):
        """None, or the future that it waits for."""
        global last_start, last_body
        if not isinstance(message, dict):
            raise TypeError(f"a message must be a dict, not {type(message).__name__}")
        kind = (<dict> message).get("type")
        if self.stage == ENDED:
            raise RuntimeError(f"the message {kind!r} came after the response was complete")
        if self.peer.is_gone():
            return self.send_to_nobody()
        if kind is last_start or kind == "http.response.start":
            last_start = kind
            self.start_response(<dict> message)
            return None
        if kind is last_body or kind == "http.response.body":
            last_body = kind
            return self.send_body(<dict> message)
        stage, act = EXTENSIONS.get(kind, NO_EXTENSION)
        if act is not None and stage in (ANY, self.stage):
            return act(self, <dict> message)
        raise RuntimeError(f"an application cannot send the message {kind!r} here")

    cdef int start_response(self, dict message) except -1:
        if self.stage != NOT_STARTED:
            raise RuntimeError("http.response.start was sent twice")
        try:
            status = message["status"]
        except KeyError:
            raise RuntimeError("http.response.start needs a 'status'") from None
        self.response.set_fields(status, message.get("headers", ()))
        self.trailers = message.get("trailers", False)
        self.trailer_lines = b""
        self.stage = STARTED
        return 0

    cdef object send_body(self, dict message):
        cdef bint more = message.get("more_body", False)
        data = message.get("body", b"")
        cdef Py_ssize_t size
        if self.stage != STARTED:
            raise RuntimeError("http.response.body was sent before http.response.start")
        if not PyBytes_CheckExact(data):
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"the 'body' of http.response.body must be bytes, not {type(data).__name__}")
            data = bytes(data)
        size = PyBytes_GET_SIZE(data)
        if not self.response.committed:
            if not (more or self.body.framing.ended or self.body.drainable(self.listener.limits.drain_bytes)):
                self.response.keep_alive = False    # the head says so
            self.response.commit(-1 if more or self.trailers else size)
        if (size > SMALL or self.peer.pending() > OUT_MOST or self.peer.has_body()
                or (self.turns is not None and self.turns.locked())):
            return self.later(self._put, (data, more))
        self.response.put(data, True)
        self.end_body(more)
        return None

    cdef int end_body(self, bint more) except -1:
        """A part of the body is on its way. `more`: others follow."""
        if more:
            return self.peer.send_soon()
        if self.trailers:
            self.stage = TRAILING
            return self.peer.send_soon()
        self.stage = ENDED
        self.response.end()
        return self.go_on()

    def _hint(self, dict message):
        self.send_early_hints([(b"link", link) for link in message.get("links", ())])

    def _send_trailers(self, dict message):
        """Send trailers if the response has a place for them and the client accepts them."""
        lines = trailer_lines(message)
        if self.response.takes_trailers() and takes_trailers(self.scope["headers"]):
            self.trailer_lines += lines
        if message.get("more_trailers", False):
            return None
        self.stage = ENDED
        if self.trailer_lines:
            self.response.end_with(self.trailer_lines)
        else:
            self.response.end()
        self.go_on()

    def _hold(self, dict message):
        """The response goes on as the object of syncless.wsgi.hold() says: if possible after the request."""
        held = message["response"]
        self.response.set_fields(200, held.fields())
        self.response.commit(-1)
        self.stage = STARTED
        first = held.opening(self)
        session = held.session(self)
        if session is not None:
            self.response.put(first, True)
        if session is None or not Exchange.hold(self, session, len(first)):
            self.held_here = held
            return self.later(self._stream, (held, first if session is None else b""))
        self.stage = ENDED
        self.end_response()
        self.go_on()

    def _stream(self, held, bytes first):
        """In a tasklet of its own."""
        with self.turns:
            for part in held.parts(first):
                self.check_client()
                self.response.put(part, False)
                self.end_body(True)
            self.end_body(False)

    def _send_path(self, dict message):
        return self.later(self._put_path, (message["path"],))

    def _send_part(self, dict message):
        part = (message["file"], message.get("offset"), message.get("count"))
        return self.later(self._put_part, (*part, message.get("more_body", False)))

    def _put_path(self, path):
        with open_regular(path) as file:
            self._put_part(file, 0, None, False)

    def _put_part(self, file, offset, count, bint more):
        """In a tasklet of its own: a part of an open file, from its position and to its end by default."""
        cdef int fd = file.fileno()
        with self.turns:
            self.check_client()
            offset, count = file_region(file, offset, count)
            if not self.response.committed:
                self.response.commit(-1 if more or self.trailers else count)
            if self.response.framing != BY_LENGTH:
                for block in blocks(fd, offset, count):
                    self.response.put(block, False)
            else:
                self.response.put_file(fd, offset, count)
            self.end_body(more)

    cdef object later(self, object function, tuple args):
        """Return a future for the end of a call that may wait for the client."""
        if self.turns is None:
            self.turns = Lock()
        return call_in_tasklet(self.dispatcher.loop, function, *args)

    def _put(self, bytes data, bint more):
        """In a tasklet of its own: puts a part of the body, and waits until the client has taken enough."""
        with self.turns:
            self.check_client()
            self.response.put(data, not more)
            self.end_body(more)


cdef enum:
    ANY = -1                # stage

# An extension of ASGI's HTTP protocol: its message, the stage in which that may come, and what it does.
cdef dict EXTENSIONS = {
    "http.response.pathsend": (STARTED, ASGIExchange._send_path),
    "http.response.zerocopysend": (STARTED, ASGIExchange._send_part),
    "http.response.trailers": (TRAILING, ASGIExchange._send_trailers),
    "http.response.early_hint": (ANY, ASGIExchange._hint),
    HOLD: (NOT_STARTED, ASGIExchange._hold),
}
cdef tuple NO_EXTENSION = (ANY, None)

HTTP_EXTENSIONS = {name: {} for name in EXTENSIONS}
"""As a scope names them."""


include "exchange/websocket.pxi"
