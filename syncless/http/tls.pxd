cdef enum Shake:        # the result of a handshake, or of another step before HTTP
    FAILED = -1
    WANTS_READ = 0
    WANTS_WRITE = 1
    READY = 2


cdef class TlsLayer:
    cdef object ssl                 # ssl.SSLObject
    cdef object incoming            # ssl.MemoryBIO: ciphertext that has come
    cdef object outgoing            # and that is to go
    cdef bytes unsent               # ciphertext that the client has not taken yet
    cdef Py_ssize_t unsent_from
    cdef bint drained               # the socket was empty when last asked, and no event has come since
    cdef bint at_work               # in OpenSSL: a finaliser that switched must not come back
    cdef bint closed                # and the descriptor may be somebody else's by the time that it does
    cdef bint said_goodbye
    cdef readonly dict variables    # of the handshake; added to those of each request
    cdef int feed(self, const char* data, Py_ssize_t size) except -1
    cdef int handshake(self, int fd) except -2
    cdef Py_ssize_t receive(self, int fd, char* into, size_t room, bint peer_shutdown) except -2
    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2
    cdef int push(self, int fd) except -2
    cdef int goodbye(self, int fd) except -1
    cdef Py_ssize_t fill(self, int fd, bint peer_shutdown) except -2
    cdef int describe(self) except -1
