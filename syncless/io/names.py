"""Addresses of sockets whose host is a name."""

from __future__ import annotations

import socket as _stdlib
from typing import Any

from syncless.io.dns import getaddrinfo


def resolved(sock: _stdlib.socket, address: Any) -> Any:
    """The address with its host name replaced by a number, so that the C library need not ask anybody."""
    found = getaddrinfo(address[0], None, sock.family, sock.type)  # the port is the call's own to judge
    return (found[0][4][0], *address[1:])
