"""The parts of the websockets library that a WebSocket needs: the handshake, and the frames that frames.pyx
does not handle. This module is imported with the first WebSocket, because the library is optional.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator

from websockets.datastructures import Headers
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from syncless.http.request import Request

__all__ = ["PayloadTooBig", "ProtocolError"]

FIELDS = ("Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")
"""Of a handshake; the subprotocol is the application's choice."""

COMPRESSION = ServerPerMessageDeflateFactory(
    server_max_window_bits=12, client_max_window_bits=12, compress_settings={"level": 4, "memLevel": 5}
)
"""Makes a kilobyte of JSON as small as zlib's defaults do, in half of the time and a fifth of the memory. The
windows are those of the library's server."""


class Unpacked(Extension):
    """An extension that leaves compressed frames to frames.pyx."""

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        return (
            dataclasses.replace(frame, rsv1=False) if frame.opcode in (Opcode.TEXT, Opcode.BINARY) else frame
        )


UNPACKED = [Unpacked()]


def handshake(request: Request, compression: bool) -> tuple[list[tuple[str, str]], PerMessageDeflate | None]:
    """Return the fields of the 101 response to a request, and the agreed compression. Raise ValueError if the
    handshake is malformed."""
    offered = Headers()
    for name in FIELDS:
        value = request.field(name.lower())
        if value:
            offered[name] = value
    protocol = ServerProtocol(extensions=[COMPRESSION] if compression else None)
    response = protocol.accept(Handshake("/", offered))
    if response.status_code != 101:
        raise ValueError(str(protocol.handshake_exc or response.reason_phrase))
    answer = [(name, value) for name, value in response.headers.raw_items() if name != "Date"]
    agreed = protocol.extensions[0] if protocol.extensions else None
    return answer, agreed if isinstance(agreed, PerMessageDeflate) else None


def parse(
    exactly: Callable[[int], Generator[None, None, bytes]], most: int, packed: bool
) -> Generator[None, None, Frame]:
    """Read a client's frame without decompressing it. Raise ProtocolError or PayloadTooBig."""
    return Frame.parse(exactly, mask=True, max_size=most, extensions=UNPACKED if packed else [])


def frame(opcode: int, data: bytes) -> bytes:
    """Return a frame of the server. Raise ValueError if the data does not fit into a control frame."""
    try:
        return Frame(Opcode(opcode), data).serialize(mask=False)
    except ProtocolError as error:
        raise ValueError(str(error)) from None


def close_data(code: int, reason: str) -> bytes:
    """Return the payload of a close frame. Raise ValueError if no close frame may have this code."""
    try:
        return Close(code, reason).serialize()
    except ProtocolError as error:
        raise ValueError(f"{code} is not a close code that can be sent (RFC 6455, 7.4): {error}") from None


def read_close(data: bytes) -> tuple[int, str]:
    """Return the code (1005 if there is none) and the reason of a close frame. Raise ProtocolError or
    UnicodeDecodeError if it is malformed."""
    close = Close.parse(data)
    return int(close.code), close.reason
