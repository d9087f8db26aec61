"""The interpreter's Lock, RLock and SimpleQueue, as functions that stand in the place of their methods: a
tasklet that would block parks. And threading.Condition and what stands on it, Event and queue.Queue: their
common cases, without Python in between.

A thread without a loop blocks as it always did, so locks go on working between tasklets and OS threads. A
release wakes the first waiter, which tries again, because an OS thread may have been faster.

Fact: the types are immutable from Python, and modules hold locks that were made before anything is patched.
Decision: the type's own dictionary is changed (cpython/replacing.pyx), so that every lock, old or new, is
cooperative; and owners are told apart by tasklet where the interpreter tells them apart by thread.

None of these objects has room for a wait queue, so the queue of an object exists while tasklets wait for it.

Fact: up to CPython 3.12 threading joins a thread by a lock that the interpreter releases in C when the thread
state is deleted, so no replaced method of the lock sees it. Danger: the tasklets that wait for the lock would
wait for ever. Decision: the thread state's own hook for its end calls the interpreter's function first and
then wakes the first waiter of the lock. Since 3.13 there is no such lock; threads are joined through their
handle (patches/threads.py). Guarded by tests/patches/test_threads.py.

Conditions: each does what the library's own method does, with the same locks and queues of waiters, so both
may be used on one object. Unusual cases (a subclass, another lock, odd arguments, a closed queue) are left to
the library's own method.

Fact: nothing comes between two steps of native code that neither calls Python code nor makes an object that
the garbage collector tracks (it may run a finaliser), neither another tasklet nor another OS thread.
Decision: where an Event's or a Queue's lock is free, it is not taken for steps of that kind.
"""

import _queue
import _thread
import queue
import threading
from collections import deque
from queue import Empty, Full

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uintptr_t

from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython cimport threadend
from syncless._core.cpython.layouts cimport (
    forget_holder, holder_of_lock, is_lock, is_rlock, lock_free, lock_is_held, lock_taken, note_holder,
    require, rlock_count, rlock_free, rlock_note, rlock_owner, rlock_taken,
)
from syncless._core.current cimport acting, may_park, next_thrown, take_turns, wait_in
from syncless._core.loop cimport Loop
from syncless._core.recorder cimport woken_by_holder
from syncless._core.scheduler cimport TIMED_OUT, WOKEN, BaseTasklet, is_exploring
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport peek_loop
from syncless._core.wait.sync cimport wait_for_lock
from syncless._core.wait.waitqueue cimport WaitQueue, queue_pop
from syncless.patches.types.unparked cimport acquire_alone, ident_of, is_on_loop, patience, refuse, seconds_to

from syncless._core.current import uninterrupted
from syncless.patches.registry import class_of

cdef enum:
    RUNNING_ONE = -1

cdef dict waiting = {}              # id of an object -> Waiters


@cython.final
cdef class Waiters:
    """The tasklets that wait for one object."""
    cdef WaitQueue queue
    cdef Py_ssize_t count           # tasklets in the queue or about to try


cdef Waiters join_waiters(object thing):
    # in one step, because making one may run a finaliser that switches
    cdef Waiters waiters = waiting.setdefault(id(thing), Waiters())
    waiters.count += 1
    return waiters


cdef int leave_waiters(object thing, Waiters waiters) except -1:
    waiters.count -= 1
    assert waiters.count >= 0 and waiting[id(thing)] is waiters
    if waiters.count == 0:
        assert waiters.queue.first == NULL
        del waiting[id(thing)]
    return 0


cdef int wake_first(object thing, int64_t holder=0) except -1:
    """The first waiter tries again. If it was killed or its time is over, the next one does. `holder`: who
    held the lock until now, as a tasklet's serial number, or RUNNING_ONE; 0: it is not known."""
    cdef Loop loop
    cdef Waiters waiters
    cdef BaseTasklet first
    if waiting:
        waiters = waiting.get(id(thing))
        while waiters is not None and waiters.queue.first != NULL:
            first = queue_pop(&waiters.queue)
            if first.loop.wake(first, None):
                loop = peek_loop() if holder else None
                if loop is not None and loop.current is not None and (
                        holder == RUNNING_ONE or holder == <uint32_t> loop.current.serial):
                    woken_by_holder(first)
                break
    return 0


cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

require("locks")

