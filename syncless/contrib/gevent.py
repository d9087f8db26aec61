"""gevent in the thread of our loop::

    import syncless.contrib.gevent
    syncless.contrib.gevent.install()      # before gevent's hub is used

gevent's greenlets and its hub then run as one tasklet, the *host*, which waits in our loop on behalf of
libuv. Any other tasklet may call gevent, and is parked until the hub switches to it.

Fact: the hub switches to the greenlet in which gevent was called, without going through our scheduler.
Danger: that greenlet would continue in the host's turn, inside the park() of another tasklet. Decision: a
separate greenlet parks for the tasklet, so that the hub may switch to the calling greenlet at any time; the
latter notes the value that it gets, wakes the tasklet and returns to the hub. Price: two more greenlet
switches per wait. Guarded by tests/contrib/test_gevent.py.
"""

from __future__ import annotations

import _thread
import functools
from typing import Any
from weakref import WeakKeyDictionary

import gevent.hub
from gevent import _hub_local
from gevent.timeout import Timeout
from greenlet import getcurrent, greenlet

from syncless._core.current import current, may_park, park, sleep, wake
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.threadloop import current_loop
from syncless._core.wait.select import readable, select
from syncless._core.wait.sync import Event

try:
    from gevent.libuv.loop import libuv
    from gevent.libuv.loop import loop as UvLoop
except ImportError as error:
    missing = (error.name or "").rpartition(".")[2]
    if missing in ("cffi", "_cffi_backend"):
        needs = "cffi, through which gevent calls libuv: pip install 'syncless[gevent]'"
    else:
        needs = f"a gevent with libuv, as in its wheels, but this one cannot load libuv ({error})"
    raise ImportError(f"syncless.contrib.gevent needs {needs}", name=error.name) from error

WATCHERS = ("io", "timer", "signal", "idle", "prepare", "check", "fork", "async_", "child", "stat")


class Loop(UvLoop):  # type: ignore[misc]
    """The libuv loop, which never blocks: the host waits on its behalf."""

    # gevent looks for signals that often, as a loop in C must; ours hears them
    SIGNAL_CHECK_INTERVAL_MS = 3_600_000

    host: Tasklet[Any] | None = None

    def __init__(self, flags: Any = None, default: Any = None):
        self.called = Event()
        self.over = Event()
        super().__init__(flags, default)

    def run(self, nowait: bool = False, once: bool = False) -> Any:
        """Run the hub. This never returns, but switches to the host instead of waiting."""
        if self.host is None or nowait or once:
            return super().run(nowait, once)
        while True:
            self._run_callbacks()
            alive = super().run(nowait=True)
            self.base.switch(alive)

    def live_as_host(self, hub: Hub) -> None:
        self.base = getcurrent()
        while True:
            self.called.clear()
            alive = greenlet.switch(hub)
            sleep()  # a tasklet that was waited for stops its watcher, which is ready until then
            timeout: float | None = None
            if self._callbacks or self._queued_callbacks:
                timeout = 0
            elif alive:
                milliseconds = libuv.uv_backend_timeout(self.ptr)
                timeout = milliseconds / 1000 if milliseconds >= 0 else None
            else:
                self.over.set()
            select([self.called, readable(self.fileno())], timeout)

    def call(self) -> None:
        """Wake the host: a tasklet or a thread has added something to wait for."""
        self.over.clear()
        self.called.set()

    def run_callback(self, function: Any, *args: Any) -> Any:
        self.call()
        return super().run_callback(function, *args)


def _telling(name: str) -> Any:
    original = getattr(UvLoop, name)

    def make(self: Loop, *args: Any, **named: Any) -> Any:
        self.call()  # greenlets made in this turn have been started when the host runs
        return original(self, *args, **named)

    return make


for _name in WATCHERS:
    setattr(Loop, _name, _telling(_name))


class Hub(gevent.hub.Hub):  # type: ignore[misc]
    loop_class = Loop
    waits_in_our_loop = True  # no warning is needed

    def __init__(self, loop: Any = None, default: Any = None):
        super().__init__(loop, default)
        self.waiting: dict[greenlet, Tasklet[Any]] = {}

    @property
    def thread_ident(self) -> int:
        """The ident that gevent compares with the caller's, which is a tasklet's own under the patch."""
        return _thread.get_ident() if _hubs.get(current_loop()) is self else self._thread_ident

    @thread_ident.setter
    def thread_ident(self, number: int) -> None:
        self._thread_ident = number

    def switch(self) -> Any:
        """Wait until the hub switches back, and return or raise what it passes."""
        tasklet, loop = current(), self.loop
        if tasklet is None or tasklet is loop.host or not may_park():
            return super().switch()
        if loop.host.done():  # it has stayed behind in the process that forked
            loop.host = spawn(loop.live_as_host, self)
        loop.call()
        return self._wait(tasklet, getcurrent())

    def _wait(self, tasklet: Tasklet[Any], here: greenlet) -> Any:
        brought: tuple[Any, BaseException | None] | None = None
        away = functools.partial(greenlet(park).switch, "gevent")
        self.waiting[here] = tasklet
        try:
            while True:
                value, error = None, None
                try:
                    value = away()
                except BaseException as caught:
                    error = caught
                if current() is tasklet:  # the greenlet that parked has ended
                    break
                if brought is None:  # and the hub has switched to us; it may do so again before our turn
                    brought = value, error
                    del self.waiting[here]
                    wake(tasklet)
                away = functools.partial(greenlet.switch, self)
        finally:
            self.waiting.pop(here, None)
        if error is None and brought is not None:
            value, error = brought
        if error is not None:
            raise error
        return value

    def handle_system_error(self, type: Any, value: Any, tb: Any = None) -> None:
        """Raise SystemExit and KeyboardInterrupt in the main tasklet, as for any tasklet."""

        def raises() -> None:
            raise value.with_traceback(tb)

        spawn(raises)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until gevent has nothing left to do."""
        if self.loop.host is None or current() is self.loop.host:
            return bool(super().join(timeout))
        self.loop.call()
        over: Event = self.loop.over
        return over.wait(timeout)


def _start(self: Timeout) -> None:
    self.tasklet = current()
    _original_start(self)


def _expire(self: Timeout, waiting: greenlet, error: Any) -> None:
    """Raise the error where the tasklet waits. The hub must not switch to a greenlet whose tasklet waits
    outside gevent."""
    hub = gevent.get_hub()
    if self.tasklet is None or self.tasklet is hub.loop.host or waiting in hub.waiting:
        waiting.throw(error)
    else:
        self.tasklet.kill(error, block=False)


_original_start = Timeout.start


_hubs: WeakKeyDictionary[Any, Hub] = WeakKeyDictionary()


def _hub_of_thread() -> Hub:
    """Return the thread's hub. gevent keeps it in a threading.local, which is a tasklet's own under the
    patch."""
    loop = current_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = Hub()
        hub.loop.host = spawn(hub.loop.live_as_host, hub)
    return hub


def install() -> None:
    """Make new gevent hubs wait in the loop of their thread, if there is one."""
    if Timeout.start is _start:
        return
    if _hub_local.get_hub_if_exists() is not None:
        raise RuntimeError(
            "gevent's hub already runs in this thread: call syncless.contrib.gevent.install() before it "
            "starts"
        )
    _hub_local.set_default_hub_class(_hub_of_thread)
    Timeout.start, Timeout._on_expiration = _start, _expire
