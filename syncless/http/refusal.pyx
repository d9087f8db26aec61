"""Answers of the server's own to bytes that are no request, or to a request that will not be run.

The same kind of answer for a request that has failed is exchange.pyx's, because that one has a Response.
"""

from syncless.http.listener cimport Listener
from syncless.http.wire cimport asks_by_head
from syncless.http.stream cimport Stream, first_bytes

from syncless.http.accesslog import REFUSED_BYTES, refused_request
from syncless.http.errors import EXPLANATIONS, REASONS


cdef int write_refusal(
    Listener listener, Stream* stream, str address, int status, str explanation, dict variables
) except -1:
    """Puts it behind what is to be sent, and logs it. `variables`: the request as CGI meta-variables, where
    there is one."""
    cdef bytes response
    cdef bytes received = first_bytes(stream, REFUSED_BYTES)
    if listener.counters is not None:
        listener.counters.count_refused(status)
    body = f"{status} {REASONS[status]}\n{explanation or EXPLANATIONS[status]}\n"
    if asks_by_head(received) if variables is None else variables.get("REQUEST_METHOD") == "HEAD":
        shown = ""
    else:
        shown = body
    later = f"Retry-After: {listener.limits.retry_seconds:.0f}\r\n" if status == 503 else ""
    fields = (
        f"{later}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n")
    response = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode() + listener.response_heads.dates()
        + f"{fields}\r\n{shown}".encode()
    )
    listener.buffers.append(&stream.out, response, len(response))
    if listener.access_log is not None:
        if variables is None:
            variables = refused_request(received, address)
        listener.access_log.log(
            variables, f"{status} {REASONS[status]}", len(body), listener.loop.clock.now, None, None)
    return 0
