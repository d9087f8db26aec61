from syncless.http.listener cimport Listener
from syncless.http.stream cimport Stream

cdef int write_refusal(
    Listener listener, Stream* stream, str address, int status, str explanation, dict variables
) except -1
