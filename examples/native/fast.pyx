"""Native handlers in Cython: they handle requests on all cores, without the GIL."""

from libc.stdint cimport uint32_t
from libc.stdlib cimport strtoul
from libc.string cimport memcpy

from syncless.native cimport (
    PASS, add_field, append_format, bytes_view, handler, parameter, published, request, respond, respond_static,
    response,
)


cdef int _hello(request* req, response* resp) noexcept nogil:
    return respond_static(resp, 200, b"text/plain", b"Hello, World!", 13)


cdef int _fibonacci(request* req, response* resp) noexcept nogil:
    """Handle /fibonacci/{rounds}, in 32 bits; leave more than a million rounds to Python."""
    cdef bytes_view text
    cdef char digits[8]
    cdef uint32_t a = 0, b = 1, t
    cdef unsigned long i, rounds
    if not parameter(req, b"rounds", &text) or text.size >= sizeof(digits):
        return PASS
    memcpy(digits, text.data, text.size)
    digits[text.size] = 0
    rounds = strtoul(digits, NULL, 10)
    if rounds > 1000000:
        return PASS
    for i in range(rounds):
        t = a + b                   # a, b = b, a + b would take twice as long
        a = b
        b = t
    if add_field(resp, b"Content-Type", b"text/plain"):
        return -1
    return append_format(resp, b"%u", a)


cdef int _prices(request* req, response* resp) noexcept nogil:
    """Respond with the JSON that serve.py publishes every second."""
    cdef bytes_view json
    if not published(req, b"prices", &json):
        return PASS
    return respond(resp, 200, b"application/json", json.data, json.size)


hello = handler(_hello)
fibonacci = handler(_fibonacci)
prices = handler(_prices)
