"""The interpreter's own locks and queues, as functions that can stand in the place of their methods: who
would block parks its tasklet.

A thread without a loop blocks as it always did, so locks go on working between tasklets and OS threads.
Whoever lets go of something wakes the tasklet that waits longest; it tries again, because an OS thread may
have been faster.

Fact: the types are immutable from Python, and modules hold locks that were made before anything is patched.
Decision: the type's own dictionary is changed, which the interpreter allows in C, so that every lock, old or
new, is cooperative; and owners are told apart by tasklet where the interpreter tells them apart by thread.
"""

import _queue
import _thread
import threading
from _queue import Empty

cimport cython
from cpython.dict cimport PyDict_DelItem, PyDict_SetItem
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uintptr_t

from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.layouts cimport PyThread_type_lock, SynclessLock, SynclessRLock, require
from syncless._core.loop cimport Loop, peek_loop, take_turns, wait_in
from syncless._core.scheduler cimport WOKEN, BaseTasklet, WaitQueue, queue_pop

cdef extern from *:
    """
    #include "pythread.h"
    #include <stdint.h>
    static PyObject *syncless_type_dict(PyObject *type) { return ((PyTypeObject *)type)->tp_dict; }
    static void syncless_type_modified(PyObject *type) { PyType_Modified((PyTypeObject *)type); }
    static int syncless_has_slots_of(PyObject *type) { return PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE); }
    static int syncless_set_slot(PyObject *type, PyObject *name, PyObject *value) {
        PyTypeObject *changed = (PyTypeObject *)type;
        unsigned long immutable = changed->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
        changed->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
        int failed = PyType_Type.tp_setattro(type, name, value);
        changed->tp_flags |= immutable;
        return failed;
    }
    """
    PyObject* syncless_type_dict(object type)
    void syncless_type_modified(object type)
    bint syncless_has_slots_of(object type)
    int syncless_set_slot(object type, object name, PyObject* value) except -1
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    void PyThread_release_lock(PyThread_type_lock lock)
    unsigned long PyThread_get_thread_ident()

require("locks")

LockType = _thread.LockType
RLockType = _thread.RLock
SimpleQueueType = _queue.SimpleQueue
cdef object lock_type = LockType
cdef object rlock_type = RLockType
cdef object queue_type = SimpleQueueType
cdef object original_lock_acquire = LockType.acquire
cdef object original_rlock_acquire = RLockType.acquire
cdef object original_put = SimpleQueueType.put
cdef object original_get = SimpleQueueType.get
cdef bint has_room = LockType.__basicsize__ >= sizeof(SynclessLock)     # for the holder; not on 32 bits
cdef double longest = threading.TIMEOUT_MAX
cdef dict waiting = {}  # id of a lock or queue -> _Line of the tasklets that wait for it, while there are any


def set_in_type(type, name, value):
    """Sets a member of a type, immutable or not; deletes it if the value is None. Returns what was there, or
    None.

    Of a type that is made at run time it also sets the slot that the interpreter calls for a special method.
    """
    members = <object> syncless_type_dict(type)
    old = members.get(name)
    if syncless_has_slots_of(type):
        syncless_set_slot(type, name, NULL if value is None else <PyObject*> value)
        return old
    if value is None:
        PyDict_DelItem(members, name)
    else:
        PyDict_SetItem(members, name, value)
    syncless_type_modified(type)
    return old


cdef unsigned long ident() noexcept:
    """The OS thread's, or in a tasklet other than main the tasklet's own."""
    cdef Loop loop = peek_loop()
    if loop is None or loop.current is None or loop.current is loop.main:
        return PyThread_get_thread_ident()
    return <unsigned long> <uintptr_t> <PyObject*> loop.current


def get_ident() -> int:
    """threading.get_ident(): a number that no other tasklet or thread has that is alive now."""
    return ident()


cdef bint may_park() noexcept:
    cdef Loop loop = peek_loop()
    return loop is not None and loop.current is not None


def parks() -> bool:
    """Whether the caller is a tasklet, which parks; False in a thread without a loop, which blocks."""
    return may_park()


@cython.final
cdef class _Line:
    """Those that wait for one lock or queue."""
    cdef WaitQueue waiters
    cdef Py_ssize_t count           # of those that have not left, be they in `waiters` or about to try


cdef _Line join_line(object thing):
    # in one step, because making one may run a finaliser that switches
    cdef _Line line = waiting.setdefault(id(thing), _Line())
    line.count += 1
    return line


