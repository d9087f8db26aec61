from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcmp

cdef extern from "head.h" nogil:
    enum:
        HEAD_MAX_HEADERS
        HEAD_UNKNOWN
        HEAD_DROPPED
        HEAD_BEFORE_HEADERS
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

# For the modules that do not link it themselves.
cdef long scan_line(const char* data, size_t size, const head_limits* limits, head* result) noexcept nogil
cdef long scan_fields(const char* data, size_t size, long line, const head_limits* limits,
    head* result) noexcept nogil
cdef long scan_chunk_line(const char* data, size_t size, size_t limit, int64_t* chunk) noexcept nogil
cdef long scan_trailers(const char* data, size_t size, size_t limit) noexcept nogil
cdef int known_name(const char* name, size_t size) noexcept nogil
cdef bint is_token(const char* name, size_t size) noexcept nogil
cdef bint is_value(const char* value, size_t size) noexcept nogil
cpdef bint asks_by_head(bytes data)
cdef const char* name_of(int known) noexcept nogil

cdef inline bint is_head_request(const char* data, const head* found) noexcept nogil:
    return found.method_size == 4 and memcmp(data + found.method, b"HEAD", 4) == 0

cdef inline bint is_get_request(const char* data, const head* found) noexcept nogil:
    return found.method_size == 3 and memcmp(data + found.method, b"GET", 3) == 0