cdef object lock_type = _thread.LockType
cdef object rlock_type = _thread.RLock
cdef object original_lock_acquire = _thread.LockType.acquire
cdef object original_rlock_acquire = _thread.RLock.acquire
cdef double longest = threading.TIMEOUT_MAX


cdef unsigned long ident() noexcept:
    """The OS thread's, or in a tasklet other than main its own, or that of the asyncio task whose step it
    makes."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me
    if loop is None or loop.current is loop.main:
        return PyThread_get_thread_ident()
    me = acting(loop)
    if me is None or me is loop.main:
        return PyThread_get_thread_ident()
    return ident_of(me)


def get_ident() -> int:
    """threading.get_ident(): a number that no other tasklet, asyncio task or thread has that is alive now."""
    return ident()


def get_thread_ident() -> int:
    """The number of the current thread as the program sees it. Callbacks of an asyncio loop are in the one
    that runs the loop; but each task, and each other callback, takes locks, imports and has values in
    threading.local by itself, because it may wait in the midst of it."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else acting(loop)
    if me is None or not isinstance(me, Tasklet):
        return ident()
    me = (<Tasklet> me).acts_for()
    if me is loop.main:
        return PyThread_get_thread_ident()
    return <uintptr_t> (<PyObject*> me if me.locals.slot == NULL else me.locals.slot)


cdef int64_t check_timeout(bint blocking, object timeout) except -2:
    """The deadline for the arguments of acquire(); errors as the interpreter raises them."""
    cdef double seconds = timeout
    if not blocking and seconds != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if seconds < 0 and seconds != -1:
        raise ValueError("timeout value must be a non-negative number")
    if seconds > longest:
        raise OverflowError("timeout value is too large")
    return NEVER if seconds == -1 else deadline_after(seconds)


cdef enum:
    TURN = 64           # acquisitions before other tasklets get a turn

cdef int taken = 0


cdef int take_turns_at_times() except -1:
    """Programs that take locks and never wait, such as a loop around Queue.get_nowait(), must not starve the
    others."""
    global taken
    taken += 1
    if taken >= TURN or is_exploring():
        taken = 0
        take_turns()
    return 0


cdef bint asks = False          # whether locks are given back without a word to those who wait here

cdef enum:
    ASKING_NS = 5_000_000


def ask(bint now) -> None:
    """After the patch has been undone, a tasklet or OS thread that has begun to wait under it asks again and
    again: the interpreter's own methods wake nobody here."""
    global asks
    cdef Waiters waiters
    cdef BaseTasklet one
    asks = now
    for waiters in list(waiting.values()) if now else ():
        while waiters.queue.first != NULL:
            one = queue_pop(&waiters.queue)
            one.loop.wake(one, None)


cdef int wait_for_turn(
        Waiters waiters, const char* what, object thing, int64_t deadline, bint signals) except -1:
    """WOKEN, or TIMED_OUT."""
    cdef int64_t until = deadline
    if asks and (deadline == NEVER or deadline > monotonic_ns() + ASKING_NS):
        until = monotonic_ns() + ASKING_NS
    cdef int outcome = (wait_in if signals else wait_for_lock)(&waiters.queue, what, thing, until)
    return WOKEN if outcome == TIMED_OUT and until != deadline else outcome


ctypedef bint (*attempt_t)(object lock) noexcept


cdef bint acquire_in_turn(object self, attempt_t attempt, int64_t deadline, bint signals=False) except -1:
    """Parks until the attempt succeeds (True) or time is over (False). `signals`: the lock is an event."""
    cdef BaseTasklet me = peek_loop().current
    cdef Waiters waiters = join_waiters(self)
    cdef object purpose = None if me.recorder is None else me.recorder.purpose
    try:
        while not attempt(self):                # an OS thread may have been faster
            if wait_for_turn(waiters, "lock", self, deadline, signals) != WOKEN:
                return False
        return True
    except BaseException:
        if me.handed_over:
            wake_first(self)                    # killed after its turn had come: the next waiter gets it
        raise
    finally:
        if me.recorder is not None:
            me.recorder.purpose = purpose       # it may be the holder's name now
        leave_waiters(self, waiters)


# -- Lock ----------------------------------------------------------------------------------------


cdef bint try_lock(object self) noexcept:
    if not lock_taken(self):
        return False
    note_me(self)
    return True


