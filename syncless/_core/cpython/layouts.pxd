"""The beginnings of objects whose fields the interpreter does not show. See layouts.pyx."""

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

cdef int require(str kind) except -1
# where a buffered file notes the thread that holds its lock; after require()
cdef Py_ssize_t buffered_owner_at
# where a task of asyncio has its bit "cancel() was called and has not been raised"; after require()
cdef Py_ssize_t must_cancel_at
cdef unsigned char must_cancel_bit
