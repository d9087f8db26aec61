"""Event, Semaphore, Lock, by which tasklets wait for one another. They work between OS threads too. Waits:
which tasklet holds a lock, and the circles of tasklets that wait for each other, for debug.py.

Units and locks are handed over: release() gives them to the first that waits, so nobody can barge in and
waiting is fair. A tasklet that is killed before it runs passes its own on.

The GIL makes these work between OS threads, as long as no Python code runs between the look at the state and
the entry into the wait queue: it could let another thread or a signal handler change the state.
Making the loop, at a thread's first wait, and reading the timeout may run Python code; so both come before
the look that counts.

Fact: what clean-up code gives back, such as a pool's connection, it gives back under a lock, which another
tasklet may hold. Danger: an interrupt that is raised there leaves the connection taken for ever. Decision: a
Timeout, a deadline or a kill that comes at a lock in clean-up code (cleanup.py) is raised at the next wait,
or in GRACE_SECONDS if the lock is not free by then. Price: it may be that much late. Guarded by
tests/core/test_cleanup.py.
"""

import threading

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t

from syncless._core.callbacks cimport drop_callback, with_callback
from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.layouts cimport holder_of_lock, is_lock, is_rlock, owner_of_rlock
from syncless._core.current cimport begin_still, end_still, wait_in
from syncless._core.linked cimport Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    IN_C, OPEN, PARKED, SHIELDED, WOKEN, BaseTasklet, Thrown, next_pending,
)
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop, loops, peek_loop
from syncless._core.wait.waitqueue cimport queue_pop, wake_all

from syncless._core.cleanup import in_clean_up

GRACE_SECONDS = 1.0
"""Seconds for which an interrupted tasklet waits for locks that its clean-up code needs."""

cdef dict graces = {}               # serial number of such a tasklet -> the end of that time, ns


