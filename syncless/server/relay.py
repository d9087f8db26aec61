"""Relay: one request of a client whose connection cannot move (TLS, HTTP/2), answered by another worker.

That worker has the other end of a pair of sockets, and serves it like a connection of plain HTTP/1 whose
client is the one here. This end sends the head and the body, and gives what comes back to the client. A
WebSocket passes as the bytes that it is. Each way waits while its reader is slow. Nothing is sent twice: a
worker that ends before its response has begun makes it a 503, and the client may ask again. Once it has
begun, the client's response is cut off.

A client is likely to ask again, so its connection keeps the pair, as HTTP/1.1 keeps connections.

Fact: the other end may close, by its own limits or because its worker ends, when the next head is on its
way. Danger: that request, which may be a POST, is lost, or done twice. Decision: a look at the pair comes
first. If it closes later, the system says whether bytes were unread then (ECONNRESET), the last of which is
the head's end: so the request has not begun, and goes by a new pair. If all was read, it is a 503. Price: a
system call.

Next to read: http/moved.pyx, whose Relayed is the request; affinity.py, which makes the pair.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

from syncless._core.calls import sockets
from syncless._core.tasklet import Tasklet, spawn
from syncless.http.errors import BodyTimeout, ClientError, ClientGone
from syncless.http.exchange import Upgrade
from syncless.http.moved import Relayed

MOST = 65536
"""Bytes that are read at once."""
KEPT = 8
"""Pairs that a connection keeps: one of HTTP/2 has several requests at a time."""
BODILESS = (204, 304)
EVENTS = b"text/event-stream"


class WorkerLost(ClientError):
    """The worker of the session has ended before its response was complete: 503."""

    status = 503


def agreed(connection: ssl.SSLObject) -> list[Any]:
    """Return what applications ask of a connection's TLS, for Agreed, in values of JSON."""
    certificate = connection.getpeercert(True)
    return [
        connection.version(),
        connection.cipher(),
        None if certificate is None else certificate.decode("latin-1"),
        None if certificate is None else connection.getpeercert(),
    ]


class Agreed:
    """Agreed(*agreed(connection)): the same methods, in another process."""

    def __init__(self, version: str, cipher: list[Any], certificate: str | None, verified: Any):
        self._version, self._cipher, self._verified = version, cipher, verified
        self._certificate = None if certificate is None else certificate.encode("latin-1")

    def version(self) -> str:
        return self._version

    def cipher(self) -> list[Any]:
        return self._cipher

    def getpeercert(self, binary_form: bool = False) -> Any:
        return self._certificate if binary_form else self._verified

    def selected_alpn_protocol(self) -> None:
        """The worker speaks HTTP/1 on the pair."""


class Pairs:
    """Pairs(connect): those of one client's connection, between its requests. connect(number) makes one to
    that worker; None: it cannot be made."""

    def __init__(self, connect: Callable[[int], socket.socket | None]):
        self.connect = connect
        self._kept: list[tuple[int, socket.socket]] = []
        self._over = False

    def relay(self, number: int) -> Relay | None:
        """Return one by the pair that was used last, else by a new one."""
        for at in range(len(self._kept) - 1, -1, -1):
            if self._kept[at][0] == number:
                _, sock = self._kept.pop(at)
                if is_silent(sock):
                    return Relay(self, number, sock, True)
                sockets.real_close(sock)
        made = self.connect(number)
        return None if made is None else Relay(self, number, made, False)

    def keep(self, number: int, sock: socket.socket) -> None:
        self._kept.append((number, sock))
        if self._over or len(self._kept) > KEPT:
            sockets.real_close(self._kept.pop(0)[1])

    def close(self) -> None:
        """The client's connection is over."""
        self._over = True
        while self._kept:
            sockets.real_close(self._kept.pop()[1])


