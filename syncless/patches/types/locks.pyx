"""The interpreter's Lock, RLock and SimpleQueue, as functions that stand in the place of their methods: a
tasklet that would block parks. And threading.Condition and what stands on it, Event and queue.Queue: their
common cases, without Python in between.

A thread without a loop blocks as it always did, so locks go on working between tasklets and OS threads. A
release wakes the first waiter, which retries, because an OS thread may have been faster.

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
import time
from collections import deque
from queue import Empty, Full

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uintptr_t

from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.cpython cimport threadend
from syncless._core.cpython.layouts cimport (
    forget_holder, holder_of_lock, is_lock, is_rlock, lock_free, lock_is_held, lock_taken, note_holder,
    require, rlock_count, rlock_free, rlock_note, rlock_owner, rlock_taken,
)
from syncless._core.cpython.tracing cimport hidden_here, in_tracer_here
from syncless._core.current cimport acting, may_park, next_thrown, take_turns, wait_in
from syncless._core.loop cimport Loop
from syncless._core.recorder cimport woken_by_holder
from syncless._core.scheduler cimport SHIELDED, TIMED_OUT, WOKEN, BaseTasklet, is_exploring
from syncless._core.tasklet cimport Tasklet, ident_of
from syncless._core.threadloop cimport peek_loop
from syncless._core.wait.sync cimport wait_for_lock
from syncless._core.wait.waitqueue cimport WaitQueue, queue_pop
from syncless.patches.types.unparked cimport acquire_alone, is_on_loop, patience, refuse, seconds_to

from syncless._core.cpython.functions import class_of, original_of, take_place
from syncless._core.current import uninterrupted

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
    """The first waiter retries. If it was killed or its time is over, the next one does. `holder`: who
    held the lock until now, as a tasklet's serial number, or RUNNING_ONE; 0: it is not known."""
    cdef Loop loop
    cdef Waiters waiters
    cdef BaseTasklet first
    if waiting:
        waiters = waiting.get(<uintptr_t> <PyObject*> thing)    # id(thing), without a call
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
cdef object original_lock_acquire = original_of(_thread.LockType.acquire)
cdef object original_rlock_acquire = original_of(_thread.RLock.acquire)
cdef double longest = threading.TIMEOUT_MAX


cdef unsigned long ident() noexcept:
    """Return the OS thread's, or in a tasklet other than main its own, or that of the asyncio task whose step
    it makes."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me
    if loop is None or loop.current is loop.main:
        return PyThread_get_thread_ident()
    me = acting(loop)
    if me is None or me is loop.main:
        return PyThread_get_thread_ident()
    return ident_of(me)


cdef dict threads = threading._active
cdef set becoming = set()


def get_ident() -> int:
    """Return, like threading.get_ident(), a number that no other live tasklet, asyncio task or thread has.

    Fact: a debugger stores its state of a thread by this number, and ignores threads that `threading` does
    not know. Danger: the debugger would not stop in requests, and would confuse tasks that stop at the same
    time. Decision: a call inside a trace function registers a thread. Guarded by
    tests/patches/test_tools.py::test_debugpy_stops_in_three_requests_at_once.
    """
    cdef unsigned long number = ident()
    if in_tracer_here() and not hidden_here() and number not in threads and number not in becoming:
        become_known(number)
    return number


cdef int become_known(unsigned long number) except -1:
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else acting(loop)
    if me is not None and me.sets_own:
        return 0                                # threading makes it known in a moment
    becoming.add(number)
    try:
        threading._DummyThread()
    finally:
        becoming.discard(number)
    return 0


def is_in_tracer() -> bool:
    """Return whether a trace function, or a tool of sys.monitoring, has made the call, or a thread of ours
    that they do not see."""
    return in_tracer_here() or hidden_here()


def owner():
    """What the number of get_ident() is of: a tasklet, its slot, or an asyncio task; None: an OS thread."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else acting(loop)
    if me is None or me is loop.main:
        return None
    return (<Tasklet> me).owner_of_locks() if isinstance(me, Tasklet) else me


