"""Addresses of sockets whose host is a name."""

from __future__ import annotations

import socket as _stdlib
from typing import Any

from syncless.io.dns import getaddrinfo


def resolved(sock: _stdlib.socket, address: Any) -> Any:
    """The address with its host name replaced by a number, so that the C library asks no name server."""
    found = getaddrinfo(address[0], None, sock.family, sock.type)  # the call itself checks the port
    return (found[0][4][0], *address[1:])
