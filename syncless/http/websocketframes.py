"""The frames of a WebSocket: the websockets library reads and writes them, without a connection of its own.

Takes bytes as they come, gives frames one at a time. Imported with the first WebSocket, because websockets is
an optional library.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode, apply_mask  # type: ignore[attr-defined]
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from syncless.http.request import Request

CONTINUATION, TEXT, BINARY = Opcode.CONT, Opcode.TEXT, Opcode.BINARY
CLOSE, PING, PONG = Opcode.CLOSE, Opcode.PING, Opcode.PONG
FIELDS = ("Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")
"""Of a handshake; the subprotocol is the application's choice."""

HEAD_PIECE = 8
"""Bytes of the longest part of a frame's head: a length."""
RESERVED = 0x70
"""The bits of extensions, such as compression, in a frame's first byte."""


class Broken(Exception):
    """The client breaks the protocol or a limit; `code` is for its close frame (RFC 6455, 7.4.1)."""

    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code = code


def handshake(request: Request, compression: bool) -> tuple[list[tuple[str, str]], Sequence[Any]]:
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


class Frames:
    """Of one connection. `extensions` are those of its handshake."""

    def __init__(self, extensions: Sequence[Any]):
        self._extensions = extensions
        self._bytes: bytes | bytearray = b""
        self._start = 0
        """Bytes of them that are used up."""
        self._parser: Generator[None, None, Frame] | None = None
        self._pieces: list[bytes] = []
        """Of the frame at hand: its head of 2 bytes, the length if that is longer, the mask."""
        self._seen = 0
        """Bytes of its payload that coming() has given."""
        self._packed = False
        """Whether the message at hand is compressed: its first frame alone says so."""

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        if self._start == len(self._bytes):  # most often
            self._bytes = data
        else:
            if not isinstance(self._bytes, bytearray):
                self._bytes = bytearray(self._bytes)
            del self._bytes[: self._start]
            self._bytes += data
        self._start = 0

    @property
    def amid_frame(self) -> bool:
        """Whether a part of a frame has come."""
        return self._parser is not None

    def next(self, most: int) -> Frame | None:
        """The next frame, decompressed, of at most `most` bytes; None if it is not whole yet. Broken."""
        if self._parser is None:
            if self._start == len(self._bytes):
                return None
            self._pieces.clear()
            self._seen = 0
            self._parser = Frame.parse(self._exactly, mask=True, max_size=most, extensions=self._extensions)
        try:
            next(self._parser)
        except StopIteration as done:
            self._parser = None
            if done.value.opcode in (TEXT, BINARY):
                self._packed = self._pieces[0][0] & RESERVED != 0
            return done.value  # type: ignore[no-any-return]
        except ProtocolError as error:
            raise Broken(1002, str(error)) from None
        except PayloadTooBig:
            raise Broken(1009, f"a message is larger than {most} bytes") from None
        return None

    def _exactly(self, size: int) -> Generator[None, None, bytes]:
        while len(self._bytes) - self._start < size:
            yield
        start = self._start
        self._start = start + size
        piece = bytes(self._bytes[start : start + size])
        if size <= HEAD_PIECE:
            self._pieces.append(piece)
        return piece

    def coming(self, opcode: Opcode) -> bytes:
        """The payload of a frame that is not whole yet, from where the last call ended; nothing if it has
        another opcode, or is compressed."""
        if self._parser is None or not self._pieces:
            return b""
        bits, length = self._pieces[0]
        packed = bits & RESERVED or (self._packed and opcode == CONTINUATION)
        if bits & 0x0F != opcode or packed or len(self._pieces) < (2 if length & 0x7F < 126 else 3):
            return b""
        data = bytes(self._bytes[self._start + self._seen :])
        turn = self._seen % 4
        self._seen += len(data)
        mask = self._pieces[-1]
        return apply_mask(data, mask[turn:] + mask[:turn])  # type: ignore[no-any-return]

    def message(self, data: str | bytes) -> bytes:
        """A whole message as a frame."""
        if isinstance(data, str):
            return self.frame(TEXT, data.encode())
        return self.frame(BINARY, data)

    def frame(self, opcode: Opcode, data: bytes) -> bytes:
        """ValueError if the data does not fit into a control frame."""
        try:
            return Frame(opcode, data).serialize(mask=False, extensions=self._extensions)
        except ProtocolError as error:
            raise ValueError(str(error)) from None

    def close(self, code: int, reason: str) -> bytes:
        """A close frame; ValueError for a code that none may have."""
        try:
            return self.frame(CLOSE, close_data(code, reason))
        except ProtocolError as error:
            raise ValueError(
                f"{code} is not a close code that can be sent (RFC 6455, 7.4): {error}"
            ) from None


def close_data(code: int, reason: str) -> bytes:
    """The payload of a close frame."""
    return Close(code, reason).serialize()


def read_close(data: bytes) -> tuple[int, str]:
    """Code and reason of a close frame, code 1005 if it has none. Broken."""
    try:
        close = Close.parse(data)
    except ProtocolError as error:
        raise Broken(1002, str(error)) from None
    except UnicodeDecodeError:
        raise Broken(1007, "the reason of the close frame is not UTF-8") from None
    return int(close.code), close.reason
