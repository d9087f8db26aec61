"""The interpreter's own locks: the fields of a Lock and an RLock, and its holder. See locks.pyx.

The C functions are steps that never wait. Each takes an object of the right type, while the GIL is held.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from syncless._core.cpython.layouts cimport SynclessLock, SynclessRLock

cdef extern from *:
    """
    #ifndef SYNCLESS_LOCKS
    #define SYNCLESS_LOCKS
    #define AS_LOCK(object) ((SynclessLock *)(object))
    #define AS_RLOCK(object) ((SynclessRLock *)(object))

    #if PY_VERSION_HEX < 0x030E0000
    static inline int syncless_lock_held(PyObject *lock) { return AS_LOCK(lock)->locked; }
    static inline int syncless_lock_try(PyObject *lock) {
        if (!PyThread_acquire_lock(AS_LOCK(lock)->lock, 0))
            return 0;
        AS_LOCK(lock)->locked = 1;
        return 1;
    }
    static inline void syncless_lock_free(PyObject *lock) {
        AS_LOCK(lock)->locked = 0;
        PyThread_release_lock(AS_LOCK(lock)->lock);
    }
    static inline int syncless_rlock_try(PyObject *lock) {
        return PyThread_acquire_lock(AS_RLOCK(lock)->lock, 0);
    }
    static inline void syncless_rlock_free(PyObject *lock) { PyThread_release_lock(AS_RLOCK(lock)->lock); }
    static inline unsigned long syncless_rlock_count(PyObject *lock) { return AS_RLOCK(lock)->count; }
    static inline void syncless_rlock_note(PyObject *lock, unsigned long owner, unsigned long count) {
        AS_RLOCK(lock)->owner = owner;
        AS_RLOCK(lock)->count = count;
    }

    #else
    /* A mutex that is free cannot be taken by a thread that does not hold the GIL, so none waits here. */
    static inline int syncless_mutex_try(PyMutex *mutex) {
        if (PyMutex_IsLocked(mutex))
            return 0;
        PyMutex_Lock(mutex);
        return 1;
    }
    static inline int syncless_lock_held(PyObject *lock) {
        return PyMutex_IsLocked(&AS_LOCK(lock)->mutex);
    }
    static inline int syncless_lock_try(PyObject *lock) {
        return syncless_mutex_try(&AS_LOCK(lock)->mutex);
    }
    static inline void syncless_lock_free(PyObject *lock) { PyMutex_Unlock(&AS_LOCK(lock)->mutex); }
    static inline int syncless_rlock_try(PyObject *lock) {
        return syncless_mutex_try(&AS_RLOCK(lock)->mutex);
    }
    static inline void syncless_rlock_free(PyObject *lock) {
        PyMutex_Unlock(&AS_RLOCK(lock)->mutex);
    }
    static inline unsigned long syncless_rlock_count(PyObject *lock) {
        return AS_RLOCK(lock)->owner ? AS_RLOCK(lock)->again + 1 : 0;
    }
    static inline void syncless_rlock_note(PyObject *lock, unsigned long owner, unsigned long count) {
        AS_RLOCK(lock)->owner = count ? owner : 0;
        AS_RLOCK(lock)->again = count ? count - 1 : 0;
    }
    #endif
    static inline unsigned long syncless_rlock_owner(PyObject *lock) { return AS_RLOCK(lock)->owner; }
    #endif
    """
    bint lock_is_held "syncless_lock_held" (object lock) noexcept
    bint lock_taken "syncless_lock_try" (object lock) noexcept          # whether it was free, and is not now
    void lock_free "syncless_lock_free" (object lock) noexcept
    # only the mutex of an RLock; the notes of its owner and count stand beside it
    bint rlock_taken "syncless_rlock_try" (object lock) noexcept
    void rlock_free "syncless_rlock_free" (object lock) noexcept
    unsigned long rlock_owner "syncless_rlock_owner" (object lock) noexcept
    unsigned long rlock_count "syncless_rlock_count" (object lock) noexcept     # 0: nobody holds it
    void rlock_note "syncless_rlock_note" (object lock, unsigned long owner, unsigned long count) noexcept

cdef bint is_lock(object lock) noexcept
cdef bint is_rlock(object lock) noexcept
cdef uint32_t holder_of_lock(object lock) noexcept
cdef unsigned long owner_of_rlock(object lock) noexcept
cdef void note_holder(object lock, uint32_t serial) noexcept
cdef void forget_holder(object lock) noexcept
