"""The _thread module whose threads are green threads."""

from __future__ import annotations

import _thread as _standard
from collections.abc import Callable
from typing import Any

from syncless.eventlet import greenthread
from syncless.eventlet.semaphore import Semaphore
from syncless.eventlet.support import greenlets

__patched__ = [
    "get_ident",
    "start_new_thread",
    "start_new",
    "allocate_lock",
    "allocate",
    "exit",
    "interrupt_main",
]

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})

error = _standard.error
_count_of: set[Any] = set()


class Lock(Semaphore):
    """A lock of green threads."""

    def __init__(self) -> None:
        super().__init__(1)

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        return super().acquire(blocking, timeout)

    def release(self) -> None:  # type: ignore[override]
        if self.counter > 0:
            raise RuntimeError("release unlocked lock")
        super().release()

    def __enter__(self) -> bool:  # type: ignore[override]
        return self.acquire()

    def _at_fork_reinit(self) -> None:
        self.begin_anew()


LockType = Lock
allocate_lock = allocate = Lock


def get_ident(gr: Any = None) -> int:
    """Return a number of a green thread, the running one by default."""
    return id(greenlets.getcurrent() if gr is None else gr)


def start_new_thread(function: Callable[..., Any], args: Any = (), kwargs: Any = None) -> int:
    """Call the function in a green thread."""
    thread = greenthread.spawn_n(_body, function, args, kwargs or {})
    _count_of.add(thread)
    thread.add_done_callback(_count_of.discard)
    return get_ident(thread)


start_new = start_new_thread


def _body(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass


def exit() -> None:
    raise greenlets.GreenletExit


exit_thread = exit


def interrupt_main() -> None:
    _standard.interrupt_main()


def _count() -> int:
    return len(_count_of)


def _set_sentinel() -> Lock:
    lock = Lock()
    here = greenlets.getcurrent()
    if hasattr(here, "add_done_callback"):
        here.add_done_callback(lambda _: lock.release() if lock.locked() else None)
    return lock


def stack_size(size: int | None = None) -> int:
    return _standard.stack_size() if size is None else _standard.stack_size(size)
