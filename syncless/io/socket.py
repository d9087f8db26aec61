"""The standard library's ``socket`` module, cooperative: a call that would block parks the tasklet instead.

Write ``from syncless.io import socket`` and use it like the standard module: it has the same names,
signatures, timeouts and errors. Every object made here is a real ``socket.socket``.
"""

from __future__ import annotations

import errno
import io
import os
import socket as _stdlib
from socket import *
from typing import Any

from syncless._core.calls import descriptors, messages, sockets
from syncless._core.calls.files import must_read_first
from syncless._core.current import ThrownHere
from syncless._core.scheduler import set_lookup
from syncless.io.dns import (
    getaddrinfo,
    getfqdn,
    gethostbyaddr,
    gethostbyname,
    gethostbyname_ex,
    getnameinfo,
    resolved,
)

__all__ = [*_stdlib.__all__, "socket"]

_GLOBAL_DEFAULT_TIMEOUT: Any = _stdlib._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]
_SENDFILE_CHUNK = 1 << 20
_READ_CHUNK = 1 << 17
_GiveUp: Any = _stdlib._GiveupOnSendfile  # type: ignore[attr-defined]
_CANNOT = errno.EINVAL, errno.ENOSYS
"""Of sendfile: the file, or the system, is not of the kind."""


def _send_read(sock: Any, fileno: int, offset: int, size: int) -> int:
    """Send a part of a file, which a thread may have to read first, like sockets.sendfile()."""
    data = descriptors.pread(fileno, min(size, _READ_CHUNK), offset)
    return sockets.send(sock, data) if data else 0


# The standard library's own methods, even if the patch replaces them later.


class socket(_stdlib.socket):
    """socket.socket whose calls park the tasklet instead of blocking the thread."""

    __slots__ = ()

    __init__ = sockets.init
    recv = sockets.recv
    recv_into = sockets.recv_into
    send = sockets.send
    sendall = sockets.sendall
    recvfrom = messages.recvfrom
    recvfrom_into = messages.recvfrom_into
    recvmsg = messages.recvmsg
    recvmsg_into = messages.recvmsg_into
    sendto = messages.sendto
    sendmsg = messages.sendmsg
    connect = messages.connect
    connect_ex = messages.connect_ex
    bind = messages.bind
    detach = sockets.detach
    _real_close = sockets.real_close

    def accept(self) -> tuple[socket, Any]:
        """Park until a peer connects, and return (socket, address)."""
        kind = socket if isinstance(self, socket) else _stdlib.socket
        accepted: tuple[socket, Any] = sockets.accept(self, kind)
        if _stdlib.getdefaulttimeout() is None and self.gettimeout():
            accepted[0].setblocking(True)
        return accepted

    def _sendfile_use_sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a regular file with sendfile(); park while the peer is slow."""
        self._check_sendfile_params(file, offset, count)  # type: ignore[attr-defined]
        if self.gettimeout() == 0:
            raise ValueError("non-blocking sockets are not supported")
        try:
            fileno = file.fileno()
            size = os.fstat(fileno).st_size
        except (AttributeError, io.UnsupportedOperation, OSError) as error:
            raise _GiveUp(error) from None
        start = offset
        remaining = max(0, size - offset) if count is None else count
        can = True
        try:
            while size and remaining > 0:
                part = fileno, offset, min(remaining, _SENDFILE_CHUNK)
                send = sockets.sendfile if can and not must_read_first(*part) else _send_read
                try:
                    sent = send(self, *part)
                except TimeoutError:
                    raise
                except OSError as error:
                    if offset == start:
                        raise _GiveUp(error) from None
                    if send is _send_read or error.errno not in _CANNOT:
                        raise
                    can = False  # the first parts had to be read
                    continue
                if sent == 0:
                    break
                offset += sent
                remaining -= sent
        finally:
            if offset > start and hasattr(file, "seek"):
                file.seek(offset)
        return offset - start

    def dup(self) -> socket:
        """Return a new socket object for the same connection."""
        sock = type(self)(self.family, self.type, self.proto, fileno=_stdlib.dup(self.fileno()))
        sock.settimeout(self.gettimeout())
        return sock


set_lookup(resolved)
SocketType = socket


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:
    """Return a socket object for a duplicate of the descriptor."""
    return socket(family, type, proto, _stdlib.dup(fd))


def socketpair(
    family: int | None = None, type: int = _stdlib.SOCK_STREAM, proto: int = 0
) -> tuple[socket, socket]:
    """Return two connected sockets; UNIX sockets by default."""
    first, second = _stdlib.socketpair(family, type, proto)
    return _adopt(first), _adopt(second)


def _adopt(sock: _stdlib.socket) -> socket:
    """Return the same connection as an object of our class."""
    timeout = sock.gettimeout()
    ours = socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    ours.settimeout(timeout)
    return ours


def create_connection(
    address: tuple[str | None, int],
    timeout: float | None = _GLOBAL_DEFAULT_TIMEOUT,
    source_address: tuple[str, int] | None = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Return a connected TCP socket. Try each address of the host in turn; `timeout` is in seconds per
    attempt."""
    host, port = address
    errors: list[OSError] = []
    for family, kind, proto, _, target in getaddrinfo(host, port, 0, _stdlib.SOCK_STREAM):
        sock = None
        with ThrownHere() as thrown:
            try:
                sock = socket(family, kind, proto)
                if timeout is not _GLOBAL_DEFAULT_TIMEOUT:
                    sock.settimeout(timeout)
                if source_address:
                    sock.bind(source_address)
                sock.connect(target)
                errors.clear()
                return sock
            except BaseException as error:
                if sock is not None:
                    sock.close()
                if thrown or not isinstance(error, OSError):
                    raise
                if not all_errors:
                    errors.clear()
                errors.append(error)
    try:
        if not errors:
            raise OSError("getaddrinfo returns an empty list")
        if not all_errors:
            raise errors[0]
        raise ExceptionGroup("create_connection failed", errors)  # type: ignore[name-defined,unused-ignore]
    finally:
        errors.clear()


def create_server(address: Any, **options: Any) -> socket:
    """Return a listening TCP socket, like socket.create_server and with its options `family`, `backlog`,
    `reuse_port` and `dualstack_ipv6`."""
    return _adopt(_stdlib.create_server(address, **options))
