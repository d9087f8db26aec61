"""Mount points, for paths whose file system is not known yet: the kernel tells them without asking it."""

from __future__ import annotations

import os
import time

MOUNTS_SECONDS = 1.0
"""So long the table of mounts is believed."""

# the interpreter's own, whatever is put in their place later
_open, _read, _close = os.open, os.read, os.close


class _Table:
    def __init__(self) -> None:
        self.points: list[str] = []
        """The longest first."""
        self.read_at = -MOUNTS_SECONDS


_table = _Table()


def _points() -> list[str]:
    """Of the table, which is read at most once in MOUNTS_SECONDS."""
    if time.monotonic() - _table.read_at > MOUNTS_SECONDS:
        _table.read_at = time.monotonic()
        try:
            fd = _open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            _table.points = []
            return []
        pieces = []
        while piece := _read(fd, 65536):
            pieces.append(piece)
        _close(fd)
        found = [line.split()[4] for line in b"".join(pieces).splitlines()]
        found.sort(key=len, reverse=True)
        _table.points = [os.fsdecode(point.replace(b"\\040", b" ")) for point in found]
    return _table.points


def mount_of(directory: str) -> str:
    """The mount point in which a directory seems to lie; links may lead elsewhere. "" if that is unknown."""
    points = _points()
    try:
        path = os.path.abspath(directory)
    except (OSError, ValueError):
        return ""
    for point in points:
        if path.startswith(point) and (len(path) == len(point) or path[len(point)] == "/" or point == "/"):
            return point
    return ""
