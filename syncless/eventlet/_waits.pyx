"""Semaphores, queues and timeouts as eventlet has them, on those of the engine. See semaphore.py, queue.py
and timeout.py.

An item of a queue goes from hand to hand: a getter that is killed on its way to it passes it on.
"""

from collections import deque
from queue import Empty, Full

from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport int64_t

from syncless._core cimport timeout as clocks
from syncless._core.clock cimport deadline_after
from syncless._core.current cimport wait_in
from syncless._core.linked cimport Node, insert_behind
from syncless._core.scheduler cimport WOKEN, BaseTasklet
from syncless._core.threadloop cimport get_loop
from syncless._core.wait cimport sync
from syncless._core.wait.waitqueue cimport WaitQueue, is_queued, queue_pop, queue_remove, waits
from syncless.eventlet._greenlet cimport in_hub, is_in_hub

from syncless.eventlet import _greenlet
from syncless.eventlet.support import greenlets


cdef class Semaphore(sync.Semaphore):
    """Semaphore(value=1)\n--\n\nAt most `value` green threads are between acquire() and release()."""
    cdef Py_ssize_t debt        # of a pool that has been made smaller: units that do not become free

    def __init__(self, value=1):
        try:
            value = int(value)
        except ValueError:
            raise TypeError(f"a semaphore's value is a number, not {value!r}") from None
        if value < 0:
            raise ValueError(f"a semaphore's value must be at least 0, not {value!r}")
        self.value = value

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x} c={self.counter} _w[{self.counter - self.balance}]>"

    @property
    def counter(self):
        """Units that are free; less than 0 after a pool has been made smaller than it is full."""
        return self.value - self.debt

    @counter.setter
    def counter(self, Py_ssize_t units):
        self.value, self.debt = max(units, 0), max(-units, 0)

    @property
    def balance(self):
        """Units that are free, or minus the number of waiters."""
        return self.value - self.debt - waiting(&self.waiters)

    def locked(self) -> bool:
        """Return whether acquire() would wait."""
        return self.value == 0

    def bounded(self) -> bool:
        """Return whether release() would wait: never."""
        return False

    def acquire(self, blocking=True, timeout=None) -> bool:
        """Take a unit; wait for one for at most `timeout` seconds. Return whether a unit was taken."""
        if timeout is not None:
            if timeout == -1:
                timeout = None
            elif not blocking:
                raise ValueError("can't specify timeout for non-blocking acquire")
            elif timeout < 0:
                raise ValueError("timeout value must be strictly positive")
        if self.value == 0 and get_loop().current is None:
            return False
        return self.acquire_unit(blocking, timeout)

    def begin_anew(self) -> None:
        """One unit is free, and nobody waits: in a child after a fork."""
        self.counter = 1
        while self.waiters.first != NULL:
            queue_pop(&self.waiters)

    cdef int release_unit(self) except -1:
        if self.debt:
            self.debt -= 1
            return 0
        return sync.Semaphore.release_unit(self)

    def release(self, blocking=True) -> bool:
        """Give back a unit."""
        self.release_unit()
        return True

    def __exit__(self, kind, value, trace):
        self.release()


cdef object FULL = object()
cdef const char* TO_PUT = "room in a queue"
cdef const char* TO_GET = "item of a queue"


cdef class _Offer:
    """In a rendezvous: an item on its way to a getter, and its green thread, which waits until it is
    taken."""
    cdef BaseTasklet putter     # None: it does not wait any more
    cdef object item
    cdef bint block


cdef Py_ssize_t waiting(WaitQueue* queue) noexcept:
    cdef Node* node = queue.first
    cdef Py_ssize_t number = 0
    while node != NULL:
        number += waits(<BaseTasklet> node.owner)
        node = node.after
    return number


