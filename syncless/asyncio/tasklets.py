"""Between the two worlds: a coroutine waits for a tasklet, a tasklet waits for a coroutine."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from syncless._core.exits import TaskletExit
from syncless._core.spawning import spawn

T = TypeVar("T")


def call_in_tasklet(
    loop: asyncio.AbstractEventLoop, function: Callable[..., T], *args: Any, **kwargs: Any
) -> asyncio.Future[T]:
    """A future of the loop for what function(*args, **kwargs) returns or raises in a new tasklet, which is
    killed if the future is cancelled."""
    future = loop.create_future()

    def run() -> None:
        try:
            value = function(*args, **kwargs)
        except TaskletExit:
            future.cancel()
        except (KeyboardInterrupt, SystemExit):
            future.cancel()
            raise
        except BaseException as error:
            if not future.done() and not loop.is_closed():
                future.set_exception(_storable(error))
        else:
            if not future.done() and not loop.is_closed():
                future.set_result(value)

    tasklet = spawn(run)

    def ended(future: asyncio.Future[T]) -> None:
        if future.cancelled():
            tasklet.kill(block=False)

    future.add_done_callback(ended)
    return future


def _storable(error: BaseException) -> BaseException:
    """As asyncio does: a StopIteration would end the coroutine that waits, and there are two
    CancelledErrors."""
    if isinstance(error, StopIteration):
        stored = RuntimeError("the function raised StopIteration")
        stored.__cause__ = error
        return stored
    if type(error) is concurrent.futures.CancelledError:
        return asyncio.CancelledError(*error.args)
    return error


def in_tasklet(function: Callable[..., T], *args: Any, **kwargs: Any) -> asyncio.Future[T]:
    """Awaitable: runs function(*args, **kwargs), which may block, in a tasklet, and gives what it returns or
    raises. It has a copy of the present context.

    As asyncio.to_thread(), without a thread. For code that waits in C, which tasklets cannot share a thread
    with, use asyncio.to_thread(). Cancelling the future kills the tasklet. RuntimeError if no EventLoop runs.
    """
    return call_in_tasklet(asyncio.get_running_loop(), function, *args, **kwargs)
