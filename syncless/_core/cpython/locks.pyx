"""The interpreter's own locks, and their holders. Nothing here takes or releases one.

Fact: a Lock does not know its holder. Its object ends with a few bytes that the interpreter leaves unused.
Decision: the patch notes the tasklet that takes a Lock there, for debug.py. Price: two stores per acquire().
"""

import _thread
import sys

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from syncless._core.cpython.layouts cimport NEWEST_MINOR, SynclessLock

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
