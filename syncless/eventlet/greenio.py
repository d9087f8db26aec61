"""Sockets and pipes for green threads, with eventlet's names for them."""

from __future__ import annotations

import errno
import functools
import os
from socket import AF_INET, SocketIO
from socket import socket as _standard_socket
from typing import Any

from syncless._core.calls import sockets
from syncless.eventlet import hubs
from syncless.eventlet.hubs import hub
from syncless.eventlet.semaphore import Semaphore
from syncless.io import files
from syncless.io.socket import socket as _cooperative_socket

__all__ = ["SSL", "GreenPipe", "GreenSocket", "set_nonblocking", "shutdown_safe"]

SOCKET_BLOCKING = {errno.EAGAIN, errno.EWOULDBLOCK}
SOCKET_CLOSED = {errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN, errno.EPIPE}
CONNECT_ERR = {errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK}
CONNECT_SUCCESS = {0, errno.EISCONN}
_original_socket = _standard_socket
_fileobject = SocketIO

try:
    from OpenSSL import SSL
except ImportError:

    class SSL:  # type: ignore[no-redef]
        """Names of pyOpenSSL's errors, for programs that catch them without having it."""

        class WantWriteError(Exception):
            pass

        class WantReadError(Exception):
            pass

        class ZeroReturnError(Exception):
            pass

        class SysCallError(Exception):
            pass


class GreenSocket(_cooperative_socket):
    """socket.socket whose calls let other green threads run. It can also take over a socket that is there."""

    _given: Any = None
    _receives = False
    _turns: Semaphore | None = None
    """Of those that wait until another one has received."""

    def __init__(
        self,
        family: Any = AF_INET,
        type: int = -1,
        proto: int = -1,
        fileno: int | None = None,
        set_nonblocking: bool = True,
    ) -> None:
        if hasattr(family, "fileno"):
            given = family
            super().__init__(given.family, given.type, given.proto, given.fileno())
            self._given = given
            self.settimeout(given.gettimeout())
        else:
            super().__init__(family, type, proto, fileno)
        if set_nonblocking and self.gettimeout() is None:
            os.set_blocking(self.fileno(), False)

    @property
    def fd(self) -> Any:
        return self

    _sock = fd

    def accept(self) -> tuple[GreenSocket, Any]:
        connection, address = sockets.accept(self, GreenSocket)
        connection.settimeout(None)
        os.set_blocking(connection.fileno(), False)
        return connection, address

    # Of a connection that is reset, eventlet's receive nothing more, and its programs count on that.

    def recv(self, *args: Any) -> bytes:
        try:
            data: bytes = self._alone(super().recv, args)
            return data
        except OSError as error:
            if error.errno not in SOCKET_CLOSED:
                raise
            return b""

    def recv_into(self, *args: Any) -> int:
        try:
            size: int = self._alone(super().recv_into, args)
            return size
        except OSError as error:
            if error.errno not in SOCKET_CLOSED:
                raise
            return 0

    def _alone(self, receive: Any, args: tuple[Any, ...]) -> Any:
        """Receive while no other green thread does; take turns, if several are allowed."""
        if self._receives and (self._turns is None or not self._turns.acquire(blocking=False)):
            if hub.prevent_multiple_readers:
                raise RuntimeError(
                    f"Second simultaneous read on fileno {self.fileno()} detected: two green threads would "
                    "wait for the same data. debug.hub_prevent_multiple_readers(False) allows it"
                )
            if self._turns is None:
                self._turns = Semaphore(0)
            if not self._turns.acquire(timeout=self.gettimeout()):
                raise TimeoutError("timed out")
        self._receives = True
        try:
            return receive(*args)
        finally:
            if self._turns is not None and self._turns.balance < 0:
                self._turns.release()
            else:
                self._receives = False

    def dup(self) -> GreenSocket:
        made = type(self)(self.family, self.type, self.proto, fileno=os.dup(self.fileno()))
        if self.gettimeout() is not None:
            made.settimeout(self.gettimeout())
        return made

    def _real_close(self, *args: Any) -> None:
        given, self._given = self._given, None
        if given is None:
            super()._real_close(*args)  # type: ignore[misc]
        else:
            self._forget()
            given.close()

    def _forget(self) -> None:
        """Leave the descriptor to the socket that it was taken from."""
        _cooperative_socket.detach(self)

    def __del__(self) -> None:
        if self._given is not None:
            self._forget()
        else:
            super().__del__()  # type: ignore[misc]

    def act_non_blocking(self) -> bool:
        return self.gettimeout() == 0

    def trampoline(self, fd: Any, **kwargs: Any) -> None:
        hubs.trampoline(fd, **kwargs)


def GreenPipe(f: Any, mode: str = "r", bufsize: int = -1) -> Any:
    """Open a descriptor, a path or a file for green threads: reads and writes let others run."""
    if hasattr(f, "fileno"):
        number = os.dup(f.fileno())
        f.close()
        f = number
    opened: Any = files.open(f, mode, bufsize)
    if "+" in mode and "b" in mode and bufsize:
        opened.truncate = functools.partial(_truncate, opened)
    return opened


def _truncate(file: Any, size: int | None = None) -> int:
    """truncate() that also goes there."""
    file.flush()
    size = file.tell() if size is None else size
    os.ftruncate(file.fileno(), size)
    file.seek(size)
    return size


def set_nonblocking(fd: Any) -> None:
    """Make a descriptor, or a thing that has one, nonblocking."""
    if hasattr(fd, "setblocking"):
        fd.setblocking(False)
    else:
        os.set_blocking(fd if isinstance(fd, int) else fd.fileno(), False)


def shutdown_safe(sock: Any) -> None:
    """Shut down both directions of a connection, if it is one that is still open."""
    try:
        try:
            sock.shutdown(2)
        except TypeError:  # of pyOpenSSL
            sock.shutdown()
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.EBADF, errno.ENOTSOCK):
            raise
