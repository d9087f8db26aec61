"""offload: runs the calls of functions in real OS threads, while the calling tasklet waits and others run."""

from __future__ import annotations

import _thread
import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from syncless._core.cpython.functions import original_of
from syncless._core.current import may_park

if TYPE_CHECKING:
    from syncless.tools.realthreads import RealThreadPoolExecutor

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32

_get_os_ident = original_of(_thread.get_ident)

_inside: set[int] = set()
"""OS threads that make such a call at the moment. A call inside of it is made at once: it could otherwise
wait for a thread that waits for it."""


def _call(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    me = _get_os_ident()
    _inside.add(me)
    try:
        return function(*args, **kwargs)
    finally:
        _inside.discard(me)


class Offload:
    """A pool of at most `threads` OS threads, named after `name`, that run the calls of some functions."""

    def __init__(self, threads: int = THREADS, name: str = "offload"):
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self._threads = threads
        self._name = name

    @functools.cached_property
    def _executor(self) -> RealThreadPoolExecutor:
        tools = import_module("syncless.tools.realthreads")  # loads much that few programs need
        executor: RealThreadPoolExecutor = tools.RealThreadPoolExecutor(
            self._threads, thread_name_prefix=self._name
        )
        return executor

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return function(*args, **kwargs), called in one of the threads. A tasklet that is killed or times
        out resumes immediately: a queued call is dropped; a started call runs to its end."""
        if not may_park() or _get_os_ident() in _inside:
            return function(*args, **kwargs)
        future = self._executor.submit(_call, function, args, kwargs)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def wrap(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return a wrapper that calls the function in these threads. Raise TypeError if the function returns
        a generator or a coroutine, because its code would run elsewhere."""
        import inspect  # takes long to load

        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function!r} is a coroutine function: await run_in_executor() there instead")
        if inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{function!r} is a generator function: its code runs in the caller that iterates over it"
            )
        if not callable(function):
            raise TypeError(f"offload needs a function, not {type(function).__name__}")

        function = original_of(function)

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return self.run(function, *args, **kwargs)

        return functools.update_wrapper(call, function)

    def __enter__(self) -> Callable[..., Any]:
        return self.run

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Refuse further calls. The threads end after the calls that are queued."""
        self._executor.shutdown(wait=False)


@overload
def offload(function: Callable[P, T]) -> Callable[P, T]: ...


@overload
def offload(
    *, threads: int = THREADS, name: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def offload(
    function: Callable[..., Any] | None = None, *, threads: int = THREADS, name: str | None = None
) -> Any:
    """Decorate a function so that each call runs in a real OS thread, while the calling tasklet waits for the
    result and other tasklets run. Use it for functions that wait or compute in C::

        @offload
        def thumbnail(data): ...

        @offload(threads=2, name="printer")
        def print_page(page): ...

    Each function has threads of its own, at most `threads` (default 32), named after it or by `name`. Further
    calls are queued. Context variables are visible in the call. A tasklet that is killed or times out resumes
    immediately: a queued call is dropped; a started call runs to its end, and its result is lost. Outside of
    tasklets, and inside such a call, the function is called directly.
    """
    if function is None:
        return functools.partial(_decorated, threads, name)
    return _decorated(threads, name, function)


def _decorated(threads: int, name: str | None, function: Callable[P, T]) -> Callable[P, T]:
    return Offload(threads, name or str(getattr(function, "__name__", "offload"))).wrap(function)
