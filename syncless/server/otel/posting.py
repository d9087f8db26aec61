"""post(): one HTTP request to a collector, in an OS thread, that ends early when the thread is needed.

It uses plain sockets and TLS in memory, which no patch changes, and asks poll() about its connection together
with the descriptor that tells the thread to end: see SideThread. It knows nothing of OTLP.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import syncless
from syncless.server.otel.settings import Target

LONGEST = 1 << 16
"""Bytes of a response; what follows is not read."""
_poll = select.poll  # before a patch replaces it


class Interrupted(Exception):
    """The thread has something else to do."""


class Reply(NamedTuple):
    status: int
    fields: dict[str, str]
    """By name in lower case."""
    body: bytes


class Channel:
    """Channel(target, woken, until): a connection until that monotonic time. Raise OSError if it cannot be
    had, Interrupted once `woken` is readable."""

    def __init__(self, target: Target, woken: int, until: float):
        self._woken = woken
        self._until = until
        self._tls: Any = None
        parts = urlsplit(target.url)
        assert parts.hostname is not None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = _socket.getaddrinfo(parts.hostname, port, 0, _socket.SOCK_STREAM)
        for number, (family, kind, protocol, _, address) in enumerate(found, 1):
            self._socket = _socket.socket(family, kind, protocol)
            try:
                self._socket.setblocking(False)
                self._connect(address)
                break
            except OSError:
                self._socket.close()
                if number == len(found):
                    raise
            except BaseException:
                self._socket.close()
                raise
        if parts.scheme == "https":
            self._begin_tls(parts.hostname, target.certificate)

    def close(self) -> None:
        self._socket.close()

    def _wait(self, events: int) -> None:
        poll = _poll()
        poll.register(self._socket.fileno(), events)
        poll.register(self._woken, select.POLLIN)
        ready = dict(poll.poll(max(0.0, self._until - time.monotonic()) * 1000))
        if self._woken in ready:
            raise Interrupted
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, "the collector takes too long")

    def _connect(self, address: Any) -> None:
        number = self._socket.connect_ex(address)
        if number in (errno.EINPROGRESS, errno.EAGAIN):
            self._wait(select.POLLOUT)
            number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))

    def _send_raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def _receive_raw(self) -> bytes:
        while True:
            try:
                return self._socket.recv(LONGEST)
            except BlockingIOError:
                self._wait(select.POLLIN)

    def _begin_tls(self, host: str, certificate: str | None) -> None:
        import ssl  # few collectors are asked by TLS

        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=certificate)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._wants = ssl.SSLWantReadError
        self._through_tls(self._tls.do_handshake)

    def _through_tls(self, call: Any, *arguments: Any) -> Any:
        """Call a function of the TLS object until it needs no more bytes of the collector."""
        while True:
            try:
                result = call(*arguments)
            except self._wants:
                self._send_raw(self._outgoing.read())
                data = self._receive_raw()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                self._send_raw(self._outgoing.read())
                return result

    def send(self, data: bytes) -> None:
        if self._tls is None:
            self._send_raw(data)
        else:
            self._through_tls(self._tls.write, data)

    def receive(self) -> bytes:
        """Return more bytes; b"" at the end."""
        if self._tls is None:
            return self._receive_raw()
        return bytes(self._through_tls(self._tls.read, LONGEST))


def post(target: Target, body: bytes, packed: bool, woken: int, until: float) -> Reply:
    """Send the body and return the reply. Raise OSError if there is none until that monotonic time, or none
    of HTTP; raise Interrupted."""
    channel = Channel(target, woken, until)
    try:
        channel.send(_head(target, len(body), packed) + body)
        return _reply(channel)
    finally:
        channel.close()


def _head(target: Target, size: int, packed: bool) -> bytes:
    parts = urlsplit(target.url)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    fields = {
        "Host": parts.netloc.rpartition("@")[2],
        "User-Agent": f"OTel-OTLP-Exporter-Syncless/{syncless.__version__}",
        "Content-Type": "application/x-protobuf",
        "Content-Length": str(size),
        "Connection": "close",
    }
    if packed:
        fields["Content-Encoding"] = "gzip"
    lines = [f"{name}: {value}" for name, value in (*fields.items(), *target.headers.items())]
    text = "\r\n".join([f"POST {path} HTTP/1.1", *(" ".join(line.split("\r\n")) for line in lines), "", ""])
    return text.encode("utf-8", "replace")


def _reply(channel: Channel) -> Reply:
    data = b""
    while b"\r\n\r\n" not in data:
        more = channel.receive()
        if not more or len(data) > LONGEST:
            raise OSError("the collector has not answered with a response of HTTP")
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/") or not rest[:3].isdecimal():
        raise OSError("the collector does not speak HTTP")
    split = (line.partition(":") for line in lines)
    fields = {name.strip().lower(): value.strip() for name, _, value in split}
    length = fields.get("content-length", "")
    wanted = int(length) if length.isdecimal() else LONGEST
    while len(body) < min(wanted, LONGEST):
        more = channel.receive()
        if not more:
            break
        body += more
    return Reply(int(rest[:3]), fields, body)
