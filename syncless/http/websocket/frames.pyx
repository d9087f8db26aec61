"""The frames of a WebSocket, without a connection of its own: bytes come in, frames go out one at a time.

The websockets library reads and writes them (library.py). What it has once made of the first two bytes of a
frame is kept: nothing else decides, and the next such frame is read here. Messages are compressed here, too
(RFC 7692).
"""

import codecs
import io
import zlib
from time import monotonic

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy
cimport cython

from syncless._core.current import sleep

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    HEAD_PIECE = 8      # bytes of the longest part of a frame's head: a length
    MASK = 4            # bytes of a client's mask, the last ones of the head
    SHORT_HEAD = 2 + MASK   # bytes of the head of a client's frame whose length is in the second byte
    LONGER = 126        # in the second byte: the length is in the next two
    LONGEST = 127       # in the second byte: it is in the next eight
    MASKED = 0x80       # the bit of the second byte that each client's frame must have
    PACKED = 0x40       # the bit of a compressed message in its first frame's first byte (RFC 7692, 6)
    WINDOW = 1 << 15    # bytes to which a compressed message may refer
    PIECE = 16384       # bytes that are compressed before others get a turn
    GROWTH = 100        # times that a client's bytes may grow in the long run when they are unpacked
    KNOWN = 0x80        # in known_heads: the library has read such a frame
    LAST = 0x10         # and it was the last of its message; the opcode is in the other bits
    HEADS = 1024        # of our own frames that are kept
    LONG = 8            # bytes of the longest length
    MOST_SHORT = 1 << 16    # bytes of the shortest payload whose length needs them


cdef unsigned char known_heads[1 << 16]     # by compression, the first byte, and the length in the second
cdef list short_heads = [None] * (LONGER << 5)      # by the length, compression, and the opcode
cdef dict heads = {}                        # the same, of longer frames
cdef bytes END = b"\0\0\xff\xff"            # of a compressed message, which is not sent (RFC 7692, 7.2.1)


cdef bytes head_of(object library, int opcode, bint packed, Py_ssize_t size):
    """Return the head of a frame, as the library writes it. Raise ValueError if a control frame cannot have
    that size."""
    cdef Py_ssize_t key = size << 5 | packed << 4 | opcode
    cdef bytes head
    if size > MOST_SHORT:   # one head for all, but for the length in it
        head = head_of(library, opcode, packed, MOST_SHORT)
        return head[: 2] + size.to_bytes(LONG, "big")
    head = <bytes> PyList_GET_ITEM(short_heads, key) if size < LONGER else heads.get(key)
    if head is None:
        whole = library.frame(opcode, bytes(size))
        head = whole[: len(whole) - size]
        if packed:
            head = bytes([head[0] | PACKED]) + head[1:]
        if size < LONGER:
            short_heads[key] = head
            return head
        if len(heads) >= HEADS:
            heads.clear()
        heads[key] = head
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
cdef class Packing:
    """Packing(agreed)\n--\n\nCompresses and decompresses the messages of one connection. Each builds on those
    before it, unless the handshake says otherwise."""

    def __init__(self, agreed):
        self.agreed = agreed

    cdef bytes packed(self, bytes data):
        """Return a whole message. Lets others run if it is long; if it is interrupted then, it never was."""
        cdef Py_ssize_t begin
        cdef list pieces = []
        packer = self.packer
        if packer is None:
            wbits = -self.agreed.local_max_window_bits
            packer = zlib.compressobj(wbits=wbits, **self.agreed.compress_settings)
        elif len(data) > PIECE:
            packer = packer.copy()
        for begin in range(0, len(data) or 1, PIECE):   # without a call nothing is flushed
            if begin:
                sleep(0)
            pieces.append(packer.compress(data[begin : begin + PIECE]))
        pieces.append(packer.flush(zlib.Z_SYNC_FLUSH))
        if not self.agreed.local_no_context_takeover:
            self.packer = packer
        data = b"".join(pieces)
        return data[: len(data) - len(END)]

    cdef bytes unpacked(self, bytes data, bint last, Py_ssize_t most):
        """Return the payload of a frame; `last`: it is its message's last. Broken."""
        cdef bytes made
        unpacker = self.unpacker
        if unpacker is None:
            unpacker = self.unpacker = zlib.decompressobj(wbits=-self.agreed.remote_max_window_bits)
        if last:
            data += END
        try:
            made = unpacker.decompress(data, most + 1)
            if unpacker.eof:    # the client may end its data with each message (RFC 7692, 7.2.3.4)
                self.unpacker = zlib.decompressobj(
                    wbits=-self.agreed.remote_max_window_bits, zdict=made[max(0, len(made) - WINDOW) :]
                )
        except zlib.error:
            raise Broken(1002, "a message cannot be decompressed") from None
        if len(made) > most:
            raise Broken(1009, f"a message is larger than {most} bytes")
        if last and self.agreed.remote_no_context_takeover:
            self.unpacker = None
        return made


