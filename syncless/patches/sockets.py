"""socket.socket in place: objects made earlier, and subclasses such as ssl.SSLSocket, have the cooperative
methods, too."""

from __future__ import annotations

import socket

from syncless.io import dns
from syncless.io import socket as cooperative
from syncless.patches.registry import Patcher

METHODS = (
    "__init__",
    "accept",
    "bind",
    "connect",
    "connect_ex",
    "detach",
    "recv",
    "recv_into",
    "recvfrom",
    "recvfrom_into",
    "recvmsg",
    "recvmsg_into",
    "send",
    "sendall",
    "sendmsg",
    "sendto",
    "_real_close",
    "_sendfile_use_sendfile",
)
NAMES = ("getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo")


def patch(patcher: Patcher) -> None:
    for name in METHODS:
        why = (
            "tells the loop that the descriptor's number is somebody else's"
            if name in ("__init__", "detach", "_real_close")
            else "blocks"
        )
        patcher.member(socket.socket, name, cooperative.socket.__dict__[name], why)


def patch_names(patcher: Patcher) -> None:
    for name in NAMES:
        patcher.rebind(socket, name, getattr(dns, name), "asks the C library, which waits for a name server")
