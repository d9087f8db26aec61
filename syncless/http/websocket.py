"""WebSocket: messages on a connection whose client has asked for RFC 6455.

Takes an Upgrade and the Request. Calls wait as those of tasklets do. Knows no kind of
application. Next to read: websocketframes.py, which reads and writes frames.
"""

from __future__ import annotations

import codecs
import importlib
import io
from collections import deque
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from syncless._core.exits import TaskletExit
from syncless._core.timeout import Timeout
from syncless._core.wait.sync import Lock
from syncless.http.errorlog import ErrorLog
from syncless.http.errors import BadRequest, BodyTimeout, ClientGone, ConnectionLost, UpgradeRequired
from syncless.http.exchange import Upgrade
from syncless.http.limits import Limits
from syncless.http.request import Request
from syncless.http.wire import is_field

STOPS = 1001, "the server stops"
"""Code and reason of a close frame (RFC 6455, 7.4.1)."""

CLOSE_SECONDS = 5.0
"""For which close() waits for the client's own close frame."""

NEEDED = "a client asks for a WebSocket, which needs websockets: pip install 'syncless[websocket]'"


def has_library(error_log: ErrorLog) -> bool:
    """Whether the library for frames is installed; if not, the log says what to install."""
    found = find_spec("websockets") is not None
    if not found:
        error_log.warn_once(NEEDED)
    return found


def _can_be_sent(name: str, value: str) -> bool:
    try:
        return is_field(name.encode("latin-1"), value.encode("latin-1"))
    except UnicodeEncodeError:
        return False


class WebSocketClosed(ConnectionLost):
    """The WebSocket has been closed, by the server or by the client: nothing can be sent any more. An
    application need not catch it."""


