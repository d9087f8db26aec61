"""The frames of a WebSocket: the websockets library reads and writes them, without a connection of its own.

Takes bytes as they come, gives frames one at a time. Imported with the first WebSocket, because websockets is
an optional library.
"""

from functools import lru_cache
from time import monotonic

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING

from syncless.http.request cimport Request

from websockets.datastructures import Headers
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode, apply_mask
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

CONTINUATION, TEXT, BINARY = Opcode.CONT, Opcode.TEXT, Opcode.BINARY
CLOSE, PING, PONG = Opcode.CLOSE, Opcode.PING, Opcode.PONG
FIELDS = ("Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")
"""Of a handshake; the subprotocol is the application's choice."""

cdef enum:
    HEAD_PIECE = 8      # bytes of the longest part of a frame's head: a length
    SHORT_HEAD = 6      # bytes of the head of a client's frame whose length is in the second byte: 4 of mask
    LONGER = 126        # in the second byte, from which on the length follows
    RESERVED = 0x70     # the bits of extensions, such as compression, in a frame's first byte
    GROWTH = 100        # times that a client's bytes may grow in the long run when they are unpacked


# What the library has once made of the first two bytes of a short frame, as one number: without extensions
# nothing else decides. At most 1,512 heads are right.
cdef dict known_heads = {}


@lru_cache(1024)
def _head(bint text, Py_ssize_t size):
    """The head of a message's frame without extensions, as the library writes it."""
    whole = Frame(TEXT if text else BINARY, bytes(size)).serialize(mask=False)
    return whole[: len(whole) - size]


