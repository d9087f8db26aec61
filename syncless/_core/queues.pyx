"""Queue and Channel: values that pass from tasklet to tasklet, within a thread or between OS threads.

A value is handed straight to a tasklet that waits for it. If that tasklet is killed before it runs, a queue takes the value back to
its front; a channel gives it to the next receiver, because the sender has gone on already.
"""

from collections import deque
from heapq import heappop, heappush
from queue import Empty, Full

from libc.stdint cimport int64_t

from syncless._core.clock cimport deadline_after
from syncless._core.loop cimport get_loop, wait_in
from syncless._core.scheduler cimport WOKEN, BaseTasklet, queue_pop, wake_all


cdef class Queue:
    """Queue(maxsize=0): first in, first out (queue.Queue, whose Empty and Full it raises). maxsize 0 is no bound."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = deque()

    def put(self, item, block=True, timeout=None) -> None:
        """Puts an item in, waiting for room at most `timeout` seconds; queue.Full if there is none."""
        cdef BaseTasklet other
        cdef int64_t deadline
        while self.getters.head != NULL:
            other = queue_pop(&self.getters)
            if other.loop.wake(other, item):
                return
        if self.maxsize == 0 or self.count < self.maxsize:
            self.items.append(item)
            self.count += 1
            return
        if not block:
            raise Full
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        other = get_loop().current
        deadline = deadline_after(timeout)
        if self.getters.head != NULL or self.count < self.maxsize:      # meanwhile, see sync.pyx
            return self.put(item, block, timeout)
        if other is not None:
            other.value = item
        if wait_in(&self.putters, "room in a queue", self, deadline) != WOKEN:
            other.value = None
            raise Full

    def get(self, block=True, timeout=None):
        """Takes the first item, waiting for one at most `timeout` seconds; queue.Empty if there is none."""
        cdef BaseTasklet me
        cdef int64_t deadline
        if self.count:
            self.count -= 1
            item = self.items.popleft()
            if self.putters.head != NULL:
                self.admit()
            return item
        if not block:
            raise Empty
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        me = get_loop().current
        deadline = deadline_after(timeout)
        if self.count:                                                  # meanwhile, see sync.pyx
            return self.get(block, timeout)
        try:
            if wait_in(&self.getters, "item of a queue", self, deadline) != WOKEN:
                raise Empty
        except BaseException:
            if me is not None and me.granted:       # given an item, and killed before it could take it
                item, me.value = me.value, None
                self._give_back(item)
            raise
        item, me.value = me.value, None
        return item

    cdef int admit(self) except -1:
        """There is room: the first that waits to put has its item put in."""
        cdef BaseTasklet putter
        while self.putters.head != NULL and self.count < self.maxsize:
            putter = queue_pop(&self.putters)
            item = putter.value
            if putter.loop.wake(putter, None):
                self.items.append(item)
                self.count += 1
        return 0

    def _give_back(self, item) -> None:
        cdef BaseTasklet other
        while self.getters.head != NULL:
            other = queue_pop(&self.getters)
            if other.loop.wake(other, item):
                return
        self.items.appendleft(item)
        self.count += 1

    def put_nowait(self, item) -> None:
        self.put(item, False)

    def get_nowait(self):
        return self.get(False)

    def qsize(self) -> int:
        return self.count

    def __len__(self):
        return self.count

    def __bool__(self):
        return True

    def empty(self) -> bool:
        return self.count == 0

    def full(self) -> bool:
        return 0 < self.maxsize <= self.count

    def __repr__(self):
        return f"<{type(self).__name__} size={self.count} maxsize={self.maxsize}>"


class _Stack(deque):
    """What a queue keeps its items in: the last in is the first out."""
    popleft = deque.pop
    appendleft = deque.append


class _Heap(list):
    """What a queue keeps its items in: the least is the first out."""

    def append(self, item):
        heappush(self, item)

    appendleft = append

    def popleft(self):
        return heappop(self)


cdef class LifoQueue(Queue):
    """Last in, first out (queue.LifoQueue)."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = _Stack()


