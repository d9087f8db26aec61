from collections.abc import Iterator, Sequence
from typing import Any

from syncless.http.errors import ConnectionLost
from syncless.http.exchange import Upgrade
from syncless.http.limits import Limits
from syncless.http.log.errorlog import ErrorLog
from syncless.http.request import Request

STOPS: tuple[int, str]
CLOSE_SECONDS: float

def has_library() -> bool:
    """Return whether the library for frames is installed. Call this only when a server starts, because the
    search runs third-party code."""

def tell_missing(error_log: ErrorLog) -> None:
    """Log that a client has asked for a WebSocket, but the library is not installed."""

class WebSocketClosed(ConnectionLost):
    """The WebSocket was closed, by the server or by the client: nothing more can be sent. Applications need
    not catch this error."""

class WebSocket:
    """The WebSocket of a request. One tasklet
    may receive while others send."""

    close_code: int | None
    """The code of the first close frame received or sent (RFC 6455, 7.4); 1006 if the client left without
    one; None while it is open."""
    close_reason: str
    subprotocol: str | None
    """The subprotocol that accept() agreed on."""
    def __init__(
        self, upgrade: Upgrade, request: Request, limits: Limits, answers_close: bool = True
    ) -> None: ...
    @property
    def origin(self) -> str | None:
        """The origin of the page that opened the WebSocket, as reported by the browser. Check the origin if a
        cookie identifies the user, because pages of other sites can connect, too."""
    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order of preference."""
    @property
    def closed(self) -> bool: ...
    def accept(
        self,
        subprotocol: str | None = None,
        headers: list[tuple[str, str]] | None = None,
        compression: bool = True,
    ) -> None:
        """Answer the handshake. Raise BadRequest or UpgradeRequired if the client's request is wrong; the
        server then responds with 400 or 426."""
    def check(self, compression: bool = True) -> tuple[list[tuple[str, str]], Sequence[Any]]:
        """Return the fields of the handshake's response, and the agreed compression. Raise BadRequest or
        UpgradeRequired if the client's request is wrong."""
    def receive(self) -> str | bytes | None:
        """Return the next message: str for text, bytes for binary; None when the WebSocket has been closed.
        Answer pings meanwhile, and send pings when the client is silent (Limits.ping_seconds)."""
    def __iter__(self) -> Iterator[str | bytes]: ...
    def __next__(self) -> str | bytes: ...
    def send(self, message: str | bytes | bytearray | memoryview) -> None:
        """Send a text or a binary message, waiting while the client is slow. Raise WebSocketClosed if the
        WebSocket is closed. If a Timeout or kill() interrupts the wait, the client gets the whole message or
        none of it."""
    def ping(self, payload: bytes = b"") -> None:
        """Send a ping of up to 125 bytes."""
    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame and wait for the client's, for at most CLOSE_SECONDS. Do nothing if the
        WebSocket is already closed."""
    def send_close(self, code: int, reason: str) -> None:
        """Send a close frame. Raise WebSocketClosed if the WebSocket is closed."""
    def tell_stop(self) -> None:
        """Send a close frame, once, because the server stops."""
    def answer_close(self) -> None:
        """Answer the client's close frame, if it has arrived. Nothing can be sent afterwards."""
    def end(self, failure: BaseException | None) -> None:
        """End the WebSocket when the application has returned or raised; the server calls this. The client's
        close frame ends the connection, even if the server has sent the first one."""
