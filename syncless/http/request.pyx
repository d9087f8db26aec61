"""One request: calls the application and sees its response through, whatever goes wrong.

A Request is the tasklet in which its application runs. The leader calls it inline, so an application that
never waits costs no switch. Takes an environ and an Input, gives bytes to its Peer, the connection as this
file sees it. An error in mid-stream resets the connection: it must never look like a clean end.
"""

import os
import re

from cpython.bytes cimport PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.contextvars cimport PyContext_New
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject, PyObject_Size
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM

from syncless._core.cpython.compat cimport dict_version, raised
from syncless._core.loop cimport Loop, get_loop
from syncless._core.poll.now cimport has_hung_up
from syncless._core.poll.poller cimport READ
from syncless._core.scheduler cimport Scheduler
from syncless._core.tasklet cimport begin_anew, end_process
from syncless._core.timeout cimport Alarm
from syncless.http.input cimport Input
from syncless.http.response cimport Response, StartResponse, Write
from syncless.http.listener cimport Listener

from syncless._core.exits import TaskletExit
from syncless.http.errors import EXPLANATIONS, REASONS, BodyTooLarge, ClientError, ClientGone, RequestTimeout
from syncless.http.filewrapper import FileWrapper
from syncless.http.notices import visible

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


# what a request's own id consists of: its process and its number there
cdef str process_id
cdef int64_t last_id = 0
GIVEN_ID = re.compile(r"[!-~]{1,200}")


def _begin_process():
    global process_id
    process_id = os.urandom(4).hex()


_begin_process()
os.register_at_fork(after_in_child=_begin_process)

# the result is negative if an exception is set
ctypedef int (*Unchecked)(Request request) noexcept
cdef Unchecked unchecked_respond = <Unchecked> Request.respond
cdef Unchecked unchecked_in_time = <Unchecked> Request.respond_in_time


