"""Values that pass from tasklet to tasklet: Queue and its kin, within a thread or between OS threads; and
Channel, whose sender and receiver meet.

An item is handed straight to a tasklet that waits for it. If that tasklet is killed before it runs, the item
goes to the next waiter, or comes first again: several that come back keep their order. So it is with the
value of a killed receiver: until there is another one the channel keeps it, because its sender has gone on.
"""

from collections import deque
from queue import Empty, Full
from types import GenericAlias

from libc.stdint cimport int64_t

from syncless._core.clock cimport deadline_after
from syncless._core.current cimport wait_in
from syncless._core.scheduler cimport WOKEN, BaseTasklet, Meeting
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.waitqueue cimport is_queued, queue_pop, queue_remove, wake_all

cdef enum:
    ROW = 1000  # items in order that lie in one list at most: moving them takes less than comparing does


cdef class Queue:
    """Queue(maxsize=0)\n--\n\nA FIFO queue, like queue.Queue; it raises queue.Empty and queue.Full. A maxsize
    of 0 means no bound."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = deque()

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)          # Queue[int], for annotations

    def put(self, item, block=True, timeout=None) -> None:
        """Add an item. Wait for room for at most `timeout` seconds, then raise queue.Full."""
        cdef BaseTasklet me
        cdef int64_t deadline
        if self.hand_over(item):
            return
        if self.has_room():
            self.let_in(item)
            return
        if not block:
            raise Full
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        me = get_loop().current
        deadline = deadline_after(timeout)
        if self.getters.first != NULL or self.has_room():                # meanwhile, see sync.pyx
            return self.put(item, block, timeout)
        if me is not None:
            me.value = item
        try:
            if wait_in(&self.putters, "room in a queue", self, deadline) != WOKEN:
                me.value = None
                raise Full
        except BaseException:
            if me is not None and me.handed_over:
                self.undo_admission()
            raise
        self.complete_admission(item)

    cdef bint has_room(self) noexcept:
        return self.maxsize == 0 or self.count < self.maxsize

    cdef bint hand_over(self, object item) except -1:
        """Give the item to the first getter, if one waits."""
        cdef BaseTasklet getter
        while self.getters.first != NULL:
            getter = queue_pop(&self.getters)
            if getter.loop.wake(getter, item):
                self.accepted += 1
                return True
        return False

    cdef int let_in(self, object item) except -1:
        """There is room, and no getter waits."""
        assert self.has_room() and self.getters.first == NULL
        self.items.append(item)
        self.count += 1
        self.accepted += 1
        return 0

    def get(self, block=True, timeout=None):
        """Take the first item. Wait for an item for at most `timeout` seconds, then raise queue.Empty."""
        cdef BaseTasklet me
        cdef int64_t deadline
        if self.count:
            self.count -= 1
            item = self.items.popleft()
            if self.returned:
                self.returned -= 1
            if self.putters.first != NULL:
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
            if me is not None and me.handed_over:       # given an item, and killed before it could take it
                item, me.value = me.value, None
                self._give_back(item)
            raise
        item, me.value = me.value, None
        return item

    cdef int admit(self) except -1:
        """There is room: the first putters that wait have their items put in."""
        cdef BaseTasklet putter
        while self.putters.first != NULL and self.has_room():
            putter = queue_pop(&self.putters)
            item = putter.value
            if putter.loop.wake(putter, None):
                self.let_in(item)
        return 0

    cdef int complete_admission(self, object item) except -1:
        """For the putter, when its turn has come after admit() let it go on."""
        return 0

    cdef int undo_admission(self) except -1:
        """For a putter that is killed before that."""
        return 0

    def _give_back(self, item) -> None:
        cdef BaseTasklet getter
        while self.getters.first != NULL:
            getter = queue_pop(&self.getters)
            if getter.loop.wake(getter, item):
                return
        if type(self.items) is deque:
            self.items.insert(self.returned, item)
            self.returned += 1
        else:
            self.items.give_back(item)
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
        return not self.has_room()

    def __repr__(self):
        return f"<{type(self).__name__} size={self.count} maxsize={self.maxsize}>"


class _Stack(deque):
    """The items of a queue: the last in is the first out."""
    popleft = deque.pop
    give_back = deque.append


cdef class _Ordered:
    """The items of a queue: the least is the first out, and of equal items the first that came.

    Fact: comparing items may run any code, which may raise, wait, or let another thread change what is kept
    here. Danger: items of others are lost or out of order. Decision: an item is compared before anything is
    changed, in its putter only; if something else has been changed meanwhile, it is compared again. So the
    items lie in order, in rows, the least at the end of the last one, where it is taken without comparing.
    Price: a heap compares a little less. Guarded by tests/core/test_queues.py.
    """
    cdef list rows              # none is empty, except when it is the only one
    # an empty row, made in time: making a list may run the garbage collector, and so any code
    cdef list spare
    cdef list returned          # these were taken out and given back; they come first
    cdef size_t changes         # how often something was put in or taken out

    def __cinit__(self):
        self.rows = [[]]
        self.returned = []

    cdef Py_ssize_t place_of(self, object item, list among, Py_ssize_t end) except -2:
        """Where the item belongs among so many items, or rows, which their last items stand for: before the
        first that is not greater, or at the end. -1 if something was changed while it was compared."""
        cdef size_t changes = self.changes
        cdef Py_ssize_t low = 0, high = end, middle
        cdef bint before
        while low < high:
            middle = (low + high) // 2
            other = among[middle]
            if among is self.rows:
                other = (<list> other)[len(<list> other) - 1]
            before = item < other
            if changes != self.changes:
                return -1
            if before:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint insert(self, object item) except -1:
        """False if something was changed while the item was compared, and it is not in."""
        cdef list row
        cdef Py_ssize_t which, place
        if self.spare is None:
            self.spare = []
        which = self.place_of(item, self.rows, len(self.rows) - 1)
        if which < 0:
            return False
        row = <list> self.rows[which]
        place = self.place_of(item, row, len(row))
        if place < 0:
            return False
        row.insert(place, item)
        self.changes += 1
        if len(row) >= ROW and self.spare is not None:
            while len(row) > ROW // 2:
                self.spare.append(row.pop())
            self.spare.reverse()
            self.rows.insert(which + 1, self.spare)
            self.spare = None
        return True

    def popleft(self):
        cdef list row = <list> self.rows[len(self.rows) - 1]
        self.changes += 1
        if self.returned:
            return self.returned.pop(0)
        item = row.pop()
        if not row and len(self.rows) > 1:
            self.rows.pop()
        return item

    def give_back(self, item):
        self.changes += 1
        self.returned.append(item)


cdef class LifoQueue(Queue):
    """LifoQueue(maxsize=0)\n--\n\nA LIFO queue, like queue.LifoQueue."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = _Stack()