cdef inline void note_me(object lock) noexcept:
    """The running tasklet holds it."""
    cdef Loop loop = peek_loop()
    if loop is not None:
        if loop.current is not None:
            note_holder(lock, <uint32_t> loop.current.serial)
        elif loop.still is not None:
            note_holder(lock, <uint32_t> loop.still.serial)


cdef object new_held_lock():
    lock = _thread.allocate_lock()
    try_lock(lock)
    forget_holder(lock)                         # a waiter waits for it; no tasklet holds it
    return lock


cdef bint take_lock(object self, int64_t deadline, bint signals=False) except -1:
    """Waits for a Lock until then; returns whether it has got it."""
    if try_lock(self):
        return True
    if may_park():
        return acquire_in_turn(self, try_lock, deadline, signals)
    if not acquire_alone(self, original_lock_acquire, deadline):
        return False
    note_me(self)
    return True


cdef int give_lock(object self) except -1:
    """release() of a Lock."""
    cdef uint32_t holder
    if not lock_is_held(self):
        raise RuntimeError("release unlocked lock")
    holder = holder_of_lock(self)
    forget_holder(self)
    lock_free(self)
    return wake_first(self, holder)


cdef int must_be_lock(object self) except -1:
    if type(self) is not lock_type:
        raise TypeError(
            f"descriptor for '_thread.lock' objects doesn't apply to a '{type(self).__name__}' object")
    return 0


def lock_acquire(self, blocking=True, timeout=-1):
    """acquire(blocking=True, timeout=-1) -> bool"""
    cdef int64_t deadline
    must_be_lock(self)
    if blocking is True and timeout == -1:
        deadline = NEVER
    else:
        deadline = check_timeout(bool(blocking), timeout)
    take_turns_at_times()
    if not blocking or timeout == 0:
        if try_lock(self):
            return True
        take_turns()
        return False
    return take_lock(self, deadline)


def lock_release(self):
    """release()"""
    must_be_lock(self)
    give_lock(self)


def lock_locked(self):
    """locked() -> bool; a loop that asks lets others run."""
    must_be_lock(self)
    take_turns_at_times()
    return bool(lock_is_held(self))


def lock_enter(self):
    """Acquires the lock."""
    must_be_lock(self)
    take_turns_at_times()
    return take_lock(self, NEVER)


def lock_exit(self, *exc_info):
    """Releases the lock."""
    lock_release(self)


# -- RLock ---------------------------------------------------------------------------------------


cdef int must_be_rlock(object self) except -1:
    if not isinstance(self, rlock_type):
        raise TypeError(
            f"descriptor for '_thread.RLock' objects doesn't apply to a '{type(self).__name__}' object")
    return 0


cdef bint try_rlock(object self) noexcept:
    cdef unsigned long me = ident(), count = rlock_count(self)
    if count > 0 and rlock_owner(self) == me:
        rlock_note(self, me, count + 1)
        return True
    if not rlock_taken(self):
        return False
    rlock_note(self, me, 1)
    return True


cdef bint owns_rlock(object self) noexcept:
    """Whether the calling tasklet holds this RLock."""
    return rlock_count(self) > 0 and rlock_owner(self) == ident()


cdef bint take_rlock(object self, int64_t deadline) except -1:
    """As take_lock()."""
    if try_rlock(self):
        return True
    if may_park():
        return acquire_in_turn(self, try_rlock, deadline)
    if not acquire_alone(self, original_rlock_acquire, deadline):
        return False
    rlock_note(self, ident(), 1)
    return True


cdef int give_rlock(object self) except -1:
    """Releases an RLock, however often it was acquired."""
    rlock_note(self, 0, 0)
    rlock_free(self)
    return wake_first(self, RUNNING_ONE)


def rlock_acquire(self, blocking=True, timeout=-1):
    """acquire(blocking=True, timeout=-1) -> bool; the tasklet that has it may acquire it again"""
    cdef int64_t deadline = (NEVER if blocking is True and timeout == -1
        else check_timeout(bool(blocking), timeout))
    must_be_rlock(self)
    take_turns_at_times()
    if not blocking or timeout == 0:
        if try_rlock(self):
            return True
        take_turns()
        return False
    return take_rlock(self, deadline)


def rlock_release(self):
    """release()"""
    must_be_rlock(self)
    if not owns_rlock(self):
        raise RuntimeError("cannot release un-acquired lock")
    if rlock_count(self) == 1:
        give_rlock(self)
    else:
        rlock_note(self, rlock_owner(self), rlock_count(self) - 1)


