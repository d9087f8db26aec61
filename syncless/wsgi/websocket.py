"""WebSockets for WSGI applications (RFC 6455): ``environ["wsgi.websocket"]``. The wsproto library does the
framing.

::

    def application(environ, start_response):
        websocket = environ.get("wsgi.websocket")
        if websocket is None:
            ...                                     # an ordinary request
        for message in websocket:                   # str or bytes, until the client closes
            websocket.send(message)
        return []

The handshake is answered by accept(), or by the first receive() or send(). An application that never calls
them can refuse with an ordinary response. Needs ``pip install 'syncless[websocket]'``.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from syncless._core.exits import TaskletExit
from syncless._core.timeout import Timeout
from syncless._core.wait.sync import Lock
from syncless.http.errorlog import ErrorLog
from syncless.http.errors import BadRequest, BodyTimeout, ClientGone, UpgradeRequired
from syncless.http.limits import Limits
from syncless.http.upgrade import Upgrade
from syncless.wsgi.upgradesocket import UpgradeSocket

HANDSHAKE_FIELDS = (
    "Host",
    "Upgrade",
    "Connection",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
)
CLOSE_SECONDS = 5.0
"""For which close() waits for the client's own close frame."""


class WebSocketClosed(ClientGone):
    """The WebSocket has been closed, by the server or by the client: nothing can be sent any more. An
    application need not catch it."""


