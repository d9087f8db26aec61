"""The beginnings of objects whose fields the interpreter does not show. See layouts.pyx.

The C functions of locks are steps that never wait. Each takes an object of the right type, while the GIL is
held.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint16_t, uint32_t

cdef extern from *:
    """
    #include <Python.h>
    #include <pythread.h>
    #include <stdint.h>

    #ifndef SYNCLESS_LAYOUTS
    #define SYNCLESS_LAYOUTS
    typedef struct {                        /* PySocketSockObject, since 3.5 */
        PyObject_HEAD
        int sock_fd;
        int sock_family;
        int sock_type;
        int sock_proto;
        PyObject *(*errorhandler)(void);
        long long sock_timeout;             /* ns; -1 none, 0 non-blocking */
    } SynclessSocket;

    typedef struct {                        /* fileio of Modules/_io/fileio.c */
        PyObject_HEAD
        int fd;
        unsigned int created : 1, readable : 1, writable : 1, appending : 1;
    } SynclessFileIO;

    #if PY_VERSION_HEX < 0x030E0000
    typedef struct {                        /* lockobject of _threadmodule.c, up to 3.13 */
        PyObject_HEAD
        PyThread_type_lock lock;
        PyObject *weakrefs;
        char locked;
        /* These two are ours. They lie in the bytes that the interpreter leaves unused at the end. */
        uint16_t mark;
        uint32_t holder;
    } SynclessLock;

    typedef struct {                        /* rlockobject of _threadmodule.c, up to 3.13 */
        PyObject_HEAD
        PyThread_type_lock lock;
        unsigned long owner;
        unsigned long count;
        PyObject *weakrefs;
    } SynclessRLock;
    #else
    typedef struct {                        /* lockobject, since 3.14 */
        PyObject_HEAD
        PyMutex mutex;
        uint16_t mark;                      /* ours, as above */
        uint32_t holder;
    } SynclessLock;

    typedef struct {                        /* rlockobject, since 3.14 */
        PyObject_HEAD
        PyMutex mutex;
        unsigned long long owner;           /* 0: none */
        size_t again;                       /* acquisitions after the first */
    } SynclessRLock;
    #endif

    typedef struct {                        /* pollObject of selectmodule.c */
        PyObject_HEAD
        PyObject *watched;
    } SynclessPoll;
    #endif
    """
    ctypedef class _socket.socket [object SynclessSocket, check_size ignore]:
        cdef int sock_fd
        cdef int sock_family
        cdef int sock_type
        cdef int sock_proto
        cdef long long sock_timeout

    ctypedef struct SynclessFileIO:
        int fd
        unsigned int readable, writable

    ctypedef struct SynclessLock:
        uint16_t mark
        uint32_t holder

    ctypedef struct SynclessRLock:
        pass

    ctypedef struct SynclessPoll:
        PyObject* watched

cdef enum:
    NEWEST_MINOR = 15       # of the Pythons that are known
    TASK_MOST = 512         # bytes of a task of asyncio

cdef int require(str kind) except -1
# where a buffered file notes the thread that holds its lock; after require()
cdef Py_ssize_t buffered_owner_at
# where a task of asyncio has its coroutine, and its bit "cancel() was called and has not been raised"; after
# require()
cdef Py_ssize_t coroutine_at, must_cancel_at
cdef unsigned char must_cancel_bit


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
