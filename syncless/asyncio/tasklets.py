"""Lets a coroutine wait for a tasklet, through a future."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from syncless._core.exits import TaskletExit, is_interrupt
from syncless._core.tasklet import Tasklet, in_slot, spawn
from syncless._core.wait.queues import Queue
from syncless.asyncio.callbacks import Callbacks

T = TypeVar("T")


class TaskletCall(asyncio.Future[T]):
    """TaskletCall(loop, function): a future for the result of function() in a new tasklet.

    Cancelling the future kills the tasklet immediately: otherwise a tasklet that waits for a queue could
    still take an item. If the awaiting task is cancelled when the result already exists, an item goes back to
    its `syncless.Queue`, and a lock or semaphore is released.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], T]):
        super().__init__(loop=loop)
        self._function = function
        self._tasklet: Tasklet[None] | None = spawn(self._run)

    def take_slot(self) -> None:
        """Run the tasklet in a slot, like a call in a pool's thread."""
        if self._tasklet is not None:
            in_slot(self._tasklet)

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self._tasklet is not None:
            self._tasklet.kill(block=False)
        return cancelled

    def __await__(self) -> Generator[Any, None, T]:
        try:
            return (yield from super().__await__())
        except asyncio.CancelledError:
            if self.done() and not self.cancelled() and self.exception() is None:
                _take_back(self._function, self.result())
            raise

    def _run(self) -> None:
        try:
            value = self._function()
        except TaskletExit:
            self._settle(self._end)
        except BaseException as error:
            if is_interrupt(error):
                self._settle(self._end)
                raise
            self._settle(self._end, _storable(error))
        else:
            self._settle(self._deliver, value)

    def _settle(self, settle: Callable[..., None], *args: Any) -> None:
        """Settle the future. Another library's loop may be waiting for descriptors in this thread, and must
        be woken."""
        loop = self.get_loop()
        if loop.is_closed():
            return
        if isinstance(loop, Callbacks):
            settle(*args)
        else:
            loop.call_soon_threadsafe(settle, *args)

    def _deliver(self, value: T) -> None:
        self._tasklet = None
        if not self.done():
            self.set_result(value)

    def _end(self, error: BaseException | None = None) -> None:
        self._tasklet = None
        if self.done():
            return
        if error is None:
            self.cancel()
        else:
            self.set_exception(error)


def call_in_tasklet(
    loop: asyncio.AbstractEventLoop, function: Callable[..., T], *args: Any, **kwargs: Any
) -> TaskletCall[T]:
    """Return a future of the loop for the outcome of function(*args, **kwargs) in a new tasklet."""
    return TaskletCall(loop, partial(function, *args, **kwargs))


def _take_back(function: Any, value: Any) -> None:
    """Give back a value that will not be received: an item of a queue, or a lock."""
    method = function.func if isinstance(function, partial) else function
    owner: Any = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "")
    if isinstance(owner, Queue) and name == "get":
        owner._give_back(value)  # type: ignore[attr-defined]
    elif name.endswith("acquire") and value is True and hasattr(owner, "release"):
        with suppress(RuntimeError):  # an RLock is its tasklet's, which has ended
            owner.release()


def _storable(error: BaseException) -> BaseException:
    """Return the error in a form that a future can hold, as asyncio does: a StopIteration would end the
    waiting coroutine, and there are two CancelledErrors."""
    if isinstance(error, StopIteration):
        stored = RuntimeError("the function raised StopIteration")
        stored.__cause__ = error
        return stored
    if type(error) is concurrent.futures.CancelledError:
        return asyncio.CancelledError(*error.args)
    return error


def in_tasklet(function: Callable[..., T], *args: Any, **kwargs: Any) -> asyncio.Future[T]:
    """Run function(*args, **kwargs), which may block, in a tasklet with a copy of the current context. Return
    an awaitable for the result or exception.

    This is asyncio.to_thread() without a thread. For code that waits in C, and would block the other
    tasklets, use asyncio.to_thread(). Cancelling the future kills the tasklet. Raise RuntimeError if no loop
    runs.
    """
    return call_in_tasklet(asyncio.get_running_loop(), function, *args, **kwargs)