cdef class PriorityQueue(Queue):
    """PriorityQueue(maxsize=0)\n--\n\nA queue that returns the least item first, like queue.PriorityQueue.
    put() compares the item with others, and raises the error if a comparison fails."""

    def __init__(self, Py_ssize_t maxsize=0):
        self.maxsize = max(0, maxsize)
        self.items = _Ordered()

    cdef bint has_room(self) noexcept:
        return self.maxsize == 0 or self.count + self.reserved < self.maxsize

    cdef int let_in(self, object item) except -1:
        self.reserved += 1
        return self.complete_admission(item)

    cdef int admit(self) except -1:
        """As Queue's, but a putter gets a place only, and puts its item there itself."""
        cdef BaseTasklet putter
        while self.putters.first != NULL and self.has_room():
            putter = queue_pop(&self.putters)
            if putter.loop.wake(putter, None):
                self.reserved += 1
        return 0

    cdef int complete_admission(self, object item) except -1:
        try:
            # nobody waited for an item while there were others to compare with, but may since
            while not self.hand_over(item):
                if (<_Ordered> self.items).insert(item):
                    self.count += 1
                    self.accepted += 1
                    self.reserved -= 1
                    return 0
        except BaseException:
            self.undo_admission()
            raise
        return self.undo_admission()            # its place is free

    cdef int undo_admission(self) except -1:
        self.reserved -= 1
        return self.admit()


cdef class JoinableQueue(Queue):
    """JoinableQueue(maxsize=0)\n--\n\nA Queue whose join() waits until task_done() has been called for each
    item, as in queue.Queue."""

    @property
    def unfinished(self) -> int:
        """The number of items for which task_done() has not been called."""
        return self.accepted - self.finished

    def task_done(self) -> None:
        """Report that an item has been processed. Raise ValueError if there were more calls than items."""
        if self.finished == self.accepted:
            raise ValueError("task_done() called too many times")
        self.finished += 1
        if self.finished == self.accepted:
            wake_all(&self.joiners)

    def join(self, timeout=None) -> bool:
        """Wait until all items have been processed, for at most `timeout` seconds. Return whether they
        have."""
        cdef int64_t deadline
        get_loop()
        deadline = deadline_after(timeout)
        while self.finished != self.accepted:           # see sync.pyx
            if wait_in(&self.joiners, "end of the work in a queue", self, deadline) != WOKEN:
                break
        return self.finished == self.accepted


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

    Several tasklets may wait on either side; they meet in FIFO order. Iteration receives until close().

    send() returns when a receiver has the value. If that receiver is killed before its turn comes, the next
    receiver gets the value. Until there is one, the channel keeps the value, ahead of later values. The value
    counts in `balance` like a sender, and survives close().
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
        """Wait for a receiver, and give it the value. Raise TimeoutError after `timeout` seconds, ValueError
        if the channel is closed."""
        self.hand_over(value, None, timeout)

    def send_exception(self, exception, *args) -> None:
        """Raise an exception (an instance, or a class with its arguments) in the receiver."""
        if isinstance(exception, type):
            exception = exception(*args)
        if not isinstance(exception, BaseException):
            raise TypeError("send_exception() needs an exception")
        self.hand_over(None, exception, None)

    def receive(self, timeout=None):
        """Wait for a sender, and return its value. Raise TimeoutError after `timeout` seconds, ValueError if
        the channel is closed."""
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
        """Close the channel: waiting tasklets get a ValueError, and iteration ends."""
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
