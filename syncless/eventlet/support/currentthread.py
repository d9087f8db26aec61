"""threading.current_thread() in a green thread, under the patch."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from syncless.eventlet import _greenlet

_numbers = itertools.count(1)
_active: dict[int, Any] = threading._active  # type: ignore[attr-defined]


class _GreenThread:
    """Has the methods of a thread, for a green thread."""

    def __init__(self, g: Any) -> None:
        self._g = g
        self.name = f"GreenThread-{next(_numbers)}"

    def __repr__(self) -> str:
        return f"<_GreenThread({self.name}, {self._g!r})>"

    def join(self, timeout: float | None = None) -> None:
        self._g.join(timeout)

    def get_name(self) -> str:
        return self.name

    def set_name(self, name: str) -> None:
        self.name = name

    getName, setName = get_name, set_name

    @property
    def ident(self) -> int:
        return id(self._g)

    native_id = property(lambda self: threading.get_native_id())

    def is_alive(self) -> bool:
        return not self._g.dead

    isAlive = is_alive
    daemon = True

    def is_daemon(self) -> bool:
        return True

    isDaemon = is_daemon


def _begin(thread: Any) -> None:
    named = _GreenThread(thread) if hasattr(thread, "wait") else threading.main_thread()
    _active[threading.get_ident()] = named


def _end(thread: Any) -> None:
    _active.pop(threading.get_ident(), None)


def in_os_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function in a thread of tpool, which is a thread for the module threading meanwhile."""
    ident = threading.get_ident()
    _active[ident] = threading.Thread(name=f"tpool_thread_{ident}")
    try:
        return function(*args, **kwargs)
    finally:
        del _active[ident]


def watch() -> None:
    """From now on, green threads that begin are threads for the module threading."""
    _greenlet.begin_thread, _greenlet.end_thread = _begin, _end
    threading.currentThread = threading.current_thread  # a program of eventlet's time may call it
