"""The frames of a WebSocket, without a connection of its own: bytes come in, frames go out one at a time.

The websockets library reads and writes them (library.py). What it has once made of the first two bytes of a
frame is kept: without extensions nothing else decides, and the next such frame is read here.
"""

from time import monotonic

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy
cimport cython

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    HEAD_PIECE = 8      # bytes of the longest part of a frame's head: a length
    MASK = 4            # bytes of a client's mask, the last ones of the head
    SHORT_HEAD = 2 + MASK   # bytes of the head of a client's frame whose length is in the second byte
    LONGER = 126        # in the second byte: the length is in the next two
    LONGEST = 127       # in the second byte: it is in the next eight
    MASKED = 0x80       # the bit of the second byte that each client's frame must have
    RESERVED = 0x70     # the bits of extensions, such as compression, in a frame's first byte
    GROWTH = 100        # times that a client's bytes may grow in the long run when they are unpacked
    KNOWN = 0x80        # in known_heads: the library has read such a frame
    LAST = 0x10         # and it was the last of its message; the opcode is in the other bits
    HEADS = 1024        # of our own frames that are kept


cdef unsigned char known_heads[1 << 15]     # by the first byte and the length in the second
cdef dict heads = {}                        # by whether it is text and the length


cdef bytes head_of(object library, bint text, Py_ssize_t size):
    """Return the head of a message's frame without extensions, as the library writes it."""
    cdef Py_ssize_t key = size << 1 | text
    cdef bytes head = heads.get(key)
    if head is None:
        if len(heads) >= HEADS:
            heads.clear()
        whole = library.frame(TEXT if text else BINARY, bytes(size))
        head = heads[key] = whole[: len(whole) - size]
    return head


cdef bytes unmasked(const unsigned char* data, const unsigned char* mask, Py_ssize_t size):
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef unsigned char* to = <unsigned char*> PyBytes_AS_STRING(made)
    cdef Py_ssize_t i = 0
    cdef uint32_t four
    cdef uint64_t eight, word
    memcpy(&four, mask, MASK)
    eight = <uint64_t> four << 32 | four
    while i + 8 <= size:
        memcpy(&word, data + i, 8)
        word ^= eight
        memcpy(to + i, &word, 8)
        i += 8
    while i < size:
        to[i] = data[i] ^ mask[i % MASK]
        i += 1
    return made


