"""Endpoint: the HTTP server of the status page, which needs no loop of ours.

A selector calls it when data has arrived, and nothing here waits for a client. It answers GET and HEAD, one
request per connection, and keeps connections that follow events. It is meant for a few readers on the same
machine, so it does little and refuses the rest. It passes each request to `answer`, which returns Answer,
EVENTS, or None for later. Tested by tests/status/test_status.py.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import ipaddress
import os
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Any

from syncless.http.errors import REFUSALS
from syncless.http.wire.wire import asks_by_head, parse
from syncless.server.addresses import show
from syncless.server.sockets import Sockets
from syncless.tools.records import record

CLIENTS = 64
"""Connections at a time; one more closes the oldest that does not follow events."""
SECONDS = 10.0
"""For a request to come and its answer to be taken."""
HELD = 1 << 20
"""Bytes that wait for a client that follows events, before it is given up."""
HEADERS = (
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n"
)
"""The page has no outside resources, and no text of a client becomes a script."""


@record(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    """By name in lower case; of several with one name the last."""


@record(frozen=True)
class Answer:
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Events:
    """Keeps the connection open for events."""


EVENTS = Events()
Answerer = Callable[["Client", Request], "Answer | Events | None"]


class Client:
    """One connection."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket):
        self._endpoint = endpoint
        self.sock = sock
        self._inbox = b""
        self._outbox = bytearray()
        self._head_only = False
        self.asked = False
        """Its request has come."""
        self.follows = False
        """It has asked for events."""
        self.ends_at = time.monotonic() + SECONDS

    def on_ready(self, mask: int) -> None:
        if mask & EVENT_READ:
            self._receive()
        if mask & EVENT_WRITE and self.sock.fileno() >= 0:
            self._send()

    def _receive(self) -> None:
        try:
            data = self.sock.recv(65536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._endpoint.close(self)
        elif not self.asked:
            self._inbox += data
            found = parse(self._inbox)
            if isinstance(found, int):
                self.asked = True
                self._head_only = asks_by_head(self._inbox)
                status, words = REFUSALS[-found]
                self.answer(Answer(f"{words}\n".encode(), status=status))
            elif found is not None:
                self.asked = True
                self._ask(found[1])

    def _ask(self, head: dict[str, Any]) -> None:
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in head["headers"]}
        self._head_only = head["method"] == b"HEAD"
        if head["method"] not in (b"GET", b"HEAD"):
            text = b"Only GET and HEAD are supported here.\n"
            self.answer(Answer(text, status=405, headers=(("Allow", "GET, HEAD"),)))
            return
        if not self._endpoint.is_meant(headers.get("host", "")):
            self.answer(Answer(b"Use an IP address or localhost in the URL.\n", status=421))
            return
        given = self._endpoint.answer(self, Request(head["path"].decode("latin-1"), headers))
        if isinstance(given, Answer):
            self.answer(given)
        elif given is EVENTS:
            self.follows = True
            self.ends_at = float("inf")
            self.push(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                f"{HEADERS}Connection: close\r\n\r\nretry: 1000\n\n".encode()
            )

    def answer(self, answer: Answer) -> None:
        """Send the response to the client's request, and then close the connection."""
        fields = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
            f"{fields}{HEADERS}Connection: close\r\n\r\n"
        )
        self.push(head.encode() + (b"" if self._head_only else answer.body))

    def push(self, data: bytes) -> None:
        """Send the data as fast as the client reads it. A client that does not read its events in time is
        disconnected."""
        if self.follows and len(self._outbox) > HELD:
            self._endpoint.close(self)
        elif self.sock.fileno() >= 0:
            self._outbox += data
            self._send()

    def _send(self) -> None:
        try:
            while self._outbox:
                del self._outbox[: self.sock.send(self._outbox)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._endpoint.close(self)
            return
        if self._outbox:
            self._endpoint.selector.modify(self.sock, EVENT_READ | EVENT_WRITE, self.on_ready)
        elif not self.follows:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
            self.ends_at = min(self.ends_at, time.monotonic() + 1)
            self._endpoint.selector.modify(self.sock, EVENT_READ, self.on_ready)
        else:
            self._endpoint.selector.modify(self.sock, EVENT_READ, self.on_ready)


class Endpoint:
    """Endpoint(selector, sockets, answer, public): with ``public``, clients may use any host name. The
    selector's data are functions to call with the event mask."""

    def __init__(self, selector: BaseSelector, sockets: Sockets, answer: Answerer, public: bool = False):
        self._sockets = sockets
        self._public = public
        self.answer = answer
        self.selector = selector
        self._opened: list[socket.socket] = []
        self.clients: list[Client] = []

    def open(self) -> None:
        """Open the sockets. Raise OSError on failure."""
        self._opened = [sock for sock, _ in self._sockets.open()]
        for sock in self._opened:
            self.selector.register(sock, EVENT_READ, lambda mask, sock=sock: self._accept(sock))

    @property
    def urls(self) -> list[str]:
        return [show(sock.getsockname()) for sock in self._opened]

    def is_meant(self, host: str) -> bool:
        """Return whether a request with that Host field is meant for us. Names are not accepted: a web page
        can make a browser send requests to any address under a name of its own, and read the response."""
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if self._public or name in ("", "localhost"):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def close_late_ones(self) -> None:
        """Close the connections of clients that take longer than SECONDS."""
        now = time.monotonic()
        for client in [client for client in self.clients if now > client.ends_at]:
            self.close(client)

    def _accept(self, listener: socket.socket) -> None:
        try:
            fd, _ = listener._accept()  # type: ignore[attr-defined]
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # the listener stays readable
                self._make_room()
                time.sleep(0.01)
            return  # or the client has left
        sock = _socket.socket(fileno=fd)
        sock.setblocking(False)
        os.set_inheritable(fd, False)
        if len(self.clients) >= CLIENTS:
            self._make_room()
        client = Client(self, sock)  # type: ignore[arg-type]
        self.clients.append(client)
        self.selector.register(sock, EVENT_READ, client.on_ready)

    def _make_room(self) -> None:
        """Close the oldest client, preferably one that does not follow events."""
        for client in sorted(self.clients, key=lambda client: client.follows)[:1]:
            self.close(client)

    def close(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(client.sock)
            client.sock.close()

    def close_all(self) -> None:
        """Close all connections and sockets, and remove the file of a UNIX socket."""
        for client in list(self.clients):
            self.close(client)
        for sock in self._opened:
            self.selector.unregister(sock)
        opened = [(sock, False) for sock in self._opened]
        self._sockets.begin_no_more(opened)
        self._sockets.close(opened)
        self._opened = []

    def leave_to_parent(self) -> None:
        """Close only the descriptors in a child after a fork."""
        for sock in (*self._opened, *(client.sock for client in self.clients)):
            sock.close()
