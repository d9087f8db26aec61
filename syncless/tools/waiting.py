"""wait, iwait and join_all: waiting for several things at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from typing import Any, Protocol, TypeVar

from syncless._core.tasklet import Tasklet
from syncless._core.wait.queues import Queue
from syncless._core.wait.sync import Event


class Waitable(Protocol):
    """Tasklets, Events, and any other object with these three methods."""

    def ready(self) -> bool: ...
    def add_done_callback(self, callback: Any, /) -> None: ...
    def remove_done_callback(self, callback: Any, /) -> int: ...


W = TypeVar("W", bound=Waitable)


@contextmanager
def _told_by(objects: Sequence[Any], callback: Any) -> Iterator[None]:
    """Call callback(object) for each object that becomes ready inside the block."""
    for item in objects:
        if not (hasattr(item, "add_done_callback") and hasattr(item, "remove_done_callback")):
            raise TypeError(
                f"cannot wait for {type(item).__name__}, which has no add_done_callback() and "
                "remove_done_callback(); spawn a tasklet that waits for it, and wait for the tasklet"
            )
    try:
        for item in objects:
            item.add_done_callback(callback)
        yield
    finally:
        for item in objects:
            item.remove_done_callback(callback)


def wait(objects: Iterable[W], timeout: float | None = None, count: int | None = None) -> list[W]:
    """Wait until `count` of the objects (default: all) are ready, for at most `timeout` seconds in all.
    Return the ready objects, in the order of readiness.
    """
    waited = list(objects)
    if count is None:
        count = len(waited)
    elif count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    count = min(count, len(waited))
    done: list[W] = []
    enough = Event()

    def note(item: W) -> None:
        done.append(item)
        if len(done) >= count:
            enough.set()

    with _told_by(waited, note):
        if count:
            enough.wait(timeout)
    return done


def iwait(objects: Iterable[W], timeout: float | None = None, count: int | None = None) -> Iterator[W]:
    """Yield the objects as they become ready: all, or only the first `count`, or only those that are ready
    within `timeout` seconds."""
    waited = list(objects)
    left = len(waited) if count is None else min(count, len(waited))
    until = None if timeout is None else time.monotonic() + timeout
    ready: Queue[Any] = Queue()
    with _told_by(waited, ready.put):
        while left > 0:
            try:
                yield ready.get(timeout=None if until is None else max(0, until - time.monotonic()))
            except Empty:
                return
            left -= 1


def join_all(
    tasklets: Iterable[Tasklet[Any]], timeout: float | None = None, raise_error: bool = False
) -> list[Tasklet[Any]]:
    """Wait until all tasklets have ended, for at most `timeout` seconds in all. Return the ended tasklets.

    With `raise_error`, raise the first exception that ends a tasklet immediately.
    """
    pending = list(tasklets)
    if not raise_error:
        return wait(pending, timeout)
    done: list[Tasklet[Any]] = []
    enough = Event()

    def note(tasklet: Tasklet[Any]) -> None:
        done.append(tasklet)
        if tasklet.exception() is not None or len(done) == len(pending):
            enough.set()

    with _told_by(pending, note):
        if pending:
            enough.wait(timeout)
    for tasklet in done:
        tasklet.result()
    return done
