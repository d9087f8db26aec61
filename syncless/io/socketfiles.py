"""The file of a UNIX socket: it is created with its mode and owner, and removed if it is stale, or at the end
if it is still ours.

This module knows no event loop, and never waits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import sys

from syncless.io.guardedfiles import Owner, Place


class SocketFile:
    """The file at `path`, to which a socket has just been bound."""

    def __init__(self, path: str):
        self._path = os.path.abspath(path)
        with Place(self._path) as place:
            self._made = place.stat()

    def remove(self) -> None:
        """Remove the file, unless another process has replaced it."""
        with contextlib.suppress(OSError), Place(self._path) as place:
            if os.path.samestat(place.stat(), self._made):
                place.unlink()


def bind_file(sock: socket.socket, path: str, mode: int, owner: Owner = (-1, -1)) -> None:
    """Bind the socket to a path. The file has this mode, whatever the umask is, and is never open to more
    users. Raise PermissionError if another file has replaced it."""
    with Place(path) as place:
        narrow = False
        if sys.platform == "linux":  # the file gets the mode of the socket, less the umask
            with contextlib.suppress(OSError):
                os.fchmod(sock.fileno(), mode)
                narrow = True
        before = None if narrow else os.umask(0o777 & ~mode | 0o077)
        try:
            sock.bind(path)
        finally:
            if before is not None:
                os.umask(before)
        if not place.guarded:
            about = place.stat()
            if owner != (-1, -1):
                os.chown(path, *owner)
            if stat.S_IMODE(about.st_mode) != mode:
                os.chmod(path, mode)
            return
        fd = place.open(os.O_RDONLY | getattr(os, "O_PATH", 0))
        try:
            about = os.fstat(fd)
            if not stat.S_ISSOCK(about.st_mode) or about.st_uid != os.geteuid() or about.st_nlink != 1:
                raise place.refusal("another file has replaced the new socket")
            os.chown(f"/proc/self/fd/{fd}", *owner)
            os.chmod(f"/proc/self/fd/{fd}", mode)
        finally:
            os.close(fd)


def remove_stale(path: str) -> None:
    """Remove a socket file on which no process listens: a killed process has left it."""
    if not is_socket(path):
        return
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError), Place(path) as place:
        about = place.stat()
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED and os.path.samestat(place.stat(), about):
            place.unlink()


def why_taken(path: str) -> str:
    """Return why binding to `path` failed with EADDRINUSE."""
    return (
        "another program already listens there" if is_socket(path) else "there is a file that is not a socket"
    )


def is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:
        return False