cdef int leave_line(object thing, _Line line) except -1:
    line.count -= 1
    if line.count == 0:
        del waiting[id(thing)]
    return 0


cdef int wake_first(object thing) except -1:
    """The first in line tries again. It may have been faster: its time is over, or it is killed; then it is
    the next."""
    cdef _Line line
    cdef BaseTasklet first
    if waiting:
        line = waiting.get(id(thing))
        while line is not None and line.waiters.head != NULL:
            first = queue_pop(&line.waiters)
            if first.loop.wake(first, None):
                break
    return 0


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
    TURN = 64           # locks that are taken before others may have their turn

cdef int taken = 0


cdef int take_turns_at_times() except -1:
    """Programs that take locks and never wait, such as a loop around Queue.get_nowait(), must not keep the
    others from running."""
    global taken
    taken += 1
    if taken >= TURN:
        taken = 0
        take_turns()
    return 0


ctypedef bint (*attempt_t)(object lock) noexcept


cdef bint acquire_in_turn(object self, attempt_t attempt, int64_t deadline) except -1:
    """Parks until the attempt succeeds (True) or the deadline has passed (False)."""
    cdef BaseTasklet me = peek_loop().current
    cdef _Line line = join_line(self)
    try:
        while not attempt(self):                # an OS thread may have been faster
            if wait_in(&line.waiters, "lock", self, deadline) != WOKEN:
                return False
        return True
    except BaseException:
        if me.handed_over:
            wake_first(self)                    # killed when its turn had come: it goes to the next
        raise
    finally:
        leave_line(self, line)


# -- Lock --------------------------------------------------------------------------------------------------------------------------


cdef enum:
    HELD = 0x5A17


cdef bint try_lock(object self) noexcept:
    cdef SynclessLock* lock = <SynclessLock*> <PyObject*> self
    cdef Loop loop
    if not PyThread_acquire_lock(lock.lock, 0):
        return False
    lock.locked = 1
    if has_room:
        loop = peek_loop()
        if loop is not None and loop.current is not None:
            lock.mark = HELD
            lock.holder = <uint32_t> loop.current.serial
    return True


cdef uint32_t holder_of_lock(object self) noexcept:
    """The last 32 bits of the serial number of the tasklet that holds what is a Lock; 0 if that is not
    known."""
    cdef SynclessLock* lock = <SynclessLock*> <PyObject*> self
    return lock.holder if has_room and lock.locked and lock.mark == HELD else 0


cdef unsigned long owner_of_rlock(object self) noexcept:
    """What ident() is for the tasklet that holds what is an RLock; 0 if none does."""
    cdef SynclessRLock* lock = <SynclessRLock*> <PyObject*> self
    return lock.owner if lock.count else 0


cdef bint is_lock(object lock) noexcept:
    return type(lock) is lock_type


cdef bint lock_is_free(object lock) noexcept:
    """Whether nobody holds what is a Lock."""
    return not (<SynclessLock*> <PyObject*> lock).locked


cdef object new_held_lock():
    lock = _thread.allocate_lock()
    try_lock(lock)
    forget_holder(lock)                         # it is not held, but waited for
    return lock


cdef void forget_holder(object self) noexcept:
    if has_room:
        (<SynclessLock*> <PyObject*> self).mark = 0


cdef object seconds_to(int64_t deadline):
    """For the interpreter's own acquire()."""
    return -1 if deadline == NEVER else max(0.0, (deadline - monotonic_ns()) / 1e9)


cdef bint take_lock(object self, int64_t deadline) except -1:
    """Waits for a Lock until then; returns whether it has got it."""
    if try_lock(self):
        return True
    return acquire_in_turn(self, try_lock, deadline) if may_park() else original_lock_acquire(self, True, seconds_to(deadline))


cdef int give_lock(object self) except -1:
    """release() of what is a Lock."""
    cdef SynclessLock* lock = <SynclessLock*> <PyObject*> self
    if not lock.locked:
        raise RuntimeError("release unlocked lock")
    forget_holder(self)
    lock.locked = 0
    PyThread_release_lock(lock.lock)
    return wake_first(self)


def lock_acquire(self, blocking=True, timeout=-1):
    """acquire(blocking=True, timeout=-1) -> bool"""
    cdef int64_t deadline
    if type(self) is not lock_type:
        raise TypeError(f"descriptor 'acquire' for '_thread.lock' objects doesn't apply to a '{type(self).__name__}' object")
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
    if type(self) is not lock_type:
        raise TypeError(f"descriptor 'release' for '_thread.lock' objects doesn't apply to a '{type(self).__name__}' object")
    give_lock(self)


