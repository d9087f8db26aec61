"""The rules of HTTP/1.1 for Cython and Python. Their manuals are the headers in wire/."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

cdef extern from "head.h" nogil:
    int host_is_valid(const char* p, const char* end)
    long head_scan(const char* data, size_t size, const head_limits* limits, head* result)
    long head_scan_line(const char* data, size_t size, const head_limits* limits, head* result)
    long head_scan_fields(const char* data, size_t size, long line, const head_limits* limits, head* result)
    size_t head_decode_path(const char* path, size_t size, char* into)
    int head_asks_by_head(const char* data, size_t size)
    int head_known(const char* name, size_t size)
    int head_is_token(const char* name, size_t size)
    int head_is_value(const char* value, size_t size)
    const char* head_known_names[1]

cdef extern from "body.h" nogil:
    long body_line(framing* of, const limits* by, const char* data, size_t size)

cdef extern from "refusals.h" nogil:
    enum: R_NONE
    int refusal_status(int reason)
    struct refusal_row:
        const char* name
        const char* words
    refusal_row refusal_rows[1]

cdef extern from "reply.h" nogil:
    size_t reply_framing(char* into, int64_t length, int chunked, int minor, int closes)
    size_t reply_chunk(char* into, size_t size)
    size_t reply_date(char* into, int64_t seconds)
    size_t reply_dates(char* into, int64_t seconds)
    size_t reply_refusal(char* into, size_t body_size, int64_t retry)


cdef long scan_line(const char* data, size_t size, const head_limits* limits, head* result) noexcept nogil:
    return head_scan_line(data, size, limits, result)


cdef long scan_fields(const char* data, size_t size, long line, const head_limits* limits,
        head* result) noexcept nogil:
    return head_scan_fields(data, size, line, limits, result)


cdef long scan_body_line(framing* of, const limits* by, const char* data, size_t size) noexcept nogil:
    return body_line(of, by, data, size)


cdef int known_name(const char* name, size_t size) noexcept nogil:
    return head_known(name, size)


cdef bint is_token(const char* name, size_t size) noexcept nogil:
    return head_is_token(name, size)


cdef bint is_value(const char* value, size_t size) noexcept nogil:
    return head_is_value(value, size)


cdef const char* name_of(int known) noexcept nogil:
    """Return the known name in lower case; NULL after the last."""
    return head_known_names[known]


cdef size_t put_framing(char* into, int64_t length, bint chunked, bint minor, bint closes) noexcept nogil:
    return reply_framing(into, length, chunked, minor, closes)


cdef size_t put_chunk_line(char* into, size_t size) noexcept nogil:
    return reply_chunk(into, size)


cdef bytes dates_at(int64_t seconds):
    """Return the Server and Date fields."""
    cdef char text[REPLY_DATES]
    return text[:reply_dates(text, seconds)]


cdef bytes refusal_fields(size_t body_size, int64_t retry):
    cdef char text[REPLY_REFUSAL]
    return text[:reply_refusal(text, body_size, retry)]


def refusals() -> list:
    """Return (name, number, status, words) for each reason to refuse a request."""
    return [
        (
            refusal_rows[reason - R_NONE - 1].name.decode(), reason, refusal_status(reason),
            refusal_rows[reason - R_NONE - 1].words.decode(),
        )
        for reason in range(R_NONE + 1, R_END)
    ]


def http_date(double when) -> str:
    """Return the time (seconds since 1970) in the format of RFC 9110, 5.6.7."""
    cdef char text[REPLY_DATE]
    return text[:reply_date(text, <int64_t> when)].decode()


cdef bytes decode_path(const char* path, size_t size):
    """Return the percent-encoded bytes of a path, decoded once."""
    cdef bytes decoded = PyBytes_FromStringAndSize(NULL, size)
    return decoded[:head_decode_path(path, size, PyBytes_AS_STRING(decoded))]


cpdef bint asks_by_head(bytes data):
    """Return whether received bytes, which may not be a request, begin with the method HEAD."""
    return head_asks_by_head(data, len(data))


def is_host(str text not None):
    """Return whether a Host field can have this value."""
    cdef bytes data = text.encode("latin-1", "replace")
    cdef const char* start = data
    return bool(host_is_valid(start, start + len(data)))


def is_field(bytes name not None, bytes value not None):
    """Return whether a message can have this header field (RFC 9110, 5.1 and 5.5)."""
    return bool(head_is_token(name, len(name)) and head_is_value(value, len(value)))


def parse(bytes data not None, int request_line=8190, int header_count=100, int head_bytes=32768):
    """(size, head) of the request head at the start of the data, None if it is incomplete, or minus the
    reason to refuse it for.

    For tests and fuzzing; the server calls the two halves, scan_line() and scan_fields().
    """
    cdef head found
    cdef head_limits limits
    cdef long n
    cdef int i
    limits.line = request_line
    limits.headers = header_count
    limits.total = head_bytes
    n = head_scan(data, len(data), &limits, &found)
    if n == 0:
        return None
    if n < 0:
        return n
    headers = []
    for i in range(found.header_count):
        headers.append((
            data[found.headers[i].name:found.headers[i].name + found.headers[i].name_size],
            data[found.headers[i].value:found.headers[i].value + found.headers[i].value_size],
        ))
    return n, {
        "method": data[found.method:found.method + found.method_size],
        "target": data[found.target:found.target + found.target_size],
        "path": data[found.path:found.path + found.path_size],
        "query": data[found.query:found.query + found.query_size],
        "authority": data[found.authority:found.authority + found.authority_size],
        "minor": found.minor,
        "content_length": found.content_length if found.content_length >= 0 else None,
        "chunked": bool(found.chunked),
        "keep_alive": bool(found.keep_alive),
        "expect_continue": bool(found.expect_continue),
        "websocket": bool(found.websocket),
        "headers": headers,
    }
