"""The store that needs nothing: memory that the processes of a server share (memory.pyx).

A process is named by its number and its start, because numbers are reused. So the places of loops, and the
locks, of a process that has died can be told from those of others.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection
from itertools import count
from typing import TYPE_CHECKING

from syncless._core.current import directly
from syncless._core.wait.select import readable, select
from syncless.shared.memory import Region, Waker
from syncless.shared.store import INTERNAL

if TYPE_CHECKING:
    from syncless.shared.messages import Hub, Inbox

_OWNER = struct.Struct("=IQQ")
"""Process number, its start, and a number of each time that a lock is taken there."""
_turns = count(1)
BLIND_SECONDS = 1.0
"""Between two checks whether the holder is alive, if the system has no descriptors of processes."""


class Memory(Region):
    """Made before the fork, it is the same in all processes."""

    holds = True

    def owner(self) -> bytes:
        return _OWNER.pack(os.getpid(), own_start(), next(_turns))

    def acquire(self, name: bytes, owner: bytes, patient: bool) -> bytes | None:
        holder = self.lock(name, owner)
        if holder is not None and patient and _has_ended(holder):
            holder = self.lock(name, owner, holder)
        return holder

    def wait(self, inbox: Inbox, holder: bytes, seconds: float | None) -> None:
        """A descriptor of the holder's process (pidfd) tells that the process has ended."""
        pid, _, _ = _OWNER.unpack(holder)
        if pid == os.getpid():
            inbox.news.wait(seconds)
            return
        process = _descriptor_of(pid)
        if process is None:
            inbox.news.wait(BLIND_SECONDS if seconds is None else min(seconds, BLIND_SECONDS))
            return
        try:
            if not _has_ended(holder):  # it is that of the holder, and of no later process
                select([inbox.news, readable(process)], seconds)
        finally:
            os.close(process)

    def release(self, name: bytes, owner: bytes) -> bool:
        waited = self.unlock(name, owner)
        if waited > 0:
            self.publish(INTERNAL + name, 0, b"")
        return waited >= 0

    def feed(self, hub: Hub) -> Feed:
        start = own_start()
        self.free_places_of_dead()
        return directly(Feed, self, start, hub)

    def free_places_of_dead(self) -> None:
        """Free the places of processes that were killed while awake: no publisher has met their sockets."""
        for place, pid, start in self.owners_of_places():
            if not is_alive(pid, start):
                self.free_place(place, pid, start)

    @staticmethod
    def leave_to_parent() -> None:
        global _started
        _started = None


class Feed:
    """The ring of the region is that of all loops; the Waker tells of new messages."""

    def __init__(self, memory: Memory, start: int, hub: Hub):
        self.head, self.tail, self.read, self.behind = memory.head, memory.tail, memory.read, memory.behind
        self._waker = Waker(memory, os.getpid(), start, hub.deliver)
        self.close, self.leave_to_parent = self._waker.close, self._waker.leave_to_parent

    def listen(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        """It hears everything."""

    def forget(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        """It hears everything."""


_started: int | None = None


def start_of(pid: int) -> int:
    """Return when the process started, in the system's ticks; 0 if that is unknown, -1 if it has ended."""
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
    """Return the start of this process; 0 without /proc."""
    global _started
    if _started is None:
        _started = max(0, start_of(os.getpid()))
    return _started


def _has_ended(holder: bytes) -> bool:
    pid, start, _ = _OWNER.unpack(holder)
    return pid != os.getpid() and not is_alive(pid, start)


def _descriptor_of(pid: int) -> int | None:
    """Return a descriptor of the process; None if the system has none, or the process has ended."""
    opens: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    try:
        return None if opens is None else opens(pid)
    except OSError:
        return None
