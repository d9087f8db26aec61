"""Request: the exchange in which an ASGI application answers.

Calls the application with its scope as a task of the thread's asyncio loop, and makes the task's first step
at once (steps.pyx). An application that answers in it costs no turn of the loop. Else the request waits, and
the loop makes the further steps, until the response is complete. The request does not wait for the rest of
the task (tasks.py). receive() and send() wait by futures, so their cancellation is asyncio's; a wait for the
client is that of a tasklet (call_in_tasklet).

exchange.pyx decides what becomes of the request when the application fails.
"""

from asyncio import current_task

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject

from syncless._core.clock cimport NEVER
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport PARKED, RUNNING, BaseTasklet
from syncless._core.threadloop cimport get_loop
from syncless.asgi.bodymessages cimport BodyMessages
from syncless.asgi.operations cimport Conversation, Receive, Send
from syncless.asgi.steps cimport begin_task
from syncless.asyncio.callbacks cimport Callbacks
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.wire cimport CHUNKED

from syncless._core.exits import TaskletExit, is_interrupt
from syncless._core.wait.sync import Lock
from syncless.asgi.extensions import early_hints, file_region, is_event_stream, takes_trailers, trailer_lines
from syncless.asgi.operations import given
from syncless.asgi.scope import variables_of
from syncless.asyncio.tasklets import call_in_tasklet
from syncless.http.errors import ClientGone
from syncless.http.filepart import blocks
from syncless.http.notices import visible
from syncless.tools.runningloop import swap_current_task

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef enum:
    SMALL = 16384           # bytes of a response body that are put into the connection's buffer
    OUT_MOST = 49152        # bytes in it with which nothing more is, until the client takes some

ctypedef int (*Unchecked)(Request request) noexcept       # negative: an exception is set
cdef Unchecked unchecked_answer = <Unchecked> Request.answer

cdef const char* ANSWERS = "ASGI application"
cdef object swap_task = swap_current_task
cdef object task_now = current_task