cdef class LightQueue:
    """LightQueue(maxsize=None)\n--\n\nA queue of at most `maxsize` items: None or less than 0 is no limit, 0
    a rendezvous."""
    cdef Py_ssize_t limit       # -1: none
    cdef public object queue    # the items that are in it
    cdef WaitQueue getters      # wait for an item
    cdef WaitQueue putters      # wait until there is room for their item, which is in tasklet.value
    cdef bint plain             # neither _put() nor _get() is another one
    cdef dict __dict__
    cdef object __weakref__

    def __init__(self, maxsize=None):
        kind = type(self)
        self.plain = kind._put is LightQueue._put and kind._get is LightQueue._get
        self.maxsize = maxsize
        self._init(maxsize)

    # kinds of queues differ in these

    def _init(self, maxsize) -> None:
        self.queue = deque()

    def _get(self):
        return self.queue.popleft()

    def _put(self, item) -> None:
        self.queue.append(item)

    def _put_back(self, item) -> None:
        self.queue.appendleft(item)

    cdef int added(self) except -1:
        """An item has come in."""
        return 0

    # -- its state

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x} {self._format()}>"

    def __str__(self):
        return f"<{type(self).__name__} {self._format()}>"

    def _format(self) -> str:
        words = [f"maxsize={self.maxsize!r}"]
        if self.queue:
            words.append(f"queue={self.queue!r}")
        if self.getting():
            words.append(f"getters[{self.getting()}]")
        if self.putting():
            words.append(f"putters[{self.putting()}]")
        return " ".join(words)

    def __bool__(self):
        return True

    @property
    def maxsize(self):
        return None if self.limit < 0 else self.limit

    @maxsize.setter
    def maxsize(self, size):
        self.limit = -1 if size is None or size < 0 else size

    cdef Py_ssize_t size(self) except -1:
        return len(self.queue) if self.plain else self.qsize()

    cdef bint has_room(self) except -1:
        return self.limit < 0 or self.size() < self.limit

    def qsize(self) -> int:
        return len(self.queue)

    def empty(self) -> bool:
        return not self.size()

    def full(self) -> bool:
        """Return whether put() would wait, unless a get() waits already."""
        return not self.has_room()

    def putting(self) -> int:
        """Return the number of green threads that wait in put()."""
        return waiting(&self.putters)

    def getting(self) -> int:
        """Return the number of green threads that wait in get()."""
        return waiting(&self.getters)

    def resize(self, size) -> None:
        """Change the limit. Items that exceed a smaller one stay."""
        self.maxsize = size
        self.admit()

    # -- from put() to get()

    def put(self, item, block=True, timeout=None) -> None:
        """Add an item. Wait for room, for at most `timeout` seconds, then raise Full."""
        if self.has_room():
            if self.plain and self.getters.first != NULL and not self.queue and self.hand(item):
                self.added()
                return
            self.take_in(item)          # which raises if it cannot be compared, and is then not counted
            self.added()
            self.serve()
        else:
            self.put_later(item, block, timeout)

    cdef int take_in(self, object item) except -1:
        if self.plain:
            self.queue.append(item)
        else:
            self._put(item)
        return 0

    cdef object take_out(self):
        return self.queue.popleft() if self.plain else self._get()

    cdef int put_later(self, object item, bint block, object timeout) except -1:
        """There is no room."""
        cdef _Offer offer
        cdef BaseTasklet me
        cdef int64_t deadline
        if in_hub():
            if not self.hand(item):
                raise Full
            return self.added()
        me = get_loop().current
        deadline = deadline_after(timeout)
        if self.getters.first != NULL:
            offer = _Offer.__new__(_Offer)
            offer.putter, offer.item, offer.block = me, item, block
            if self.hand(offer):
                return self.wait_for_getter(me, offer, deadline)
        if not block:
            raise Full
        me.value = item
        if wait_in(&self.putters, TO_PUT, self, deadline) != WOKEN:
            me.value = None
            raise Full
        return 0

    cdef int wait_for_getter(self, BaseTasklet me, _Offer offer, int64_t deadline) except -1:
        """Of a rendezvous. The item comes back into `putters` if the getter ends before it takes it."""
        cdef bint came_back = False
        try:
            me.loop.park(TO_PUT, self, deadline)
        finally:
            offer.putter = None                 # which may wait here again, with another item
            result, me.value = me.value, None
            if is_queued(me):
                queue_remove(&self.putters, me)
                came_back = True
        if came_back or result is FULL:
            raise Full
        return 0

    def put_nowait(self, item) -> None:
        """Add an item; raise Full if there is no room."""
        self.put(item, False)

    def get(self, block=True, timeout=None):
        """Return the next item. Wait for one, for at most `timeout` seconds, then raise Empty."""
        cdef BaseTasklet putter
        if self.size():
            item = self.take_out()
            if self.putters.first != NULL:
                self.admit()
            return item
        while self.putters.first != NULL:       # of a rendezvous
            putter = queue_pop(&self.putters)
            item = putter.value
            if putter.loop.wake(putter, None):
                self.added()
                return item
        return self.get_later(block, timeout)

    cdef object get_later(self, bint block, object timeout):
        """There is nothing yet."""
        cdef BaseTasklet me
        cdef _Offer offer
        cdef int64_t deadline
        if not block or in_hub():
            raise Empty
        me = get_loop().current
        deadline = deadline_after(timeout)
        try:
            if wait_in(&self.getters, TO_GET, self, deadline) != WOKEN:
                raise Empty
        except BaseException:
            if me.handed_over:                  # given an item, and killed before it could take it
                item, me.value = me.value, None
                self.pass_on(item)
            raise
        item, me.value = me.value, None
        if type(item) is _Offer:
            offer = item
            self.added()
            if self.has_putter(offer):
                offer.putter.loop.wake(offer.putter, None)
            return offer.item
        return item

    def get_nowait(self):
        """Return the next item; raise Empty if there is none."""
        return self.get(False)

    cdef bint hand(self, object item) except -1:
        """Give an item, or an Offer, to the longest waiting getter that still waits."""
        cdef BaseTasklet getter
        while self.getters.first != NULL:
            getter = queue_pop(&self.getters)
            if getter.loop.wake(getter, item):
                return True
        return False

    cdef int serve(self) except -1:
        """Give items to getters."""
        while self.getters.first != NULL and self.size():
            item = self.take_out()
            if not self.hand(item):
                self._put_back(item)
        return 0

    cdef int admit(self) except -1:
        """Take in items that wait for room."""
        cdef BaseTasklet putter
        while self.has_room() and self.putters.first != NULL:
            putter = queue_pop(&self.putters)
            item = putter.value
            if putter.loop.wake(putter, None):
                self.take_in(item)
                self.added()
        return self.serve()

    cdef bint has_putter(self, _Offer offer) noexcept:
        """Return whether it waits still."""
        return offer.putter is not None and offer.putter.why == TO_PUT and offer.putter.waiting_on is self

    cdef int pass_on(self, object item) except -1:
        """Give what a getter has not taken to another one."""
        cdef _Offer offer
        if self.hand(item):
            return 0
        if type(item) is not _Offer:
            self._put_back(item)
            return 0
        offer = item
        if not self.has_putter(offer):
            return 0
        if offer.block:
            offer.putter.value = offer.item
            insert_behind(&self.putters, NULL, &offer.putter.place, <PyObject*> offer.putter)
        else:
            offer.putter.loop.wake(offer.putter, FULL)
        return 0


