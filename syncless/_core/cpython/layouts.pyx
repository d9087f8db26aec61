"""The private layouts of the interpreter's objects, and the probes that tell whether this Python has them.

Fact: the fields of sockets, locks and files are in no public header, and may change in any release. Danger:
another layout would let us read and write foreign memory. Decision: layouts.pxd is the one place that
declares them, and a module that reads one calls require() first, which compares the fields of fresh objects
with what their methods say. The version that we are compiled with decides nothing: a wheel for CPython 3.13
meets the locks of 3.13.0 and those of 3.13.1. Nothing is read behind an object. An unknown layout is an
UnknownLayout that names the Python and the field; the command `syncless` ends with it, and patch_all() goes
on without what needs it. Price: a few microseconds per import. Guarded by tests/core/test_layouts.py.

The interpreter's own locks: nothing here waits for one. Fact: a Lock does not know its holder. Its object
ends with a few bytes that the interpreter leaves unused. Decision: the patch notes the tasklet that takes a
Lock there, for debug.py. Price: two stores per acquire().
"""

import _io
import _socket
import _thread
import os
import select
import sys

from cpython.dict cimport PyDict_CheckExact
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uintptr_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef bint has_mutex_locks = False, has_mutex_rlocks = False
cdef Py_ssize_t note_at = 0     # where the patch notes the holder of a Lock; 0: there is no room
cdef Py_ssize_t buffered_owner_at = 0
cdef Py_ssize_t coroutine_at = 0
cdef Py_ssize_t must_cancel_at = 0
cdef unsigned char must_cancel_bit = 0

NEWEST = (3, NEWEST_MINOR)


class UnknownLayout(ImportError):
    """This Python has a field of one of its objects at an unknown place."""


cdef int require(str kind) except -1:
    """UnknownLayout unless the layout of that kind of object is the one that layouts.pxd declares."""
    field = PROBES[kind]()
    if field is not None:
        python = "CPython " + sys.version.partition(" ")[0]
        raise UnknownLayout(
            f"the offset of {field} in the {kind} of {python} is unknown. This syncless supports CPython "
            f"3.10 to {NEWEST[0]}.{NEWEST[1]}; a newer syncless may support this version")
    return 0


# Each returns the name of the first field that is not where it should be, or None.


def _probe_sockets():
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        probe.settimeout(1.5)
        if probe.fileno() != (<socket> probe).sock_fd:
            return "descriptor"
        if probe.family != (<socket> probe).sock_family:
            return "family"
        return None if (<socket> probe).sock_timeout == 1500000000 else "timeout"
    finally:
        probe.close()


def _probe_files():
    if _io.FileIO.__basicsize__ < sizeof(SynclessFileIO):
        return "mode"
    with _io.FileIO(os.devnull) as probe:
        file = <SynclessFileIO*> <PyObject*> probe
        if file.fd != probe.fileno():
            return "descriptor"
        return None if (file.readable, file.writable) == (1, 0) else "mode"


def _probe_locks():
    global has_mutex_locks, has_mutex_rlocks, note_at
    lock, rlock = _thread.allocate_lock(), _thread.RLock()
    has_mutex_locks = type(lock).__basicsize__ == sizeof(SynclessMutexLock)
    if not (has_mutex_locks or type(lock).__basicsize__ == sizeof(SynclessLock)) or not (
            _has_lock_layout() and _lock_obeys()):
        return "mutex"
    has_mutex_rlocks = type(rlock).__basicsize__ == sizeof(SynclessMutexRLock)
    if not (has_mutex_rlocks or type(rlock).__basicsize__ == sizeof(SynclessRLock)) or not (
            _has_rlock_layout() and _rlock_obeys()):
        return "owner"
    note_at = _find_room_for_note(<Py_ssize_t> type(lock).__basicsize__)
    return None


# Two steps: the first only reads, so it may be asked of any object of that size. The second locks and unlocks
# by the fields, which with another layout would be a call with any pointer, and asks the object's methods.


cdef bint _is_pointer_of_its_own(void* one, void* other):
    """Return whether both may point to a lock of the C library's."""
    return one != NULL and other != NULL and one != other and not (
        <uintptr_t> one % sizeof(void*) or <uintptr_t> other % sizeof(void*))


