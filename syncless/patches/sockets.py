"""Patches socket.socket in place, so existing objects and subclasses such as ssl.SSLSocket are cooperative,
too."""

from __future__ import annotations

import socket

from syncless._core.cpython.functions import class_of
from syncless.io import dns
from syncless.io import socket as cooperative
from syncless.patches.registry import Patcher

BLOCKING = """
    accept bind connect connect_ex recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into
    send sendall sendmsg sendto _sendfile_use_sendfile
""".split()
CHANGE_OWNER = ("__init__", "detach", "_real_close")
"""Methods that hand the descriptor over to another owner; the loop must be told."""
NAMES = ("getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo")


def patch(patcher: Patcher) -> None:
    for names, why in (
        (BLOCKING, "blocks"),
        (CHANGE_OWNER, "does not tell the loop who owns the descriptor"),
    ):
        for name in names:
            new = vars(cooperative.socket)[name]
            patcher.member(class_of(socket, "socket"), name, new, why, kept=True)


def patch_names(patcher: Patcher) -> None:
    for name in NAMES:
        patcher.rebind(socket, name, getattr(dns, name), "asks the C library, which waits for a name server")
