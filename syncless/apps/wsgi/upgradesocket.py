"""``environ["werkzeug.socket"]``: the connection of a request that asks for a WebSocket, as a socket.

simple-websocket, and with it Flask-SocketIO, python-engineio and flask-sock, look for the socket there and
speak the protocol on it. The first send or receive takes over the connection: from then on the response of
the application is ignored, and the server closes the connection when the application returns. The socket
returns bytes that were received after the request, and speaks TLS if the connection does.

An HTTP/2 stream has no descriptor. For a library that waits for a descriptor, fileno() creates a pair of
sockets and a tasklet that moves the bytes there.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from syncless._core.calls import sockets
from syncless._core.tasklet import spawn
from syncless._core.timeout import Timeout
from syncless._core.wait.sync import Lock
from syncless.http.errors import BodyTimeout, ClientGone
from syncless.http.exchange import Upgrade

MOST = 65536
"""Bytes that one recv() gives, however many it asks for."""
OF_THE_DESCRIPTOR = ("getpeername", "getsockname", "getsockopt", "setsockopt", "family", "type", "proto")
"""Attributes that are those of the connection's descriptor."""


class UpgradeSocket:
    """A socket with the methods of `socket.socket` that a protocol on a connection needs. One tasklet may
    receive while others send."""

    def __init__(self, upgrade: Upgrade):
        self._upgrade = upgrade
        self._sending = Lock()
        self._taken = False
        self._closed = False
        self._pipe: Any = None  # of a stream of HTTP/2, once somebody asks for a descriptor
        self._timeout = socket.getdefaulttimeout()

    # -- bytes ---------------------------------------------------------------------------------------------

    def recv(self, size: int, flags: int = 0) -> bytes:
        self._take(flags)
        with Timeout(self._timeout, TimeoutError("timed out")):
            while not self._closed:
                try:
                    if self._pipe is not None:
                        return sockets.recv(self._pipe, size)
                    return self._upgrade.receive(min(size, MOST))
                except BodyTimeout:
                    pass  # the silence of a client is the protocol's affair
                except ClientGone:
                    break
                except OSError:
                    if not self._closed:
                        raise
        return b""

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        room = memoryview(buffer).cast("B")
        data = self.recv(size or len(room), flags)
        room[: len(data)] = data
        return len(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        try:
            self._take(flags)
            with Timeout(self._timeout, TimeoutError("timed out")), self._sending:
                self._upgrade.write(bytes(data))
        except ClientGone:
            raise BrokenPipeError(errno.EPIPE, "the connection has been closed") from None

    def send(self, data: Any, flags: int = 0) -> int:
        self.sendall(data, flags)
        return len(memoryview(data).cast("B"))

    def _take(self, flags: int) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "this socket has been closed")
        if flags:
            raise OSError(errno.EOPNOTSUPP, "the connection of a request takes no flags")
        if not self._taken:
            # simple-websocket's way to say that there is no response
            self._upgrade.begin(b"", self, (ConnectionError, StopIteration))
            self._taken = True

    # -- the end -------------------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        self._descriptor("shutdown", how)

    def close(self) -> None:
        """Close the socket, and wake a tasklet that receives. The connection is closed when the application
        returns."""
        if self._taken and not self._closed:
            self._closed = True
            try:
                self.shutdown(socket.SHUT_RD)
            except OSError:
                self._upgrade.end_input()  # it is closed already, or has no descriptor; so _move() ends, too

    def end(self, failure: BaseException | None) -> None:
        """End the socket after the application has returned or raised."""
        self._closed = True
        if self._pipe is not None:
            self._pipe.shutdown(socket.SHUT_RDWR)  # tasklets that wait for it go on
            sockets.real_close(self._pipe)

    # -- its settings --------------------------------------------------------------------------------------

    def fileno(self) -> int:
        if self._closed or self._upgrade.fd >= 0:
            return -1 if self._closed else self._upgrade.fd
        if self._pipe is None:
            self._pipe, other = socket.socketpair()
            spawn(self._move, other)
        return self._pipe.fileno()  # type: ignore[no-any-return]

    def _move(self, into: Any) -> None:
        try:
            while True:
                try:
                    data = self._upgrade.receive(MOST)
                    if not data:
                        return
                    sockets.sendall(into, data)
                except BodyTimeout:
                    pass
                except OSError:  # ConnectionLost is one
                    return
        finally:
            sockets.real_close(into)

    def settimeout(self, seconds: float | None) -> None:
        if seconds == 0:
            raise ValueError(
                "the connection of a request cannot be non-blocking; wait for it in a separate thread"
            )
        self._timeout = seconds

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, blocking: bool) -> None:
        self.settimeout(None if blocking else 0)

    def _descriptor(self, name: str, *arguments: Any) -> Any:
        fd = self._upgrade.fd
        if fd < 0:
            raise OSError(
                errno.EBADF, "the connection has no descriptor: it is closed, or an HTTP/2 connection"
            )
        with socket.socket(fileno=os.dup(fd)) as sock:
            found = getattr(sock, name)
            return found(*arguments) if callable(found) else found

    def __getattr__(self, name: str) -> Any:
        if name not in OF_THE_DESCRIPTOR:
            raise AttributeError(
                f"the connection of a request has no {name}; there are recv, recv_into, send, sendall, "
                f"shutdown, close, fileno, settimeout and {', '.join(OF_THE_DESCRIPTOR)}"
            )
        if name in ("family", "type", "proto"):
            return self._descriptor(name)
        return lambda *arguments: self._descriptor(name, *arguments)
