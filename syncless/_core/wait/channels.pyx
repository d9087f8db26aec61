"""Channel: values that pass from tasklet to tasklet when both are there.

A killed receiver's value goes to the next receiver. Until there is one the channel keeps it, because its
sender has gone on.
"""

from collections import deque
from types import GenericAlias

from libc.stdint cimport int64_t

from syncless._core.clock cimport deadline_after
from syncless._core.scheduler cimport WOKEN, BaseTasklet, Meeting
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.waitqueue cimport is_queued, queue_pop, queue_remove
from syncless._core.waits cimport wait_in

cdef const char* TO_SEND = "receiver on a channel"
cdef const char* TO_RECEIVE = "sender on a channel"


class _Closed(ValueError):
    """The channel is closed, and not: this was sent."""


cdef class _Raise:
    """An exception on its way through a channel."""
    cdef object exception


cdef class Channel(Meeting):
    """Channel()\n--\n\nA meeting of one sender and one receiver: each waits for the other (Stackless Python's
    channel).

    Several may wait on either side; they meet in the order of their arrival. Iteration receives until
    close().

    send() returns when a receiver has the value. If that receiver is killed before its turn comes, the next
    receiver gets the value. Until there is one, the channel keeps the value, ahead of later ones. It counts
    in `balance` like a sender, and survives close().
    """

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)          # Channel[int], for annotations

    cdef int hand_over(self, object value, object exception, object timeout) except -1:
        cdef BaseTasklet other
        cdef _Raise wrapped
        cdef int64_t deadline
        get_loop()                              # before the look at who waits, see sync.pyx
        deadline = deadline_after(timeout)
        if self.closed:
            raise ValueError("send on a closed channel")
        if exception is not None:
            wrapped = _Raise()
            wrapped.exception = exception
            value = wrapped
        while self.receivers.first != NULL:
            other = queue_pop(&self.receivers)
            if other.loop.wake(other, value):
                self.balance += 1
                return 0
        other = get_loop().current
        if other is not None:
            other.value = value
        self.balance += 1
        try:
            if wait_in(&self.senders, TO_SEND, self, deadline) != WOKEN:
                raise TimeoutError(f"no tasklet received from the channel within {timeout} s")
        except BaseException:
            if other is None or not other.handed_over:
                self.balance -= 1
            raise
        value, other.value = other.value, None
        return self.sent(value)

    cdef int sent(self, object value) except -1:
        """A sender was woken with the value."""
        if value is _CLOSED:
            raise ValueError("the channel was closed while its sender waited")
        return 0

    def send(self, value, timeout=None) -> None:
        """Gives the value to a receiver; waits for one. TimeoutError after `timeout` seconds, ValueError if
        closed."""
        self.hand_over(value, None, timeout)

    def send_exception(self, exception, *args) -> None:
        """Raises an exception (an instance, or a class with its arguments) in the receiver."""
        if isinstance(exception, type):
            exception = exception(*args)
        if not isinstance(exception, BaseException):
            raise TypeError("send_exception() needs an exception")
        self.hand_over(None, exception, None)

    def receive(self, timeout=None):
        """Takes a value from a sender; waits for one. TimeoutError after `timeout` seconds, ValueError if
        closed."""
        cdef BaseTasklet other
        cdef int64_t deadline
        get_loop()                              # before the look at who waits, see sync.pyx
        deadline = deadline_after(timeout)
        if self.kept is not None:
            return self.received(self._take_kept())
        while self.senders.first != NULL:
            other = queue_pop(&self.senders)
            value = other.value
            if other.loop.wake(other, None):
                self.balance -= 1
                return self.received(value)
        if self.closed:
            raise _Closed("receive on a closed channel")
        other = get_loop().current
        self.balance -= 1
        try:
            if wait_in(&self.receivers, TO_RECEIVE, self, deadline) != WOKEN:
                raise TimeoutError(f"no tasklet sent to the channel within {timeout} s")
        except BaseException:
            if other is None or not other.handed_over:
                self.balance += 1
            else:  # given a value, and killed before it could take it: to the next receiver
                value, other.value = other.value, None
                self.pass_on(value)
            raise
        value, other.value = other.value, None
        return self.received(value)

    cdef object received(self, object value):
        """A receiver was woken with the value, or took it."""
        if value is _CLOSED:
            raise _Closed("the channel was closed while its receiver waited")
        if isinstance(value, _Raise):
            raise (<_Raise> value).exception
        return value

    cdef int pass_on(self, object value) except -1:
        """A receiver was given the value and killed before it took it: to the next, or kept."""
        cdef BaseTasklet other
        if value is _CLOSED:
            return 0
        self.balance += 1                       # one receiver less, or one value more
        while self.receivers.first != NULL:
            other = queue_pop(&self.receivers)
            if other.loop.wake(other, value):
                return 0
        if self.kept is None:
            self.kept = deque()
        self.kept.append(value)
        return 0

    cdef object _take_kept(self):
        value = self.kept.popleft()
        if not self.kept:
            self.kept = None
        self.balance -= 1
        return value

    cdef int left_by(self, BaseTasklet tasklet) except -1:
        cdef bint sends = tasklet.why == TO_SEND
        if is_queued(tasklet):
            queue_remove(&self.senders if sends else &self.receivers, tasklet)
        if not tasklet.handed_over:
            self.balance -= 1 if sends else -1
        return 0

    def close(self) -> None:
        """Closes the channel: waiting tasklets get a ValueError, and iteration ends."""
        cdef BaseTasklet other
        self.closed = True
        while self.receivers.first != NULL:
            other = queue_pop(&self.receivers)
            self.balance += other.loop.wake(other, _CLOSED)
        while self.senders.first != NULL:
            other = queue_pop(&self.senders)
            self.balance -= other.loop.wake(other, _CLOSED)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.receive()
        except _Closed:
            raise StopIteration from None

    def __repr__(self):
        return f"<{type(self).__name__} {'closed' if self.closed else f'balance={self.balance}'}>"


_CLOSED = object()
