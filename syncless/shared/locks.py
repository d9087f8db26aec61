"""Lock: a lock with one holder among all workers, threads and tasklets. It is freed when the holder's process
dies.

A message tells waiters that the lock is free, and the store tells them when its holder may have died. The
first waiter then takes the lock.
"""

from __future__ import annotations

import os
from time import monotonic

from syncless.shared import area
from syncless.shared.content import name_of
from syncless.shared.messages import Inbox
from syncless.shared.store import INTERNAL


class Lock:
    """A lock that one caller among all workers can hold. `with Lock("import"):` waits for it.

    The death of the holder's process frees the lock; the end of a tasklet that holds it does not. The lock is
    neither reentrant nor fair. ``name``: 1 to 250 bytes of UTF-8. Raises InvalidName.
    """

    def __init__(self, name: str):
        self._name = name_of(name)
        self._topic = INTERNAL + self._name
        self._owner: bytes | None = None
        self._pid = 0
        """Of the process that has taken it."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take the lock. Return False if it is held and ``blocking`` is false, or after ``timeout`` seconds.
        Raise StoreFull or Unavailable."""
        store = area.store()
        owner = store.owner()
        holder = store.acquire(self._name, owner, patient=False)
        if holder is not None and (not blocking or not self._wait(owner, timeout)):
            return False
        self._owner, self._pid = owner, os.getpid()
        return True

    def release(self) -> None:
        """Free the lock. Raise RuntimeError if this object does not hold it in this process."""
        owner, self._owner = self._owner, None
        if owner is None or self._pid != os.getpid():
            raise RuntimeError("release of a lock that is not held")
        if not area.store().release(self._name, owner):
            raise RuntimeError("release of a lock that is not held any more")

    def locked(self) -> bool:
        """Return whether somebody holds it, or has died with it."""
        return area.store().is_locked(self._name)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _wait(self, owner: bytes, timeout: float | None) -> bool:
        """Attempt to take the lock whenever it has been released, or its holder has died."""
        until = None if timeout is None else monotonic() + timeout
        store, inbox = area.store(), Inbox([self._topic], ends_at_stop=False)
        try:
            while True:
                inbox.news.clear()
                inbox.places.clear()
                holder = store.acquire(self._name, owner, patient=True)
                if holder is None:
                    return True
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    return False
                store.wait(inbox, holder, left)
        finally:
            inbox.close()
