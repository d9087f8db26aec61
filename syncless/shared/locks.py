"""Lock: a lock with one holder among all workers, threads and tasklets. It is freed when the holder's process
dies.

A message tells waiters that the lock is free, and a descriptor of the holder's process (pidfd) shows them
that the process has ended. The first waiter then takes the lock.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from itertools import count
from time import monotonic

from syncless._core.wait.select import readable, select
from syncless.shared import area
from syncless.shared.content import name_of
from syncless.shared.messages import INTERNAL, Inbox, tell

_OWNER = struct.Struct("=IQQ")
"""Process number, its start, and a number of each time that a lock is taken there."""
_turns = count(1)
BLIND_SECONDS = 1.0
"""Between two checks whether the holder is alive, if the system has no descriptors of processes."""


class Lock:
    """A lock that one caller among all workers can hold. `with Lock("import"):` waits for it.

    The death of the holder's process frees the lock; the end of a tasklet that holds it does not. The lock is
    neither reentrant nor fair. ``name``: 1 to 250 bytes of UTF-8. Raises InvalidName.
    """

    def __init__(self, name: str):
        self._name = name_of(name)
        self._topic = INTERNAL + self._name
        self._owner: bytes | None = None

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take the lock. Return False if it is held and ``blocking`` is false, or after ``timeout`` seconds.
        Raise StoreFull or Unavailable."""
        owner = _OWNER.pack(os.getpid(), area.own_start(), next(_turns))
        holder = area.region().lock(self._name, owner)
        if holder is not None and (not blocking or not self._wait(owner, timeout)):
            return False
        self._owner = owner
        return True

    def release(self) -> None:
        """Free the lock. Raise RuntimeError if this object does not hold it in this process."""
        owner, self._owner = self._owner, None
        if owner is None or _OWNER.unpack(owner)[0] != os.getpid():
            raise RuntimeError("release of a lock that is not held")
        waited = area.region().unlock(self._name, owner)
        if waited < 0:
            raise RuntimeError("release of a lock that is not held any more")
        if waited:
            tell(self._topic)

    def locked(self) -> bool:
        """Return whether somebody holds the lock, or has died while holding it."""
        return area.region().is_locked(self._name)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _wait(self, owner: bytes, timeout: float | None) -> bool:
        """Attempt to take the lock whenever it has been released, or its holder has died."""
        until = None if timeout is None else monotonic() + timeout
        region, inbox = area.region(), Inbox([self._topic], ends_at_stop=False)
        try:
            while True:
                inbox.news.clear()
                inbox.places.clear()
                holder = region.lock(self._name, owner)
                if holder is not None and _has_ended(holder):
                    holder = region.lock(self._name, owner, holder)
                if holder is None:
                    return True
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    return False
                _wait_for(inbox, holder, left)
        finally:
            inbox.close()


def _has_ended(holder: bytes) -> bool:
    pid, start, _ = _OWNER.unpack(holder)
    return pid != os.getpid() and not area.is_alive(pid, start)


def _wait_for(inbox: Inbox, holder: bytes, left: float | None) -> None:
    """Wait, for at most ``left`` seconds, until the inbox has news or the holder's process may have ended."""
    pid, _, _ = _OWNER.unpack(holder)
    if pid == os.getpid():
        inbox.news.wait(left)
        return
    process = _descriptor_of(pid)
    if process is None:
        inbox.news.wait(BLIND_SECONDS if left is None else min(left, BLIND_SECONDS))
        return
    try:
        if not _has_ended(holder):  # it is that of the holder, and of no later process
            select([inbox.news, readable(process)], left)
    finally:
        os.close(process)


def _descriptor_of(pid: int) -> int | None:
    """Return a descriptor of the process, or None if the system has none or the process has ended."""
    opens: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    try:
        return None if opens is None else opens(pid)
    except OSError:
        return None
