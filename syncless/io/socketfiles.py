"""The file of a UNIX socket: removed if nobody listens on it, and at the end only if it is still ours.

Knows no event loop, and never waits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat


class SocketFile:
    """The file at `path` as it is now: a socket has just been bound there."""

    def __init__(self, path: str):
        self._path = os.path.abspath(path)
        self._made = os.stat(path)

    def remove(self) -> None:
        """Does nothing if another process has made its own there meanwhile."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path), self._made):
                os.unlink(self._path)


def remove_stale(path: str) -> None:
    """A socket file that nobody listens on is what a killed process left."""
    if not is_socket(path):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.setblocking(False)
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError:
            pass


def why_taken(path: str) -> str:
    """What stands in the way of binding to `path` (EADDRINUSE)."""
    return "another program listens there" if is_socket(path) else "there is a file that is not a socket"


def is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