def get_thread_ident() -> int:
    """Return the number of the current thread as the program sees it. Callbacks of an asyncio loop are in the
    one that runs the loop; but each task, and each other callback, takes locks, imports and has values in
    threading.local by itself, because it may wait in the midst of it."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else acting(loop)
    if me is None or not isinstance(me, Tasklet):
        return ident()
    me = (<Tasklet> me).acts_for()
    if me is loop.main:
        return PyThread_get_thread_ident()
    return <uintptr_t> (<PyObject*> me if me.locals.slot == NULL else me.locals.slot)


def number_of(Tasklet tasklet not None) -> int:
    """Return the value of threading.get_ident() in the tasklet. This may be called in any thread."""
    return ident_of(tasklet)


cdef int64_t check_timeout(bint blocking, object timeout) except -2:
    """Return the deadline for the arguments of acquire(); errors as the interpreter raises them."""
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
    if outcome == TIMED_OUT and until != deadline:
        return WOKEN
    if outcome == TIMED_OUT and Py_IsFinalizing():
        let_pass(deadline)
    return outcome


cdef object monotonic = original_of(time.monotonic)
cdef double passed = 0          # seconds of waits that were over at once


def monotonic_at_end():
    """time.monotonic(), once the interpreter ends and a wait was over before its time.

    Fact: what waits in a loop, such as Semaphore.acquire(), Condition.wait_for() and a PriorityQueue, waits
    again until its time is over. Danger: it would spin until then. Decision: the time that it has asked for
    has passed. Guarded by tests/patches/test_interpreter_ends.py.
    """
    return monotonic() + passed


cdef int let_pass(int64_t deadline) except -1:
    global passed
    cdef double left = (deadline - monotonic_ns()) / 1e9
    if left > 0:
        if passed == 0:
            take_place(time.monotonic, monotonic_at_end)
        passed += left
    return 0


cdef int let_waiters_pass(object self) except -1:
    """Before the running tasklet takes a lock.

    Fact: a waiter that a release wakes runs later than the tasklet that has released. Danger: if that takes
    the lock again at once, and waits while it has it, the waiter is too late each time. Decision: who finds a
    lock free for which others are about to try lets them try first, once. Nothing is raised meanwhile: a lock
    that is free is taken without a wait. Guarded by
    tests/patches/test_locks.py::test_waiter_gets_a_lock_that_another_takes_again_and_again.
    """
    cdef BaseTasklet me
    cdef int before
    if waiting.get(<uintptr_t> <PyObject*> self) is None or not may_park():
        return 0
    me = peek_loop().current
    before, me.shielded = me.shielded, SHIELDED
    try:
        me.loop.yield_()
    finally:
        me.shielded = before
    return 0


ctypedef bint (*attempt_t)(object lock) noexcept


cdef bint acquire_in_turn(object self, attempt_t attempt, int64_t deadline, bint signals=False) except -1:
    """Park until the attempt succeeds (True) or time is over (False). `signals`: the lock is an event."""
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
    if not lock_taken(self) and not (Py_IsFinalizing() and is_end_of_thread(self)):
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


cdef dict thread_ends = {}      # a tasklet that is a thread -> the lock by which it is joined


def end_of_thread(tasklet):
    """Return a lock for _thread._set_sentinel(), which the tasklet holds until it has ended."""
    lock = thread_ends[tasklet] = _thread.allocate_lock()
    return lock


def thread_has_ended(tasklet) -> None:
    """Those that join it go on."""
    lock = thread_ends.pop(tasklet, None)
    if lock is not None and lock_is_held(lock):
        give_lock(lock)


cdef bint is_end_of_thread(object lock) noexcept:
    """While the interpreter ends, such a lock is free to whoever asks: its thread never runs again."""
    for each in thread_ends.values():
        if each is lock:
            return True
    return False


def wait_for_tstate_lock(self, block=True, timeout=-1) -> None:
    """threading.Thread._wait_for_tstate_lock (up to Python 3.12): waits for the end of a thread.

    Fact: the library's takes the thread for ended if an exception, such as Ctrl-C, ends the wait. Danger: a
    Timeout or a kill does, and then the thread is ended for all who join it or ask. Decision: nothing comes
    between taking the lock and giving it back, so what is raised comes before. Guarded by
    tests/patches/test_threads.py::test_thread_whose_join_is_interrupted_is_alive.
    """
    lock = self._tstate_lock
    if lock is not None and lock_acquire(lock, block, timeout):
        give_lock(lock)
        self._stop()


cdef object new_held_lock():
    lock = _thread.allocate_lock()
    try_lock(lock)
    forget_holder(lock)                         # a waiter waits for it; no tasklet holds it
    return lock


cdef bint take_lock(object self, int64_t deadline, bint signals=False) except -1:
    """Wait for a Lock until then; return whether it has got it."""
    if waiting and not lock_is_held(self):
        let_waiters_pass(self)
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
    """Acquire the lock."""
    must_be_lock(self)
    take_turns_at_times()
    return take_lock(self, NEVER)


def lock_exit(self, *exc_info):
    """Release the lock."""
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
    """Return whether the calling tasklet holds this RLock."""
    return rlock_count(self) > 0 and rlock_owner(self) == ident()


cdef bint take_rlock(object self, int64_t deadline) except -1:
    """As take_lock()."""
    if waiting and rlock_count(self) == 0:
        let_waiters_pass(self)
    if try_rlock(self):
        return True
    if may_park():
        return acquire_in_turn(self, try_rlock, deadline)
    if not acquire_alone(self, original_rlock_acquire, deadline):
        return False
    rlock_note(self, ident(), 1)
    return True


cdef int give_rlock(object self) except -1:
    """Release an RLock, however often it was acquired."""
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
    """Acquire the lock."""
    must_be_rlock(self)
    take_turns_at_times()
    return take_rlock(self, NEVER)


def rlock_exit(self, *exc_info):
    """Release the lock."""
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


cdef object original_put = original_of(_queue.SimpleQueue.put)
cdef object original_get = original_of(_queue.SimpleQueue.get)


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


# Condition, Event and Queue of the standard library
include "locks/conditions.pxi"