cdef int wait_for_lock(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """As wait_in(). But it may return WOKEN before the lock is free: the caller tries again. See the module's
    text."""
    cdef BaseTasklet me = get_loop().current
    cdef int64_t until
    cdef int outcome
    if me is None or me.shielded:
        return wait_in(queue, why, on, deadline)
    if me.pending is None:
        if graces:
            graces.pop(me.serial, None)
        outcome = wait_shielded(me, IN_C, queue, why, on, deadline)
        if me.pending is not None and not puts_off(me):
            raise next_pending(me)
        return outcome
    me.handed_over = False
    if not puts_off(me):
        raise next_pending(me)
    until = graces[me.serial]
    if deadline != NEVER and deadline < until:
        return wait_shielded(me, SHIELDED, queue, why, on, deadline)
    wait_shielded(me, SHIELDED, queue, why, on, until)
    return WOKEN


cdef int wait_shielded(
        BaseTasklet me, int shield, WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    me.shielded = shield
    try:
        return wait_in(queue, why, on, deadline)
    finally:
        me.shielded = OPEN


cdef bint cleans_up() except -1:
    """Nothing waits in it, neither an import nor a finaliser: the tasklet may have been woken."""
    cdef Loop loop = get_loop()
    cdef uint64_t before = loop.switched
    cdef BaseTasklet me = begin_still(loop)
    try:
        return in_clean_up()
    finally:
        end_still(loop, me, before)


cdef bint puts_off(BaseTasklet me) except -1:
    """Whether what is thrown at the tasklet is raised later: it is in clean-up code, and has time left."""
    cdef int64_t now = monotonic_ns()
    first = (<list> me.pending)[0] if type(me.pending) is list else me.pending
    if type(first) is Thrown:
        first = (<Thrown> first).exception
    if isinstance(first, KeyboardInterrupt) or me.loop.ending or not cleans_up():
        graces.pop(me.serial, None)
        return False
    if me.serial not in graces:
        for number in [number for number, end in graces.items() if end + 60_000_000_000 < now]:
            del graces[number]      # it has ended since, or waits for something else
        graces[me.serial] = deadline_after(GRACE_SECONDS)
    if now < <int64_t> graces[me.serial]:
        return True
    del graces[me.serial]
    return False


cdef class Event:
    """Event()\n--\n\nA flag that tasklets wait for (threading.Event)."""

    def is_set(self) -> bool:
        return self.flag

    ready = is_set

    def set(self) -> None:
        """Raises the flag and wakes all waiters. May be called in any thread."""
        self.flag = True
        wake_all(&self.waiters)
        if self.callbacks is not None:
            callbacks, self.callbacks = self.callbacks, None
            self._tell(callbacks)

    def _tell(self, callbacks):
        """Calls them all. An interrupt of the running tasklet (a kill, a Timeout, Ctrl-C) is raised after
        that."""
        interrupt = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                get_loop().report(callback, error)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def clear(self) -> None:
        self.flag = False

    def wait(self, timeout=None) -> bool:
        """Waits for set(), at most `timeout` seconds. Returns False when they have passed."""
        cdef int64_t deadline
        if self.flag:
            return True
        get_loop()
        deadline = deadline_after(timeout)
        if self.flag:       # see the module's text
            return True
        return wait_in(&self.waiters, "event", self, deadline) == WOKEN

    def add_done_callback(self, callback) -> None:
        """`callback(event)` is called once at the next set(); at once if it is set. It must not block; its
        errors are reported."""
        if self.flag:
            self._tell([callback])
        else:
            self.callbacks = with_callback(self.callbacks, callback)

    def remove_done_callback(self, callback) -> int:
        """Removes the callback; returns how often it was registered."""
        return drop_callback(self.callbacks, callback)

    def __repr__(self):
        return f"<{type(self).__name__} {'set' if self.flag else 'unset'}>"


cdef uint64_t running() noexcept:
    """The serial number of the running tasklet."""
    cdef Loop loop = peek_loop()
    return loop.current.serial if loop is not None and loop.current is not None else 0


cdef class Semaphore:
    """Semaphore(value=1)\n--\n\nAt most that many tasklets are between acquire() and release()
    (threading.Semaphore)."""

    def __init__(self, Py_ssize_t value=1):
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.value = value

    cdef bint acquire_unit(self, bint blocking, object timeout) except -1:
        cdef BaseTasklet me
        cdef int64_t deadline = NEVER
        if self.value == 0:
            if not blocking:
                return False
            me = get_loop().current
            deadline = deadline_after(timeout)
        try:
            while self.value == 0:
                if not isinstance(self, Lock):
                    return wait_in(&self.waiters, "semaphore", self, deadline) == WOKEN
                if wait_for_lock(&self.waiters, "lock", self, deadline) != WOKEN:
                    return False
                if me is not None and me.handed_over:
                    return True
            self.value -= 1
            self.holder = running()
            return True
        except BaseException:
            if me is not None and me.handed_over:
                self.release_unit()
            raise

    cdef int release_unit(self) except -1:
        cdef BaseTasklet first
        while self.waiters.first != NULL:
            first = queue_pop(&self.waiters)
            if first.loop.wake(first, None):
                self.holder = first.serial
                return 0
        self.value += 1
        self.holder = 0
        return 0

    def acquire(self, blocking=True, timeout=None) -> bool:
        """Takes a unit, waiting for one at most `timeout` seconds. Returns whether it got one."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return self.acquire_unit(blocking, timeout)

    def release(self, Py_ssize_t n=1) -> None:
        """Returns n units. May be called in any thread."""
        if n < 1:
            raise ValueError("n must be one or more")
        while n:
            self.release_unit()
            n -= 1

    def locked(self) -> bool:
        """Whether acquire() would wait."""
        return self.value == 0

    def __enter__(self):
        return self.acquire_unit(True, None)

    def __exit__(self, kind, value, trace):
        self.release_unit()

    def __repr__(self):
        return f"<{type(self).__name__} value={self.value}>"


cdef class Lock(Semaphore):
    """Lock()\n--\n\nA lock that one tasklet at a time holds; any tasklet may release it (threading.Lock)."""

    def __init__(self):
        self.value = 1

    def acquire(self, blocking=True, timeout=-1) -> bool:
        """Takes the lock, waiting at most `timeout` seconds (-1: forever). Returns whether it got it."""
        if timeout is not None and timeout != -1:
            if not blocking:
                raise ValueError("can't specify a timeout for a non-blocking call")
            if timeout < 0:
                raise ValueError("timeout value must be a non-negative number")
            return self.acquire_unit(blocking, timeout)
        return self.acquire_unit(blocking, None)

    def release(self) -> None:
        """Releases the lock, or hands it to the longest waiter. RuntimeError if it is not held."""
        if self.value:
            raise RuntimeError("release unlocked lock")
        self.release_unit()

    def __exit__(self, kind, value, trace):
        self.release()

    def __repr__(self):
        held = f"held by tasklet {self.holder}" if self.holder else "locked"
        return f"<{type(self).__name__} {'unlocked' if self.value else held}>"


cdef class Waits:
    """The present waits of the live tasklets of all threads. One waits for another if that holds its lock,
    or if it joins it."""
    cdef list tasklets
    cdef dict by_number         # by the last 32 bits of the serial number
    cdef dict by_ident          # by the ident that _thread.RLock notes as its owner
    cdef dict threads           # ident -> threading.Thread

    def __init__(self):
        cdef BaseTasklet tasklet
        cdef Loop loop
        self.tasklets = []
        self.by_number = {}
        self.by_ident = {}
        # threading.enumerate() takes a lock, for which the loop cannot wait
        self.threads = dict(threading._active)
        for loop in list(loops.values()):
            for tasklet in loop.tasklets():
                self.tasklets.append(tasklet)
                self.by_number[<uint32_t> tasklet.serial] = tasklet
                owner = (<Tasklet> tasklet).owner_of_locks() if isinstance(tasklet, Tasklet) else tasklet
                self.by_ident[loop.thread_id if tasklet is loop.main
                    else <uintptr_t> <PyObject*> owner] = tasklet

    def label(self, BaseTasklet tasklet not None) -> str:
        """The tasklet's name, with that of the threading.Thread that it is under the patch."""
        thread = self.threads.get(<uintptr_t> <PyObject*> tasklet)
        return tasklet.name if thread is None else f"{tasklet.name}, thread {thread.name}"

    def holder(self, thing):
        """The live tasklet that holds a lock, be it Lock, or the interpreter's Lock or RLock under the patch;
        or None."""
        if isinstance(thing, Lock):
            return self.by_number.get(<uint32_t> (<Lock> thing).holder) if (<Lock> thing).value == 0 else None
        if is_lock(thing):
            return self.by_number.get(holder_of_lock(thing))
        if is_rlock(thing):
            return self.by_ident.get(owner_of_rlock(thing))
        return None

    cdef BaseTasklet awaited_by(self, BaseTasklet tasklet):
        """The tasklet that must do something before this one can go on; None if its wait has a limit, or
        another could end it."""
        on = tasklet.waiting_on
        if tasklet.state != PARKED or tasklet.timer.index >= 0 or on is None:
            return None
        if isinstance(on, Tasklet):
            return on
        holder = self.holder(on)
        # threading's way to wait: a tasklet takes the lock that it holds again, and another releases it
        return None if holder is tasklet and is_lock(on) else holder

    def circles(self) -> list:
        """Lists of tasklets, each of which waits for the next one, and the last one for the first."""
        cdef BaseTasklet first, tasklet
        found = []
        seen = {}               # tasklet -> the first of the walk in which it was met
        for first in self.tasklets:
            tasklet = first
            walk = []
            while tasklet is not None and tasklet not in seen:
                seen[tasklet] = first
                walk.append(tasklet)
                tasklet = self.awaited_by(tasklet)
            if tasklet is not None and seen[tasklet] is first:
                found.append(walk[walk.index(tasklet):])
        return found


def may_be_circles(Loop loop not None) -> bool:
    """Whether a tasklet of this loop waits, without limit, for a lock or for the end of another. Quick."""
    cdef Node* one = loop.live.first
    cdef BaseTasklet tasklet
    while one != NULL:
        tasklet = <BaseTasklet> one.owner
        on = tasklet.waiting_on
        if on is not None and tasklet.state == PARKED and tasklet.timer.index < 0 and (
                isinstance(on, Tasklet) or isinstance(on, Lock) or is_lock(on) or is_rlock(on)):
            return True
        one = one.after
    return False