def rlock_enter(self):
    """Acquires the lock."""
    must_be_rlock(self)
    take_turns_at_times()
    return take_rlock(self, NEVER)


def rlock_exit(self, *exc_info):
    """Releases the lock."""
    rlock_release(self)


def rlock_is_owned(self):
    """For threading.Condition."""
    must_be_rlock(self)
    return owns_rlock(self)


def rlock_recursion_count(self):
    """For the interpreter's own tests."""
    must_be_rlock(self)
    return rlock_count(self) if rlock_owner(self) == ident() else 0


def rlock_release_save(self):
    """For threading.Condition."""
    must_be_rlock(self)
    if rlock_count(self) == 0:
        raise RuntimeError("cannot release un-acquired lock")
    state = (rlock_count(self), rlock_owner(self))
    give_rlock(self)
    return state


def rlock_acquire_restore(self, state):
    """For threading.Condition."""
    rlock_acquire(self)
    count, owner = state
    rlock_note(self, owner, count)


cdef void thread_ended(PyObject* lock) noexcept:
    wake_first(<object> lock)


def watch_threads() -> None:
    """Tasklets may join the OS threads that have been started so far."""
    threadend.watch_threads(thread_ended)


cdef object original_put = _queue.SimpleQueue.put
cdef object original_get = _queue.SimpleQueue.get


def simple_queue_put(self, item, block=True, timeout=None):
    """put(item): never blocks"""
    original_put(self, item)
    wake_first(self)


def simple_queue_put_nowait(self, item):
    """put_nowait(item): the same as put(item)"""
    original_put(self, item)
    wake_first(self)


def simple_queue_get_nowait(self):
    """get_nowait() -> item; queue.Empty"""
    return simple_queue_get(self, False)


cdef object get_alone(object self, object timeout):
    """Where no tasklet can park: as acquire_alone()."""
    cdef int64_t deadline, until
    if not is_on_loop() or (timeout is not None and timeout <= 0):
        return original_get(self, True, timeout)
    try:
        return original_get(self, False)
    except Empty:
        deadline = deadline_after(timeout)
    until = patience(self, deadline)
    try:
        return original_get(self, True, seconds_to(until))
    except Empty:
        if until == deadline:
            raise
    return refuse(self, None)