cdef class Request(Conversation):
    """Request(listener, call, tasks, loop): `call` is the application, `tasks` a Tasks."""

    def __init__(self, Listener listener not None, call, tasks, Callbacks loop not None):
        Exchange.__init__(self, listener)
        self.call = call
        self.tasks = tasks
        self.rounds = loop.rounds
        self.messages = BodyMessages(self.new_body(), self.peer, listener.buffers, loop.rounds.loop)
        self.renew()

    cdef int renew(self) except -1:
        self.receive, self.send = Receive(), Send()
        return 0

    # -- making and filling it -------------------------------------------------------------------------------

    cdef int fill(self, dict scope) except -1:
        self.scope = scope
        self.stage = NOT_STARTED
        self.trailers = self.messages.complete = self.told = self.stops = self.waits = False
        return 0

    cdef int forget(self) except -1:
        self.scope = self.response.fields = None
        return 0

    cdef dict variables(self):
        return None if self.scope is None else variables_of(self.scope)

    cdef str label(self):
        if self.scope is None:
            return "request"
        return visible(f"{self.scope.get('method', 'GET')} {self.scope['path']}")

    # -- its life --------------------------------------------------------------------------------------------

    cdef int respond(self) noexcept:
        cdef int outcome = unchecked_answer(self)
        (<Receive> self.receive).request = (<Send> self.send).request = None
        return outcome

    cdef int answer(self) except -1:
        """Calls the application and waits for its response."""
        cdef bint waited = False
        if Py_REFCNT(<PyObject*> self.receive) > 1 or Py_REFCNT(<PyObject*> self.send) > 1:
            self.renew()                            # somebody keeps the last request's
        (<Receive> self.receive).request = (<Send> self.send).request = self
        self.rounds.enter(None)
        self.switch_hook = self
        try:
            self.task = begin_task(self.rounds, self.call(self.scope, self.receive, self.send))
        finally:
            self.switch_hook = None
            self.rounds.leave()
        if not self.task.done():
            if self.listener.loop.orphan is self:
                raise RuntimeError("the child of a fork cannot await: its asyncio loop runs in the parent")
            try:
                self.wait_for_answer()
            finally:
                self.leave_task()
            waited = True
        task, self.task = self.task, None
        if task.done():
            try:
                task.result()
            except KeyboardInterrupt as error:
                if waited and is_interrupt(error):  # the loop has given it to the main tasklet
                    raise TaskletExit from None
                raise
            if not self.response.complete:
                self.fail_unfinished()
        return 0

    def __call__(self, leaving):
        """The switch hook: others run in the place of the task's first step, or it goes on."""
        if leaving:
            self.other_task = swap_task(self.rounds.loop, None)
            self.rounds.leave()
            if self.peer.pending():
                self.peer.send_soon()
        elif self.listener.loop.orphan is self:
            swap_task(self.rounds.loop, self.other_task)
        else:
            self.rounds.enter(self.other_task)
            self.other_task = None

    cdef BaseTasklet acts_for(self):
        """The task's first step is in the thread that runs the loop, as all others are."""
        return self if self.rounds.thread is None else self.rounds.thread

    cdef object owner_of_locks(self):
        task = self.other_task
        if self.state == RUNNING and self.switch_hook is self:
            task = task_now(self.rounds.loop)
        return self if task is None else task

    cdef object step(self):
        return self.scope if self.switch_hook is self else None

    cdef int wait_for_answer(self) except -1:
        """The task goes on in the loop. Parks until it has answered or ended."""
        cdef Loop engine = get_loop()
        if self.peer.pending():
            self.peer.send_soon()
        self.task.add_done_callback(self._woken)
        try:
            while not (self.response.complete or self.task.done()):
                self.listen_for_end()
                self.pause(engine, ANSWERS)
        except BaseException:
            self.task.cancel()
            raise
        return 0

    cdef int listen_for_end(self) except -1:
        """From now on it hears when the client leaves."""
        if self.interruptible or self.told:
            return 0
        self.interruptible = True
        self.peer.hear_end()
        if self.left():
            self.client_left()
        return 0

    cdef int pause(self, Loop engine, const char* why) except -1:
        """Parks until go_on(), or until the client leaves."""
        self.waits = True
        try:
            engine.park(why, self.task, NEVER)
        except ClientGone:
            self.client_left()
        finally:
            self.waits = False
        return 0

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
            raise ClientGone("the client has left")
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

    cdef object say_to_nobody(self):
        """There is no connection any more. The child of a fork never had one: the parent answers."""
        if self.listener.loop.orphan is None:
            self.check_client()
        return None

    cdef int check_client(self) except -1:
        if self.peer.is_gone():
            raise ClientGone("the client has left")
        return 0

    # -- receive() -------------------------------------------------------------------------------------------

    cdef object hear(self):
        """The iterator that gives the next message: first what the client has sent, then that it has left."""
        if self.response.complete or self.stops:
            return given({"type": "http.disconnect"})
        if not self.messages.complete:
            return self.messages.hear()
        return self.wait_for_end()

    cdef object wait_for_end(self):
        """There is nothing more to tell than that the client has left."""
        if self.told or self.peer.is_gone():
            return given({"type": "http.disconnect"})
        future = self.rounds.loop.create_future()
        if self.ears is None:
            self.ears = []
        self.ears.append(future)
        return future.__await__()

    cdef int client_left(self) except -1:
        """The client has left, or its request has ended: all who listen hear of it."""
        self.told = True
        ears, self.ears = self.ears, None
        for future in ears or ():
            if not future.done():
                future.set_result({"type": "http.disconnect"})
        return 0

    # -- send() ----------------------------------------------------------------------------------------------

    cdef object say(self, object message):
        """None, or the future that it waits for."""
        if not isinstance(message, dict):
            raise TypeError(f"a message must be a dict, not {type(message).__name__}")
        kind = (<dict> message).get("type")
        if self.stage == ENDED:
            raise RuntimeError(f"the message {kind!r} came after the response was complete")
        if self.peer.is_gone():
            return self.say_to_nobody()
        if kind == "http.response.start":
            self.start_response(<dict> message)
            return None
        if kind == "http.response.body":
            return self.say_body(<dict> message)
        if kind == "http.response.pathsend" and self.stage == STARTED:
            return self.later(self._send_path, (message["path"],))
        if kind == "http.response.zerocopysend" and self.stage == STARTED:
            part = (message["file"], message.get("offset"), message.get("count"))
            return self.later(self._send_part, (*part, message.get("more_body", False)))
        if kind == "http.response.trailers" and self.stage == TRAILING:
            return self.say_trailers(<dict> message)
        if kind == "http.response.early_hint":
            if not self.response.committed and not self.response.http_1_0:
                self.say_bytes(early_hints(message))
                self.peer.send_soon()
            return None
        raise RuntimeError(f"there is no message {kind!r} that an application can send here")

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

    cdef object say_body(self, dict message):
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
            self.response.commit(self.peer, -1 if more or self.trailers else size)
        if (size > SMALL or self.peer.pending() > OUT_MOST or self.peer.has_body()
                or (self.turns is not None and self.turns.locked())):
            return self.later(self._put, (data, more))
        self.response.put(self.peer, data, True)
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
        self.response.end(self.peer)
        return self.go_on()

    cdef object say_trailers(self, dict message):
        """Sent if the response is chunked and the client wants them."""
        lines = trailer_lines(message)
        if self.response.framing == CHUNKED and takes_trailers(self.scope["headers"]):
            self.trailer_lines += lines
        if message.get("more_trailers", False):
            return None
        self.stage = ENDED
        if self.trailer_lines:
            self.say_bytes(b"0\r\n" + self.trailer_lines + b"\r\n")
            self.response.complete = True
        else:
            self.response.end(self.peer)
        self.go_on()

    cdef int say_bytes(self, bytes data) except -1:
        return self.peer.append(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def _send_path(self, path):
        with open(path, "rb", 0) as file:
            self._send_part(file, 0, None, False)

    def _send_part(self, file, offset, count, bint more):
        """In a tasklet of its own: a part of an open file, from its position and to its end by default."""
        cdef int fd = file.fileno()
        with self.turns:
            self.check_client()
            offset, count = file_region(file, offset, count)
            if not self.response.committed:
                self.response.commit(self.peer, -1 if more or self.trailers else count)
            if self.response.framing == CHUNKED:
                for block in blocks(fd, offset, count):
                    self.response.put(self.peer, block, False)
            else:
                self.response.put_file(self.peer, fd, offset, count)
            self.end_body(more)

    cdef object later(self, object function, tuple args):
        """A future for the end of a call that may wait for the client."""
        if self.turns is None:
            self.turns = Lock()
        return call_in_tasklet(self.rounds.loop, function, *args)

    def _put(self, bytes data, bint more):
        """In a tasklet of its own: puts a part of the body, and waits until the client has taken enough."""
        with self.turns:
            self.check_client()
            self.response.put(self.peer, data, not more)
            self.end_body(more)
