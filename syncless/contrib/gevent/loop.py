"""Loop: the loop of a gevent hub, whose watchers wait in the loop of the thread.

Takes the watchers that gevent and its users make; calls their functions, and those of run_callback(), in the
hub's greenlet: _calls.pyx tells how. Neither libev nor libuv is used.
"""

from __future__ import annotations

import time
import traceback
import weakref
from typing import Any

from syncless.asyncio.backgroundloop import background_loop
from syncless.contrib.gevent import watchers
from syncless.contrib.gevent._calls import Calls, Watcher


class Loop(Calls):
    """The loop of one hub, with the interface gevent._interfaces.ILoop."""

    approx_timer_resolution = 0.00001
    MINPRI, MAXPRI = -2, 2
    backend = "syncless"
    backend_int = 0
    origflags = origflags_int = 0
    ptr = None

    def __init__(self, flags: Any = None, default: Any = None):
        self.default = default is not False
        self._forks: weakref.WeakSet[watchers.Fork] = weakref.WeakSet()
        self.children: list[watchers.Child] = []
        """Active watchers of any child."""
        self.signals: dict[int, watchers.Signals] = {}
        self.waits: Any = background_loop()

    # -- watchers --------------------------------------------------------------------------------------------

    def signal(self, signum: int, ref: bool = True, priority: int | None = None) -> watchers.Signal:
        return watchers.Signal(self, signum, ref, priority)

    def idle(self, ref: bool = True, priority: int | None = None) -> watchers.Round:
        return watchers.Round(self, ref, priority)

    prepare = check = idle

    def fork(self, ref: bool = True, priority: int | None = None) -> watchers.Fork:
        return watchers.Fork(self, ref, priority)

    def async_(self, ref: bool = True, priority: int | None = None) -> watchers.Async:
        return watchers.Async(self, ref, priority)

    def child(self, pid: int, trace: int = 0, ref: bool = True) -> watchers.Child:
        return watchers.Child(self, pid, trace, ref)

    def stat(
        self, path: str, interval: float = 0.0, ref: bool = True, priority: int | None = None
    ) -> watchers.Stat:
        return watchers.Stat(self, path, interval, ref, priority)

    def install_sigchld(self) -> None:
        """gevent asks for it before it watches children; they are found by their own descriptors here."""

    reset_sigchld = install_sigchld

    def instead_of(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return what run_callback() is to call in the place of a function that raises in greenlets."""
        return func, args

    def end(self) -> None:
        """Called when nothing is left to do, before the loop waits for more."""
        self.over.set()

    def handle_error(self, context: Any, kind: Any, value: Any, tb: Any) -> None:
        """Tell the hub of an exception."""
        handler = self.error_handler
        (self.default_handle_error if handler is None else handler.handle_error)(context, kind, value, tb)

    def default_handle_error(self, context: Any, kind: Any, value: Any, tb: Any) -> None:
        """Show an exception where there is no hub."""
        traceback.print_exception(kind, value, tb)

    # -- the rest of the interface ---------------------------------------------------------------------------

    def now(self) -> float:
        return time.time()

    def update_now(self) -> None:
        """Time is looked up whenever it is asked for."""

    update = update_now

    def ref(self) -> None:
        """libev counts its watchers by this."""

    unref = verify = ref

    def break_(self, how: int = 0) -> None:
        """Make run() return."""
        self.ended = True
        self.called.set()

    def reinit(self) -> None:
        """In the child of a fork: call the watchers of forks."""
        self.begin_anew()
        for watcher in list(self._forks):
            if watcher.active:
                self.make_due(watcher)

    def destroy(self) -> bool:
        """Stop all watchers. The loop is not used any more."""
        for watcher in list(self.active):
            watcher.close()
        self.break_()
        return True

    def fileno(self) -> int | None:
        return None

    @property
    def activecnt(self) -> int:
        return self.turns.counted

    @property
    def WatcherType(self) -> type:
        return Watcher

    def debug(self) -> list[object]:
        return []

    def _format(self) -> str:
        kind = "default " if self.default else ""
        return f"{kind}pending={self.pendingcnt} active={self.activecnt}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._format()}>"
