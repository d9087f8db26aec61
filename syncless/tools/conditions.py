"""RLock, BoundedSemaphore, Condition and Barrier, like those of threading, for tasklets in one or several OS
threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from syncless._core.cpython.functions import class_of
from syncless._core.current import current, next_thrown, uninterrupted
from syncless._core.tasklet import Tasklet
from syncless._core.wait.sync import Event, Lock, Semaphore


class RLock:
    """A lock that its owner may take again, like threading.RLock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Tasklet[Any] | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; wait for at most `timeout` seconds (-1: forever). Return whether the lock was
        taken."""
        me = current()
        if self._owner is me and me is not None:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        """Release the lock. Raise RuntimeError if the running tasklet does not hold it."""
        if self._owner is not current() or not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    # for Condition

    def _is_owned(self) -> bool:
        return self._count > 0 and self._owner is current()

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._owner, self._count = current(), count

    def __repr__(self) -> str:
        return f"<RLock owner={self._owner.name if self._owner else None!r} count={self._count}>"


class BoundedSemaphore(Semaphore):
    """A Semaphore that never exceeds its initial value, like threading.BoundedSemaphore."""

    def __init__(self, value: int = 1):
        super().__init__(value)
        self._initial = value

    def release(self, n: int = 1) -> None:
        """Give back n units. Raise ValueError if the semaphore would exceed its initial value."""
        if self.value + n > self._initial:
            raise ValueError("Semaphore released too many times")
        super().release(n)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Condition:
    """A condition that tasklets wait for until another tasklet notifies them, like threading.Condition. It
    makes an RLock unless a lock is given."""

    def __init__(self, lock: Any = None):
        self._lock = RLock() if lock is None else lock
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self._waiters: deque[Event] = deque()

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def _owned(self) -> bool:
        if isinstance(self._lock, RLock):
            return self._lock._is_owned()
        return bool(self._lock.locked())

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for notify() for at most `timeout` seconds, and reacquire the lock. Return
        False after the timeout.

        An interrupted tasklet reacquires the lock before the exception is raised. If the tasklet had been
        notified, the next waiter is notified instead.
        """
        if not self._owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        told = Event()
        self._waiters.append(told)
        count = self._lock._release_save() if isinstance(self._lock, RLock) else self._lock.release()
        raised: BaseException | None = None
        try:
            told.wait(timeout)
        except BaseException as error:
            raised = error
        if not told.is_set():
            with contextlib.suppress(ValueError):  # another thread is about to tell it
                self._waiters.remove(told)
        uninterrupted(
            self._take_again, count
        )  # because the caller will release it, and must not release another's
        if raised is None:
            raised = next_thrown()
        if raised is not None:
            if told.is_set():
                self.notify()
            try:
                raise raised
            finally:
                del raised  # it has a traceback with this frame
        return told.is_set()  # also if it was told when its time was over and its turn had not come

    def _take_again(self, count: int | None) -> None:
        if isinstance(self._lock, RLock):
            self._lock._acquire_restore(count or 0)
        else:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until predicate() is true, for at most `timeout` seconds in all. Return its last result."""
        until = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = None if until is None else until - time.monotonic()
            if left is not None and left < 1e-9:  # the engine counts nanoseconds
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        """Wake up to `n` waiters, in FIFO order."""
        if not self._owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        with contextlib.suppress(
            IndexError
        ):  # one of another thread may leave meanwhile: it holds no lock when it is interrupted
            for _ in range(min(n, len(self._waiters))):
                self._waiters.popleft().set()

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class Barrier(class_of(threading, "Barrier")):  # type: ignore[misc]
    """Makes tasklets wait for each other until `parties` of them have arrived (like threading.Barrier, whose
    BrokenBarrierError it raises)."""

    def __init__(self, parties: int, action: Callable[[], None] | None = None, timeout: float | None = None):
        super().__init__(parties, action, timeout)
        self._cond = Condition(Lock())
