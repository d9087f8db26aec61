from syncless.http.buffers cimport Buffers
from syncless.http.stream cimport Stream

cdef enum:
    NOT_TLS = 3             # besides what a handshake can end in

cdef object read_proxy_header(Stream* stream, Buffers buffers, int* outcome)
cdef int begin_tls(Stream* stream, Buffers buffers, object contexts, bint plain_too) except -2
