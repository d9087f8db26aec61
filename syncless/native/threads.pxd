"""The border between Python and the threads. See threads.pyx."""

from libc.stdint cimport int64_t, uint16_t, uint8_t

from syncless.http.listener cimport Counters
from syncless.http.wire.wire cimport BUCKETS, CODES, R_END, head, limits

cdef int64_t total_of(const server* of, int at) noexcept
cdef int add_new(const server* of, int64_t* collected, Counters counters) except -1


cdef extern from "routes.h" nogil:
    struct bytes_view "syncless_bytes":
        const char* data
        size_t size
    struct segment:
        const char* text
        size_t size
        char kind
    struct route:
        const char* method
        size_t method_size
        const char* path
        size_t path_size
        const char* name
        void* handler
        void* context
        int pieces
        int segment_count
        segment segments[16]
    struct match:
        const route* route
    struct routes:
        int count
    routes* routes_new(route* all, int count)
    void routes_free(routes* table)
    bint routes_find_head(const routes* table, const char* data, const head* found, char* decoded,
        bytes_view* path, match* here)

cdef extern from "<stdatomic.h>" nogil:
    int64_t atomic_fetch_add(int64_t* count, int64_t more)      # of an _Atomic one

cdef extern from "server.h" nogil:
    ctypedef uint8_t owned_t
    enum:
        CONNECTION_MESSAGE
        LOG_MESSAGE
        NOTICE_MESSAGE
        FAULT_MESSAGE
        EVICT_MESSAGE
        READERS
    struct text:
        const char* data
        size_t size
    struct address:
        uint8_t bytes[16]
        uint16_t port
        uint8_t family, listener
    struct message:
        message* next
        int kind, fd
        address address
        size_t size
        char data[1]
    struct inbox:
        int event
    struct counts:
        int64_t requests[CODES]
        int64_t refused[CODES]
        int64_t latency[BUCKETS]
        int64_t latency_ns, connections, accepted, received, sent, dropped, handed, lingering, held
    struct thread:
        int index
        int64_t now
        inbox inbox
        counts counts
        const route* busy_with
        int ended, drained
        unsigned long id
    struct network:
        uint8_t size
        uint8_t mask[16]
        uint8_t base[16]
    enum:
        SHOWN_IF_TRUSTED, HIDDEN
    struct trust:
        uint8_t known[256]
        text forwarding
        int everybody, unix_sockets, network_count
        network* networks
    struct server:
        routes* routes
        trust trust
        limits limits
        text reasons[CODES]
        text refusals[R_END]
        int* listeners
        int listener_count
        thread** threads
        int thread_count
        inbox python
        int64_t log_held
        int64_t bounds[BUCKETS]
        int logs, logs_fields, counts_time, stopping, draining, closings, abort, quit, eviction_wanted
        int64_t connections
        owned_t* owned
        int owned_size
    const void* CALLS
    thread* thread_new(server* server, int index)
    int thread_start(thread* t)
    int64_t thread_busy_ns(thread* t)
    void thread_turn(thread* t, int64_t timeout)
    void thread_free(thread* t)
    thread* thread_for(server* server, int index)
    void send_connection(thread* to, message* message)
    message* take_messages(inbox* source)
    void drop_messages(inbox* source)
    void wake(inbox* it)
    message* message_new(int kind, size_t size)
    size_t show_address(const address* address, char* text, size_t room)


cdef class Threads:
    cdef server core
    cdef list kept              # bytes and handlers that the routes and texts point to
    cdef int started
    cdef int64_t collected[2 * CODES + BUCKETS + 1]        # of the counts, what has been added to a Counters
    cdef readonly list names    # of the routes
    cdef bint wants(self, int fd, const char* data, const head* found) noexcept
    cdef void pythons(self, int fd) noexcept
    cdef int send(
        self, int index, int fd, int listener, str text, int port, const char* data, size_t size) except -1
    cdef int wake_all(self) except -1
    cdef message* take_messages(self) noexcept
    cdef int set_routes(self, list wanted) except -1
    cdef int set_trust(self, object forwarding) except -1
    cdef int set_text(self, text* to, str words) except -1
    cdef const char* keep(self, str words, size_t* size) except NULL


cdef str show(const address* of)

# publish.c, for the module that does not link it
cdef int publish_view(const char* name, size_t name_size, const char* data, size_t size) noexcept
cdef int reclaim_views() noexcept
