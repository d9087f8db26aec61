from libc.stdint cimport int64_t, uint8_t

from syncless._core.linked cimport LinkedList, Node
from syncless._core.loop cimport Loop
from syncless._core.timers cimport Timer

cdef enum:
    NO_DEADLINE = 0
    HEAD_DEADLINE = 1       # a request head, from its first byte to its end
    IDLE_DEADLINE = 2       # between requests
    WRITE_DEADLINE = 3      # without progress in sending
    LINGER_DEADLINE = 4     # until the next look at a refused client that may still send
    GREETING_DEADLINE = 5   # a PROXY header and a TLS handshake, from the connection's start
    QUEUE_DEADLINE = 6      # a request that waits for its turn
    KINDS = 7

cdef struct DeadlineNode:       # embedded in its owner, which stops it before it ends; all zero: not started
    Node place                  # in the list of its kind, in the order of expiry; first, for next_of()
    int64_t when                # ns, by the loop's clock
    uint8_t kind                # NO_DEADLINE: in no list

cdef struct DeadlineList:
    LinkedList nodes
    int64_t length              # ns from start to expiry

# told that the owner's deadline has passed, which runs no more; may start and stop any, and let the owner end
ctypedef int (*expire_t)(Loop loop, object owner, int kind) except -1

cdef class Deadlines:
    cdef Loop loop
    cdef expire_t expire
    cdef DeadlineList lists[KINDS]
    cdef Timer timer            # set to the earliest deadline, or earlier
    cdef void allow(self, int kind, int64_t ns) noexcept

    cdef inline DeadlineNode* first(self, int kind) noexcept:
        """The node that expires next; NULL if there is none."""
        return <DeadlineNode*> self.lists[kind].nodes.first

    cdef int start(self, DeadlineNode* node, int kind, object owner) except -1
    cdef void stop(self, DeadlineNode* node) noexcept
    cdef int64_t began(self, DeadlineNode* node) noexcept
    cdef Py_ssize_t count(self) noexcept
    cdef Py_ssize_t count_kind(self, int kind) noexcept
    cdef int due_by(self, int64_t when) except -1
    cdef int64_t expire_due(self, int64_t now) noexcept
    cdef void close(self) noexcept


cdef inline DeadlineNode* next_of(DeadlineNode* node) noexcept:
    """The next one in its list; NULL at the end."""
    return <DeadlineNode*> node.place.after
