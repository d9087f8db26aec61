"""The websockets library, as far as a WebSocket needs it: its handshake, and frames that frames.pyx does not
know yet. Imported with the first WebSocket, because the library is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from syncless.http.request import Request

__all__ = ["PayloadTooBig", "ProtocolError"]

FIELDS = ("Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")
"""Of a handshake; the subprotocol is the application's choice."""


def handshake(request: Request, compression: bool) -> tuple[list[tuple[str, str]], Sequence[Any]]:
    """Return the fields of the 101 response to a request, and the extensions agreed upon. Raise ValueError if
    the handshake is malformed."""
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


def parse(
    exactly: Callable[[int], Generator[None, None, bytes]], most: int, extensions: Sequence[Any]
) -> Generator[None, None, Frame]:
    """Read a client's frame. ProtocolError; PayloadTooBig."""
    return Frame.parse(exactly, mask=True, max_size=most, extensions=extensions)


def frame(opcode: int, data: bytes, extensions: Sequence[Any] = ()) -> bytes:
    """Return a frame of the server. Raise ValueError if the data does not fit into a control frame."""
    try:
        return Frame(Opcode(opcode), data).serialize(mask=False, extensions=extensions)
    except ProtocolError as error:
        raise ValueError(str(error)) from None


def close_data(code: int, reason: str) -> bytes:
    """Return the payload of a close frame; raise ValueError for a code that none may have."""
    try:
        return Close(code, reason).serialize()
    except ProtocolError as error:
        raise ValueError(f"{code} is not a close code that can be sent (RFC 6455, 7.4): {error}") from None


def read_close(data: bytes) -> tuple[int, str]:
    """Return the code (1005 if there is none) and the reason of a close frame. Raise ProtocolError or
    UnicodeDecodeError if it is malformed."""
    close = Close.parse(data)
    return int(close.code), close.reason