def is_silent(sock: socket.socket) -> bool:
    """Return whether it is open, and nothing has come."""
    try:
        sockets.recv(sock, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


class Relay:
    """Relay(pairs, number, sock, kept): `sock` is this end of the pair; `kept`: it has had a request."""

    def __init__(self, pairs: Pairs, number: int, sock: socket.socket, kept: bool):
        self._pairs, self._number, self._sock, self._kept = pairs, number, sock, kept
        self._clean = True
        """Nothing of a request is on the pair."""
        self._over = False
        self._data = b""  # that has come, and is not used yet
        self._sender: Tasklet[None] | None = None
        self._sends = True
        self._left = False
        self._failure: ClientError | None = None

    def run(self, request: Relayed) -> None:
        self._clean = False
        try:
            try:
                self._begin(request)
            except ConnectionError:
                if not self._kept or self._left or self._sender is not None:
                    raise
                self._connect_anew()
                self._begin(request)
            self._clean = self._give_response(request) and self._is_complete(request)
        except ClientGone:
            raise
        except OSError as error:
            raise self._failure or WorkerLost(str(error)) from None
        finally:
            if self._sender is not None:
                self._sender.kill()
            self.close()

    def client_left(self, gone: bool) -> None:
        """The worker is told when it has all that the client has sent."""
        if self._over:
            return
        self._left = True
        if gone:
            self._shut(socket.SHUT_RDWR)
        elif not self._sends:
            self._shut(socket.SHUT_WR)

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        if self._clean:
            self._pairs.keep(self._number, self._sock)
        else:
            sockets.real_close(self._sock)

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):  # the other end is closed already
            self._sock.shutdown(how)

    # -- to the worker -------------------------------------------------------------------------------------

    def _begin(self, request: Relayed) -> None:
        """Send it, and wait for the first bytes of its response."""
        sockets.sendall(self._sock, request.text)
        if request.has_body and not request.expects_continue:
            self._begin_body(request)
        else:
            self._end_sending()
        self._receive()

    def _connect_anew(self) -> None:
        sockets.real_close(self._sock)
        made = self._pairs.connect(self._number)
        if made is None:
            raise WorkerLost("the worker of the session has ended, or is full")
        self._sock, self._kept = made, False

    def _begin_body(self, request: Relayed) -> None:
        if self._sender is None:
            self._sends = True
            self._sender = spawn(self._send_body, request)
            self._sender.name = f"body of {request.name}"

    def _send_body(self, request: Relayed) -> None:
        try:
            while data := request.read():
                framed = b"%x\r\n%b\r\n" % (len(data), data) if request.chunked else data
                sockets.sendall(self._sock, framed)
            if request.chunked:
                sockets.sendall(self._sock, b"0\r\n\r\n")
        except ClientError as error:
            self._failure = error
            self._shut(socket.SHUT_RDWR)
        except OSError:
            pass  # the worker reads no more: its answer says why
        self._end_sending()

    def _end_sending(self) -> None:
        self._sends = False
        if self._left:
            self._shut(socket.SHUT_WR)

    # -- from the worker -----------------------------------------------------------------------------------

    def _is_complete(self, request: Relayed) -> bool:
        """Return whether the pair may have another request. The worker has ended its response."""
        return not (self._sends or self._left or request.has_body or self._data)

    def _give_response(self, request: Relayed) -> bool:
        """Return whether the worker goes on with the pair."""
        status, fields, text = self._head()
        while status < 200 and (status != 101 or request.upgrade is None):
            if status == 100 and request.has_body:
                self._begin_body(request)
            elif status == 103:
                request.send_early_hints(fields)
            status, fields, text = self._head()
        if status == 101 and request.upgrade is not None:
            self._tunnel(request.upgrade, text)
            return False
        said = {name.lower(): value for name, value in fields}
        request.streams_events = said.get(b"content-type", b"").startswith(EVENTS)
        request.answer(status, fields)
        goes_on = said.get(b"connection", b"").lower() != b"close" and request.minor == 1
        trailers = b""
        if request.head_only or status in BODILESS:
            pass
        elif b"transfer-encoding" in said:
            trailers = self._give_chunks(request)
        elif b"content-length" in said:
            self._give(request, int(said[b"content-length"]))
        else:
            goes_on = False
            while data := self._data or sockets.recv(self._sock, MOST):
                self._data = b""
                request.put(data)
        request.end_answer(trailers)
        return goes_on

    def _give_chunks(self, request: Relayed) -> bytes:
        """Return the trailers."""
        while size := int(self._line(), 16):
            self._give(request, size)
            self._line()
        trailers = b""
        while line := self._line():
            trailers += line + b"\r\n"
        return trailers

    def _give(self, request: Relayed, size: int) -> None:
        while size:
            if not self._data:
                self._receive()
            piece, self._data = self._data[:size], self._data[size:]
            size -= len(piece)
            request.put(piece)

    def _head(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return the status, the fields and the text of the next head."""
        text = self._until(b"\r\n\r\n")
        line, *fields = text.split(b"\r\n")
        pairs = [field.partition(b": ") for field in fields]
        return int(line[9:12]), [(name, value) for name, _, value in pairs], text + b"\r\n\r\n"

    def _line(self) -> bytes:
        return self._until(b"\r\n")

    def _until(self, end: bytes) -> bytes:
        """Return the bytes before the next `end`, and use that up, too."""
        while end not in self._data:
            self._receive()
        found, _, self._data = self._data.partition(end)
        return found

    def _receive(self) -> None:
        data = sockets.recv(self._sock, MOST)
        if not data:
            raise self._failure or WorkerLost("the worker of the session has ended")
        self._data += data

    # -- another protocol ----------------------------------------------------------------------------------

    def _tunnel(self, upgrade: Upgrade, head: bytes) -> None:
        upgrade.begin(head, self)
        self._sender = spawn(self._send_bytes, upgrade)
        self._sender.name = "bytes of a WebSocket"
        while data := self._data or sockets.recv(self._sock, MOST):
            self._data = b""
            upgrade.write(data)

    def _send_bytes(self, upgrade: Upgrade) -> None:
        how = socket.SHUT_RDWR
        try:
            while True:
                with contextlib.suppress(BodyTimeout):  # its silence is the worker's affair
                    data = upgrade.receive(MOST)
                    if not data:
                        how = socket.SHUT_WR
                        break
                    sockets.sendall(self._sock, data)
        except OSError:  # ConnectionLost is one
            pass
        self._shut(how)

    def tell_stop(self) -> None:
        """The server stops. A Close frame amid those of the worker would break the protocol."""
        self.client_left(True)

    def end(self, failure: BaseException | None) -> None:
        """The request has ended."""
