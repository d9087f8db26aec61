"""Patches multiprocessing: its semaphores shared between processes, and the pipes of its connections.

The queues, pools, managers and locks of multiprocessing use these two. A forked process is patched if its
parent is. The start methods spawn and forkserver begin with a fresh interpreter, which is patched if its main
module does so.

The kernel has no descriptor for a semaphore, so a waiting tasklet keeps retrying: first after 0.1 ms, finally
every 5 ms. A process that has nothing else to do waits in the kernel.
"""

from __future__ import annotations

import time
from typing import Any

from syncless._core.cpython.functions import original_of
from syncless._core.current import current, give_way, sleep
from syncless._core.threadloop import current_loop
from syncless.patches.registry import Patcher, instances_of
from syncless.patches.types.locks import get_ident
from syncless.tools.imports import loaded

try:
    from _multiprocessing import SemLock  # type: ignore[import-not-found]
except ImportError:  # a system without semaphores between processes
    SemLock = None

FIRST_PAUSE, LAST_PAUSE = 0.0001, 0.005
"""Seconds between two tries."""

RECURSIVE = 0
"""The kind of semaphore that belongs to its holder: an RLock."""

_acquire: Any = original_of(getattr(SemLock, "acquire", None))
_release: Any = original_of(getattr(SemLock, "release", None))
_is_mine: Any = original_of(getattr(SemLock, "_is_mine", None))
_owners: dict[int, int] = {}
"""id of a lock that this OS thread holds -> the tasklet that has acquired it."""


def _of_another_tasklet(lock: Any) -> bool:
    """Return whether an RLock belongs to another tasklet of this OS thread."""
    return lock.kind == RECURSIVE and _is_mine(lock) and not is_mine(lock)


def _try(lock: Any) -> bool:
    if _of_another_tasklet(lock) or not _acquire(lock, False):
        return False
    _note_owner(lock)
    return True


def _note_owner(lock: Any) -> None:
    if lock.maxvalue == 1:
        _owners[id(lock)] = get_ident()


def _alone() -> bool:
    """Return whether this thread has nothing else to do."""
    census = current_loop().census()
    return census.pop("tasklets") == 1 and not any(census.values())


def acquire(self: Any, block: bool = True, timeout: float | None = None) -> bool:
    """multiprocessing's acquire, cooperative."""
    if current() is None:
        return bool(_acquire(self, block, timeout))
    give_way()  # a loop around it may never wait
    if _try(self):
        return True
    if not block or (timeout is not None and timeout <= 0):
        return False
    if _alone() and not _of_another_tasklet(self):
        taken = bool(_acquire(self, True, timeout))
        if taken:
            _note_owner(self)
        return taken
    until = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        left = pause if until is None else until - time.monotonic()
        if left <= 0:
            return False
        sleep(min(pause, left))
        if _try(self):
            return True
        pause = min(2 * pause, LAST_PAUSE)


def release(self: Any) -> None:
    """multiprocessing's release."""
    if _of_another_tasklet(self):
        raise AssertionError("attempt to release recursive lock not owned by thread")
    if self._count() == 1:
        _owners.pop(id(self), None)
    _release(self)


def enter(self: Any) -> bool:
    """with lock: ..."""
    return acquire(self)


def leave(self: Any, *exc_info: Any) -> None:
    """Release the lock at the end of a `with` block."""
    release(self)


def is_mine(self: Any) -> bool:
    """Return whether this tasklet holds the lock."""
    return bool(_is_mine(self)) and _owners.get(id(self), get_ident()) == get_ident()


def _renew_methods() -> None:
    """Rebind the semaphore's methods that each lock has kept since it was made."""
    synchronize = loaded("multiprocessing.synchronize")
    if synchronize is not None:
        for made in instances_of(synchronize.SemLock):
            if "_semlock" in vars(made):
                made._make_methods()


def patch(patcher: Patcher) -> None:
    if SemLock is not None:
        # noted first, because it must be undone last
        target = "multiprocessing.synchronize.SemLock.__dict__"
        patcher.note(target, _renew_methods, "keeps methods of its semaphore", _renew_methods)
        members = {
            "acquire": acquire,
            "release": release,
            "__enter__": enter,
            "__exit__": leave,
            "_is_mine": is_mine,
        }
        for name, new in members.items():
            why = "stops the thread, or knows threads only"
            patcher.member_in_place(SemLock, name, new, why, kept=True)
        _renew_methods()
