"""OpenSSL.SSL, whose connections wait for their sockets and let other green threads run."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL as _standard

from syncless._core.current import wait_readable, wait_writable

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})


def _waiting(name: str) -> Any:
    original = getattr(_standard.Connection, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return original(self, *args, **kwargs)
            except _standard.WantReadError:
                wait_readable(self.fileno())
            except _standard.WantWriteError:
                wait_writable(self.fileno())

    method.__name__ = name
    return method


class Connection(_standard.Connection):
    """OpenSSL.SSL.Connection."""

    recv, recv_into, send, do_handshake, shutdown = map(
        _waiting, ("recv", "recv_into", "send", "do_handshake", "shutdown")
    )
    read, write = recv, send


GreenConnection = Connection
