"""Loop: the loop of a gevent hub, whose watchers wait in the loop of the thread.

Takes the watchers that gevent and its users make; calls their functions, and those of run_callback(), in the
hub's greenlet. Timers and descriptors wait in the thread's background loop (asyncio/backgroundloop.py).
Neither libev nor libuv is used.
"""

from __future__ import annotations

import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import greenlet

from syncless._core.current import sleep
from syncless._core.wait.sync import Event
from syncless.asyncio.backgroundloop import background_loop
from syncless.contrib.gevent import watchers


class Callback:
    """A call that is due in the next round. Stopping it drops it."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object] | None, args: Any):
        self.callback = callback
        self.args = args

    def stop(self) -> None:
        """Drop the call if it has not begun."""
        self.callback = self.args = None

    close = stop

    def __bool__(self) -> bool:
        return self.args is not None

    @property
    def pending(self) -> bool:
        return self.callback is not None

    active = pending

    def __repr__(self) -> str:
        return f"<callback of {self.callback!r} with {self.args!r}>"


class Loop:
    """The loop of one hub, with the interface gevent._interfaces.ILoop."""

    error_handler: Any = None
    approx_timer_resolution = 0.00001
    MINPRI, MAXPRI = -2, 2
    backend = "syncless"
    backend_int = 0
    origflags = origflags_int = 0
    ptr = None

    def __init__(self, flags: Any = None, default: Any = None):
        self.default = default is not False
        self.called = Event()
        """Something is due."""
        self.over = Event()
        """Nothing is left to do."""
        self.iteration = 0
        self.depth = 0
        self._calls: deque[Callback] = deque()
        self._due: list[watchers.Watcher] = []
        self._counted: set[watchers.Watcher] = set()
        """Active ones that keep the loop alive."""
        self._rounds: list[watchers.Watcher] = []
        """Active idle, prepare and check watchers, which are called in each round."""
        self._forks: weakref.WeakSet[watchers.Watcher] = weakref.WeakSet()
        self.descriptors = watchers.Descriptors(self)
        self.children: list[watchers.Child] = []
        """Active watchers of any child."""
        self.signals: dict[int, watchers.Signals] = {}
        self.waits: Any = background_loop()
        self.begin: Callable[[Any, tuple[Any, ...], Any], object] | None = None
        """Called with a greenlet that is switched to for the first time, its arguments, and the watcher or
        Callback that does so; that is pending until the greenlet has begun."""
        self.ended = False

    # -- watchers --------------------------------------------------------------------------------------------

    def io(self, fd: int, events: int, ref: bool = True, priority: int | None = None) -> watchers.Io:
        return watchers.Io(self, fd, events, ref, priority)

    def timer(
        self, after: float, repeat: float = 0.0, ref: bool = True, priority: int | None = None
    ) -> watchers.Timer:
        return watchers.Timer(self, after, repeat, ref, priority)

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

    def closing_fd(self, fd: int) -> bool:
        """Make the watchers of a descriptor that is about to be closed due. Return whether there are any."""
        return self.descriptors.closing(fd)

    # -- what is due -----------------------------------------------------------------------------------------

    def run_callback(self, func: Callable[..., object], *args: Any) -> Callback:
        """Call func(*args) in the hub, in the next round."""
        call = Callback(func, args)
        self._calls.append(call)
        self.called.set()
        return call

    def run_callback_threadsafe(self, func: Callable[..., object], *args: Any) -> Callback:
        """Like run_callback(), from any thread."""
        call = Callback(func, args)
        self._calls.append(call)
        self.waits.call_soon_threadsafe(self.called.set)
        return call

    def make_due(self, watcher: watchers.Watcher) -> None:
        """Call its function in the next round."""
        if not watcher.due:
            watcher.due = True
            self._due.append(watcher)
        self.called.set()

    def note(self, watcher: watchers.Watcher, counts: bool) -> None:
        """A watcher that keeps the loop alive has become active, or is so no more."""
        if counts:
            self._counted.add(watcher)
            self.over.clear()
        else:
            self._counted.discard(watcher)
            if not self._counted:
                self.called.set()  # the hub looks whether anything is left

    def note_round(self, watcher: watchers.Watcher, active: bool) -> None:
        if active:
            self._rounds.append(watcher)
            self.called.set()
        elif watcher in self._rounds:
            self._rounds.remove(watcher)

    def is_alive(self) -> bool:
        """Return whether anything is left to do, or to wait for."""
        return bool(self._counted or self._due or self._calls)

    def run(self, nowait: bool = False, once: bool = False) -> None:
        """Call what is due, round after round: in the hub's greenlet, and `wait` between the rounds."""
        while not self.ended:
            self.called.clear()
            self.iteration += 1
            self._run_round()
            if nowait:
                return
            if not self.is_alive():
                self.end()
            self.wait()
            if once:
                return

    def end(self) -> None:
        """Called when nothing is left to do, before the loop waits for more."""
        self.over.set()

    def wait(self) -> None:
        """Wait until something is due."""
        if self.called.is_set() or self._rounds:
            sleep()
        else:
            self.called.wait()

    def _run_round(self) -> None:
        rounds = self._rounds[:]  # greenlets that run meanwhile may begin others
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            callback, args = call.callback, call.args
            if callback is None:
                continue
            if not self.begins(callback, args, call):
                call.callback = None
                self.call(callback, args)
                call.args = None
            self.give_turns()
        for watcher in rounds:
            if watcher.active:
                watcher.fire()
                self.give_turns()
        due, self._due = sorted(self._due, key=_urgency), []
        for watcher in due:
            watcher.due = False
            if watcher.active:
                watcher.fire()
                self.give_turns()

    def give_turns(self) -> None:
        """Let greenlets run that the last call has made ready: with gevent they run within the call."""

    def begins(self, function: Any, args: tuple[Any, ...], source: Any) -> bool:
        """Return whether the call lets a greenlet begin, which is done then."""
        if self.begin is None or not is_new(function):
            return False
        self.begin(function.__self__, args, source)
        return True

    def call(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Call the function; gevent hears of its exception."""
        try:
            if not self.begins(function, args, None):
                function(*args)
        except BaseException as error:
            self.handle_error(function, type(error), error, error.__traceback__)

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
        for watcher in list(self._forks):
            if watcher.active:
                self.make_due(watcher)

    def destroy(self) -> bool:
        """Stop all watchers. The loop is not used any more."""
        for watcher in [*self._counted, *self._rounds]:
            watcher.stop()
        self.break_()
        return True

    def fileno(self) -> int | None:
        return None

    @property
    def activecnt(self) -> int:
        return len(self._counted)

    @property
    def pendingcnt(self) -> int:
        return len(self._due) + len(self._calls)

    @property
    def WatcherType(self) -> type:
        return watchers.Watcher

    def debug(self) -> list[object]:
        return []

    def _format(self) -> str:
        kind = "default " if self.default else ""
        return f"{kind}pending={self.pendingcnt} active={self.activecnt}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._format()}>"


def _urgency(watcher: watchers.Watcher) -> int:
    return -watcher.priority


_is_active: Callable[[greenlet], bool] = greenlet.__bool__
_is_dead: Callable[[greenlet], bool] = greenlet.dead.__get__
"""gevent's own type answers otherwise."""


def is_new(function: Callable[..., object]) -> bool:
    """Return whether the function is the switch() of a greenlet that has not begun."""
    own = getattr(function, "__self__", None)
    return (
        isinstance(own, greenlet)
        and not _is_active(own)
        and not _is_dead(own)
        and function.__name__ == "switch"
    )