cdef class PriorityQueue(Queue):
    """The least item first (queue.PriorityQueue)."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = _Heap()


cdef class JoinableQueue(Queue):
    """A Queue whose join() waits until task_done() has been called for each item (queue.Queue)."""
    def put(self, item, block=True, timeout=None) -> None:
        self.unfinished += 1            # before a tasklet that waits can be done with it
        try:
            Queue.put(self, item, block, timeout)
        except BaseException:
            self.task_done()
            raise

    def task_done(self) -> None:
        """An item that was taken has been dealt with. ValueError if all have been."""
        if self.unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished -= 1
        if self.unfinished == 0:
            wake_all(&self.joiners)

    def join(self, timeout=None) -> bool:
        """Waits until all items have been dealt with, at most `timeout` seconds. Returns whether they have."""
        cdef int64_t deadline
        get_loop()
        deadline = deadline_after(timeout)
        while self.unfinished:          # see sync.pyx
            if wait_in(&self.joiners, "end of the work in a queue", self, deadline) != WOKEN:
                break
        return self.unfinished == 0


cdef class _Raise:
    """An exception on its way through a channel."""
    cdef object exception


cdef class Channel:
    """A meeting of one sender and one receiver: each waits for the other (Stackless Python's channel).

    Several may wait on either side; they meet in the order of their coming. Iterating receives until close().
    """

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
        while self.receivers.head != NULL:
            other = queue_pop(&self.receivers)
            if other.loop.wake(other, value):
                self.balance += 1
                return 0
        other = get_loop().current
        if other is not None:
            other.value = value
        self.balance += 1
        try:
            if wait_in(&self.senders, "receiver on a channel", self, deadline) != WOKEN:
                raise TimeoutError(f"nobody received from the channel within {timeout} s")
        except BaseException:
            if other is None or not other.granted:
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
        """Gives the value to a receiver; waits for one. TimeoutError after `timeout` seconds, ValueError if closed."""
        self.hand_over(value, None, timeout)

    def send_exception(self, exception, *args) -> None:
        """Raises an exception (an instance, or a class with its arguments) in the receiver."""
        if isinstance(exception, type):
            exception = exception(*args)
        if not isinstance(exception, BaseException):
            raise TypeError("send_exception() needs an exception")
        self.hand_over(None, exception, None)

    def receive(self, timeout=None):
        """Takes a value from a sender; waits for one. TimeoutError after `timeout` seconds, ValueError if closed."""
        cdef BaseTasklet other
        cdef int64_t deadline
        get_loop()                              # before the look at who waits, see sync.pyx
        deadline = deadline_after(timeout)
        while self.senders.head != NULL:
            other = queue_pop(&self.senders)
            value = other.value
            if other.loop.wake(other, None):
                self.balance -= 1
                return self.received(value)
        if self.closed:
            raise ValueError("receive on a closed channel")
        other = get_loop().current
        self.balance -= 1
        try:
            if wait_in(&self.receivers, "sender on a channel", self, deadline) != WOKEN:
                raise TimeoutError(f"nobody sent to the channel within {timeout} s")
        except BaseException:
            if other is None or not other.granted:
                self.balance += 1
            else:                               # given a value, and killed before it could take it: to the next receiver
                value, other.value = other.value, None
                self._pass_on(value)
            raise
        value, other.value = other.value, None
        return self.received(value)

    cdef object received(self, object value):
        """A receiver was woken with the value, or took it."""
        if value is _CLOSED:
            raise ValueError("the channel was closed while its receiver waited")
        if isinstance(value, _Raise):
            raise (<_Raise> value).exception
        return value

    def _pass_on(self, value):
        cdef BaseTasklet other
        while self.receivers.head != NULL:
            other = queue_pop(&self.receivers)
            if other.loop.wake(other, value):
                self.balance += 1
                return

    def close(self) -> None:
        """No more values: whoever waits gets a ValueError, iteration ends."""
        cdef BaseTasklet other
        self.closed = True
        while self.receivers.head != NULL:
            other = queue_pop(&self.receivers)
            self.balance += other.loop.wake(other, _CLOSED)
        while self.senders.head != NULL:
            other = queue_pop(&self.senders)
            self.balance -= other.loop.wake(other, _CLOSED)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.receive()
        except ValueError:
            if self.closed:
                raise StopIteration from None
            raise

    def __repr__(self):
        return f"<{type(self).__name__} {'closed' if self.closed else f'balance={self.balance}'}>"


_CLOSED = object()
