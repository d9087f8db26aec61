"""DAGPool: green threads that depend on the results of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from syncless.eventlet import greenthread
from syncless.eventlet.event import Event
from syncless.eventlet.greenthread import GreenThread

__all__ = ["Collision", "DAGPool", "PropagateError"]

_ALL: Any = object()


class Collision(Exception):
    """There is a green thread, or a result, of that key already."""


class PropagateError(Exception):
    """Stands for the result of a green thread that has failed: its `key`, and `exc`, which has ended it."""

    def __init__(self, key: Any, exc: BaseException) -> None:
        super().__init__(f"PropagateError({key}): {type(exc).__name__}: {exc}")
        self.key, self.exc = key, exc


class DAGPool:
    """Each green thread has a key, and gets the results of those on which it depends as they come."""

    def __init__(self, preload: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        self.values: dict[Any, Any] = dict(preload)
        self.coros: dict[Any, tuple[GreenThread, frozenset[Any]]] = {}
        self._changed = Event()

    # -- making results

    def spawn(
        self, key: Any, depends: Iterable[Any], function: Callable[..., Any], *args: Any, **kwds: Any
    ) -> None:
        """Call function(key, results, ...) in a green thread. `results` gives (key, value) of the keys on
        which it depends, as they come."""
        if key in self.coros or key in self.values:
            raise Collision(key)
        needed = frozenset(depends)
        thread = greenthread.spawn(self._run, key, needed, function, args, kwds)
        self.coros[key] = thread, needed

    def spawn_many(
        self, depends: Mapping[Any, Iterable[Any]], function: Callable[..., Any], *args: Any, **kwds: Any
    ) -> None:
        """spawn() for each key with what it depends on."""
        for key, needed in depends.items():
            self.spawn(key, needed, function, *args, **kwds)

    def _run(
        self,
        key: Any,
        needed: frozenset[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwds: dict[str, Any],
    ) -> None:
        try:
            result = function(key, self.wait_each(needed), *args, **kwds)
        except Exception as error:
            result = PropagateError(key, error)
        self.coros.pop(key, None)
        if key not in self.values:
            self.post(key, result)
        else:
            self._tell()

    def post(self, key: Any, value: Any, replace: bool = False) -> None:
        """Give a result. Collision if there is one, unless `replace`, or if a green thread is to give it."""
        thread = self.coros.get(key)
        if thread is not None and greenthread.getcurrent() is not thread[0]:
            raise Collision(key)
        if key in self.values and not replace:
            raise Collision(key)
        self.values[key] = value
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, Event()
        changed.send()

    def kill(self, key: Any) -> None:
        """End the green thread and forget it. Raise KeyError if it does not run."""
        thread, _ = self.coros.pop(key)
        thread.kill()

    # -- waiting for results

    def _each(self, keys: Any) -> Iterator[tuple[Any, Any]]:
        left = dict.fromkeys([*self.values, *self.coros] if keys is _ALL else keys)
        while True:
            for key in [key for key in left if key in self.values]:
                del left[key]
                yield key, self.values[key]
            if not left:
                return
            if not any(key in self.values for key in left):
                self._changed.wait()

    def wait_each(self, keys: Any = _ALL) -> Iterator[tuple[Any, Any]]:
        """Give (key, value) of the keys, or of all, as they come. Raise the PropagateError of one that has
        failed."""
        for key, value in self._each(keys):
            yield key, _checked(value)

    def wait_each_success(self, keys: Any = _ALL) -> Iterator[tuple[Any, Any]]:
        """The same, without those that have failed."""
        for key, value in self._each(keys):
            if not isinstance(value, PropagateError):
                yield key, value

    def wait_each_exception(self, keys: Any = _ALL) -> Iterator[tuple[Any, Any]]:
        """(key, PropagateError) of those that have failed."""
        for key, value in self._each(keys):
            if isinstance(value, PropagateError):
                yield key, value

    def wait(self, keys: Any = _ALL) -> dict[Any, Any]:
        """Wait for all of them; return a dict."""
        return dict(self.wait_each(keys))

    waitall = wait

    def __getitem__(self, key: Any) -> Any:
        """Wait for one; return it."""
        ((_, value),) = self.wait_each((key,))
        return value

    # -- looking at them

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a result, or the default if it is not there yet."""
        return _checked(self.values.get(key, default))

    def keys(self) -> tuple[Any, ...]:
        """Return the keys of the results that are there."""
        return tuple(self.values)

    def items(self) -> tuple[tuple[Any, Any], ...]:
        return tuple((key, _checked(value)) for key, value in self.values.items())

    def running(self) -> int:
        """Return the number of green threads that have not ended."""
        return len(self.coros)

    def running_keys(self) -> tuple[Any, ...]:
        return tuple(self.coros)

    def waiting(self) -> int:
        """Return the number of those that wait for results of others."""
        return len(self.waiting_for())

    def waiting_for(self, key: Any = _ALL) -> Any:
        """Return the keys for which a green thread waits; without a key, a dict of those that wait."""
        if key is _ALL:
            pending = {each: self._pending(each) for each in self.coros}
            return {each: keys for each, keys in pending.items() if keys}
        if key not in self.coros and key not in self.values:
            raise KeyError(key)
        return self._pending(key)

    def _pending(self, key: Any) -> set[Any]:
        _, needed = self.coros.get(key, (None, frozenset()))
        return {each for each in needed if each not in self.values}


def _checked(value: Any) -> Any:
    if isinstance(value, PropagateError):
        raise value
    return value
