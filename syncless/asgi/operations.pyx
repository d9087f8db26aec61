"""receive() and send() as an application gets them, and what it awaits.

An operation is done when it is awaited, not when it is called, as if these were coroutine functions. If it
need not wait, awaiting it yields nothing to the loop. It has the methods of a coroutine, so it can be made a
task of its own.
"""


cimport cython

from syncless.http.exchange cimport Exchange

# the iterator of what is done and gives None: it has ended, and nothing can begin it again
cdef object ENDED = iter(())


cdef class Conversation(Exchange):
    """A request whose application hears messages and says some.

    hear()  the iterator that gives the next message
    say()   takes a message; None, or the future that it waits for
    """

    cdef object hear(self):
        raise NotImplementedError

    cdef object say(self, object message):
        raise NotImplementedError


def given(value, tuple waits=()):
    """An iterator for `await` that gives the value at once."""
    yield from waits
    return value


cdef class Operation:
    cdef object start(self):
        """The iterator that `await` drives."""
        raise NotImplementedError

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
cdef class Sending(Operation):
    cdef object start(self):
        if self.request is None:
            return ENDED
        future = self.request.say(self.message)
        return ENDED if future is None else future.__await__()


@cython.final
cdef class Receiving(Operation):
    cdef object start(self):
        return given({"type": "http.disconnect"}) if self.request is None else self.request.hear()


@cython.final
cdef class Send:
    """send(message): awaitable."""

    def __call__(self, message, /):
        cdef Sending operation = Sending.__new__(Sending)
        operation.request = self.request
        operation.message = message
        return operation


@cython.final
cdef class Receive:
    """receive(): awaitable, gives the next message."""

    def __call__(self):
        cdef Receiving operation = Receiving.__new__(Receiving)
        operation.request = self.request
        return operation