class Broken(Exception):
    """The client breaks the protocol or a limit; `code` is for its close frame (RFC 6455, 7.4.1)."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


@cython.final
cdef class Frames:
    """Frames(library, extensions, growth=1048576, clock=monotonic)\n--\n\nOf one connection. `extensions` are
    those of its handshake; `growth`: bytes a second that its messages may be larger unpacked than GROWTH
    times as they came, and at once after a pause. A kilobyte can become a megabyte, again and again."""

    def __init__(self, library, extensions, growth=1 << 20, clock=monotonic):
        self.library = library
        self.extensions = extensions
        self.plain = not extensions
        self.growth = self.credit = growth
        self.clock = clock
        self.credited = clock()
        self.buffer = b""
        self.pieces = []

    cpdef int feed(self, bytes data) except -1:
        """Bytes have come."""
        if self.start == len(self.buffer):  # most often
            self.buffer = data
        else:
            if not isinstance(self.buffer, bytearray):
                self.buffer = bytearray(self.buffer)
            del self.buffer[: self.start]
            self.buffer += data
        self.start = 0
        return 0

    cpdef bint next(self, Py_ssize_t most) except -1:
        """Return whether a frame is whole that has at most `most` bytes, decompressed: `opcode`, `payload`
        and `last` are those of the next one. Broken."""
        if self.parser is None:
            if self.start == len(self.buffer):
                return False
            if self.plain and self.next_known(most):
                return True
            self.pieces.clear()
            self.seen = 0
            self.parser = self.library.parse(self._exactly, most, self.extensions)
        try:
            next(self.parser)
        except StopIteration as done:
            self.parser = None
            self.parsed(done.value)
            return True
        except self.library.ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except self.library.PayloadTooBig:
            raise Broken(1009, f"a message is larger than {most} bytes") from None
        return False

    cdef bint next_known(self, Py_ssize_t most) except -1:
        """Return the same, for a frame without extensions whose head is known."""
        cdef const unsigned char* data
        cdef Py_ssize_t rest = len(self.buffer) - self.start, head = SHORT_HEAD, i
        cdef uint64_t size
        cdef int known
        if rest < SHORT_HEAD:
            return False
        if type(self.buffer) is bytes:
            data = <const unsigned char*> PyBytes_AS_STRING(self.buffer) + self.start
        else:
            data = <const unsigned char*> PyByteArray_AS_STRING(self.buffer) + self.start
        known = known_heads[data[0] << 7 | data[1] & ~MASKED]
        if not known or not data[1] & MASKED:
            return False
        size = data[1] & ~MASKED
        if size >= LONGER:
            head += 2 if size == LONGER else 8
            if rest < head:
                return False
            size = 0
            for i in range(2, head - MASK):
                size = size << 8 | data[i]
        if size > <uint64_t> most or <uint64_t> (rest - head) < size:
            return False
        self.opcode = known & 0x0F
        self.last = known & LAST != 0
        self.payload = unmasked(data + head, data + head - MASK, <Py_ssize_t> size)
        self.start += head + <Py_ssize_t> size
        return True

    cdef int parsed(self, object frame) except -1:
        """A frame that the library has read."""
        cdef int first, second
        first, second = <bytes> self.pieces[0]
        self.opcode, self.payload, self.last = frame.opcode, bytes(frame.data), frame.fin
        if self.plain:
            known_heads[first << 7 | second & ~MASKED] = KNOWN | (LAST if self.last else 0) | self.opcode
        elif self.opcode == TEXT or self.opcode == BINARY:
            self.packed = first & RESERVED != 0
        if not self.plain and len(self.payload) > GROWTH:
            received = second & 0x7F if second & 0x7F < LONGER else int.from_bytes(self.pieces[1], "big")
            self.pay(len(self.payload), received)
        return 0

    cdef int pay(self, double size, double received) except -1:
        """For a frame that has become so large. Broken if that is too much."""
        cdef double now = self.clock()
        self.credit = min(self.growth, self.credit + (now - self.credited) * self.growth)
        self.credited = now
        self.credit -= max(0, size - GROWTH * received)
        if self.credit < 0:
            raise Broken(1009, "messages become too large when they are decompressed")
        return 0

    def _exactly(self, Py_ssize_t size):
        cdef const char* data
        while len(self.buffer) - self.start < size:
            self.missing = size - (len(self.buffer) - self.start)
            yield
        if type(self.buffer) is bytes:
            data = PyBytes_AS_STRING(self.buffer) + self.start
        else:
            data = PyByteArray_AS_STRING(self.buffer) + self.start
        piece = data[:size]
        self.start += size
        if size <= HEAD_PIECE:
            self.pieces.append(piece)
        return piece

    cpdef bytes coming(self, int opcode):
        """Return the payload of a frame that is not whole yet, from where the last call ended; nothing if it
        has another opcode, or is compressed."""
        if self.parser is None or not self.pieces:
            return b""
        bits, length = self.pieces[0]
        packed = bits & RESERVED or (self.packed and opcode == CONTINUATION)
        if bits & 0x0F != opcode or packed or len(self.pieces) < (2 if length & 0x7F < LONGER else 3):
            return b""
        data = bytes(self.buffer[self.start + self.seen :])
        turn = self.seen % MASK
        self.seen += len(data)
        mask = self.pieces[len(self.pieces) - 1]
        return unmasked(data, <bytes> (mask[turn:] + mask[:turn]), len(data))

    cpdef bytes message(self, object data):
        """Return a whole message, str or bytes, as a frame."""
        cdef bint text = isinstance(data, str)
        cdef Py_ssize_t size
        cdef const char* payload
        cdef bytes head, made
        if not self.plain:
            return self.frame(TEXT if text else BINARY, (<str> data).encode() if text else data)
        if text:
            payload = PyUnicode_AsUTF8AndSize(data, &size)
        else:
            payload, size = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
        if size >= 1 << 16:
            return self.frame(TEXT if text else BINARY, payload[:size])
        head = head_of(self.library, text, size)
        made = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(head) + size)
        memcpy(PyBytes_AS_STRING(made), PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        memcpy(PyBytes_AS_STRING(made) + PyBytes_GET_SIZE(head), payload, size)
        return made

    cdef bytes frame(self, int opcode, bytes data):
        """Raise ValueError if the data does not fit into a control frame."""
        return self.library.frame(opcode, data, self.extensions)

    cdef tuple read_close(self):
        """Code and reason of the close frame that next() has found. Broken."""
        try:
            return self.library.read_close(self.payload)
        except self.library.ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except UnicodeDecodeError:
            raise Broken(1007, "the reason of the close frame is not UTF-8") from None