cdef bint _has_lock_layout() except -1:
    """Return whether the fields of two locks follow what is done with one of them."""
    lock, other = _thread.allocate_lock(), _thread.allocate_lock()
    if has_mutex_locks:
        if not HAS_MUTEXES:
            return False
    elif not _is_pointer_of_its_own(
            (<SynclessLock*> <PyObject*> lock).lock, (<SynclessLock*> <PyObject*> other).lock):
        return False
    for _ in range(2):
        if lock_is_held(lock) or lock_is_held(other):
            return False
        lock.acquire(False)
        if not lock_is_held(lock) or lock_is_held(other):
            return False
        lock.release()
    return True


cdef bint _lock_obeys() except -1:
    lock = _thread.allocate_lock()
    if not lock_taken(lock) or lock_taken(lock) or not lock.locked() or lock.acquire(False):
        return False
    lock_free(lock)
    if lock.locked() or not lock.acquire(False) or lock_taken(lock):
        return False
    lock.release()
    return lock_taken(lock) and lock.locked()


cdef bint _has_rlock_layout() except -1:
    cdef unsigned long me = PyThread_get_thread_ident()
    cdef unsigned long count
    lock, other = _thread.RLock(), _thread.RLock()
    if has_mutex_rlocks:
        if not HAS_MUTEXES:
            return False
    elif not _is_pointer_of_its_own(
            (<SynclessRLock*> <PyObject*> lock).lock, (<SynclessRLock*> <PyObject*> other).lock):
        return False
    for count in (1, 2, 3):
        if rlock_count(other) or not lock.acquire(False):
            return False
        if rlock_count(lock) != count or rlock_owner(lock) != me:
            return False
    for count in (2, 1, 0):
        lock.release()
        if rlock_count(lock) != count:
            return False
    return True


cdef bint _rlock_obeys() except -1:
    cdef unsigned long me = PyThread_get_thread_ident()
    lock = _thread.RLock()
    if not rlock_taken(lock) or rlock_taken(lock):
        return False
    rlock_note(lock, me, 2)
    if not lock._is_owned():
        return False
    lock.release()
    if rlock_count(lock) != 1:
        return False
    rlock_note(lock, me + 1, 1)         # of another thread
    if lock._is_owned() or lock.acquire(False):
        return False
    rlock_note(lock, 0, 0)
    rlock_free(lock)
    if not lock.acquire(False) or rlock_taken(lock):
        return False
    lock.release()
    return rlock_count(lock) == 0


cdef Py_ssize_t _find_room_for_note(Py_ssize_t size) except -1:
    """Return the end of a Lock, if its fields leave so many bytes unused there; not on 32 bits. Not on a
    newer Python either, which may use the bytes that are unused today, and not if the methods change them."""
    cdef Py_ssize_t used = sizeof(PyObject) + 1, at = size - <Py_ssize_t> sizeof(SynclessNote)
    cdef SynclessNote* note
    if not has_mutex_locks:
        used += 2 * sizeof(void*)
    if at < used or sys.version_info[:2] > (3, NEWEST_MINOR):
        return 0
    lock = _thread.allocate_lock()
    note = <SynclessNote*> (<char*> <PyObject*> lock + at)
    for pattern in (0x5a17, 0):
        note.mark = pattern
        note.holder = <uint32_t> (pattern * 0x10001)
        if lock.locked() or not lock.acquire(False) or not lock.locked() or lock.acquire(False):
            return 0
        lock.release()
        lock._at_fork_reinit()
        if note.mark != pattern or note.holder != <uint32_t> (pattern * 0x10001):
            return 0
    return at


def _probe_polls():
    cdef PyObject* watched
    if not hasattr(select, "poll"):
        return None                     # nothing will be read
    probe = select.poll()
    probe.register(5, 3)
    probe.register(4, 1)
    if type(probe).__basicsize__ < 4 * sizeof(void*):
        return "dict"
    watched = (<SynclessPoll*> <PyObject*> probe).watched
    if watched == NULL or not PyDict_CheckExact(<object> watched) or <object> watched != {5: 3, 4: 1}:
        return "dict"
    return None


