"""Patches ssl.SSLSocket in place, and what of SSLContext opens files, which it does in threads.

SSLObject and MemoryBIO never wait, so they are unchanged, like asyncio, which uses them.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Callable
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import Share
from syncless._core.cpython.functions import class_of
from syncless.patches.registry import Patcher
from syncless.patches.types import tlscalls

LOADS = ("load_cert_chain", "load_verify_locations", "set_default_verify_paths", "load_dh_params")

_files = Share(16)
_settimeout, _setblocking = ssl.SSLSocket.settimeout, ssl.SSLSocket.setblocking


def settimeout(self: ssl.SSLSocket, value: float | None) -> None:
    """Set the timeout; the descriptor itself never blocks once it carries TLS."""
    _settimeout(self, value)
    self.__dict__.pop("_never_blocks", None)


def setblocking(self: ssl.SSLSocket, flag: bool) -> None:
    """Set the mode; the descriptor itself never blocks once it carries TLS."""
    _setblocking(self, flag)
    self.__dict__.pop("_never_blocks", None)


def do_handshake(self: Any, block: bool = False) -> None:
    """SSLSocket.do_handshake, cooperative."""
    self._check_connected()
    timeout = self.gettimeout()
    try:
        if timeout == 0.0 and block:
            self.settimeout(None)
        tlscalls.call(self, "do_handshake")
    finally:
        if timeout == 0.0 and block:
            self.settimeout(timeout)


def unwrap(self: Any) -> Any:
    """SSLSocket.unwrap, cooperative."""
    if self._sslobj is None:
        raise ValueError("No SSL wrapper around " + str(self))
    plain = tlscalls.call(self, "shutdown")
    self._sslobj = None
    if self.gettimeout() is None:
        os.set_blocking(self.fileno(), True)
    return plain


def _loads(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of SSLContext that reads and processes files in a thread."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not may_use_threads():
            return original(self, *args, **kwargs)
        return _files.run(original, self, *args, **kwargs)

    return method


def _opens(member: Any) -> property:
    """Return an attribute of SSLContext that opens a file when it is set."""
    change = _loads(member.__set__)
    return property(member.__get__, change, member.__delete__, doc=member.__doc__)


def patch(patcher: Patcher) -> None:
    context, connection = class_of(ssl, "SSLContext"), class_of(ssl, "SSLSocket")
    for name in LOADS:
        patcher.member(context, name, _loads(getattr(context, name)), "waits for a disk")
    patcher.member(context, "keylog_filename", _opens(context.keylog_filename), "waits for a disk")
    calls: tuple[Any, ...] = tlscalls.read, tlscalls.write, tlscalls.recv, tlscalls.send
    for function in (*calls, do_handshake, unwrap):
        patcher.member(connection, function.__name__, function, "waits in OpenSSL")
    for function in (settimeout, setblocking):
        patcher.member(connection, function.__name__, function, "makes the descriptor block again")
