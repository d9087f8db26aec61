"""Queues between green threads. One of size 0 is a rendezvous: put() returns when a get() has the item.

An item goes from hand to hand: a getter that is killed on its way to it passes it on.
"""

from __future__ import annotations

import heapq
from collections import deque
from queue import Empty, Full
from typing import Any

from syncless._core.current import current, park, wake
from syncless._core.tasklet import Tasklet
from syncless.eventlet.event import Event
from syncless.eventlet.support import greenlets

__all__ = ["Empty", "Full", "LifoQueue", "LightQueue", "PriorityQueue", "Queue"]

_FULL = object()


class _Putter:
    """An item whose green thread waits until it is taken."""

    __slots__ = ("block", "item", "tasklet")

    def __init__(self, tasklet: Tasklet[Any], item: Any, block: bool) -> None:
        self.tasklet, self.item, self.block = tasklet, item, block


class _Getter:
    """A green thread that waits for an item, and the item on its way to it."""

    __slots__ = ("given", "item", "putter", "tasklet")

    def __init__(self, tasklet: Tasklet[Any]) -> None:
        self.tasklet = tasklet
        self.item: Any = None
        self.putter: _Putter | None = None
        self.given = False


class LightQueue:
    """A queue of at most `maxsize` items: None or less than 0 is no limit, 0 a rendezvous."""

    def __init__(self, maxsize: int | None = None) -> None:
        self.maxsize = None if maxsize is None or maxsize < 0 else maxsize
        self.getters: deque[_Getter] = deque()
        self.putters: deque[_Putter] = deque()
        self._init(maxsize)

    # kinds of queues differ in these

    def _init(self, maxsize: int | None) -> None:
        self.queue: Any = deque()

    def _get(self) -> Any:
        return self.queue.popleft()

    def _put(self, item: Any) -> None:
        self.queue.append(item)

    def _put_back(self, item: Any) -> None:
        self.queue.appendleft(item)

    # -- its state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._format()}>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} {self._format()}>"

    def _format(self) -> str:
        words = [f"maxsize={self.maxsize!r}"]
        if self.queue:
            words.append(f"queue={self.queue!r}")
        if self.getters:
            words.append(f"getters[{len(self.getters)}]")
        if self.putters:
            words.append(f"putters[{len(self.putters)}]")
        return " ".join(words)

    def __bool__(self) -> bool:
        return True

    def qsize(self) -> int:
        return len(self.queue)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        """Return whether put() would wait, unless a get() waits already."""
        return self.maxsize is not None and self.qsize() >= self.maxsize

    def putting(self) -> int:
        """Return the number of green threads that wait in put()."""
        return len(self.putters)

    def getting(self) -> int:
        """Return the number of green threads that wait in get()."""
        return len(self.getters)

    def resize(self, size: int | None) -> None:
        """Change the limit. Items that exceed a smaller one stay."""
        self.maxsize = None if size is None or size < 0 else size
        self._admit()

    # -- from put() to get()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Wait for room, for at most `timeout` seconds, then raise Full."""
        if not self.full():
            self._added()
            self._put(item)
            self._serve()
            return
        if greenlets.in_hub():
            if not self._hand(item, None):
                raise Full
            self._added()
            return
        if not block and not self.getters:
            raise Full
        tasklet = current()
        assert tasklet is not None
        putter = _Putter(tasklet, item, block)
        if not self._hand(item, putter):
            if not block:
                raise Full
            self.putters.append(putter)
        try:
            woken, outcome = park("eventlet.Queue.put", timeout)
        except BaseException:
            self._withdraw(putter)
            raise
        if (not woken and self._withdraw(putter)) or outcome is _FULL:
            raise Full

    def put_nowait(self, item: Any) -> None:
        """Add an item; raise Full if there is no room."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item. Wait for one, for at most `timeout` seconds, then raise Empty."""
        if self.qsize():
            item = self._get()
            self._admit()
            return item
        while self.putters:  # of a rendezvous
            putter = self.putters.popleft()
            if wake(putter.tasklet):
                self._added()
                return putter.item
        if not block or greenlets.in_hub():
            raise Empty
        tasklet = current()
        assert tasklet is not None
        getter = _Getter(tasklet)
        self.getters.append(getter)
        try:
            park("eventlet.Queue.get", timeout)
        except BaseException:
            self._leave(getter)
            if getter.given:
                self._pass_on(getter)
            raise
        self._leave(getter)
        if not getter.given:
            raise Empty
        if getter.putter is not None:
            self._added()
            wake(getter.putter.tasklet)
        return getter.item

    def get_nowait(self) -> Any:
        """Return the next item; raise Empty if there is none."""
        return self.get(False)

    def _added(self) -> None:
        """An item has come in."""

    def _hand(self, item: Any, putter: _Putter | None) -> bool:
        """Give an item to the longest waiting getter that still waits."""
        while self.getters:
            getter = self.getters.popleft()
            if wake(getter.tasklet):
                getter.item, getter.putter, getter.given = item, putter, True
                return True
        return False

    def _serve(self) -> None:
        """Give items to getters."""
        while self.qsize() and self.getters:
            item = self._get()
            if not self._hand(item, None):
                self._put_back(item)

    def _admit(self) -> None:
        """Take in items that wait for room."""
        while self.putters and not self.full():
            putter = self.putters.popleft()
            if wake(putter.tasklet):
                self._added()
                self._put(putter.item)
        self._serve()

    def _pass_on(self, getter: _Getter) -> None:
        """Give its item to another one."""
        putter = getter.putter
        if putter is None:
            if not self._hand(getter.item, None):
                self._put_back(getter.item)
        elif not self._hand(getter.item, putter):
            if putter.block:
                self.putters.appendleft(putter)
            else:
                wake(putter.tasklet, _FULL)

    def _leave(self, getter: _Getter) -> None:
        if not getter.given and getter in self.getters:
            self.getters.remove(getter)

    def _withdraw(self, putter: _Putter) -> bool:
        """Return whether its item was not taken."""
        if putter in self.putters:
            self.putters.remove(putter)
            return True
        return False


class Queue(LightQueue):
    """A LightQueue with task_done() and join()."""

    def __init__(self, maxsize: int | None = None) -> None:
        self.unfinished_tasks = 0
        self._finished = Event()
        self._finished.send()
        super().__init__(maxsize)

    def _added(self) -> None:
        if self._finished.ready():
            self._finished.reset()
        self.unfinished_tasks += 1

    def task_done(self) -> None:
        """Say that an item that get() returned is done with. Raise ValueError if there are no more."""
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

    _put_back = LightQueue._put

    def _get(self) -> Any:
        return self.queue.pop()