cdef class CountingQueue(LightQueue):
    """CountingQueue(maxsize=None)\n--\n\nA LightQueue that counts its items; Queue waits for the last."""
    cdef public Py_ssize_t unfinished_tasks
    cdef public object _finished            # an Event

    cdef int added(self) except -1:
        if self.unfinished_tasks == 0:
            self._finished.reset()
        self.unfinished_tasks += 1
        return 0


cdef class Timeout(clocks.Timeout):
    """Timeout(seconds=None, exception=None)\n--\n\nTimeout(5) raises itself in 5 seconds, Timeout(5,
    exception) the exception. None never comes.

    As a context manager it is cancelled at the end of the block; with False for the exception it ends the
    block and nothing is raised.
    """
    cdef object call            # a timer of the hub, or None

    is_timeout = True

    def __init__(self, seconds=None, exception=None):
        self.seconds = seconds
        self.exception = None if exception is True else exception
        self.other = None
        if self.exception is not None and exception is not False:
            self.other = exception() if isinstance(exception, type) else exception
        self._begin()

    cdef int _begin(self) except -1:
        if type(self) is Timeout:
            return self._start()
        self.start()
        return 0

    cdef int _start(self) except -1:
        if self.clock_runs():
            raise AssertionError(f"{self!r} is already started")
        if self.seconds is not None and self.seconds <= 0:
            # after what is ready now, in the order of making: a timer of the loop would come before
            error = self if self.other is None else self.other
            self.call = _greenlet.find_hub().schedule_call_global(0, greenlets.getcurrent().throw, error)
        elif not is_in_hub(get_loop()):
            clocks.Timeout._start(self)
        return 0

    @final
    cdef bint clock_runs(self) except -1:
        return self.timer.index >= 0 or (self.call is not None and self.call.pending)

    @property
    def pending(self) -> bool:
        return self.clock_runs()

    def __enter__(self):
        if not self.clock_runs():
            self._begin()
        return self

    def cancel(self) -> None:
        """Stop the clock; harmless if it is not running."""
        self.stop()

    cdef int stop(self) except -1:
        if self.call is not None:
            self.call.cancel()
            self.call = None
        return clocks.Timeout.stop(self)

    def __repr__(self):
        state = "pending" if self.clock_runs() else ""
        seconds = "" if self.seconds is None else f"{self.seconds} seconds"
        error = "" if self.exception is None else f"exception={self.exception!r}"
        return f"<{' '.join(filter(None, (type(self).__name__, state, seconds, error)))}>"

    def __str__(self):
        if self.seconds is None:
            return ""
        plural = "" if self.seconds == 1 else "s"
        if self.exception is None:
            return f"{self.seconds} second{plural}"
        if self.exception is False:
            return f"{self.seconds} second{plural} (silent)"
        return f"{self.seconds} second{plural} ({self.exception})"