def lock_exit(self, *exc_info):
    """Releases the lock."""
    lock_release(self)


# -- RLock -------------------------------------------------------------------------------------------------------------------------


cdef SynclessRLock* rlock_of(object self) except NULL:
    if not isinstance(self, rlock_type):
        raise TypeError(f"descriptor for '_thread.RLock' objects doesn't apply to a '{type(self).__name__}' object")
    return <SynclessRLock*> <PyObject*> self


cdef bint try_rlock(object self) noexcept:
    cdef SynclessRLock* lock = <SynclessRLock*> <PyObject*> self
    cdef unsigned long me = ident()
    if lock.count > 0 and lock.owner == me:
        lock.count += 1
        return True
    if not PyThread_acquire_lock(lock.lock, 0):
        return False
    lock.owner = me
    lock.count = 1
    return True


cdef bint is_rlock(object lock) noexcept:
    return type(lock) is rlock_type


cdef bint owns_rlock(object self) noexcept:
    """Whether the calling tasklet holds what is an RLock."""
    cdef SynclessRLock* lock = <SynclessRLock*> <PyObject*> self
    return lock.count > 0 and lock.owner == ident()


cdef bint take_rlock(object self, int64_t deadline) except -1:
    """As take_lock()."""
    if try_rlock(self):
        return True
    return acquire_in_turn(self, try_rlock, deadline) if may_park() else original_rlock_acquire(self, True, seconds_to(deadline))


def rlock_acquire(self, blocking=True, timeout=-1):
    """acquire(blocking=True, timeout=-1) -> bool; the tasklet that has it may acquire it again"""
    cdef int64_t deadline = NEVER if blocking is True and timeout == -1 else check_timeout(bool(blocking), timeout)
    rlock_of(self)
    take_turns_at_times()
    if not blocking or timeout == 0:
        if try_rlock(self):
            return True
        take_turns()
        return False
    return take_rlock(self, deadline)


def rlock_release(self):
    """release()"""
    cdef SynclessRLock* lock = rlock_of(self)
    if lock.count == 0 or lock.owner != ident():
        raise RuntimeError("cannot release un-acquired lock")
    lock.count -= 1
    if lock.count == 0:
        lock.owner = 0
        PyThread_release_lock(lock.lock)
        wake_first(self)


def rlock_exit(self, *exc_info):
    """Releases the lock."""
    rlock_release(self)


def rlock_is_owned(self):
    """For threading.Condition."""
    rlock_of(self)
    return owns_rlock(self)


def rlock_recursion_count(self):
    """For the interpreter's own tests."""
    cdef SynclessRLock* lock = rlock_of(self)
    return lock.count if lock.owner == ident() else 0


def rlock_release_save(self):
    """For threading.Condition."""
    cdef SynclessRLock* lock = rlock_of(self)
    if lock.count == 0:
        raise RuntimeError("cannot release un-acquired lock")
    state = (lock.count, lock.owner)
    lock.count = 0
    lock.owner = 0
    PyThread_release_lock(lock.lock)
    wake_first(self)
    return state


def rlock_acquire_restore(self, state):
    """For threading.Condition."""
    cdef SynclessRLock* lock = rlock_of(self)
    rlock_acquire(self)
    lock.count, lock.owner = state


# -- SimpleQueue -------------------------------------------------------------------------------------------------------------------


def queue_put(self, item, block=True, timeout=None):
    """put(item): never blocks"""
    original_put(self, item)
    wake_first(self)


def queue_put_nowait(self, item):
    """put_nowait(item): the same as put(item)"""
    original_put(self, item)
    wake_first(self)


def queue_get(self, block=True, timeout=None):
    """get(block=True, timeout=None) -> item; queue.Empty"""
    cdef int64_t deadline
    cdef _Line line
    cdef BaseTasklet me
    if not block or not may_park():
        return original_get(self, block, timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    try:
        return original_get(self, False)
    except Empty:
        pass
    deadline = deadline_after(timeout)
    me = peek_loop().current
    line = join_line(self)
    try:
        while True:
            try:
                return original_get(self, False)
            except Empty:
                pass
            if wait_in(&line.waiters, "queue", self, deadline) != WOKEN:
                raise Empty
    except BaseException:
        if me.handed_over:
            wake_first(self)
        raise
    finally:
        leave_line(self, line)
