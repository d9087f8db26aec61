"""The frames of a WebSocket. See frames.pyx."""

cdef enum Opcode:           # RFC 6455, 11.8
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


cdef bytes head_of(object library, int opcode, bint packed, Py_ssize_t size)


cdef class Packing:
    cdef object agreed              # the library's object with what was agreed upon
    cdef object packer, unpacker    # of zlib, once there is something for them

    cdef bytes packed(self, bytes data)
    cdef bytes unpacked(self, bytes data, bint last, Py_ssize_t most)


cdef class Frames:
    cdef readonly int opcode        # of the frame that next() has found
    cdef readonly bytes payload
    cdef readonly bint last         # of its message
    cdef object library
    cdef Packing packing            # None: no message is compressed
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
    # the message that is arriving
    cdef object parts               # StringIO or BytesIO; None: none has begun
    cdef object decoder             # of its text
    cdef object ahead               # of the text of a frame that is not whole yet
    cdef Py_ssize_t size            # bytes

    cpdef int feed(self, bytes data) except -1
    cpdef bint next(self, Py_ssize_t most) except -1
    cdef bint next_known(self, Py_ssize_t most) except -1
    cdef int parsed(self, object frame) except -1
    cdef int unpack(self, int first, Py_ssize_t most) except -1
    cdef int pay(self, double size, double received) except -1
    cpdef bytes coming(self, int opcode)
    cdef object part(self, int opcode, bytes data, bint fin)
    cdef object text(self, object decode, tuple args)
    cdef int look_ahead(self) except -1
    cdef bint is_empty(self) noexcept
    cdef bint is_used_up(self) noexcept
    cpdef bytes message(self, object data)
    cdef bint is_quick(self, object data) noexcept
    cdef bytes control(self, int opcode, bytes data)
    cdef tuple read_close(self)
    cdef bytes close_data(self, code, str reason)