def simple_queue_get(self, block=True, timeout=None):
    """get(block=True, timeout=None) -> item; queue.Empty"""
    cdef int64_t deadline
    cdef Waiters waiters
    cdef BaseTasklet me
    take_turns_at_times()
    if not block:
        return original_get(self, False)
    if not may_park():
        return get_alone(self, timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    try:
        return original_get(self, False)
    except Empty:
        pass
    deadline = deadline_after(timeout)
    me = peek_loop().current
    waiters = join_waiters(self)
    try:
        while True:
            try:
                return original_get(self, False)
            except Empty:
                pass
            if wait_for_turn(waiters, "queue", self, deadline, True) != WOKEN:
                raise Empty
    except BaseException:
        if me.handed_over:
            wake_first(self)
        raise
    finally:
        leave_waiters(self, waiters)


# -- conditions, events and queues ---------------------------------------------------------------------------

cdef object condition_type = class_of(threading, "Condition")
cdef object event_type = class_of(threading, "Event")
cdef object fifo_type = class_of(queue, "Queue")
cdef object lifo_type = class_of(queue, "LifoQueue")
cdef object original_enter = condition_type.__enter__
cdef object original_exit = condition_type.__exit__
cdef object original_condition_wait = condition_type.wait
cdef object original_notify = condition_type.notify
cdef object original_notify_all = condition_type.notify_all
cdef object original_set = event_type.set
cdef object original_clear = event_type.clear
cdef object original_event_wait = event_type.wait
cdef object original_queue_put = fifo_type.put
cdef object original_queue_get = fifo_type.get
cdef bint shuts_down = hasattr(fifo_type, "shutdown")       # since Python 3.13


# -- waiters: a deque of Locks, each held until its waiter's turn ---------------------------------


cdef int notify(object waiters, Py_ssize_t n) except -1:
    while n > 0 and waiters:
        waiter = waiters.popleft()
        if not is_lock(waiter):
            waiter.release()
        elif not lock_is_held(waiter):
            continue                            # an interrupted notify() of the library's has come that far
        else:
            give_lock(waiter)
        n -= 1
    return 0


cdef bint wait_turn(object waiters, object waiter, int64_t deadline) except -1:
    """Waits as `waiter`, which is among the waiters already, until it is notified (True) or the deadline has
    passed (False)."""
    try:
        if deadline != NEVER and deadline <= monotonic_ns():
            take_turns()
        elif take_lock(waiter, deadline, True):
            return True
    except BaseException:
        if not take_out(waiters, waiter):
            notify(waiters, 1)                  # killed after its turn had come: the next waiter gets it
        raise
    return not take_out(waiters, waiter)


cdef bint take_out(object waiters, object waiter) except -1:
    """Returns whether it was still there."""
    try:
        waiters.remove(waiter)
    except ValueError:
        return False
    return True


cdef bint is_time(object timeout) noexcept:
    """None, or a number of seconds; the library refuses everything else."""
    return timeout is None or ((type(timeout) is int or type(timeout) is float) and 0 <= timeout <= longest)


# -- Condition -----------------------------------------------------------------------------------


cdef object waiters_of(object condition):
    """Its waiters; None if it is a subclass or its queue is unusual."""
    if type(condition) is condition_type:
        waiters = condition._waiters
        if type(waiters) is deque:
            return waiters
    return None


def condition_enter(self):
    """Acquires the lock."""
    if type(self) is condition_type:
        take_turns_at_times()
        lock = self._lock
        if is_lock(lock):
            return take_lock(lock, NEVER)
        if is_rlock(lock):
            return take_rlock(lock, NEVER)
    return original_enter(self)


def condition_exit(self, *args):
    """Releases the lock."""
    if type(self) is condition_type:
        lock = self._lock
        if is_lock(lock):
            give_lock(lock)
            return
        if is_rlock(lock):
            rlock_release(lock)
            return
    return original_exit(self, *args)


cdef int must_own(object lock, str what) except -1:
    if not (lock_is_held(lock) if is_lock(lock) else owns_rlock(lock)):
        raise RuntimeError(f"cannot {what} on un-acquired lock")
    return 0


def condition_wait(self, timeout=None):
    """Wait until notified, for at most `timeout` seconds; the lock is released meanwhile. Returns whether it
    was notified."""
    cdef bint notified
    cdef int64_t deadline
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)) or not is_time(timeout):
        return original_condition_wait(self, timeout)
    must_own(lock, "wait")
    waiter, deadline, state = new_held_lock(), deadline_after(timeout), None
    waiters.append(waiter)
    if is_lock(lock):
        give_lock(lock)
    else:
        state = rlock_release_save(lock)
    raised = None
    try:
        notified = wait_turn(waiters, waiter, deadline)
    except BaseException as error:
        notified, raised = False, error
    uninterrupted(_take_again, lock, state)
    if raised is None:
        raised = next_thrown()
        if raised is not None and notified:
            notify(waiters, 1)                  # this waiter raises, so another one gets the notification
    if raised is not None:
        raise raised
    return notified


def _take_again(lock, state):
    """The caller will release the lock, and must not release another's."""
    if is_lock(lock):
        take_lock(lock, NEVER)
    else:
        rlock_acquire_restore(lock, state)


def condition_notify(self, n=1):
    """Wake up to n waiters. RuntimeError if the caller does not hold the lock."""
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)) or type(n) is not int:
        return original_notify(self, n)
    must_own(lock, "notify")
    notify(waiters, min(n, len(waiters)))


def condition_notify_all(self):
    """Wake all waiters. RuntimeError if the caller does not hold the lock."""
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)):
        return original_notify_all(self)
    must_own(lock, "notify")
    notify(waiters, len(waiters))


cdef bint is_free(object lock) noexcept:
    """Whether it is a Lock that is not held."""
    return is_lock(lock) and not lock_is_held(lock)


# -- Event ---------------------------------------------------------------------------------------


cdef object free_waiters_of(object event):
    """Its waiters, if it is as usual and its lock is free; else None."""
    if type(event) is event_type:
        condition = event._cond
        waiters = waiters_of(condition)
        if waiters is not None and is_free(condition._lock):
            return waiters
    return None


def event_is_set(self):
    """Whether the internal flag is true; a loop that asks lets others run."""
    take_turns_at_times()
    return self._flag


