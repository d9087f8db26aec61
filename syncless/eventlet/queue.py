"""Queues between green threads. One of size 0 is a rendezvous: put() returns when a get() has the item.

The native part is _waits.pyx.
"""

from __future__ import annotations

import heapq
from queue import Empty, Full
from typing import Any

from syncless.eventlet._waits import CountingQueue, LightQueue
from syncless.eventlet.event import Event

__all__ = ["Empty", "Full", "LifoQueue", "LightQueue", "PriorityQueue", "Queue"]


class Queue(CountingQueue):
    """A LightQueue with task_done() and join()."""

    def __init__(self, maxsize: int | None = None) -> None:
        self._finished = Event()
        self._finished.send()
        super().__init__(maxsize)

    def task_done(self) -> None:
        """Note that an item that get() returned has been processed. Raise ValueError if there are no more."""
        if self.unfinished_tasks <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished_tasks -= 1
        if self.unfinished_tasks == 0:
            self._finished.send()

    def join(self) -> None:
        """Wait until all items are done with."""
        if self.unfinished_tasks > 0:
            self._finished.wait()


class PriorityQueue(Queue):
    """The least item first."""

    def _init(self, maxsize: int | None) -> None:
        self.queue = []

    def _put(self, item: Any) -> None:
        heapq.heappush(self.queue, item)

    _put_back = _put

    def _get(self) -> Any:
        return heapq.heappop(self.queue)


class LifoQueue(Queue):
    """The last item first."""

    def _init(self, maxsize: int | None) -> None:
        self.queue = []

    _put_back = LightQueue._put  # type: ignore[attr-defined]

    def _get(self) -> Any:
        return self.queue.pop()
