"""The memory region that this process shares with others. The master makes it before it forks its workers;
without a master, the first use makes it. A child has the region of its parent."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from syncless._core.cpython.forkhooks import at_fork
from syncless.http import running
from syncless.shared.errors import Unavailable

if TYPE_CHECKING:
    from syncless.shared.memory import Region

_region: Region | None = None
_failure = ""
"""Why the master could not make it."""


def region() -> Region:
    """Return the region. Raise Unavailable if there is none."""
    if _region is None:
        begin()
    if _region is None:
        raise Unavailable(_failure)
    return _region


def begin() -> None:
    """Make the region, if there is none yet. If that fails, only the first use raises, because most servers
    need no region."""
    global _region, _failure
    if _region is None and not _failure:
        limits = running.limits()
        try:
            memory = import_module("syncless.shared.memory")
            _region = memory.Region(limits.shared_value_bytes, limits.shared_ring_bytes)
        except ImportError:
            _failure = "this syncless was built without shared memory: the system has no robust mutexes"
        except OSError as error:
            _failure = str(error)


def largest_message() -> int:
    """Return the size of the largest message, in bytes."""
    return min(running.limits().shared_message_bytes, region().ring_bytes // 4 - 512)


def largest_value() -> int:
    """Return the size of the largest value, in bytes."""
    return region().value_bytes // 4


_started: int | None = None


def start_of(pid: int) -> int:
    """Return the start time of the process in system ticks, or 0 if unknown, or -1 if the process has ended.
    Start and process ID together identify a process, because IDs are reused."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(fd, 4096).rpartition(b") ")[2].split()
        finally:
            os.close(fd)
    except OSError:
        return 0
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """Return whether the process with this number and start still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    found = start_of(pid)
    return found == start or (found >= 0 and 0 in (found, start))


def own_start() -> int:
    """Return the start time of this process, or 0 without /proc."""
    global _started
    if _started is None:
        _started = max(0, start_of(os.getpid()))
    return _started


def _forget_start() -> None:
    global _started
    _started = None


at_fork(in_child=_forget_start)


def figures() -> dict[str, int]:
    """Return counts, and sizes in bytes, of all processes together: ``messages`` published and
    ``overwritten``, ``ring_bytes``; ``entries`` of the store, ``used_bytes`` of its ``value_bytes``, values
    that were ``evicted`` to make room or had ``expired``; processes that died in the midst of a change
    (``repaired``)."""
    return region().figures()
