"""run_in_thread: blocking work goes to a real OS thread while the tasklet waits and the others run."""

from __future__ import annotations

import _thread
import contextvars
import os
from _queue import Empty, SimpleQueue
from collections.abc import Callable
from typing import Any, TypeVar

from syncless._core.loop import current_loop
from syncless._core.sync import Event

T = TypeVar("T")

# The interpreter's own, whatever is put in their place later (syncless.patches).
_start_new_thread = _thread.start_new_thread
_put, _get = SimpleQueue.put, SimpleQueue.get

IDLE_SECONDS = 10.0
"""A worker thread that has had nothing to do for so long ends."""


class _Job:
    """One call on its way through a pool."""

    __slots__ = ("abandoned", "args", "context", "done", "error", "function", "kwargs", "value")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.context = contextvars.copy_context()
        self.done = Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False


class ThreadPool:
    """At most `size` OS threads, started when needed, that run calls in the order of their coming."""

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"a pool needs at least one thread, not {size}")
        self.size = size
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        self._idle = 0

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """function(*args, **kwargs) in a thread; the tasklet waits for its result or exception.

        A tasklet that is killed or timed out meanwhile goes on at once: a call that has not begun is dropped, one that has runs to
        its end and its result is lost.
        """
        job = _Job(function, args, kwargs)
        _put(self._jobs, job)
        if self._idle < self._jobs.qsize() and self._threads < self.size:
            self._threads += 1
            _start_new_thread(self._work, ())
        loop = current_loop()
        loop.jobs += 1
        try:
            job.done.wait()
        except BaseException:
            job.abandoned = True
            raise
        finally:
            loop.jobs -= 1
        if job.error is not None:
            try:
                raise job.error
            finally:
                job.error = None  # the traceback refers to this frame, which refers to the job
        return job.value  # type: ignore[no-any-return]

    def _work(self) -> None:
        while True:
            self._idle += 1
            try:
                job = _get(self._jobs, timeout=IDLE_SECONDS)
            except Empty:
                self._threads -= 1
                return
            finally:
                self._idle -= 1
            if not job.abandoned:
                try:
                    job.value = job.context.run(job.function, *job.args, **job.kwargs)
                except BaseException as error:
                    job.error = error
            job.done.set()
            del job


_pool = ThreadPool(32)


def run_in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Runs function(*args, **kwargs) in a real OS thread of a shared pool (32 threads) while other tasklets go on.

    For calls that would block the loop: C libraries, long computations that release the GIL. Returns what it returns, raises what it
    raises. Context variables are visible in it.
    """
    return _pool.run(function, *args, **kwargs)


def thread_count() -> int:
    """The OS threads of the shared pool that there are now."""
    return _pool._threads


def _after_fork_in_child() -> None:
    global _pool
    _pool = ThreadPool(_pool.size)  # its threads did not come along


os.register_at_fork(after_in_child=_after_fork_in_child)
