from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int64_t

from syncless._core.loop cimport Loop
from syncless._core.timers cimport Timer

cdef enum:
    NO_DEADLINE = -1
    HEAD_DEADLINE = 0       # a request head, from its first byte to its end
    IDLE_DEADLINE = 1       # between requests
    WRITE_DEADLINE = 2      # without progress in sending
    LINGER_DEADLINE = 3     # a refused client may go on sending for so long
    GREETING_DEADLINE = 4   # a PROXY header and a TLS handshake, from the connection's start
    QUEUE_DEADLINE = 5      # a request that waits for its turn
    DEADLINES = 6

cdef struct DeadlineNode:       # embedded in its owner, which stops it before it ends
    PyObject* owner             # borrowed
    int64_t when                # ns, by the loop's clock
    DeadlineNode* previous      # neighbours in the list of its kind, in the order of expiry
    DeadlineNode* following
    int8_t kind                 # NO_DEADLINE: in no list

cdef struct DeadlineList:
    DeadlineNode* first
    DeadlineNode* last
    int64_t length              # ns from start to expiry

# told that the owner's deadline has passed, which runs no more; may start and stop any, and let the owner end
ctypedef int (*expire_t)(Loop loop, object owner, int kind) except -1

cdef void init_node(DeadlineNode* node, owner) noexcept

cdef class Deadlines:
    cdef Loop loop
    cdef expire_t expire
    cdef DeadlineList lists[DEADLINES]
    cdef Timer timer            # set to the earliest deadline, or earlier
    cdef void allow(self, int kind, double seconds) noexcept
    cdef int start(self, DeadlineNode* node, int kind) except -1
    cdef void stop(self, DeadlineNode* node) noexcept
    cdef int64_t began(self, DeadlineNode* node) noexcept
    cdef Py_ssize_t count(self) noexcept
    cdef Py_ssize_t count_kind(self, int kind) noexcept
    cdef int due_by(self, int64_t when) except -1
    cdef int64_t expire_due(self, int64_t now) noexcept
    cdef void close(self) noexcept
