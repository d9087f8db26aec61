"""Patches anyio's calls in worker threads (FastAPI's synchronous endpoints, Starlette's run_in_threadpool()),
and its cancel scopes in Python 3.10.

Under the patch anyio's threads are tasklets. They are so cheap that each call has its own, which is not
queued and does not wait for further calls. So more calls may run at once than the 40 for which anyio makes
threads. Limiters and cancel scopes remain anyio's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless._core.cpython.features import COUNTS_CANCELLATIONS
from syncless._core.cpython.layouts import checked
from syncless._core.tasklet import in_slot, spawn
from syncless.patches.registry import Patcher

TOKENS = 1000
"""Calls that run at the same time, unless the program sets the `total_tokens` of the default limiter."""

_NEEDED = (
    *("AsyncIOBackend", "CancelScope", "_default_thread_limiter", "claim_worker_thread", "get_running_loop"),
    *("set_current_async_library", "threadlocals"),
)
"""Names of the module that is patched. Another anyio may lack one; it then makes threads, which are
tasklets."""


def _settle(future: Any, value: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # the task that waited has been cancelled
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(failure)


def _worker(backend: Any) -> Callable[..., None]:
    claim, library, locals_ = (
        backend.claim_worker_thread,
        backend.set_current_async_library,
        backend.threadlocals,
    )

    def run(function: Any, args: tuple[Any, ...], future: Any, scope: Any) -> None:
        """Call function(*args) in its own tasklet, as in a worker thread."""
        loop = future.get_loop()
        value: Any = None
        failure: BaseException | None = None
        with claim(backend.AsyncIOBackend, loop):
            library(None)
            locals_.current_cancel_scope = scope
            try:
                value = function(*args)
            except StopIteration as error:  # would end the coroutine that waits
                failure = RuntimeError("the function raised StopIteration")
                failure.__cause__ = error
            except BaseException as error:
                failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future, value, failure)

    return run


def _drop_cancellations(patcher: Patcher, scope_type: Any) -> None:
    """Drop the CancelledError of a scope that was cancelled during a blocking call, so that a later await
    does not raise it. Python 3.10 has no uncancel() (see asyncio/eventloop.py)."""
    drop_cancellation = checked("tasks of asyncio")
    original = scope_type.__exit__

    def __exit__(self: Any, *exc_info: Any) -> Any:
        """CancelScope.__exit__"""
        task = self._host_task
        try:
            return original(self, *exc_info)
        finally:
            if self._cancel_called and task._must_cancel and task._cancel_message == self._cancel_reason:
                drop_cancellation(task)

    patcher.member(scope_type, "__exit__", __exit__, "cancels an await after its block")


def patch(patcher: Patcher, backend: Any) -> None:
    """Patch `backend`, the module anyio._backends._asyncio."""
    if not all(hasattr(backend, name) for name in _NEEDED):
        return
    if not COUNTS_CANCELLATIONS and hasattr(backend.CancelScope, "_deliver_cancellation"):
        _drop_cancellations(patcher, backend.CancelScope)
    owner, run = backend.AsyncIOBackend, _worker(backend)
    default_limiter = owner.current_default_thread_limiter

    async def run_sync_in_worker_thread(
        cls: Any, func: Any, args: tuple[Any, ...], abandon_on_cancel: bool = False, limiter: Any = None
    ) -> Any:
        """AsyncIOBackend.run_sync_in_worker_thread"""
        await cls.checkpoint()
        async with limiter or cls.current_default_thread_limiter():
            with backend.CancelScope(shield=not abandon_on_cancel) as scope:
                future = backend.get_running_loop().create_future()
                # a shielded scope would hide from the function that those around it are cancelled
                around = None if abandon_on_cancel else scope._parent_scope
                in_slot(spawn(run, func, args, future, scope if around is None else around))
                return await future

    def current_default_thread_limiter(cls: Any) -> Any:
        """AsyncIOBackend.current_default_thread_limiter"""
        limiter = backend._default_thread_limiter.get(None)
        if limiter is None:
            limiter = default_limiter()
            limiter.total_tokens = TOKENS
        return limiter

    for function, why in (
        (run_sync_in_worker_thread, "makes a thread"),
        (current_default_thread_limiter, "lets 40 calls run at the same time"),
    ):
        patcher.member(owner, function.__name__, classmethod(function), why)