@cython.final
cdef class Frames:
    """Frames(library, agreed=None, growth=1048576, clock=monotonic)\n--\n\nOf one connection. `agreed`: what
    its handshake says of compression; `growth`: bytes a second that its messages may be larger unpacked than
    GROWTH times as they came, and at once after a pause. A kilobyte can become a megabyte, each time."""

    def __init__(self, library, agreed=None, growth=1 << 20, clock=monotonic):
        self.library = library
        self.packing = None if agreed is None else Packing(agreed)
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
            if self.next_known(most):
                return True
            self.pieces.clear()
            self.seen = 0
            self.parser = self.library.parse(self._exactly, most, self.packing is not None)
        try:
            next(self.parser)
        except StopIteration as done:
            self.parser = None
            self.parsed(done.value)
            if self.packing is not None:
                self.unpack((<bytes> self.pieces[0])[0], most)
            return True
        except self.library.ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except self.library.PayloadTooBig:
            raise Broken(1009, f"a message is larger than {most} bytes") from None
        return False

    cdef bint next_known(self, Py_ssize_t most) except -1:
        """Return the same, for a frame whose head is known."""
        cdef const unsigned char* data
        cdef Py_ssize_t rest = len(self.buffer) - self.start, head = SHORT_HEAD, i
        cdef uint64_t size
        cdef int known, first
        if rest < SHORT_HEAD:
            return False
        if type(self.buffer) is bytes:
            data = <const unsigned char*> PyBytes_AS_STRING(self.buffer) + self.start
        else:
            data = <const unsigned char*> PyByteArray_AS_STRING(self.buffer) + self.start
        known = known_heads[(self.packing is not None) << 15 | data[0] << 7 | data[1] & ~MASKED]
        if not known or not data[1] & MASKED:
            return False
        first = data[0]
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
        if self.packing is not None:
            self.unpack(first, most)
        return True

    cdef int parsed(self, object frame) except -1:
        """A frame that the library has read."""
        cdef int first, second
        first, second = <bytes> self.pieces[0]
        self.opcode, self.payload, self.last = frame.opcode, bytes(frame.data), frame.fin
        known_heads[(self.packing is not None) << 15 | first << 7 | second & ~MASKED] = (
            KNOWN | (LAST if self.last else 0) | self.opcode)
        return 0

    cdef int unpack(self, int first, Py_ssize_t most) except -1:
        """Unpack the payload at hand, if its message is compressed. `first`: the first byte. Broken."""
        cdef Py_ssize_t received = len(self.payload)
        if self.opcode >= CLOSE:
            return 0
        if self.opcode != CONTINUATION:
            self.packed = first & PACKED != 0
        if not self.packed:
            return 0
        self.payload = self.packing.unpacked(self.payload, self.last, most)
        if self.last:
            self.packed = False
        if len(self.payload) > GROWTH:
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
        packed = bits & PACKED or (self.packed and opcode == CONTINUATION)
        if bits & 0x0F != opcode or packed or len(self.pieces) < (2 if length & 0x7F < LONGER else 3):
            return b""
        data = bytes(self.buffer[self.start + self.seen :])
        turn = self.seen % MASK
        self.seen += len(data)
        mask = self.pieces[len(self.pieces) - 1]
        return unmasked(data, <bytes> (mask[turn:] + mask[:turn]), len(data))

    # -- messages that come ----------------------------------------------------------------------------------

    cdef object part(self, int opcode, bytes data, bint fin):
        """Return the message that is whole with this frame, or None. Broken."""
        cdef bint begins = self.parts is None
        self.ahead = None
        if (opcode == CONTINUATION) == begins:
            raise Broken(1002, "a continuation frame is out of place, or missing")
        if fin and begins:
            return self.text(str, (data, "utf-8")) if opcode == TEXT else data
        if begins:
            self.decoder = _decoder() if opcode == TEXT else None
            self.parts = io.BytesIO() if self.decoder is None else io.StringIO(newline="")
        self.size += len(data)
        self.parts.write(data if self.decoder is None else self.text(self.decoder.decode, (data, fin)))
        if not fin:
            return None
        message = self.parts.getvalue()
        self.parts = None
        self.size = 0
        return message

    cdef object text(self, object decode, tuple args):
        try:
            return decode(*args)
        except UnicodeDecodeError:
            raise Broken(1007, "a text message is not UTF-8") from None

    cdef int look_ahead(self) except -1:
        """Text that is no UTF-8 is refused amid its frame (RFC 6455, 8.1). The client may never send the
        rest."""
        cdef bint goes_on = self.parts is not None
        if self.parser is None or goes_on and self.decoder is None:
            return 0  # a binary message
        data = self.coming(CONTINUATION if goes_on else TEXT)
        if self.ahead is None:
            self.ahead = _decoder()
            if goes_on:
                self.ahead.setstate(self.decoder.getstate())
        self.text(self.ahead.decode, (data,))

    cdef bint is_empty(self) noexcept:
        """Return whether all that has come is used up."""
        return self.parts is None and self.is_used_up()

    cdef bint is_used_up(self) noexcept:
        """Return whether it is, or is a part of a message of which more frames will come."""
        return self.parser is None and self.start == len(self.buffer)

    # -- what is sent ----------------------------------------------------------------------------------------

    cdef bint is_quick(self, object data) noexcept:
        """Return whether message() lets no other tasklet run."""
        return self.packing is None or len(data) <= PIECE // 4  # a character has up to four bytes

    cpdef bytes message(self, object data):
        """Return a whole message, str or bytes, as a frame."""
        cdef bint text = isinstance(data, str)
        cdef Py_ssize_t size
        cdef const char* payload
        cdef bytes head, made
        if self.packing is not None:
            data = self.packing.packed((<str> data).encode() if text else data)
            payload, size = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
        elif text:
            payload = PyUnicode_AsUTF8AndSize(data, &size)
        else:
            payload, size = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
        head = head_of(self.library, TEXT if text else BINARY, self.packing is not None, size)
        made = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(head) + size)
        memcpy(PyBytes_AS_STRING(made), PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        memcpy(PyBytes_AS_STRING(made) + PyBytes_GET_SIZE(head), payload, size)
        return made

    cdef bytes control(self, int opcode, bytes data):
        """Return a control frame. Raise ValueError if the data does not fit."""
        return head_of(self.library, opcode, False, len(data)) + data

    cdef tuple read_close(self):
        """Code and reason of the close frame that next() has found. Broken."""
        try:
            return self.library.read_close(self.payload)
        except self.library.ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except UnicodeDecodeError:
            raise Broken(1007, "the reason of the close frame is not UTF-8") from None

    cdef bytes close_data(self, code, str reason):
        """Return the payload of a close frame, with a reason of at most 123 bytes (RFC 6455, 5.5). Raise
        ValueError if none may have this code."""
        return self.library.close_data(code, reason.encode()[:123].decode(errors="ignore"))


_decoder = codecs.getincrementaldecoder("utf-8")
