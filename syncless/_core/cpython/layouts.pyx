"""The private layouts of the interpreter's objects, and the probes that tell whether this Python has them.

Fact: the fields of sockets, locks and files are in no public header. Danger: another layout would let us read
and write foreign memory. Decision: layouts.pxd is the one place that declares them, and a module that reads
one calls require() first, which compares the fields of a fresh object with what its methods say. An unknown
layout is an UnknownLayout that names the Python and the field, and patch_all() goes on without what needs it.
Price: a few microseconds per import. Guarded by tests/core/test_layouts.py.

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
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

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
            f"{python} has the {field} of its {kind} at an unknown place. syncless knows "
            f"CPython 3.10 to {NEWEST[0]}.{NEWEST[1]}; a newer syncless may know this one")
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
    with _io.FileIO(os.devnull) as probe:
        file = <SynclessFileIO*> <PyObject*> probe
        if file.fd != probe.fileno():
            return "descriptor"
        return None if (file.readable, file.writable) == (1, 0) else "mode"


def _probe_locks():
    lock = _thread.allocate_lock()
    if type(lock).__basicsize__ < sizeof(PyObject) + 1:
        return "mutex"
    for held in (False, True):
        if lock_is_held(lock) is not held:
            return "mutex"
        lock.acquire(False)
    rlock = _thread.RLock()
    if type(rlock).__basicsize__ < sizeof(SynclessRLock):
        return "owner"
    rlock.acquire()
    rlock.acquire()
    if rlock_owner(rlock) != <unsigned long> _thread.get_ident():
        return "owner"
    return None if rlock_count(rlock) == 2 else "count"


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
    """Reads one byte through a buffered file, and looks meanwhile where it has noted this thread."""
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
    cdef unsigned char before[TASK_MOST], once[TASK_MOST], twice[TASK_MOST], thrice[TASK_MOST]
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
# for the holder: on 64 bits, and not on a newer Python, which may use the bytes that are unused today
cdef bint has_room = (
    _thread.LockType.__basicsize__ >= sizeof(SynclessLock) and sys.version_info[:2] <= (3, NEWEST_MINOR))

cdef enum:
    NOTED = 0x5A17          # the mark of a lock whose holder is noted: unused bytes can hold anything


cdef bint is_lock(object lock) noexcept:
    return type(lock) is lock_type


cdef bint is_rlock(object lock) noexcept:
    return type(lock) is rlock_type


cdef uint32_t holder_of_lock(object self) noexcept:
    """The last 32 bits of the serial number of the tasklet that holds what is a Lock; 0 if that is not
    known."""
    cdef SynclessLock* lock = <SynclessLock*> <PyObject*> self
    return lock.holder if has_room and lock_is_held(self) and lock.mark == NOTED else 0


cdef void note_holder(object self, uint32_t serial) noexcept:
    """A tasklet has taken what is a Lock."""
    cdef SynclessLock* lock = <SynclessLock*> <PyObject*> self
    if has_room:
        lock.mark = NOTED
        lock.holder = serial


cdef void forget_holder(object self) noexcept:
    """Notes that a Lock is released, or is held by no tasklet."""
    if has_room:
        (<SynclessLock*> <PyObject*> self).mark = 0


cdef unsigned long owner_of_rlock(object self) noexcept:
    """The get_ident() of the tasklet that holds an RLock; 0 if none does."""
    return rlock_owner(self) if rlock_count(self) else 0
