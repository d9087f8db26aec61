"""The frames of a WebSocket. See frames.pyx."""

cdef enum Opcode:           # RFC 6455, 11.8
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


cdef class Frames:
    cdef readonly int opcode        # of the frame that next() has found
    cdef readonly bytes payload
    cdef readonly bint last         # of its message
    cdef object library
    cdef object extensions
    cdef bint plain                 # there are none
    cdef object buffer              # bytes, or a bytearray
    cdef Py_ssize_t start           # so many of them are used up
    cdef object parser              # a generator of the library's, amid a frame
    cdef list pieces                # of the frame at hand: 2 bytes, the length if that is longer, the mask
    cdef Py_ssize_t missing         # bytes for which the parser waits
    cdef Py_ssize_t seen            # bytes of its payload that coming() has given
    cdef double growth, credit      # bytes
    cdef double credited            # when that was
    cdef object clock
    cdef bint packed                # whether the message at hand is compressed: its first frame alone says so

    cpdef int feed(self, bytes data) except -1
    cpdef bint next(self, Py_ssize_t most) except -1
    cdef bint next_known(self, Py_ssize_t most) except -1
    cdef int parsed(self, object frame) except -1
    cdef int pay(self, double size, double received) except -1
    cpdef bytes coming(self, int opcode)
    cpdef bytes message(self, object data)
    cdef bytes frame(self, int opcode, bytes data)
    cdef tuple read_close(self)
