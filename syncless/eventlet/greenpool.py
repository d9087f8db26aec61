"""GreenPool, at most so many green threads at a time; GreenPile, their results in the order of spawn()."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from syncless._core.current import current
from syncless.eventlet import greenthread
from syncless.eventlet.event import Event
from syncless.eventlet.greenthread import GreenThread
from syncless.eventlet.queue import LightQueue
from syncless.eventlet.semaphore import Semaphore

__all__ = ["GreenPile", "GreenPool"]

DEBUG = True
"""Whether exceptions in spawn_n() are printed."""


class GreenPool:
    """At most `size` green threads at a time: spawn() waits for one to end."""

    def __init__(self, size: int = 1000) -> None:
        try:
            size = int(size)
        except ValueError:
            raise TypeError(f"the size of a pool is a number, not {size!r}") from None
        if size < 0:
            raise ValueError(f"the size of a pool must be at least 0, not {size!r}")
        self.size = size
        self.coroutines_running: set[Any] = set()
        self.sem = Semaphore(size)
        self.no_coros_running = Event()

    def resize(self, new_size: int) -> None:
        """Change the size. Green threads that exceed a smaller one go on."""
        more, self.size = new_size - self.size, new_size
        if more < 0:
            self.sem.counter += more
        for _ in range(more):
            self.sem.release()

    def running(self) -> int:
        """Return the number of green threads."""
        return len(self.coroutines_running)

    def free(self) -> int:
        """Return the number of green threads that can be made without waiting."""
        return self.sem.counter

    def waiting(self) -> int:
        """Return the number of those that wait in spawn()."""
        return max(0, -self.sem.balance) if self.sem.counter <= 0 else 0

    def spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
        """Call the function in a green thread, once there is room. Called in the last place of the pool, wait
        for the function to end, in which case there would never be room."""
        if self.sem.locked() and current() in self.coroutines_running:
            thread = greenthread.spawn(function, *args, **kwargs)
            thread.join()
            return thread
        self.sem.acquire()
        thread = greenthread.spawn(function, *args, **kwargs)
        if not self.coroutines_running:
            self.no_coros_running = Event()
        self.coroutines_running.add(thread)
        thread.link(self._spawn_done)
        return thread

    def spawn_n(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """The same, for code that does not want the outcome."""
        self.spawn(function, *args, **kwargs)

    def _spawn_done(self, thread: GreenThread) -> None:
        self.sem.release()
        self.coroutines_running.discard(thread)
        if not self.coroutines_running:
            self.no_coros_running.send(None)

    def waitall(self) -> None:
        """Wait until all green threads have ended."""
        assert current() not in self.coroutines_running, (
            "Calling waitall() from within one of the GreenPool's greenthreads will never terminate."
        )
        while self.coroutines_running:
            self.no_coros_running.wait()

    def starmap(self, function: Callable[..., Any] | None, iterable: Iterable[Any]) -> GreenMap:
        """Return an iterator over function(*item) for the items, in their order."""
        call = _arguments if function is None else function
        results = GreenMap(self)
        greenthread.spawn_n(self._do_map, call, iterable, results)
        return results

    def _do_map(self, function: Callable[..., Any], iterable: Iterable[Any], results: GreenMap) -> None:
        for args in iterable:
            results.spawn(function, *args)
        results.done_spawning()

    def imap(self, function: Callable[..., Any] | None, *iterables: Iterable[Any]) -> GreenMap:
        """The same, with arguments as of map()."""
        return self.starmap(function, zip(*iterables, strict=False))


def _arguments(*args: Any) -> tuple[Any, ...]:
    return args


class GreenPile:
    """Green threads whose results come out, by iteration, in the order of spawn()."""

    def __init__(self, size_or_pool: int | GreenPool = 1000) -> None:
        self.pool = size_or_pool if isinstance(size_or_pool, GreenPool) else GreenPool(size_or_pool)
        self.waiters: Any = LightQueue()
        self.counter = 0

    def spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call the function in a green thread; its result comes by iteration."""
        self.counter += 1
        try:
            thread = self.pool.spawn(function, *args, **kwargs)
            self.waiters.put(thread)
        except BaseException:
            self.counter -= 1
            raise

    def __iter__(self) -> Any:
        return self

    def next(self) -> Any:
        """Wait for the next result."""
        if self.counter == 0:
            raise StopIteration
        return self._next()

    __next__ = next

    def _next(self) -> Any:
        try:
            return self.waiters.get().wait()
        finally:
            self.counter -= 1


class GreenMap(GreenPile):
    """The iterator that imap() and starmap() return. It does not run ahead of its reader by more than the
    pool's size."""

    def __init__(self, size_or_pool: int | GreenPool) -> None:
        super().__init__(size_or_pool)
        self.waiters = LightQueue(max(1, self.pool.size))

    def done_spawning(self) -> None:
        self.spawn(StopIteration)

    def next(self) -> Any:
        value = self._next()
        if isinstance(value, StopIteration):
            raise value
        return value

    __next__ = next
