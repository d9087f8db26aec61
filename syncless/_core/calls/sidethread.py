"""SideThread: an OS thread that runs beside the loop, ends before a fork and restarts after it.

Fact: a fork copies only one thread. Danger: a lock that another thread holds stays locked in the child
forever, and CPython 3.12 warns about the thread. Decision: the thread ends before a fork and starts again in
the parent. Price: about 0.1 ms per fork. Guarded by tests/core/test_sidethread.py.
"""

from __future__ import annotations

import _socket
import _thread
import contextlib
import os
import select
from collections.abc import Callable, Sequence

from syncless._core.calls.threads import new_os_lock, start_thread, wait_until_left
from syncless._core.cpython.forkhooks import at_fork, look

_poll = select.poll  # before a patch replaces it

PATIENCE = 1.0
"""Seconds for which a fork, or stop(), waits for the end of a step, and for the system's threads."""
SHORTAGE = 0.1
"""Seconds until a thread that was short of memory takes its next step."""


def wait_readable(descriptors: Sequence[int], seconds: float) -> set[int]:
    """Wait in this OS thread until a descriptor is readable, for at most `seconds`. Return the readable
    ones."""
    poll = _poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(seconds * 1000)}


class SideThread:
    """SideThread(step): calls step(descriptor) repeatedly in an OS thread, until a call returns False. The
    step must return soon after the descriptor becomes readable."""

    def __init__(self, step: Callable[[int], bool]):
        self._step = step
        self._life: _Life | None = None

    def start(self) -> None:
        look()
        _started.add(self)
        self.go_on()

    def stop(self) -> bool:
        """End the thread after its current step, waiting for at most PATIENCE. Return whether it has
        ended."""
        look()
        _started.discard(self)
        return self.rest()

    def go_on(self) -> None:
        if self._life is None or not self._life.keep():
            self._life = _Life(self._step, self._ended)

    def rest(self) -> bool:
        life = self._life
        if life is None or life.end():
            self._life = None
        return self._life is None

    def _ended(self) -> None:
        """Note that the thread ends because its step has returned False."""
        _started.discard(self)


class _Life:
    """One run of the OS thread."""

    def __init__(self, step: Callable[[int], bool], ended: Callable[[], None]):
        self._step = step
        self._ended = ended
        self._ends = False
        self._over = new_os_lock()
        self._over.acquire()
        self._ident = self._number = 0
        self._open()
        start_thread(self._run)

    def _open(self) -> None:
        self._ours, self._theirs = _socket.socketpair()
        self._ours.setblocking(False)
        self._inodes = [os.fstat(end.fileno()).st_ino for end in (self._ours, self._theirs)]

    def _is_whole(self) -> bool:
        """Return whether both descriptors are still ours: the program may have closed them and reused their
        numbers. A descriptor that is no longer ours is never closed."""
        whole = True
        for end, inode in zip((self._ours, self._theirs), self._inodes, strict=True):
            try:
                own = os.fstat(end.fileno()).st_ino == inode
            except OSError:
                own = False
            if not own:
                end.detach()
                whole = False
        return whole

    def _run(self) -> None:
        self._ident, self._number = _thread.get_ident(), _thread.get_native_id()
        try:
            while not self._ends:
                try:
                    if not self._is_whole():
                        self._open()
                    goes_on = self._step(self._theirs.fileno())
                except MemoryError:  # which may have been the loop's doing, and over
                    goes_on = not self._over.acquire(timeout=SHORTAGE)
                if not goes_on:
                    self._ended()
                    break
        finally:
            del self._step, self._ended  # which refer to what refers to this
            self._theirs.close()
            self._over.release()

    def end(self) -> bool:
        """End the thread and return whether it has ended in time. Return False if called by a step itself."""
        if self._ident == _thread.get_ident():
            return False
        self._ends = True
        with contextlib.suppress(OSError):  # it has ended already
            if self._is_whole():
                self._ours.send(b"x")
        if not self._over.acquire(timeout=PATIENCE):
            return False
        self._ours.close()
        wait_until_left([self._number], PATIENCE)
        return True

    def __del__(self) -> None:
        """Close the descriptors if nothing has waited for the end, or if no thread has started."""
        with contextlib.suppress(AttributeError):  # no descriptors could be had
            self._ours.close()
            self._theirs.close()

    def keep(self) -> bool:
        """Let a thread that has not ended in time continue. Return False if it has ended since."""
        self._ends = False
        if self._over.acquire(blocking=False):
            self._ours.close()
            return False
        with contextlib.suppress(OSError):
            self._theirs.recv(1, _socket.MSG_DONTWAIT)
        return True


_started: set[SideThread] = set()
_forks = 0
"""That are under way: several threads may fork at a time."""


def _before_fork() -> None:
    global _forks
    _forks += 1
    for each in list(_started):
        each.rest()


def _after_fork_in_parent() -> None:
    global _forks
    _forks -= 1
    if not _forks:
        for each in list(_started):
            each.go_on()


def _after_fork_in_child() -> None:
    global _forks
    _forks = 0
    _started.clear()


# called before the hook of the pools, which a step may use: the last one to be registered is the first
at_fork(before=_before_fork, in_parent=_after_fork_in_parent, at_first_use=_after_fork_in_child)