cdef class Request(Response):
    def __init__(self, Listener listener not None, call):
        self.listener = listener
        self.call = call
        self.renew_input()
        self.renew_start()

    cdef int renew_start(self) except -1:
        self.start = StartResponse()
        self.start.write = Write()
        self.start_response = self.start.start_response
        return 0

    cdef int renew_input(self) except -1:
        self.input = Input()
        self.body = self.input.body
        self.body.max_bytes = self.listener.limits.body_bytes
        self.body.chunk_line = self.listener.limits.chunk_line
        self.body.trailers = self.listener.limits.trailer_bytes
        return 0

    cdef int serve(self, Loop loop) except -1:
        """The whole life of a request, in an object that may have been another before."""
        cdef object context = self.context
        if context is None or Py_REFCNT(<PyObject*> context) > 2 or PyObject_Size(context) != 0:
            # the last request's, if it set no variable and nobody has it, is as good
            context = self.context = PyContext_New()
        begin_anew(self)
        self.started = loop.now
        self.status = None
        self.committed = self.bodiless = self.chunked = self.complete = self.upgraded = self.interruptible = False
        self.length = -1
        self.sent = self.body_waited = self.body_received = self.own_id = 0
        if Py_REFCNT(<PyObject*> self.start_response) > 1 or Py_REFCNT(<PyObject*> self.start.write) > 1:
            self.renew_start()                      # somebody keeps the last request's
        self.start.response = self.start.write.response = self
        loop.adopt(self)
        return self.run_inline(loop)

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        cdef int outcome
        if self.listener.limits.request_seconds:
            outcome = unchecked_in_time(self)
        else:
            outcome = unchecked_respond(self)
        if (
            outcome < 0 or self.upgraded or not self.body.finished or self.listener.access_log is not None
            or loop.orphan is self
        ):
            self.conclude(<Loop> loop, raised() if outcome < 0 else None)
        self.start.response = self.start.write.response = None
        if self.headers is not None:
            self.headers = None
        if self.recalled is not None:
            self.recalled = None
        if self.head.data != NULL:
            self.listener.buffers.release(&self.head)
        Py_INCREF(None)
        return <PyObject*> None

    cdef int failed(self, Scheduler loop) except -1:
        return 0                                    # the client has been told

    cdef int respond_in_time(self) except -1:
        cdef Alarm alarm = Alarm(RequestTimeout(f"the request took longer than {self.listener.limits.request_seconds} s"))
        alarm.start(self.listener.limits.request_seconds)
        try:
            return self.respond()
        finally:
            alarm.cancel()

    cdef int conclude(self, Loop loop, BaseException failure) except -1:
        """The application has done its part, or has failed: what is left of the request."""
        if loop.orphan is self:
            self.end_in_child(failure)
        try:
            if self.upgraded:
                failure = self.end_upgrade(failure)
            if failure is not None:
                self.fail(loop, failure)
            if not self.body.finished and not self.peer.gone:
                self.drain()
            if self.listener.access_log is not None:
                self.listener.access_log.log(self.environ, self.status, self.sent, self.started, self.headers, self)
        except TaskletExit:
            self.keep_alive = False                 # killed while the rest of the body was read away
        except BaseException as error:
            self.keep_alive = False
            loop.report(self, error)
        self._exception = failure                   # until the object is used again
        return 0

    cdef int respond(self) except -1:
        cdef Py_ssize_t total
        if self.too_large:
            raise BodyTooLarge(f"the body is larger than {self.listener.limits.body_bytes} bytes")
        result = self.call(self.environ, self.start_response)
        if (type(result) is list or type(result) is tuple) and self.status is not None and not self.upgraded:
            # no close(), and the length is known without a question
            if not self.body.finished and not self.body.drainable(self.listener.limits.drain_bytes):
                self.keep_alive = False             # the head says so
            if len(result) == 1:
                only = <object> (PyList_GET_ITEM(result, 0) if type(result) is list else PyTuple_GET_ITEM(result, 0))
                if PyBytes_CheckExact(only):
                    if not self.committed:
                        self.commit(PyBytes_GET_SIZE(only))
                    self.put(only, True)
                    return self.end()
            total = 0
            for part in result:
                if not isinstance(part, bytes):
                    raise TypeError(f"the body must be bytes, not {type(part).__name__}")
                total += PyBytes_GET_SIZE(part)
            if not self.committed:
                self.commit(total)
            for part in result:
                self.put(part, True)
            return self.end()
        try:
            if self.upgraded:
                return 0
            if result is None:
                raise TypeError("the application returned None; PEP 3333 wants an iterable of bytes")
            if type(result) is FileWrapper and self.status is not None and not self.committed and self.send_wrapped_file(result):
                return self.end()
            for part in result:
                self.put(part, False)
            self.end()
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        return 0

    # -- when it goes wrong --------------------------------------------------------------------------------------------------

    cdef int fail(self, Loop loop, BaseException error) except -1:
        """The application raised, or its response cannot be sent."""
        if isinstance(error, ClientGone) or self.peer.gone:
            self.keep_alive = False
            return self.peer.abort()
        if isinstance(error, KeyboardInterrupt):
            loop.throw(loop.main, error)
        elif not isinstance(error, (ClientError, TaskletExit)):
            self.log_failure(error)
        if self.complete:
            return 0                                # the client has, or will have, all of it
        self.keep_alive = False
        if self.committed:
            return self.peer.abort()
        if isinstance(error, ClientError):
            return self.answer(error.status, error)
        return self.answer(503 if isinstance(error, (TaskletExit, KeyboardInterrupt, RequestTimeout)) else 500, error)

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
        """The other protocol's handler says goodbye; an error is logged here, because no HTTP answer can tell
        of it."""
        if failure is not None and not isinstance(failure, (ClientGone, TaskletExit)):
            self.log_failure(failure)
        try:
            self.handler.end(failure)
        except ClientGone:
            pass
        except BaseException as error:
            self.log_failure(error)
        self.complete = True
        return failure if isinstance(failure, KeyboardInterrupt) else None

    cdef int answer(self, int status, BaseException error) except -1:
        """An answer of the server's own; the connection closes after it."""
        body = f"{status} {REASONS[status]}\n{EXPLANATIONS[status]}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if isinstance(error, ClientError):
            headers += error.headers
        if status == 503:
            headers.append(("Retry-After", f"{self.listener.limits.retry_seconds:.0f}"))
        self.accept_head(f"{status} {REASONS[status]}", headers, (None, error, None))
        self.keep_alive = False
        self.commit(len(body))
        self.put(body, True)
        self.complete = True
        return 0

    cdef int log_failure(self, BaseException error) except -1:
        try:
            self.listener.error_log.error(f"Error in {self.name}:", error, self)
        except Exception:
            pass                                    # the client gets its answer all the same
        return 0

    cdef int drain(self) except -1:
        """Reads away what the application left of the body, up to a limit, so that the connection can be
        kept."""
        if not self.keep_alive:
            return 0
        self.keep_alive = False
        if self.body.drainable(self.listener.limits.drain_bytes):
            self.listener.flusher.add(self.peer)
            try:
                self.keep_alive = self.body.drain(self.listener.limits.drain_bytes)
            except ClientError:
                pass
        return 0

    cdef bint reusable(self) noexcept:
        """Whether the environ is as the application got it, and nobody has it or its input any more: the same
        request could have it again."""
        return Py_REFCNT(<PyObject*> self.environ) == 1 and dict_version(self.environ) == self.environ_version \
            and Py_REFCNT(<PyObject*> self.input) == 2

    cdef bint left(self) noexcept:
        return self.peer is None or self.peer.gone or has_hung_up(self.peer.fd)

    @property
    def client_gone(self) -> bool:
        """Whether the client has closed the connection, or at least its sending half; True after the
        request's end, too."""
        return self.left()

    def interrupt_when_client_leaves(self, bint wanted=True) -> None:
        """From now on ClientGone is raised in this request when its client closes the connection, wherever it
        waits."""
        cdef Loop loop = get_loop()
        self.interruptible = wanted
        if wanted and self.peer is not None:
            self.peer.arm(loop, READ)
            if self.left():
                raise ClientGone("the client has left")

    # -- what logs say of it -------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """What a trusted proxy calls it (X-Request-ID), or a name of our own, unique among all processes. It
        is made when somebody asks."""
        global last_id
        given = self.environ.get("HTTP_X_REQUEST_ID") if self.peer is not None and self.peer.trusted else None
        if given is not None and GIVEN_ID.fullmatch(given):
            return given
        if self.own_id == 0:
            last_id += 1
            self.own_id = last_id
        return f"{process_id}-{self.own_id:x}"

    @property
    def client(self) -> str:
        """The client's address; - for a UNIX socket."""
        return self.environ.get("REMOTE_ADDR") or "-"

    @property
    def ending(self) -> str:
        """How its response ended (Apache's %X): X if it was cut off, + if the connection is kept, - if it is
        closed."""
        if not self.complete or self.peer.gone:
            return "X"
        return "+" if self.keep_alive else "-"

    cdef str label(self):
        if self.environ is None:
            return "request"
        return visible(f"{self.environ.get('REQUEST_METHOD')} {self.environ.get('PATH_INFO')}")
