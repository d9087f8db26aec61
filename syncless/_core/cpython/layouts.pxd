"""The beginnings of objects whose fields the interpreter does not show. See layouts.pyx.

The functions of locks are steps that never wait. Each takes an object of the right type, while the GIL is
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

    /* The locks of _threadmodule.c. A micro release may change them, so all are declared for every Python,
       and layouts.pyx finds out which one this interpreter has. */
    typedef struct {                        /* lockobject, up to 3.13.0 */
        PyObject_HEAD
        PyThread_type_lock lock;
        PyObject *weakrefs;
        char locked;
    } SynclessLock;

    typedef struct {                        /* rlockobject, up to 3.13 */
        PyObject_HEAD
        PyThread_type_lock lock;
        unsigned long owner;
        unsigned long count;
        PyObject *weakrefs;
    } SynclessRLock;

    typedef struct {                        /* lockobject, since 3.13.1 */
        PyObject_HEAD
        uint8_t mutex;                      /* PyMutex */
    } SynclessMutexLock;

    typedef struct {                        /* rlockobject, since 3.14 */
        PyObject_HEAD
        uint8_t mutex;
        unsigned long long owner;           /* 0: none */
        size_t again;                       /* acquisitions after the first */
    } SynclessMutexRLock;

    /* Ours: in the bytes that the interpreter leaves unused at the end of a lock. */
    typedef struct {
        uint16_t mark;
        uint32_t holder;
    } __attribute__((packed)) SynclessNote;

    typedef struct {                        /* pollObject of selectmodule.c */
        PyObject_HEAD
        PyObject *watched;
    } SynclessPoll;
    #endif
    """
    # Cython's import refuses a smaller one
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
        void* lock
        char locked
    ctypedef struct SynclessRLock:
        void* lock
        unsigned long owner, count
    ctypedef struct SynclessMutexLock:
        unsigned char mutex
    ctypedef struct SynclessMutexRLock:
        unsigned char mutex
        unsigned long long owner
        size_t again
    ctypedef struct SynclessNote:
        uint16_t mark
        uint32_t holder

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
    #if PY_VERSION_HEX >= 0x030D0000            /* whether there are such mutexes, and not what has them */
    /* A mutex that is free cannot be taken by a thread that does not hold the GIL, so none waits here. */
    static inline int syncless_mutex_held(uint8_t *mutex) {
        return __atomic_load_n(mutex, __ATOMIC_RELAXED) & 1;    /* PyMutex_IsLocked is of 3.14 */
    }
    static inline int syncless_mutex_try(uint8_t *mutex) {
        if (syncless_mutex_held(mutex))
            return 0;
        PyMutex_Lock((PyMutex *)mutex);
        return 1;
    }
    static inline void syncless_mutex_free(uint8_t *mutex) { PyMutex_Unlock((PyMutex *)mutex); }
    #define SYNCLESS_HAS_MUTEXES 1
    #else
    static inline int syncless_mutex_held(uint8_t *mutex) { return 1; }
    static inline int syncless_mutex_try(uint8_t *mutex) { return 0; }
    static inline void syncless_mutex_free(uint8_t *mutex) {}
    #define SYNCLESS_HAS_MUTEXES 0
    #endif
    #endif
    """
    enum: HAS_MUTEXES "SYNCLESS_HAS_MUTEXES"
    bint mutex_held "syncless_mutex_held" (unsigned char* mutex) noexcept
    bint mutex_try "syncless_mutex_try" (unsigned char* mutex) noexcept
    void mutex_free "syncless_mutex_free" (unsigned char* mutex) noexcept

cdef extern from "pythread.h":
    bint PyThread_acquire_lock(void* lock, bint waits) noexcept
    void PyThread_release_lock(void* lock) noexcept

# which layouts this interpreter has; after require()
cdef bint has_mutex_locks, has_mutex_rlocks


cdef inline bint lock_is_held(object lock) noexcept:
    if has_mutex_locks:
        return mutex_held(&(<SynclessMutexLock*> <PyObject*> lock).mutex)
    return (<SynclessLock*> <PyObject*> lock).locked


cdef inline bint lock_taken(object lock) noexcept:
    """Whether it was free, and is not now."""
    if has_mutex_locks:
        return mutex_try(&(<SynclessMutexLock*> <PyObject*> lock).mutex)
    if not PyThread_acquire_lock((<SynclessLock*> <PyObject*> lock).lock, False):
        return False
    (<SynclessLock*> <PyObject*> lock).locked = 1
    return True


cdef inline void lock_free(object lock) noexcept:
    if has_mutex_locks:
        mutex_free(&(<SynclessMutexLock*> <PyObject*> lock).mutex)
    else:
        (<SynclessLock*> <PyObject*> lock).locked = 0
        PyThread_release_lock((<SynclessLock*> <PyObject*> lock).lock)


# Only the mutex of an RLock; the notes of its owner and count stand beside it.

cdef inline bint rlock_taken(object lock) noexcept:
    if has_mutex_rlocks:
        return mutex_try(&(<SynclessMutexRLock*> <PyObject*> lock).mutex)
    return PyThread_acquire_lock((<SynclessRLock*> <PyObject*> lock).lock, False)


cdef inline void rlock_free(object lock) noexcept:
    if has_mutex_rlocks:
        mutex_free(&(<SynclessMutexRLock*> <PyObject*> lock).mutex)
    else:
        PyThread_release_lock((<SynclessRLock*> <PyObject*> lock).lock)


cdef inline unsigned long rlock_owner(object lock) noexcept:
    if has_mutex_rlocks:
        return <unsigned long> (<SynclessMutexRLock*> <PyObject*> lock).owner
    return (<SynclessRLock*> <PyObject*> lock).owner


cdef inline unsigned long rlock_count(object lock) noexcept:
    """0: nobody holds it."""
    if has_mutex_rlocks:
        if (<SynclessMutexRLock*> <PyObject*> lock).owner == 0:
            return 0
        return (<SynclessMutexRLock*> <PyObject*> lock).again + 1
    return (<SynclessRLock*> <PyObject*> lock).count


cdef inline void rlock_note(object lock, unsigned long owner, unsigned long count) noexcept:
    if has_mutex_rlocks:
        (<SynclessMutexRLock*> <PyObject*> lock).owner = owner if count else 0
        (<SynclessMutexRLock*> <PyObject*> lock).again = count - 1 if count else 0
    else:
        (<SynclessRLock*> <PyObject*> lock).owner = owner
        (<SynclessRLock*> <PyObject*> lock).count = count

cdef bint is_lock(object lock) noexcept
cdef bint is_rlock(object lock) noexcept
cdef uint32_t holder_of_lock(object lock) noexcept
cdef unsigned long owner_of_rlock(object lock) noexcept
cdef void note_holder(object lock, uint32_t serial) noexcept
cdef void forget_holder(object lock) noexcept