class Broken(Exception):
    """The client breaks the protocol or a limit; `code` is for its close frame (RFC 6455, 7.4.1)."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


def handshake(Request request not None, bint compression):
    """The fields of the 101 response to a request, and the extensions agreed upon. ValueError if the
    handshake is malformed."""
    offered = Headers()
    for name in FIELDS:
        value = request.field(name.lower())
        if value:
            offered[name] = value
    factories = [ServerPerMessageDeflateFactory()] if compression else None
    protocol = ServerProtocol(extensions=factories)
    response = protocol.accept(Handshake("/", offered))
    if response.status_code != 101:
        raise ValueError(str(protocol.handshake_exc or response.reason_phrase))
    answer = [(name, value) for name, value in response.headers.raw_items() if name != "Date"]
    return answer, protocol.extensions


cdef class Frames:
    """Frames(extensions, growth=1048576, clock=monotonic)\n--\n\nOf one connection. `extensions` are those of
    its handshake; `growth`: bytes a second that its messages may be larger unpacked than GROWTH times as
    they came, and at once after a pause. A kilobyte can become a megabyte, again and again."""
    cdef object extensions
    cdef object buffer          # bytes, or a bytearray
    cdef Py_ssize_t start       # so many of them are used up
    cdef object parser          # a generator of the library's, amid a frame
    cdef list pieces            # of the frame at hand: 2 bytes, the length if that is longer, the mask
    cdef Py_ssize_t seen        # bytes of its payload that coming() has given
    cdef double growth, credit  # bytes
    cdef double credited        # when that was
    cdef object clock
    cdef bint packed            # whether the message at hand is compressed: its first frame alone says so

    def __init__(self, extensions, growth=1 << 20, clock=monotonic):
        self.extensions = extensions
        self.growth = self.credit = growth
        self.clock = clock
        self.credited = clock()
        self.buffer = b""
        self.pieces = []

    def feed(self, bytes data not None) -> None:
        """Bytes have come."""
        if self.start == len(self.buffer):  # most often
            self.buffer = data
        else:
            if not isinstance(self.buffer, bytearray):
                self.buffer = bytearray(self.buffer)
            del self.buffer[: self.start]
            self.buffer += data
        self.start = 0

    @property
    def amid_frame(self) -> bool:
        """Whether a part of a frame has come."""
        return self.parser is not None

    def next(self, Py_ssize_t most):
        """The next frame, decompressed, of at most `most` bytes: opcode, payload, whether it is the last of
        its message. None if it is not whole yet. Broken."""
        if self.parser is None:
            if self.start == len(self.buffer):
                return None
            if not self.extensions:
                frame = self.next_known(most)
                if frame is not None:
                    return frame
            self.pieces.clear()
            self.seen = 0
            self.parser = Frame.parse(self._exactly, mask=True, max_size=most, extensions=self.extensions)
        try:
            next(self.parser)
        except StopIteration as done:
            self.parser = None
            return self.parsed(done.value)
        except ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except PayloadTooBig:
            raise Broken(1009, f"a message is larger than {most} bytes") from None
        return None

    cdef tuple next_known(self, Py_ssize_t most):
        """The next frame, if it is short and whole, and its head is known; else None."""
        cdef const char* data
        cdef Py_ssize_t size, rest = len(self.buffer) - self.start
        cdef int first, second
        if rest < SHORT_HEAD:
            return None
        if type(self.buffer) is bytes:
            data = PyBytes_AS_STRING(self.buffer) + self.start
        else:
            data = PyByteArray_AS_STRING(self.buffer) + self.start
        first, second = <unsigned char> data[0], <unsigned char> data[1]
        size = second & 0x7F
        known = known_heads.get(first << 8 | second)
        if known is None or rest - SHORT_HEAD < size or size > most:
            return None
        opcode, last = <tuple> known
        self.start += SHORT_HEAD + size
        payload, mask = data[SHORT_HEAD : SHORT_HEAD + size], data[2:SHORT_HEAD]
        return opcode, apply_mask(payload, mask), last

    cdef tuple parsed(self, object frame):
        """A frame that the library has read."""
        cdef int first, second
        first, second = <bytes> self.pieces[0]
        if not self.extensions and second & 0x7F < LONGER:
            known_heads[first << 8 | second] = frame.opcode, frame.fin
        elif frame.opcode in (TEXT, BINARY):
            self.packed = first & RESERVED != 0
        if self.extensions and len(frame.data) > GROWTH:
            received = second & 0x7F if second & 0x7F < LONGER else int.from_bytes(self.pieces[1], "big")
            self.pay(len(frame.data), received)
        return frame.opcode, bytes(frame.data), frame.fin

    cdef int pay(self, double size, double received) except -1:
        """For a frame that has become so large. Broken if that is too much."""
        cdef double now = self.clock()
        self.credit = min(self.growth, self.credit + (now - self.credited) * self.growth)
        self.credited = now
        self.credit -= max(0, size - GROWTH * received)
        if self.credit < 0:
            raise Broken(1009, "messages become too large when they are unpacked")
        return 0

    def _exactly(self, Py_ssize_t size):
        while len(self.buffer) - self.start < size:
            yield
        start = self.start
        self.start = start + size
        piece = bytes(self.buffer[start : start + size])
        if size <= HEAD_PIECE:
            self.pieces.append(piece)
        return piece

    def coming(self, opcode):
        """The payload of a frame that is not whole yet, from where the last call ended; nothing if it has
        another opcode, or is compressed."""
        if self.parser is None or not self.pieces:
            return b""
        bits, length = self.pieces[0]
        packed = bits & RESERVED or (self.packed and opcode == CONTINUATION)
        if bits & 0x0F != opcode or packed or len(self.pieces) < (2 if length & 0x7F < LONGER else 3):
            return b""
        data = bytes(self.buffer[self.start + self.seen :])
        turn = self.seen % 4
        self.seen += len(data)
        mask = self.pieces[len(self.pieces) - 1]
        return apply_mask(data, mask[turn:] + mask[:turn])

    def message(self, data):
        """A whole message, str or bytes, as a frame."""
        cdef bint text = isinstance(data, str)
        cdef bytes payload = (<str> data).encode() if text else data
        if not self.extensions and len(payload) < 1 << 16:
            return <bytes> _head(text, len(payload)) + payload
        return self.frame(TEXT if text else BINARY, payload)

    def frame(self, opcode, bytes data not None):
        """ValueError if the data does not fit into a control frame."""
        try:
            return Frame(opcode, data).serialize(mask=False, extensions=self.extensions)
        except ProtocolError as error:
            raise ValueError(str(error)) from None

    def close(self, code, reason):
        """A close frame; ValueError for a code that none may have."""
        try:
            return self.frame(CLOSE, close_data(code, reason))
        except ProtocolError as error:
            raise ValueError(
                f"{code} is not a close code that can be sent (RFC 6455, 7.4): {error}"
            ) from None


def close_data(code, reason):
    """The payload of a close frame."""
    return Close(code, reason).serialize()


def read_close(data):
    """Code and reason of a close frame, code 1005 if it has none. Broken."""
    try:
        close = Close.parse(data)
    except ProtocolError as error:
        raise Broken(1002, str(error)) from None
    except UnicodeDecodeError:
        raise Broken(1007, "the reason of the close frame is not UTF-8") from None
    return int(close.code), close.reason
