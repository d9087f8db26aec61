"""The socket module whose sockets are green."""

from __future__ import annotations

import socket as _standard
from typing import Any

from syncless.eventlet.greenio import GreenSocket
from syncless.eventlet.support import greendns
from syncless.io import socket as _cooperative

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})

socket = SocketType = GreenSocket
SOCK_STREAM = _standard.SOCK_STREAM
AF_INET, AF_INET6 = _standard.AF_INET, _standard.AF_INET6
SOL_SOCKET, SO_REUSEADDR = _standard.SOL_SOCKET, _standard.SO_REUSEADDR
if hasattr(_standard, "SO_REUSEPORT"):
    SO_REUSEPORT = _standard.SO_REUSEPORT
_GLOBAL_DEFAULT_TIMEOUT: Any = _standard._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]

getaddrinfo = greendns.getaddrinfo
gethostbyname = greendns.gethostbyname
gethostbyname_ex = greendns.gethostbyname_ex
getnameinfo = greendns.getnameinfo
gethostbyaddr = _cooperative.gethostbyaddr
getfqdn = _cooperative.getfqdn


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> GreenSocket:
    """Return a socket for a duplicate of the descriptor."""
    return GreenSocket(family, type, proto, _standard.dup(fd))


def socketpair(*args: Any, **kwargs: Any) -> tuple[GreenSocket, GreenSocket]:
    """Return two sockets that are connected."""
    one, other = _standard.socketpair(*args, **kwargs)
    return tuple(GreenSocket(each.family, each.type, each.proto, each.detach()) for each in (one, other))  # type: ignore[return-value]


def create_connection(
    address: Any, timeout: Any = _GLOBAL_DEFAULT_TIMEOUT, source_address: Any = None, **options: Any
) -> GreenSocket:
    """Connect to the first address of a name that answers."""
    made = _cooperative.create_connection(address, timeout, source_address, **options)
    seconds = made.gettimeout()
    green = GreenSocket(made.family, made.type, made.proto, made.detach())
    green.settimeout(seconds)
    return green


def create_server(address: Any, **options: Any) -> GreenSocket:
    """Listen at an address."""
    made = _standard.create_server(address, **options)
    return GreenSocket(made.family, made.type, made.proto, made.detach())
