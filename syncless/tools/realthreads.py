"""An executor whose calls run in real OS threads even under the patch, where a thread is a tasklet.

Any thread may submit calls. The futures are those of the standard library; a tasklet that waits for a future
parks. The threads belong to a pool of the engine (_core/calls/threads.py).
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures._base import LOGGER  # type: ignore[attr-defined]
from concurrent.futures.thread import BrokenThreadPool
from functools import partial
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar

from syncless._core.allowance import processors
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.forkhooks import at_fork, look
from syncless._core.current import may_park
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event

P = ParamSpec("P")
T = TypeVar("T")


class _ParkingFuture(Future[T]):
    """A future whose result() and exception() park a tasklet, with and without the patch."""

    _ended: Event | None = None
    """Set when it is done, if a tasklet has waited for that."""

    def result(self, timeout: float | None = None) -> T:
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return super().exception(self._wait(timeout))

    def _wait(self, timeout: float | None) -> float | None:
        """Park until the call has ended, if the caller is a tasklet. Return the time left to wait in C."""
        if self.done() or not may_park():
            return timeout
        if self._ended is None:
            ended = self._ended = Event()
            self.add_done_callback(lambda _: ended.set())
        loop = current_loop()
        loop.jobs += 1
        try:
            self._ended.wait(timeout)
        finally:
            loop.jobs -= 1
        return 0


class _Worker:
    """The state of one thread of an executor; it lives as long as the thread."""

    def __init__(self, name: str):
        self.thread = threading.current_thread()
        self.ident = threading.get_ident()
        self.thread.name = name

    def __del__(self) -> None:
        active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
        if active.get(self.ident) is self.thread:  # before Python 3.13 it would be listed for ever
            active.pop(self.ident, None)


class _Call(Generic[T]):
    """A call that waits for a thread or runs in it."""

    def __init__(self, executor: RealThreadPoolExecutor, function: Callable[[], T]):
        self.executor = executor
        self.function = function
        self.future: _ParkingFuture[T] = _ParkingFuture()

    def __call__(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.executor._begin_in_thread()
            value = self.function()
        except BaseException as error:
            self.future.set_exception(error)
            del self  # the exception's traceback refers to this frame
        else:
            self.future.set_result(value)


class RealThreadPoolExecutor(ThreadPoolExecutor):
    """Like concurrent.futures.ThreadPoolExecutor, but its threads are OS threads even under the patch: for
    code that waits or computes in C and releases the GIL.

    A tasklet parks in result() and exception() of the futures; other waits for them (as_completed) park under
    the patch. Each call runs in a copy of the context in which submit() was called. A thread ends after it
    has been idle for ten seconds. If an `initializer` fails, the executor is broken, as in the standard
    library.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        super().__init__(max_workers, thread_name_prefix, initializer, initargs)
        self._initialize = None if initializer is None else partial(initializer, *initargs)
        self._prefix = thread_name_prefix or f"{type(self).__name__}-{next(_executor_numbers)}"
        self._thread_numbers = count()
        self._pool = ThreadPool(_usual_size if max_workers is None else max_workers, traced=True)
        self._here = threading.local()
        """In a thread that has made a call: its _Worker, as `worker`."""
        self._unfinished: set[Future[Any]] = set()
        self._refusal: Exception | None = None
        """The exception of submit(), if no more calls are taken."""
        _executors.add(self)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call fn(*args, **kwargs) in a thread, and return its future. Raise RuntimeError after
        shutdown()."""
        look()
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        call = _Call(self, partial(fn, *args, **kwargs))
        future = call.future
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        try:
            self._pool.start(call)
        except BaseException:
            future.cancel()
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls. Wait for pending calls, and cancel those that have not begun, as
        requested."""
        look()
        if self._refusal is None:
            self._refusal = RuntimeError("cannot schedule new futures after shutdown")
        if cancel_futures:
            for future in list(self._unfinished):
                future.cancel()
        if wait:
            self._wait_for_calls()
        self._pool.end_threads()

    def _wait_for_calls(self) -> None:
        for future in list(self._unfinished):
            try:
                future.exception()
            except CancelledError:
                pass

    def _begin_in_thread(self) -> None:
        """Call the initializer once in each thread."""
        if hasattr(self._here, "worker"):
            return
        if isinstance(self._refusal, BrokenThreadPool):
            raise self._refusal.with_traceback(None)
        self._here.worker = _Worker(f"{self._prefix}_{next(self._thread_numbers)}")
        if self._initialize is not None:
            try:
                self._initialize()
            except BaseException:
                LOGGER.critical("Exception in initializer:", exc_info=True)
                del self._here.worker
                self._refusal = BrokenThreadPool("a thread initializer failed, so no thread can run calls")
                raise self._refusal from None


def _usual_size() -> int:
    """Return the default size of the standard library's executor."""
    return min(32, processors() + 4)


_executors: weakref.WeakSet[RealThreadPoolExecutor] = weakref.WeakSet()
_executor_numbers = count()


def _at_exit() -> None:
    """Finish all calls before the process ends, like the standard library's executors."""
    for executor in list(_executors):
        executor.shutdown()


def _after_fork_in_child() -> None:
    for executor in _executors:
        executor._unfinished.clear()  # the parent's threads did not come along


atexit.register(_at_exit)
at_fork(at_first_use=_after_fork_in_child)
