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
    """Return whether the library for frames is installed. To be asked when a server begins: the search runs
    code of others."""

def tell_missing(error_log: ErrorLog) -> None:
    """A client has asked for a WebSocket, and the library is not there."""

class WebSocketClosed(ConnectionLost):
    """The WebSocket has been closed, by the server or by the client: nothing can be sent any more. An
    application need not catch it."""

class WebSocket:
    """A WebSocket of one request. One tasklet
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
        """The origin of the page that opened it, as the browser reports it. Check it if a cookie identifies
        the user: pages of other sites can connect, too."""
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
        """Answer the handshake. BadRequest or UpgradeRequired if the client's is wrong: the server answers
        400 or 426 to it."""
    def check(self, compression: bool = True) -> tuple[list[tuple[str, str]], Sequence[Any]]:
        """Return the fields of the handshake's response, and what it says of compression. BadRequest or
        UpgradeRequired if the client's is wrong."""
    def receive(self) -> str | bytes | None:
        """Return the next message: str for text, bytes for binary; None when the WebSocket has been closed.
        Answers pings meanwhile, and sends them when the client is silent (Limits.ping_seconds)."""
    def __iter__(self) -> Iterator[str | bytes]: ...
    def __next__(self) -> str | bytes: ...
    def send(self, message: str | bytes | bytearray | memoryview) -> None:
        """Send a text or a binary message, waiting while the client is slow. WebSocketClosed if it is
        closed. If a Timeout or kill() cuts the wait, the client gets the message as a whole or not at all."""
    def ping(self, payload: bytes = b"") -> None:
        """Send a ping of up to 125 bytes."""
    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame and wait for the client's, for at most CLOSE_SECONDS. Harmless if it is closed
        already."""
    def send_close(self, code: int, reason: str) -> None:
        """Send a close frame. WebSocketClosed."""
    def tell_stop(self) -> None:
        """The server stops: sends a close frame, once."""
    def answer_close(self) -> None:
        """Answer the client's close frame, if it has come: nothing can be sent any more."""
    def end(self, failure: BaseException | None) -> None:
        """Called by the server when the application has returned or raised. The client's close frame ends
        the connection, whoever has sent the first one."""
