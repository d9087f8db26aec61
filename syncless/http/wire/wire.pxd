from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcmp

cdef extern from "head.h" nogil:
    enum:
        HEAD_MAX_HEADERS
        HEAD_UNKNOWN
        HEAD_DROPPED
        HEAD_BEFORE_HEADERS
        HTTP_2
    struct head_header:
        uint32_t name, value
        uint16_t name_size, known
        uint32_t value_size
    struct head:
        uint32_t method, method_size, target, target_size, path, path_size, query, query_size
        uint32_t authority, authority_size
        int minor, header_count
        int64_t content_length
        char chunked, keep_alive, expect_continue, websocket, escaped
        head_header headers[HEAD_MAX_HEADERS]
    struct head_limits:
        uint32_t line, headers, total

cdef extern from "names.h" nogil:
    enum: K_HOST, K_CONTENT_LENGTH, K_CONNECTION, K_UPGRADE, K_DATE, K_SERVER
    bint is_hop_by_hop(int known)

cdef extern from "wire.h" nogil:
    enum:
        CODES
        BUCKETS
        RECEIVE
        LITTLE
        MEMORY_MOST
        COPIED
        OUT_HIGH
        WASTE
        ROUNDS
        ACCEPT_BATCH
        LAST_BATCHES
        ASKED
        LOG_HELD
    int64_t RETRY_NS
    int64_t COMPLAIN_NS
    int64_t JUST_COME_NS
    struct limits:
        int64_t request_line, header_count, head_bytes, chunk_line, trailer_bytes, body_bytes, remembered
        int64_t recorded_waits, drain_bytes, streams, pipelined, connections, client_connections
        int64_t requests, queued, buffered_bytes, websocket_bytes, linger_bytes, linger_connections
        int64_t event_bytes, shared_value_bytes, shared_ring_bytes, shared_message_bytes, backlog
        int64_t head_ns, greeting_ns, idle_ns, body_ns, body_total_ns, body_grace_ns, request_ns
        int64_t cancel_ns, queue_ns, retry_ns, write_ns, write_grace_ns, ping_ns, linger_ns
        int64_t linger_idle_ns, worker_requests, worker_requests_jitter, worker_ns, worker_memory_bytes
        int64_t worker_memory_percent, worker_stuck_ns, worker_boot_ns, held_ns, shared_ns, stop_delay_ns
        int64_t stop_ns, stop_notice_ns, stop_idle_ns
        double body_rate, write_rate
        int64_t body_check_ns, write_check_ns, linger_check_ns
        head_limits head

cdef extern from "body.h" nogil:
    enum: BEHIND_DATA, IN_TRAILERS
    struct framing:
        int64_t left, size
        char chunked, ended
    void body_begin(framing* of, bint chunked, int64_t length)
    void body_take(framing* of, int64_t n)

cdef extern from "refusals.h" nogil:
    enum:
        R_MALFORMED
        R_PLAIN_HTTP
        R_TOO_SLOW
        R_BODY_TOO_LARGE
        R_CHUNK_LINE_TOO_LONG
        R_HEAD_TOO_LARGE
        R_TRAILERS_TOO_LARGE
        R_FAILED
        R_PROTOCOL
        R_BUSY
        R_TOO_MANY
        R_STOPPING
        R_END

cdef extern from "reply.h" nogil:
    enum: NO_BODY, BY_LENGTH, CHUNKED, BY_CLOSE
    enum: REPLY_FRAMING, REPLY_CHUNK, REPLY_DATE, REPLY_DATES, REPLY_REFUSAL
    const char* REPLY_CONTINUE
    const char* REPLY_LAST_CHUNK
    struct reply:
        int64_t length
        char framing
    reply reply_frame(int status, bint minor, bint head_only, int64_t length, bint declared)

cdef extern from "datarate.h" nogil:
    enum: FAST_ENOUGH, TOO_LONG, TOO_SLOW
    struct data_rate:
        int64_t since, waited, given, taken, progress
    void data_rate_check(data_rate* of, int64_t unsent, int64_t now)
    bint data_rate_counts(const data_rate* of, const limits* by, int64_t now)
    bint data_rate_is_too_slow(const data_rate* of, const limits* by, int64_t now)
    bint data_rate_may_wait(const data_rate* of, const limits* by, int64_t now)
    int body_data_rate(int64_t waited, int64_t bytes, const limits* by)
    bint may_linger_on(int checks, bint progressed, int64_t bytes, const limits* by)

# The functions of the C files, for the modules that do not link them themselves.
cdef long scan_line(const char* data, size_t size, const head_limits* limits, head* result) noexcept nogil
cdef long scan_fields(const char* data, size_t size, long line, const head_limits* limits,
    head* result) noexcept nogil
cdef long scan_body_line(framing* of, const limits* by, const char* data, size_t size) noexcept nogil
cdef int known_name(const char* name, size_t size) noexcept nogil
cdef bint is_token(const char* name, size_t size) noexcept nogil
cdef bint is_value(const char* value, size_t size) noexcept nogil
cdef bytes decode_path(const char* path, size_t size)
cpdef bint asks_by_head(bytes data)
cdef const char* name_of(int known) noexcept nogil
cdef size_t put_framing(char* into, int64_t length, bint chunked, bint minor, bint closes) noexcept nogil
cdef size_t put_chunk_line(char* into, size_t size) noexcept nogil
cdef bytes dates_at(int64_t seconds)
cdef bytes refusal_fields(size_t body_size, int64_t retry)

cdef inline bint is_head_request(const char* data, const head* found) noexcept nogil:
    return found.method_size == 4 and memcmp(data + found.method, b"HEAD", 4) == 0

cdef inline bint is_get_request(const char* data, const head* found) noexcept nogil:
    return found.method_size == 3 and memcmp(data + found.method, b"GET", 3) == 0
