"""WebSockets for handlers that take one: RFC 6455, and the two drafts of 2010 that came before it.

@WebSocketWSGI makes a WSGI application of a handler, for syncless.eventlet.wsgi.
"""

from __future__ import annotations

import base64
import codecs
import errno
import hashlib
import os
import string
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from syncless.eventlet import wsgi
from syncless.eventlet.semaphore import Semaphore

__all__ = [
    "ConnectionClosedError",
    "FailedConnectionError",
    "ProtocolError",
    "RFC6455WebSocket",
    "WebSocket",
    "WebSocketWSGI",
]

ACCEPTABLE_CLIENT_ERRORS = {errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.EBADF}
DEFAULT_MAX_FRAME_LENGTH = 8 << 20
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TAIL = b"\x00\x00\xff\xff"
_DEFLATE = "permessage-deflate"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class BadRequest(Exception):
    """A request that is no handshake."""

    def __init__(self, status: str = "400 Bad Request", body: bytes = b"", headers: Any = None) -> None:
        super().__init__(status)
        self.status, self.body = status, body
        self.headers = headers


class FailedConnectionError(Exception):
    """The other side breaks a rule: the connection is closed with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status, self.message = status, message


class ProtocolError(ValueError):
    """The same, of a rule of the protocol."""


class ConnectionClosedError(Exception):
    """The other side has closed the connection."""


class WebSocketWSGI:
    """A WSGI application that calls `handler` with a WebSocket."""

    def __init__(
        self, handler: Callable[[Any], Any], max_frame_length: int = DEFAULT_MAX_FRAME_LENGTH
    ) -> None:
        self.handler = handler
        self.protocol_handler = handler
        self.support_legacy_versions = True
        self.supported_protocols: Iterable[str] = []
        self.origin_checker: Callable[[str | None], bool] | None = None
        self.max_frame_length = max_frame_length

    @classmethod
    def configured(
        cls,
        handler: Callable[[Any], Any] | None = None,
        supported_protocols: Iterable[str] | None = None,
        origin_checker: Callable[[str | None], bool] | None = None,
        support_legacy_versions: bool = False,
    ) -> Any:
        """Make one with settings; without a handler, a decorator."""

        def decorate(handler: Callable[[Any], Any]) -> WebSocketWSGI:
            made = cls(handler)
            made.support_legacy_versions = support_legacy_versions
            made.origin_checker = origin_checker
            made.supported_protocols = supported_protocols or []
            return made

        return decorate if handler is None else decorate(handler)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        words = [word.strip().lower() for word in environ.get("HTTP_CONNECTION", "").split(",")]
        try:
            if "upgrade" not in words or environ.get("HTTP_UPGRADE", "").lower() != "websocket":
                raise BadRequest
            if "HTTP_SEC_WEBSOCKET_VERSION" in environ:
                ws: WebSocket = self._rfc6455(environ)
            elif self.support_legacy_versions:
                ws = self._legacy(environ)
            else:
                raise BadRequest
        except BadRequest as error:
            start_response(error.status, error.headers or [("Connection", "close")])
            return [error.body]
        wsgi.WSGI_LOCAL.already_handled = True
        if "eventlet.set_idle" in environ:
            environ["eventlet.set_idle"]()
        try:
            self.handler(ws)
        except OSError as error:
            if error.errno not in ACCEPTABLE_CLIENT_ERRORS:
                raise
        finally:
            wsgi.WSGI_LOCAL.already_handled = True
        ws._send_closing_frame(True)
        return []

    # -- the drafts

    def _legacy(self, environ: dict[str, Any]) -> WebSocket:
        sock = environ["eventlet.input"].get_socket()
        host = environ.get("HTTP_HOST", "localhost")
        scheme = "wss" if environ.get("wsgi.url_scheme") == "https" else "ws"
        path = environ.get("REQUEST_URI") or environ.get("PATH_INFO", "/")
        location = f"{scheme}://{host}{path}"
        origin = environ.get("HTTP_ORIGIN", "")
        if "HTTP_SEC_WEBSOCKET_KEY1" in environ:
            if "HTTP_SEC_WEBSOCKET_KEY2" not in environ:
                raise BadRequest
            numbers = [_number_of(environ[f"HTTP_SEC_WEBSOCKET_KEY{i}"]) for i in (1, 2)]
            key = environ["eventlet.input"].rfile.read(8)
            answer = hashlib.md5(struct.pack(">II", *numbers) + key, usedforsecurity=False).digest()
            lines = ["HTTP/1.1 101 WebSocket Protocol Handshake", "Upgrade: WebSocket", "Connection: Upgrade"]
            lines.append(f"Sec-WebSocket-Origin: {origin}")
            if "HTTP_SEC_WEBSOCKET_PROTOCOL" in environ:
                lines.append(f"Sec-WebSocket-Protocol: {environ['HTTP_SEC_WEBSOCKET_PROTOCOL']}")
            lines.append(f"Sec-WebSocket-Location: {location}")
            version = 76
        elif "HTTP_WEBSOCKET_PROTOCOL" in environ or "HTTP_ORIGIN" in environ:
            answer, version = b"", 75
            lines = [
                "HTTP/1.1 101 Web Socket Protocol Handshake",
                "Upgrade: WebSocket",
                "Connection: Upgrade",
            ]
            lines += [f"WebSocket-Origin: {origin}", f"WebSocket-Location: {location}"]
        else:
            raise BadRequest
        sock.sendall("\r\n".join([*lines, "\r\n"]).encode("latin-1") + answer)
        return WebSocket(sock, environ, version)

    # -- RFC 6455

    def _rfc6455(self, environ: dict[str, Any]) -> RFC6455WebSocket:
        if environ["HTTP_SEC_WEBSOCKET_VERSION"] not in ("13", "8", "7"):
            raise BadRequest(
                "426 Upgrade Required", headers=[("Sec-WebSocket-Version", "8, 13"), ("Connection", "close")]
            )
        key = environ.get("HTTP_SEC_WEBSOCKET_KEY", "")
        try:
            if len(base64.b64decode(key)) != 16:
                raise BadRequest
        except ValueError:
            raise BadRequest from None
        origin = environ.get("HTTP_ORIGIN") or environ.get("HTTP_SEC_WEBSOCKET_ORIGIN")
        if self.origin_checker is not None and not self.origin_checker(origin):
            raise BadRequest("403 Forbidden")
        protocol = None
        if "HTTP_SEC_WEBSOCKET_PROTOCOL" in environ:
            offered = [word.strip() for word in environ["HTTP_SEC_WEBSOCKET_PROTOCOL"].split(",")]
            protocol = next((word for word in offered if word in self.supported_protocols), None)
        extensions = _agreed(environ.get("HTTP_SEC_WEBSOCKET_EXTENSIONS", ""))
        accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines.append(f"Sec-WebSocket-Accept: {accept}")
        if protocol:
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
        if extensions:
            lines.append(f"Sec-WebSocket-Extensions: {_written(extensions)}")
        sock = environ["eventlet.input"].get_socket()
        sock.sendall("\r\n".join([*lines, "\r\n"]).encode("latin-1"))
        return RFC6455WebSocket(
            sock, environ, protocol=protocol, extensions=extensions, max_frame_length=self.max_frame_length
        )


def _number_of(key: str) -> int:
    spaces = key.count(" ")
    digits = "".join(letter for letter in key if letter in string.digits)
    if not spaces or not digits or int(digits) % spaces:
        raise BadRequest
    return int(digits) // spaces


def _agreed(offers: str) -> dict[str, dict[str, Any]]:
    """Return the first offer of compression that can be accepted, with its parameters."""
    for offer in offers.split(","):
        name, *parameters = (part.strip().lower() for part in offer.split(";"))
        if name != _DEFLATE:
            continue
        agreed: dict[str, Any] = {}
        for parameter in filter(None, parameters):
            word, _, value = (part.strip() for part in parameter.partition("="))
            if word in ("server_no_context_takeover", "client_no_context_takeover") and not value:
                agreed[word] = True
            elif word in ("server_max_window_bits", "client_max_window_bits"):
                bits = int(value.strip('"')) if value.strip('"').isdigit() else 15 if not value else 0
                if not 8 <= bits <= 15:
                    break
                agreed[word] = bits
            else:
                break
        else:
            return {_DEFLATE: agreed}
    return {}


def _written(extensions: dict[str, dict[str, Any]]) -> str:
    parts = [_DEFLATE]
    for name, value in extensions[_DEFLATE].items():
        parts.append(name if value is True else f"{name}={value}")
    return "; ".join(parts)


class WebSocket:
    """A connection of the drafts: send(), wait(), close()."""

    def __init__(self, sock: Any, environ: dict[str, Any], version: int = 76) -> None:
        self.log = environ.get("wsgi.errors")
        self.log_context = f"server={environ.get('SERVER_NAME')} path={environ.get('PATH_INFO')}"
        self.socket = sock
        self.origin = environ.get("HTTP_ORIGIN")
        self.protocol = environ.get("HTTP_WEBSOCKET_PROTOCOL")
        self.path = environ.get("PATH_INFO")
        self.environ = environ
        self.version = version
        self.websocket_closed = False
        self._buf = b""
        self._msgs: deque[Any] = deque()
        self._sendlock = Semaphore()

    def send(self, message: Any) -> None:
        """Send a text; other things as str() gives them."""
        data = message if isinstance(message, bytes) else str(message).encode("utf-8")
        with self._sendlock:
            self.socket.sendall(b"\x00" + data + b"\xff")

    def wait(self) -> Any:
        """Return the next message; None when the connection is closed."""
        while not self._msgs:
            if self.websocket_closed:
                return None
            data = self.socket.recv(8096)
            if not data:
                return None
            self._buf += data
            self._parse()
        return self._msgs.popleft()

    def _parse(self) -> None:
        while self._buf:
            if self._buf[0] == 0:
                text, end, rest = self._buf[1:].partition(b"\xff")
                if not end:
                    return
                self._msgs.append(text.decode("utf-8", "replace"))
                self._buf = rest
            elif self._buf[0] == 0xFF:
                if len(self._buf) < 2:
                    return
                self.websocket_closed = True
                self._msgs.append(None)
                self._buf = b""
            else:
                raise ValueError(f"Don't understand how to parse this type of message: {self._buf!r}")

    def _send_closing_frame(self, ignore_send_errors: bool = False) -> None:
        if self.version == 76 and not self.websocket_closed:
            try:
                self.socket.sendall(b"\xff\x00")
            except OSError:
                if not ignore_send_errors:
                    raise
        self.websocket_closed = True

    def close(self) -> None:
        """Close the connection."""
        try:
            self._send_closing_frame(True)
            self.socket.shutdown(True)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
        finally:
            self.socket.close()


class _Message:
    """The data of a message, as its frames come."""

    def __init__(self, opcode: int, decompressor: Any = None, max_length: int = 0) -> None:
        self.opcode, self.decompressor, self.max_length = opcode, decompressor, max_length
        self.parts: list[bytes] = []
        self.finished = False

    def push(self, data: bytes, final: bool) -> None:
        self.parts.append(data)
        self.finished = final

    def getvalue(self) -> Any:
        data = b"".join(self.parts)
        if self.decompressor is not None:
            data = self.decompressor.decompress(data + _TAIL, self.max_length)
            if self.decompressor.unconsumed_tail:
                raise FailedConnectionError(1009, "Incoming compressed frame is above length limit.")
        return data


class RFC6455WebSocket(WebSocket):
    """A connection of RFC 6455, of the server's side or, with `client`, of the client's."""

    def __init__(
        self,
        sock: Any,
        environ: dict[str, Any],
        version: int = 13,
        protocol: str | None = None,
        client: bool = False,
        extensions: dict[str, dict[str, Any]] | None = None,
        max_frame_length: int = DEFAULT_MAX_FRAME_LENGTH,
    ) -> None:
        super().__init__(sock, environ, version)
        self.protocol = protocol
        self.client = client
        self.extensions = extensions or {}
        self.max_frame_length = max_frame_length
        self._compressor: Any = None
        self._decompressor: Any = None
        self._remote_close_data: bytes | None = None
        self._closing_sent = False

    # -- compression

    def _parameter(self, name: str, ours: bool, default: Any) -> Any:
        side = "client" if self.client is ours else "server"
        found = self.extensions[_DEFLATE].get(f"{side}_{name}", default)
        return default if found is None else found

    def _get_compressor(self) -> Any:
        if self._compressor is None or self._parameter("no_context_takeover", True, False):
            bits = max(9, int(self._parameter("max_window_bits", True, 15)))
            self._compressor = zlib.compressobj(wbits=-bits)
        return self._compressor

    def _get_decompressor(self) -> Any:
        if self._decompressor is None or self._parameter("no_context_takeover", False, False):
            self._decompressor = zlib.decompressobj(-int(self._parameter("max_window_bits", False, 15)))
        return self._decompressor

    # -- receiving

    def _read(self, size: int) -> bytes:
        while len(self._buf) < size:
            data = self.socket.recv(max(8096, size - len(self._buf)))
            if not data:
                raise ConnectionClosedError
            self._buf += data
        data, self._buf = self._buf[:size], self._buf[size:]
        return data

    def _recv_frame(self, message: _Message | None) -> _Message | None:
        """Read a frame: of the message, or the first of one. Handle control frames."""
        first, second = self._read(2)
        final, opcode, length = bool(first & 0x80), first & 0x0F, second & 0x7F
        masked, compressed = bool(second & 0x80), bool(first & 0x40)
        if first & 0x30 or (compressed and (_DEFLATE not in self.extensions)):
            raise FailedConnectionError(1002, "RSV1, RSV2, RSV3: MUST be 0 unless an extension is negotiated")
        if opcode >= CLOSE and (length > 125 or not final):
            raise FailedConnectionError(
                1002, "Control frame must not be fragmented, nor longer than 125 bytes"
            )
        if 2 < opcode < CLOSE or opcode > PONG:
            raise FailedConnectionError(1002, f"Unknown opcode {opcode}")
        if self.client is masked:
            raise FailedConnectionError(1002, "Frames of a client are masked, and those of a server are not")
        if length == 126:
            (length,) = struct.unpack("!H", self._read(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._read(8))
        if length > self.max_frame_length:
            raise FailedConnectionError(
                1009,
                f"Incoming frame of {length} bytes is above length limit of {self.max_frame_length} bytes.",
            )
        mask = self._read(4) if masked else None
        data = self._read(length)
        if mask:
            data = _masked(data, mask)
        if opcode >= CLOSE:
            self._control(opcode, data)
            return message
        if (opcode == CONTINUATION) is (message is None):
            raise FailedConnectionError(
                1002, "A message must begin with text or data, and go on with the rest of it"
            )
        if message is None:
            message = _Message(
                opcode, self._get_decompressor() if compressed else None, self.max_frame_length
            )
        message.push(data, final)
        return message

    def _control(self, opcode: int, data: bytes) -> None:
        if opcode == PING:
            self._send(self._pack_message(data, control_code=PONG))
        elif opcode == CLOSE:
            self._remote_close_data = data
            if len(data) == 1:
                raise FailedConnectionError(1002, "the status of a close frame has two bytes")
            if len(data) > 2:
                try:
                    data[2:].decode("utf-8")
                except UnicodeDecodeError:
                    raise FailedConnectionError(1007, "the reason of a close frame must be UTF-8") from None
            if not self._closing_sent:
                self._send_closing_frame(True, close_data=data[:2] and (struct.unpack("!H", data[:2])[0], ""))
            raise ConnectionClosedError

    def wait(self) -> Any:
        """Return the next message, a str or bytes; None when the connection is closed."""
        if self.websocket_closed:
            return None
        message: _Message | None = None
        try:
            while message is None or not message.finished:
                message = self._recv_frame(message)
            data = message.getvalue()
            return codecs.decode(data, "utf-8") if message.opcode == TEXT else data
        except FailedConnectionError as error:
            self.close((error.status, error.message))
        except UnicodeDecodeError:
            self.close((1007, "text must be UTF-8"))
        except (ConnectionClosedError, zlib.error):
            self.close()
        except OSError as error:
            self.close()
            if error.errno not in ACCEPTABLE_CLIENT_ERRORS:
                raise
        return None

    # -- sending

    def _pack_message(
        self,
        message: Any,
        masked: bool = False,
        continuation: bool = False,
        final: bool = True,
        control_code: int | None = None,
    ) -> bytes:
        is_text = isinstance(message, str)
        data = message.encode("utf-8") if is_text else bytes(message)
        opcode = CONTINUATION if continuation else TEXT if is_text else BINARY
        flags = 0x80 if final else 0
        if control_code is not None:
            opcode = control_code
        elif _DEFLATE in self.extensions:
            compressor = self._get_compressor()
            data = (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_TAIL)
            flags |= 0x40
        length, bit = len(data), 0x80 if masked else 0
        if length < 126:
            head = struct.pack("!BB", flags | opcode, bit | length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", flags | opcode, bit | 126, length)
        else:
            head = struct.pack("!BBQ", flags | opcode, bit | 127, length)
        if masked:
            mask = os.urandom(4)
            return head + mask + _masked(data, mask)
        return head + data

    def _send(self, data: bytes) -> None:
        with self._sendlock:
            self.socket.sendall(data)

    def send(self, message: Any, **kwargs: Any) -> None:
        """Send a str as text, bytes as data."""
        if not isinstance(message, (str, bytes, bytearray, memoryview)):
            message = str(message)
        self._send(self._pack_message(message, masked=self.client, **kwargs))

    def _send_closing_frame(self, ignore_send_errors: bool = False, close_data: Any = None) -> None:
        if self._closing_sent or self.websocket_closed:
            return
        self._closing_sent = True
        status, reason = close_data or (1000, "")
        data = struct.pack("!H", status) + reason.encode("utf-8")
        try:
            self._send(self._pack_message(data, masked=self.client, control_code=CLOSE))
        except OSError:
            if not ignore_send_errors:
                raise

    def close(self, close_data: Any = None) -> None:
        """Send a close frame with (status, reason), and close the connection."""
        try:
            self._send_closing_frame(True, close_data=close_data)
            self.websocket_closed = True
            self.socket.shutdown(2)
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, *ACCEPTABLE_CLIENT_ERRORS):
                raise
        finally:
            self.websocket_closed = True
            self.socket.close()


def _masked(data: bytes, mask: bytes) -> bytes:
    size = len(data)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
