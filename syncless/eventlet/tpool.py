"""Calls in real OS threads: execute(), and Proxy, an object whose methods run there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from syncless._core.calls.threads import ThreadPool
from syncless.eventlet import _greenlet
from syncless.eventlet.support import currentthread

__all__ = ["Proxy", "execute", "killall", "set_num_threads", "setup"]

QUIET = True
_nthreads = int(os.environ.get("EVENTLET_THREADPOOL_SIZE", 20))
_pool: ThreadPool | None = None


def setup() -> None:
    """Make the pool. Raise AssertionError if EVENTLET_THREADPOOL_SIZE is negative."""
    global _pool
    assert _nthreads >= 0, "Can't specify negative number of threads"
    if _nthreads == 0:
        warnings.warn(
            "Zero threads in tpool. All tpool.execute calls will execute in main thread. "
            "Check the value of the environment variable EVENTLET_THREADPOOL_SIZE.",
            RuntimeWarning,
            stacklevel=3,
        )
    elif _pool is None:
        _pool = ThreadPool(lambda: max(1, _nthreads), traced=True)


def execute(meth: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call meth(*args, **kwargs) in an OS thread while other green threads run. Return what it returns, raise
    what it raises."""
    setup()
    if _pool is None or _nthreads == 0:
        return meth(*args, **kwargs)
    if _greenlet.begin_thread is not None:
        return _pool.run(currentthread.in_os_thread, meth, *args, **kwargs)
    return _pool.run(meth, *args, **kwargs)


def killall() -> None:
    """Let the threads end that have nothing to do."""
    global _pool
    if _pool is not None:
        _pool.end_threads()
        _pool = None


def set_num_threads(nthreads: int) -> None:
    """Change the number of threads."""
    global _nthreads
    _nthreads = nthreads


class Proxy:
    """An object whose methods run in OS threads. Their results are wrapped likewise if their class is in
    `autowrap`, or the name of the method in `autowrap_names`."""

    def __init__(
        self, obj: Any, autowrap: tuple[type, ...] = (), autowrap_names: tuple[str, ...] = ()
    ) -> None:
        if isinstance(obj, Proxy):
            obj = object.__getattribute__(obj, "_obj")
        self._obj = obj
        self._autowrap = autowrap
        self._autowrap_names = autowrap_names

    def _wrapped(self, value: Any, name: str | None) -> Any:
        if name in self._autowrap_names or (self._autowrap and isinstance(value, self._autowrap)):
            return Proxy(value, self._autowrap)
        return value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._obj, name)
        if not callable(found):
            return self._wrapped(found, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._wrapped(execute(found, *args, **kwargs), name)

        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrapped(execute(self._obj, *args, **kwargs), "__call__")

    def __getitem__(self, key: Any) -> Any:
        return self._wrapped(execute(lambda: self._obj[key]), "__getitem__")

    def __setitem__(self, key: Any, value: Any) -> None:
        execute(self._obj.__setitem__, key, value)

    def __delitem__(self, key: Any) -> None:
        execute(self._obj.__delitem__, key)

    def __enter__(self) -> Any:
        return execute(self._obj.__enter__)

    def __exit__(self, *error: Any) -> Any:
        return execute(self._obj.__exit__, *error)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self._wrapped(execute(self._obj.__deepcopy__, memo), "__deepcopy__")

    def __copy__(self, memo: Any = None) -> Any:
        return self._wrapped(execute(self._obj.__copy__), "__copy__")

    def __iter__(self) -> Iterator[Any]:
        iterator = iter(self._obj)
        return self if iterator is self._obj else Proxy(iterator)

    def __next__(self) -> Any:
        value = execute(next, self._obj, _END)
        if value is _END:
            raise StopIteration
        return value

    next = __next__

    # quick ones are called directly

    def __eq__(self, other: object) -> bool:
        return bool(self._obj == other)

    def __hash__(self) -> int:
        return hash(self._obj)

    def __repr__(self) -> str:
        return repr(self._obj)

    def __str__(self) -> str:
        return str(self._obj)

    def __len__(self) -> int:
        return len(self._obj)

    def __bool__(self) -> bool:
        return bool(self._obj)


_END = object()
