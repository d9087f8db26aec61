"""receive() and send() as an application gets them, and what it awaits.

An operation is done when it is awaited, not when it is called, as if these were coroutine functions. If it
need not wait, awaiting it yields nothing to the loop. It has the methods of a coroutine, so it can be made a
task of its own.

BodyMessages are those of a request body. Bytes that have come are given at once, as one message, in whatever
chunks they came. Else a tasklet reads, and the task waits for a future. If receive() is cancelled, that
tasklet goes on, and the next receive() gets its message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
cimport cython

from syncless._core.cpython.vectorcall cimport PyVectorcall_NARGS, call_by
from syncless._core.loop cimport Watcher
from syncless.http.exchange cimport Exchange
from syncless.http.stream cimport is_receivable, receive_more

import asyncio
import inspect

from syncless._core.tasklet import spawn
from syncless.http.errors import ClientGone


# the iterator of what is done and gives None: it has ended, and nothing can begin it again
cdef object ENDED = iter(())


cdef class Conversation(Exchange):
    """A request whose application receives and sends messages.

    next_message()  receive(): the iterator that gives the next message
    take_message()  send(): None, or the future that it waits for
    """

    cdef object next_message(self):
        raise NotImplementedError

    cdef object take_message(self, object message):
        raise NotImplementedError


def given(value, tuple waits=()):
    """An iterator for `await` that gives the value at once."""
    yield from waits
    return value


cdef object RECEIVE = object()              # in the place of a message


@cython.final
@cython.freelist(16)
cdef class Operation:
    cdef object start(self):
        """Return the iterator that `await` drives."""
        if self.message is RECEIVE:
            if self.request is None:
                return given({"type": "http.disconnect"})
            return self.request.next_message()
        if self.request is None:
            return ENDED
        future = self.request.take_message(self.message)
        return ENDED if future is None else future.__await__()

    def __await__(self):
        if self.inner is not None:
            raise RuntimeError("cannot await the same receive() or send() twice")
        self.inner = self.start()
        return self.inner

    def send(self, value):
        if self.inner is None:
            self.inner = self.start()
        return self.inner.send(value) if hasattr(self.inner, "send") else next(self.inner)

    def throw(self, kind, value=None, trace=None):
        if hasattr(self.inner, "throw"):
            return self.inner.throw(kind) if value is None else self.inner.throw(kind, value, trace)
        self.inner = ENDED
        raise kind if value is None else value

    def close(self):
        if hasattr(self.inner, "close"):
            self.inner.close()
        self.inner = ENDED


@cython.final
cdef class Operations:
    """Of the request that runs: functions may be kept for longer."""


@cython.final
cdef class OperationFunction:
    """receive(): awaitable, gives the next message. send(message): awaitable.

    Called as a built-in function is, without a tuple of arguments. As to inspect, asyncio and asgiref, these
    are coroutine functions."""
    _is_coroutine_marker = getattr(inspect, "_is_coroutine_mark", None)     # see markcoroutinefunction()
    _is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)      # before Python 3.12

    def __call__(self, *args):
        if len(args) != self.takes:
            raise TypeError(f"{self.__name__}() takes {self.takes} arguments ({len(args)} given)")
        return self.operation(args[0] if args else RECEIVE)

    @property
    def __name__(self):
        return "send" if self.takes else "receive"

    cdef Operation operation(self, object message):
        cdef Operation operation = Operation.__new__(Operation)
        operation.request = self.operations.request
        operation.message = message
        return operation


cdef PyObject* call_now(PyObject* self, PyObject** args, size_t flags, PyObject* names) except NULL:
    cdef OperationFunction function = <OperationFunction> self
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    cdef object made
    if count == function.takes and names == NULL:
        made = function.operation(<object> args[0] if count else RECEIVE)
    elif names != NULL:
        raise TypeError(f"{function.__name__}() takes no keyword arguments")
    else:
        made = function(*[<object> args[i] for i in range(count)])
    Py_INCREF(made)
    return <PyObject*> made


cdef OperationFunction new_function(Operations operations, int takes):
    cdef OperationFunction function = OperationFunction.__new__(OperationFunction)
    function.vectorcall = call_now
    function.operations = operations
    function.takes = takes
    return function


cdef OperationFunction one = new_function(None, 0)
call_by(OperationFunction, <char*> &one.vectorcall - <char*> <PyObject*> one)


cdef enum:
    PIECE = 65536           # bytes that one message has at most


cdef class BodyMessages:
    """BodyMessages(body, peer, buffers, loop): of the asyncio loop in which the task runs."""

    def __init__(self, Body body not None, Peer peer not None, Buffers buffers not None, loop):
        self.body = body
        self.peer = peer
        self.buffers = buffers
        self.loop = loop

    cdef object next_message(self):
        """Return the iterator that gives the next message."""
        cdef bytes piece
        if self.reader is None and self.message is None and self.failure is None:
            if self.body.framing.ended:
                self.complete = True
                return given({"type": "http.request", "body": b"", "more_body": False})
            if self.peer.is_gone() and (self.peer.stream == NULL or self.peer.stream.inbox.size == 0):
                return given({"type": "http.disconnect"})
            piece = self.piece_now()
            if piece is not None:
                self.complete = self.body.framing.ended
                return given({"type": "http.request", "body": piece, "more_body": not self.complete})
            self.reader = spawn(self._read)
        elif self.receiver is not None and not self.receiver.done():
            raise RuntimeError("another task is already waiting in receive()")
        self.receiver = self.loop.create_future()
        if self.reader is None:
            self.hand_over()
        return self.receiver.__await__()

    cdef int end(self) except -1:
        """The request ends here: the rest of the body is for others. A task that still waits hears of it."""
        if self.reader is not None:
            self.reader.kill()
            self.message = {"type": "http.disconnect"}
            self.hand_over()
        self.message = self.failure = self.receiver = None
        return 0

    cdef bytes piece_now(self):
        """Return bytes that have come; None if it has to wait for them, or might."""
        cdef bytes piece
        cdef char* data = NULL
        cdef Py_ssize_t room, n
        cdef Watcher owner = self.peer.owner    # keeps the stream
        if owner is None or self.body.expects_continue or self.body.broken:
            return None
        if not self.body.at_hand():
            if not is_receivable(self.peer.stream) or receive_more(self.peer.stream, self.buffers) <= 0:
                return None
            if not self.body.at_hand():
                return None
        room = min(self.peer.at_hand(&data), <Py_ssize_t> PIECE)
        piece = PyBytes_FromStringAndSize(NULL, room)
        n = self.body.gather(PyBytes_AS_STRING(piece), room)
        return piece if n == room else piece[:n]

    def _read(self):
        """In a tasklet of its own: waits for bytes."""
        cdef bytes whole = PyBytes_FromStringAndSize(NULL, PIECE)
        cdef Py_ssize_t n
        try:
            n = self.body.read_into(PyBytes_AS_STRING(whole), PIECE)
            n += self.body.gather(PyBytes_AS_STRING(whole) + n, PIECE - n)
            more = not self.body.framing.ended
            self.message = {"type": "http.request", "body": whole[:n], "more_body": more}
        except ClientGone:
            self.message = {"type": "http.disconnect"}
        except Exception as error:
            self.failure = error
        finally:
            self.reader = None
        self.hand_over()

    cdef int hand_over(self) except -1:
        """Give the task that waits in receive() what was read for it."""
        if self.receiver is None or self.receiver.done():
            return 0
        message, self.message = self.message, None
        failure, self.failure = self.failure, None
        if failure is not None:
            self.receiver.set_exception(failure)
        else:
            self.complete = not message.get("more_body", False)
            self.receiver.set_result(message)
        return 0