def _probe_buffered_files():
    """Read one byte through a buffered file, and look meanwhile where it has noted this thread."""
    global buffered_owner_at
    size = _io.BufferedReader.__basicsize__
    file = None
    found = []

    class Probe(_io._RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            for offset in range(sizeof(PyObject), size - sizeof(long) + 1, sizeof(long)):
                place = <unsigned long*> (<char*> <PyObject*> file + <Py_ssize_t> offset)
                if place[0] == PyThread_get_thread_ident():
                    found.append(offset)
            return 0

    file = _io.BufferedReader(Probe())
    file.read(1)
    for offset in found:
        if (<unsigned long*> (<char*> <PyObject*> file + <Py_ssize_t> offset))[0] == 0:
            buffered_owner_at = offset
    file.detach()
    return None if buffered_owner_at else "owner"


class _Unasked:
    """The loop of a task that never runs."""

    def call_soon(self, *args, **kwargs):
        pass

    def get_debug(self):
        return False


async def _nothing():
    pass


def _probe_tasks():
    """Looks where a task has its coroutine, and cancels it three times. Its mark is the only bit that the
    first time sets and the others leave: the number of the requests changes each time, and the message is the
    same as before."""
    global coroutine_at, must_cancel_at, must_cancel_bit
    import _asyncio                     # here: asyncio must be imported before it
    cdef unsigned char before[TASK_MOST]
    cdef unsigned char once[TASK_MOST]
    cdef unsigned char twice[TASK_MOST]
    cdef unsigned char thrice[TASK_MOST]
    cdef Py_ssize_t size = _asyncio.Task.__basicsize__, i
    cdef unsigned char changed
    cdef char* fields
    if not 0 < size <= TASK_MOST:
        return "mark of a cancellation"
    coroutine = _nothing()
    probe = _asyncio.Task(coroutine, loop=_Unasked())
    probe._log_destroy_pending = False
    probe._cancel_message = None
    fields = <char*> <PyObject*> probe
    memcpy(before, fields, size)
    probe.cancel()
    memcpy(once, fields, size)
    probe.cancel()
    memcpy(twice, fields, size)
    probe.cancel()
    memcpy(thrice, fields, size)
    coroutine.close()
    found = []
    for i in range(sizeof(PyObject), size):
        changed = ~before[i] & once[i] & twice[i] & thrice[i]
        if changed:
            found.append((i, changed))
    if len(found) != 1 or found[0][1] & (found[0][1] - 1):
        return "mark of a cancellation"
    must_cancel_at, must_cancel_bit = found[0]
    found = [
        i for i in range(sizeof(PyObject), size - sizeof(void*) + 1, sizeof(void*))
        if (<PyObject**> (fields + <Py_ssize_t> i))[0] == <PyObject*> coroutine]
    if len(found) != 1:
        return "coroutine"
    coroutine_at = found[0]
    return None


def watched_by(poll) -> dict:
    """Descriptor -> events, of a select.poll(). Python does not show the dict that has them."""
    return <dict?> (<SynclessPoll*> <PyObject*> poll).watched


def drop_cancellation(task) -> None:
    """The task does not raise CancelledError any more for the calls of cancel() that it has not noticed; see
    asyncio/eventloop.py. A task that is no asyncio.Task is left alone."""
    import _asyncio                     # here: asyncio must be imported before it
    if isinstance(task, _asyncio.Task):
        (<unsigned char*> <PyObject*> task)[must_cancel_at] &= ~must_cancel_bit


def checked(str kind):
    """The function above for objects of that kind. UnknownLayout."""
    require(kind)
    return {"poll objects": watched_by, "tasks of asyncio": drop_cancellation}[kind]


cdef dict PROBES = {
    "socket objects": _probe_sockets,
    "io.FileIO objects": _probe_files,
    "locks": _probe_locks,
    "poll objects": _probe_polls,
    "buffered files": _probe_buffered_files,
    "tasks of asyncio": _probe_tasks,
}


cdef object lock_type = _thread.LockType
cdef object rlock_type = _thread.RLock

cdef enum:
    NOTED = 0x5A17          # the mark of a lock whose holder is noted: unused bytes can hold anything


cdef bint is_lock(object lock) noexcept:
    return type(lock) is lock_type


cdef bint is_rlock(object lock) noexcept:
    return type(lock) is rlock_type


cdef inline SynclessNote* note_of(object lock) noexcept:
    return <SynclessNote*> (<char*> <PyObject*> lock + note_at)


cdef uint32_t holder_of_lock(object self) noexcept:
    """Return the last 32 bits of the serial number of the tasklet that holds what is a Lock; 0 if that is not
    known."""
    return note_of(self).holder if note_at and lock_is_held(self) and note_of(self).mark == NOTED else 0


cdef void note_holder(object self, uint32_t serial) noexcept:
    """A tasklet has taken what is a Lock."""
    if note_at:
        note_of(self).mark = NOTED
        note_of(self).holder = serial


cdef void forget_holder(object self) noexcept:
    """Notes that a Lock is released, or is held by no tasklet."""
    if note_at:
        note_of(self).mark = 0


cdef unsigned long owner_of_rlock(object self) noexcept:
    """Return the get_ident() of the tasklet that holds an RLock; 0 if none does."""
    return rlock_owner(self) if rlock_count(self) else 0