def event_set(self):
    """Set the internal flag to true and wake all waiters."""
    take_turns_at_times()
    waiters = free_waiters_of(self)
    if waiters is None:
        return original_set(self)
    self._flag = True
    notify(waiters, len(waiters))


def event_clear(self):
    """Reset the internal flag to false."""
    take_turns_at_times()
    if free_waiters_of(self) is None:
        return original_clear(self)
    self._flag = False


def event_wait(self, timeout=None):
    """Wait until the flag is true, for at most `timeout` seconds. Returns whether it is."""
    cdef int64_t deadline
    take_turns_at_times()
    if type(self) is event_type and self._flag is True:
        return True
    if is_time(timeout):
        waiter, deadline = new_held_lock(), deadline_after(timeout)
        waiters = free_waiters_of(self)
        if waiters is not None and self._flag is False:
            waiters.append(waiter)
            return wait_turn(waiters, waiter, deadline)
    return original_event_wait(self, timeout)


# -- Queue and LifoQueue -------------------------------------------------------------------------


cdef object items_of(object self):
    """Its items, if it is open and its lock is free; else None."""
    if (shuts_down and self.is_shutdown) or not is_free(self.mutex):
        return None
    items = self.queue
    return items if (type(items) is deque if type(self) is fifo_type else type(items) is list) else None


cdef bint is_simple(object self, object block, object timeout) noexcept:
    """Whether it is one of these two classes, and the arguments only say how long to wait."""
    return ((type(self) is fifo_type or type(self) is lifo_type)
        and (block is False or (block is True and is_time(timeout))))


cdef object rest(object timeout, int64_t deadline):
    return None if timeout is None else max(0.0, (deadline - monotonic_ns()) / 1e9)


# other results of try_put() and try_get(): not possible yet; an unusual queue, left to the library
cdef object NOT_YET = object()
cdef object UNUSUAL = object()


cdef object try_put(object self, object item):
    items, room, tasks = items_of(self), self.maxsize, self.unfinished_tasks
    getters = waiters_of(self.not_empty)
    if items is None or getters is None or type(room) is not int or type(tasks) is not int:
        return UNUSUAL
    if 0 < room <= len(items):
        return NOT_YET
    items.append(item)
    self.unfinished_tasks = tasks + 1
    notify(getters, 1)
    return None


cdef object try_get(object self):
    items, putters = items_of(self), waiters_of(self.not_full)
    if items is None or putters is None:
        return UNUSUAL
    if not items:
        return NOT_YET
    item = items.popleft() if type(self) is fifo_type else items.pop()
    notify(putters, 1)
    return item


cdef object in_turn(object self, bint puts, object item, bint block, int64_t deadline):
    """Puts the item, or gets one, waiting as long as there is no room or no item. UNUSUAL: the original does
    it."""
    waiter = None
    while True:
        outcome = try_put(self, item) if puts else try_get(self)
        if outcome is not NOT_YET:
            return outcome
        if not block or (deadline != NEVER and deadline <= monotonic_ns()):
            raise Full if puts else Empty
        waiters = waiters_of(self.not_full if puts else self.not_empty)
        if waiters is None:
            return UNUSUAL
        if waiter is None:
            waiter = new_held_lock()            # which may have run a finaliser: look again
            continue
        waiters.append(waiter)
        wait_turn(waiters, waiter, deadline)
        waiter = None


def queue_put(self, item, block=True, timeout=None):
    """Put an item into the queue; queue.Full if there is no room, now or after `timeout` seconds."""
    cdef int64_t deadline = NEVER
    take_turns_at_times()
    if is_simple(self, block, timeout):
        if block and timeout is not None:
            deadline = deadline_after(timeout)
        if in_turn(self, True, item, block, deadline) is not UNUSUAL:
            return
        if deadline != NEVER:
            timeout = rest(timeout, deadline)
    original_queue_put(self, item, block, timeout)


def queue_get(self, block=True, timeout=None):
    """Remove and return an item; queue.Empty if there is none, now or after `timeout` seconds."""
    cdef int64_t deadline = NEVER
    take_turns_at_times()
    if is_simple(self, block, timeout):
        if block and timeout is not None:
            deadline = deadline_after(timeout)
        item = in_turn(self, False, None, block, deadline)
        if item is not UNUSUAL:
            return item
        if deadline != NEVER:
            timeout = rest(timeout, deadline)
    return original_queue_get(self, block, timeout)
