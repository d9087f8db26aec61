"""Answers of the server's own to bytes that are no request, or to a request that will not be run.

The same kind of answer for a request that has failed is exchange.pyx's, because that one has a Response.
"""

from libc.stdint cimport int64_t

from syncless.http.listener cimport Listener
from syncless.http.stream cimport Stream, first_bytes
from syncless.http.wire cimport asks_by_head, refusal_fields

from syncless.http.accesslog import REFUSED_BYTES, refused_request
from syncless.http.errors import REASONS, refusal, status_line


cdef int write_refusal(
    Listener listener, Stream* stream, str address, int status, str explanation, dict variables
) except -1:
    """Puts it behind what is to be sent, and logs it. `variables`: the request as CGI meta-variables, where
    there is one."""
    cdef bytes response
    cdef bytes received = first_bytes(stream, REFUSED_BYTES)
    cdef int64_t later = (listener.limits.retry_ns + 500000000) // 1000000000 if status == 503 else -1
    if listener.counters is not None:
        listener.counters.count_refused(status)
    body = refusal(status, explanation).encode()
    is_head = asks_by_head(received) if variables is None else variables.get("REQUEST_METHOD") == "HEAD"
    response = (
        status_line(status).encode() + listener.response_heads.dates()
        + refusal_fields(len(body), later)
        + (b"" if is_head else body)
    )
    listener.buffers.append(&stream.out, response, len(response))
    if listener.access_log is not None:
        if variables is None:
            variables = refused_request(received, address)
        listener.access_log.log(
            variables, f"{status} {REASONS[status]}", len(body), listener.loop.clock.now, None, None)
    return 0
