"""Pool: things that green threads lend and give back."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from syncless.eventlet import queue

__all__ = ["Pool", "TokenPool"]


class Pool:
    """At most max_size things, made by create() when they are needed, the first min_size at once.

    order_as_stack lends first the one that was given back last.
    """

    def __init__(
        self,
        min_size: int = 0,
        max_size: int = 4,
        order_as_stack: bool = False,
        create: Callable[[], Any] | None = None,
    ) -> None:
        self.min_size = min_size
        self.max_size = max_size
        self.order_as_stack = order_as_stack
        self.current_size = 0
        self.channel = queue.LightQueue(0)
        self.free_items: deque[Any] = deque()
        if create is not None:
            self.create = create  # type: ignore[method-assign]
        for _ in range(min_size):
            self.current_size += 1
            self.free_items.append(self.create())

    def create(self) -> Any:
        """Return a new thing. Give the constructor a function, or override this."""
        raise NotImplementedError("Implement in subclass")

    def get(self) -> Any:
        """Return a thing that nobody uses; wait for one if there are as many as there may be."""
        if self.free_items:
            return self.free_items.popleft()
        self.current_size += 1
        if self.current_size <= self.max_size:
            try:
                return self.create()
            except BaseException:
                self.current_size -= 1
                raise
        self.current_size -= 1  # did not make one
        return self.channel.get()

    def put(self, item: Any) -> None:
        """Give a thing back."""
        if self.current_size > self.max_size:
            self.current_size -= 1
            return
        if self.waiting():
            try:
                self.channel.put(item, block=False)
                return
            except queue.Full:
                pass
        if self.order_as_stack:
            self.free_items.appendleft(item)
        else:
            self.free_items.append(item)

    @contextlib.contextmanager
    def item(self) -> Iterator[Any]:
        """Lend a thing for a block."""
        thing = self.get()
        try:
            yield thing
        finally:
            self.put(thing)

    def resize(self, new_size: int) -> None:
        """Change the largest number of things. Those that exceed a smaller one go as they are given back."""
        self.max_size = new_size

    def free(self) -> int:
        """Return how many get() can return without waiting."""
        return len(self.free_items) + self.max_size - self.current_size

    def waiting(self) -> int:
        """Return the number of green threads that wait in get()."""
        return max(0, self.channel.getting() - self.channel.putting())


class Token:
    """A thing of a TokenPool."""


class TokenPool(Pool):
    """A pool of things that mean nothing but that one has got one."""

    def create(self) -> Token:
        return Token()
