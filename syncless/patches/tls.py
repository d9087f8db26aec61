"""ssl.SSLSocket in place. SSLObject and MemoryBIO, which never wait, are left alone, and with them asyncio."""

from __future__ import annotations

import os
import ssl
from typing import Any

from syncless._core.sockcalls import ssl_call
from syncless.patches.registry import Patcher

_settimeout, _setblocking = ssl.SSLSocket.settimeout, ssl.SSLSocket.setblocking


def _call(sock: ssl.SSLSocket, method: Any, *args: Any) -> Any:
    """Runs a method of the SSL object; parks while it waits for the other side.

    The object looks at the descriptor's own mode, so that is made non-blocking, once for each object; the socket's timeout stays.
    """
    if sock.__dict__.get("_never_blocks") is not sock._sslobj:  # type: ignore[attr-defined]
        os.set_blocking(sock.fileno(), False)
        sock.__dict__["_never_blocks"] = sock._sslobj  # type: ignore[attr-defined]
    return ssl_call(sock, ssl.SSLWantReadError, ssl.SSLWantWriteError, method, *args)


def settimeout(self: ssl.SSLSocket, value: float | None) -> None:
    """socket.settimeout; the descriptor itself never blocks once TLS is on it."""
    _settimeout(self, value)
    self.__dict__.pop("_never_blocks", None)


def setblocking(self: ssl.SSLSocket, flag: bool) -> None:
    """socket.setblocking; the descriptor itself never blocks once TLS is on it."""
    _setblocking(self, flag)
    self.__dict__.pop("_never_blocks", None)


def read(self: Any, len: int = 1024, buffer: Any = None) -> Any:
    """SSLSocket.read, cooperative."""
    self._checkClosed()
    if self._sslobj is None:
        raise ValueError("Read on closed or unwrapped SSL socket.")
    try:
        if buffer is not None:
            return _call(self, self._sslobj.read, len, buffer)
        return _call(self, self._sslobj.read, len)
    except ssl.SSLError as error:
        if error.args[0] == ssl.SSL_ERROR_EOF and self.suppress_ragged_eofs:
            return 0 if buffer is not None else b""
        raise


def write(self: Any, data: Any) -> int:
    """SSLSocket.write, cooperative."""
    self._checkClosed()
    if self._sslobj is None:
        raise ValueError("Write on closed or unwrapped SSL socket.")
    return int(_call(self, self._sslobj.write, data))


def send(self: Any, data: Any, flags: int = 0) -> int:
    """SSLSocket.send, cooperative."""
    self._checkClosed()
    if self._sslobj is None:
        return int(super(ssl.SSLSocket, self).send(data, flags))
    if flags != 0:
        raise ValueError(f"non-zero flags not allowed in calls to send() on {self.__class__}")
    return int(_call(self, self._sslobj.write, data))


def do_handshake(self: Any, block: bool = False) -> None:
    """SSLSocket.do_handshake, cooperative."""
    self._check_connected()
    timeout = self.gettimeout()
    try:
        if timeout == 0.0 and block:
            self.settimeout(None)
        _call(self, self._sslobj.do_handshake)
    finally:
        if timeout == 0.0 and block:
            self.settimeout(timeout)


def unwrap(self: Any) -> Any:
    """SSLSocket.unwrap, cooperative."""
    if self._sslobj is None:
        raise ValueError("No SSL wrapper around " + str(self))
    plain = _call(self, self._sslobj.shutdown)
    self._sslobj = None
    if self.gettimeout() is None:
        os.set_blocking(self.fileno(), True)
    return plain


def patch(patcher: Patcher) -> None:
    for function in (read, write, send, do_handshake, unwrap, settimeout, setblocking):
        why = "must not make the descriptor block again" if function in (settimeout, setblocking) else "waits in OpenSSL"
        patcher.member(ssl.SSLSocket, function.__name__, function, why)