class WebSocket:
    """A WebSocket of one request. One tasklet may receive while others send."""

    def __init__(self, upgrade: Upgrade, environ: dict[str, Any], limits: Limits):
        self._upgrade = upgrade
        self._environ = environ
        self._limits = limits
        self._connection: Any = None
        self._events: Any = None
        self._receiving = Lock()
        self._sending = Lock()
        self._messages: deque[str | bytes] = deque()
        self._parts: io.StringIO | io.BytesIO | None = None  # of the message that is arriving
        self._size = 0
        self._pinged = False
        self._gone = False
        self._arrived: Iterator[Any] | None = (
            None  # events of frames that have come, dealt with one message at a time
        )
        self.close_code: int | None = None
        """The code of the first close frame received or sent (RFC 6455, 7.4); 1006 if the client left without
        one; None while it is open."""
        self.close_reason = ""
        self.subprotocol: str | None = None
        """The subprotocol that accept() agreed on."""

    @property
    def origin(self) -> str | None:
        """The origin of the page that opened it, as the browser reports it. Check it if a cookie identifies
        the user: pages of other sites can connect, too."""
        origin: str | None = self._environ.get("HTTP_ORIGIN")
        return origin

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order of preference."""
        return [
            name.strip()
            for name in self._environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")
            if name.strip()
        ]

    @property
    def closed(self) -> bool:
        return self.close_code is not None

    # -- beginning ---------------------------------------------------------------------------------

    def accept(
        self,
        subprotocol: str | None = None,
        headers: list[tuple[str, str]] | None = None,
        compression: bool = True,
    ) -> None:
        """Answers the handshake. BadRequest or UpgradeRequired if the client's is wrong: the server answers
        400 or 426 to it."""
        import wsproto  # an optional library: imported at the first WebSocket
        from wsproto import events
        from wsproto.extensions import Extension, PerMessageDeflate

        if self._connection is not None:
            raise RuntimeError("this WebSocket has been accepted already")
        if subprotocol is not None and subprotocol not in self.subprotocols:
            raise ValueError(
                f"the client does not offer the subprotocol {subprotocol!r}, only {self.subprotocols}"
            )
        get = self._environ.get
        if get("HTTP_SEC_WEBSOCKET_VERSION") != "13":
            raise UpgradeRequired("only version 13 of the WebSocket protocol is spoken here (RFC 6455, 4.4)")
        if get("REQUEST_METHOD") != "GET":
            raise BadRequest("a WebSocket handshake must be a GET request (RFC 6455, 4.1)")
        lines = [
            (name.encode(), get("HTTP_" + name.upper().replace("-", "_"), "").encode("latin-1"))
            for name in HANDSHAKE_FIELDS
        ]
        connection = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        try:
            connection.initiate_upgrade_connection([line for line in lines if line[1]], get("PATH_INFO", "/"))
            next(iter(connection.events()))
            extensions: list[Extension] = [PerMessageDeflate()] if compression else []
            extra = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers or []]
            if any(c in name + value for name, value in headers or [] for c in "\r\n\0"):
                raise ValueError("a header of the handshake has forbidden characters")
            answer = connection.send(
                events.AcceptConnection(subprotocol=subprotocol, extensions=extensions, extra_headers=extra)
            )
        except wsproto.utilities.ProtocolError as error:
            raise BadRequest(f"malformed WebSocket handshake: {error}") from None
        self.subprotocol = subprotocol
        self._connection = connection
        self._events = events
        self._upgrade.begin(answer, self)

    # -- messages ----------------------------------------------------------------------------------

    def receive(self) -> str | bytes | None:
        """The next message: str for text, bytes for binary; None when the WebSocket has been closed. Answers
        pings meanwhile, and sends them when the client is silent (Limits.ping_seconds)."""
        if self._connection is None:
            self.accept()
        with self._receiving:
            while not self._messages:
                if self.closed:
                    return None
                self._read()
            return self._messages.popleft()

    def __iter__(self) -> Iterator[str | bytes]:
        while (message := self.receive()) is not None:
            yield message

    def send(self, message: str | bytes | bytearray | memoryview) -> None:
        """Sends a text or a binary message, waiting while the client is slow. WebSocketClosed if it is
        closed."""
        if not isinstance(message, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"a message must be str or bytes, not {type(message).__name__}")
        if self._connection is None:
            self.accept()
        self._send(self._events.Message(data=message if isinstance(message, str) else bytes(message)))

    def ping(self, payload: bytes = b"") -> None:
        """Sends a ping of up to 125 bytes."""
        if self._connection is None:
            self.accept()
        self._send(self._events.Ping(payload=payload))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Sends a close frame and waits for the client's, for at most CLOSE_SECONDS. Harmless if it is closed
        already."""
        if self.closed:
            return
        if self._connection is None:
            self.accept()
        try:
            self._send(self._events.CloseConnection(code=code, reason=reason[:120]))
        except WebSocketClosed:
            return
        self.close_code, self.close_reason = code, reason
        if self._receiving.locked():
            return  # the receiving tasklet reads the answer
        with Timeout(CLOSE_SECONDS, False), self._receiving:
            while self._connection.state.name != "CLOSED" and not self._gone:
                self._read()

    # -- inside ------------------------------------------------------------------------------------

    def _lost(self) -> None:
        self._gone = True
        if self.close_code is None:
            self.close_code = 1006

    def _send(self, event: Any) -> None:
        with self._sending:
            if self.closed or self._gone:
                raise WebSocketClosed(
                    f"the WebSocket is closed ({self.close_code} {self.close_reason})".replace(" )", ")")
                )
            try:
                self._upgrade.write(self._connection.send(event))
            except ClientGone:
                self._lost()
                raise WebSocketClosed("the client has left") from None

    def _read(self) -> None:
        """Handles the frames received so far, up to the end of a message, so that the application can answer
        messages that came before a close frame. Waits for bytes if there are none."""
        if self._arrived is None and not self._wait():
            return
        events = self._events
        try:
            for event in self._arrived or ():
                if isinstance(event, events.Message):
                    self._part(event)
                elif isinstance(event, events.Ping):
                    self._answer(event.response())
                elif isinstance(event, events.CloseConnection) and self.close_code is None:
                    self._answer(event.response())
                    self.close_code, self.close_reason = int(event.code), event.reason or ""
                if self._messages or self._gone:
                    return
        except (
            Exception
        ) as error:  # wsproto's RemoteProtocolError, and the errors of zlib and codecs about bad bytes
            self._fail(int(getattr(getattr(error, "event_hint", None), "code", 1002)), str(error))
        self._arrived = None

    def _wait(self) -> bool:
        """Waits for bytes. Returns whether any have come."""
        try:
            data = self._upgrade.read()
        except BodyTimeout:
            if self._pinged:
                self._lost()
                return False
            self._pinged = True
            if not self.closed:
                try:
                    self._send(self._events.Ping())
                except WebSocketClosed:
                    pass
            return False
        except ClientGone:
            data = b""
        if not data:
            self._lost()
            return False
        self._pinged = False
        try:
            self._connection.receive_data(data)
        except Exception as error:  # bytes after the client's close frame
            self._fail(1002, str(error))
            return False
        self._arrived = self._connection.events()
        return True

    def _part(self, event: Any) -> None:
        if self.closed:
            return  # frames between our close frame and the client's are dropped
        self._size += len(event.data)
        if self._size > self._limits.websocket_bytes:
            self._fail(1009, f"a message is larger than {self._limits.websocket_bytes} bytes")
            return
        if self._parts is None:
            self._parts = io.StringIO(newline="") if isinstance(event.data, str) else io.BytesIO()
        self._parts.write(event.data)
        if event.message_finished:
            self._messages.append(self._parts.getvalue())
            self._parts = None
            self._size = 0

    def _answer(self, event: Any) -> None:
        try:
            self._send(event)
        except WebSocketClosed:
            pass

    def _fail(self, code: int, reason: str) -> None:
        """The client has broken the protocol or a limit: tells it, and reads no further."""
        self._parts = None
        if not self.closed:
            self._answer(self._events.CloseConnection(code=code, reason=reason[:120]))
            self.close_code, self.close_reason = code, reason
        self._gone = True

    def end(self, failure: BaseException | None) -> None:
        """Called by the server when the application has returned or raised."""
        if self._connection is None or self.closed:
            return
        if isinstance(failure, TaskletExit):
            self._answer(
                self._events.CloseConnection(code=1001, reason="the server stops")
            )  # and there is no time for the client's
        else:
            self.close(1000 if failure is None else 1011)


def websocket_offer(limits: Limits, error_log: ErrorLog) -> Callable[[Upgrade, dict[str, Any]], None]:
    """Called for each request that asks for a WebSocket: its environ gets one, and the socket for libraries
    that bring their own."""
    told = False

    def offer(upgrade: Upgrade, environ: dict[str, Any]) -> None:
        nonlocal told
        fields = environ.copy()  # which is no cycle with the environ
        environ["werkzeug.socket"] = UpgradeSocket(upgrade)
        try:
            import wsproto  # noqa: F401  (only whether it is there)
        except ImportError:
            if not told:
                told = True
                error_log.warning(
                    "a client asks for a WebSocket, which needs wsproto: pip install 'syncless[websocket]'"
                )
            return
        environ["wsgi.websocket"] = WebSocket(upgrade, fields, limits)

    return offer