class WebSocket:
    """A WebSocket of one request. One tasklet may receive while others send."""

    def __init__(self, upgrade: Upgrade, request: Request, limits: Limits, answers_close: bool = True):
        """With `answers_close` false the client's close frame, or its breach of the protocol, is answered by
        answer_close(), for a caller that receives ahead of its application."""
        self._answers_close = answers_close
        self._upgrade = upgrade
        self._request = request
        self._limits = limits
        self._library: Any = None
        self._agreed: tuple[list[tuple[str, str]], Sequence[Any]] | None = None  # fields, extensions
        self._frames: Any = None
        self._receiving = Lock()
        self._sending = Lock()
        self._messages: deque[str | bytes] = deque()
        self._parts: io.StringIO | io.BytesIO | None = None  # of the message that is arriving
        self._decoder: Any = None  # of its text
        self._ahead: Any = None  # of the text of a frame that is not whole yet
        self._size = 0
        self._pinged = False
        self._gone = False
        self._leaving = False  # tell_stop() has been called
        self._answered = False  # the client has sent its close frame
        self._unanswered: tuple[int, str, bytes] | None = None  # that frame
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
        return self._request.field("origin")

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order of preference."""
        return [
            name.strip()
            for name in (self._request.field("sec-websocket-protocol") or "").split(",")
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
        if self._frames is not None:
            raise RuntimeError("this WebSocket has been accepted already")
        if subprotocol is not None and subprotocol not in self.subprotocols:
            raise ValueError(
                f"the client does not offer the subprotocol {subprotocol!r}, only {self.subprotocols}"
            )
        for name, value in headers or []:
            if not _can_be_sent(name, value):
                raise ValueError(f"header {name} has forbidden characters: {value!r}")
        agreed = self._agreed if compression else None
        fields, extensions = agreed or self.check(compression)
        if subprotocol is not None:
            fields.append(("Sec-WebSocket-Protocol", subprotocol))
        lines = ["HTTP/1.1 101 Switching Protocols", *(f"{n}: {v}" for n, v in (*fields, *(headers or ())))]
        self.subprotocol = subprotocol
        self._frames = self._library.Frames(extensions)
        self._upgrade.begin("\r\n".join([*lines, "", ""]).encode("latin-1"), self)

    def check(self, compression: bool = True) -> tuple[list[tuple[str, str]], Sequence[Any]]:
        """The fields and extensions with which accept() answers the handshake; BadRequest or UpgradeRequired
        if it is wrong."""
        if self._request.field("sec-websocket-version") != "13":
            raise UpgradeRequired("only version 13 of the WebSocket protocol is supported (RFC 6455, 4.4)")
        if self._request.method != "GET":
            raise BadRequest("a WebSocket handshake must be a GET request (RFC 6455, 4.1)")
        self._library = importlib.import_module("syncless.http.websocketframes")
        try:
            agreed = self._library.handshake(self._request, compression)
        except ValueError as error:
            raise BadRequest(f"malformed WebSocket handshake: {error}") from None
        self._agreed = agreed
        return agreed  # type: ignore[no-any-return]

    # -- messages ----------------------------------------------------------------------------------

    def receive(self) -> str | bytes | None:
        """The next message: str for text, bytes for binary; None when the WebSocket has been closed. Answers
        pings meanwhile, and sends them when the client is silent (Limits.ping_seconds)."""
        if self._frames is None:
            self.accept()
        with self._receiving:
            while not self._messages:
                if self.close_code is not None or self._unanswered is not None:
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
        if self._frames is None:
            self.accept()
        with self._sending:  # a compressed frame builds on the one before it
            self._check_open()
            self._write(self._frames.message(message if isinstance(message, str) else bytes(message)))

    @property
    def sending(self) -> bool:
        """Whether a frame is being sent: the next one has to wait for it."""
        return self._sending.locked()

    def framed(self, message: str | bytes) -> bytes:
        """A message as the bytes to send, for a caller that sends them itself while nothing is `sending`."""
        return self._frames.message(message)  # type: ignore[no-any-return]

    def ping(self, payload: bytes = b"") -> None:
        """Sends a ping of up to 125 bytes."""
        if self._frames is None:
            self.accept()
        with self._sending:
            self._check_open()
            self._write(self._frames.frame(self._library.PING, payload))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Sends a close frame and waits for the client's, for at most CLOSE_SECONDS. Harmless if it is closed
        already."""
        if self.closed:
            return
        if self._frames is None:
            self.accept()
        try:
            self.send_close(code, reason)
        except WebSocketClosed:
            return
        if self._receiving.locked():
            return  # the tasklet that receives meets the answer
        with Timeout(CLOSE_SECONDS, False), self._receiving:
            while not self._answered and not self._gone:
                self._read()

    # -- inside ------------------------------------------------------------------------------------

    def _lost(self) -> None:
        self._gone = True
        if self.close_code is None:
            self.close_code = 1006

    def _check_open(self) -> None:
        if self.close_code is not None or self._gone:
            raise WebSocketClosed(
                f"the WebSocket is closed ({self.close_code} {self.close_reason})".replace(" )", ")")
            )

    def _write(self, data: bytes) -> None:
        try:
            self._upgrade.write(data)
        except ClientGone:
            self._lost()
            raise WebSocketClosed("the client has left") from None

    def send_close(self, code: int, reason: str) -> None:
        """Sends a close frame. WebSocketClosed."""
        frame = self._frames.close(code, _shortened(reason))
        with self._sending:
            self._check_open()
            self._write(frame)
            self.close_code, self.close_reason = code, reason

    def tell_stop(self) -> None:
        """The server stops: sends a close frame, once."""
        if self._frames is not None and not self._leaving:
            self._leaving = True
            self._send_stops()

    def _send_stops(self) -> None:
        try:
            self.send_close(*STOPS)
        except WebSocketClosed:
            pass

    def _read(self) -> None:
        """Deals with the frames that have come up to the end of a message, so that what was sent before a
        close frame can be answered; waits for bytes if there are none."""
        try:
            while not (self._messages or self._gone or self._answered):
                frame = self._frames.next(self._limits.websocket_bytes - self._size)
                if frame is None:
                    if self._frames.amid_frame:
                        self._look_ahead()
                    self._wait()
                    return
                self._ahead = None
                self._take(frame)
        except self._library.Broken as error:
            self._fail(error.code, str(error))

    def _look_ahead(self) -> None:
        """Text that is no UTF-8 is refused amid its frame (RFC 6455, 8.1). The client may never send the
        rest."""
        goes_on = self._parts is not None
        if goes_on and self._decoder is None:
            return  # a binary message
        data = self._frames.coming(self._library.CONTINUATION if goes_on else self._library.TEXT)
        if self._ahead is None:
            self._ahead = _decoder()
            if goes_on:
                self._ahead.setstate(self._decoder.getstate())
        self._text(self._ahead.decode, data)

    def _text(self, decode: Any, *args: Any) -> str:
        try:
            return decode(*args)  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            raise self._library.Broken(1007, "a text message is not UTF-8") from None

    def _take(self, frame: Any) -> None:
        library, opcode = self._library, frame.opcode
        if opcode is library.PING:
            self._answer(library.PONG, frame.data)
        elif opcode is library.CLOSE:
            self._closes(frame.data)
        elif opcode is not library.PONG:
            self._part(frame)

    def _closes(self, data: bytes) -> None:
        code, reason = self._library.read_close(data)
        self._answered = True
        if self.close_code is None:
            self._unanswered = code, reason, data
            if self._answers_close:
                self.answer_close()

    def answer_close(self) -> None:
        """Answers the client's close frame, if it has come: nothing can be sent any more."""
        if self._unanswered is None or self.closed:
            return
        code, reason, data = self._unanswered
        self._answer(self._library.CLOSE, data)
        self.close_code, self.close_reason = code, reason

    def _wait(self) -> None:
        """Waits for bytes."""
        try:
            data = self._upgrade.read()
        except BodyTimeout:
            if self._pinged:
                self._lost()
                return
            self._pinged = True
            self._answer(self._library.PING, b"")
            return
        except ClientGone:
            data = b""
        if not data:
            self._lost()
            return
        self._pinged = False
        self._frames.feed(data)

    def _part(self, frame: Any) -> None:
        """Of a message."""
        library, opcode = self._library, frame.opcode
        if (opcode is library.CONTINUATION) is (self._parts is None):
            raise library.Broken(1002, "a continuation frame is out of place, or missing")
        if frame.fin and self._parts is None:
            is_text = opcode is library.TEXT
            self._whole(self._text(str, frame.data, "utf-8") if is_text else bytes(frame.data))
            return
        if self._parts is None:
            self._decoder = _decoder() if opcode is library.TEXT else None
            self._parts = io.BytesIO() if self._decoder is None else io.StringIO(newline="")
        data = frame.data
        self._size += len(data)
        if self._decoder is not None:
            data = self._text(self._decoder.decode, data, frame.fin)
        self._parts.write(data)
        if frame.fin:
            whole = self._parts.getvalue()
            self._parts = None
            self._size = 0
            self._whole(whole)

    def _whole(self, message: str | bytes) -> None:
        if self.close_code is None:  # messages between our close frame and the client's are dropped
            self._messages.append(message)

    def _answer(self, opcode: Any, data: bytes) -> None:
        """Sends a control frame, if it still can be sent."""
        try:
            with self._sending:
                self._check_open()
                self._write(self._frames.frame(opcode, data))
        except WebSocketClosed:
            pass

    def _fail(self, code: int, reason: str) -> None:
        """The client breaks the protocol or a limit: says so and reads no further."""
        self._parts = None
        if not self._answers_close:
            self._answered = True
            self._unanswered = code, reason, self._library.close_data(code, _shortened(reason))
            return
        try:
            self.send_close(code, reason)
        except WebSocketClosed:
            pass
        self._gone = True

    def end(self, failure: BaseException | None) -> None:
        """Called by the server when the application has returned or raised."""
        if self._frames is None or self.closed:
            return
        if self._unanswered is not None:
            self.answer_close()
        elif isinstance(failure, TaskletExit):
            self._send_stops()  # and there is no time for the client's
        else:
            self.close(1000 if failure is None else 1011)


def _shortened(reason: str) -> str:
    """At most 123 bytes (RFC 6455, 5.5)."""
    return reason.encode()[:123].decode(errors="ignore")


_decoder = codecs.getincrementaldecoder("utf-8")
