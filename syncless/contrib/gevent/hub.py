"""Hub: gevent's hub as one tasklet, its *host*, and each of gevent's greenlets as a tasklet of its own.

So whatever waits in a greenlet, gevent's calls or the patched ones of the standard library, lets all other
greenlets and tasklets run. Any tasklet may call gevent, too: it is parked until the hub switches to it.
_turns.pyx tells how.
"""

from __future__ import annotations

import _thread
import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import gevent.greenlet
import gevent.hub
from gevent import _hub_local
from gevent._greenlet_primitives import SwitchOutGreenletWithLoop
from gevent._interfaces import ICallback, ILoop
from gevent.exceptions import LoopExit
from gevent.timeout import Timeout
from greenlet import getcurrent, greenlet
from zope.interface import classImplements

from syncless._core.current import current, directly
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import current_loop
from syncless.contrib.gevent import _turns
from syncless.contrib.gevent._calls import Callback
from syncless.contrib.gevent._turns import waits_as, waits_in_gevent
from syncless.contrib.gevent.loop import Loop as _Loop
from syncless.patches import signals

classImplements(Callback, ICallback)
classImplements(_Loop, ILoop)


class Ground(SwitchOutGreenletWithLoop):  # type: ignore[misc]
    """The parent of a greenlet that runs in a tasklet."""

    def __init__(self, hub: Hub, life: Any, parent: greenlet):
        greenlet.__init__(self, life, parent)
        self.hub = hub
        self.loop = hub.loop

    def switch(self) -> Any:
        return self.hub.switch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hub, name)


class Loop(_Loop):
    hub: Hub

    def end(self) -> None:
        super().end()
        self.hub.end_hopeless_wait()

    def instead_of(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        name = func.__name__
        if name == "_kill":
            return _kill, (self.hub, *args)
        if name == "wrap" or name.startswith("_killall"):
            return _kill_all, (self.hub, *args)
        return func, args

    def is_alive(self) -> bool:
        return super().is_alive() or not all(map(waits_in_gevent, self.hub.running.values()))


class Hub(gevent.hub.Hub):  # type: ignore[misc]
    loop_class = Loop
    waits_in_our_loop = True  # no warning is needed
    Ground = Ground
    switch = _turns.switch

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """One for each thread of the system: gevent keeps it in a threading.local, which is a tasklet's own
        under the patch."""
        here = current_loop()
        return _hubs.get(here) or _hubs.setdefault(here, super().__new__(cls))

    def __init__(self, loop: Any = None, default: Any = None):
        if not hasattr(self, "turns"):
            directly(self._make, loop, default)  # it imports: nobody else may meet half a hub

    def _make(self, loop: Any, default: Any) -> None:
        super().__init__(loop, default)
        self.helper: Any = None
        """A tasklet or task that ends before the main greenlet may wait in vain."""
        self.loop.hub = self
        self.main: Any = getcurrent()
        while self.main.parent is not None:
            self.main = self.main.parent
        self.turns: _turns.Turns = self.loop.turns
        self.running = self.turns.running
        """Greenlets that have begun and not ended -> the tasklets in which they run."""
        self.turns.begin_with(self)

    @property
    def host(self) -> Tasklet[Any]:
        return self.turns.host

    @property
    def thread_ident(self) -> int:
        """gevent compares it with that of the caller, which is a tasklet's own under the patch."""
        return _thread.get_ident() if _hubs.get(current_loop()) is self else self._thread_ident

    @thread_ident.setter
    def thread_ident(self, number: int) -> None:
        self._thread_ident = number

    def run(self) -> None:
        """Run the loop until the hub is destroyed."""
        self.start_periodic_monitoring_thread()
        self.loop.error_handler = self
        self.loop.run()

    def end_hopeless_wait(self) -> None:
        """gevent has nothing left to do: raise LoopExit in the main greenlet if it and all tasklets wait for
        gevent. Any other tasklet could help it on, until that ends."""
        here = current_loop()
        if not waits_as(here.main, self.main) or self.helper is not None:
            return
        waits = self.loop.waits
        others = {each for each in here.tasklets() if not waits_in_gevent(each)} - {self.host, waits._tasklet}
        self.helper = next(iter(others or asyncio.all_tasks(waits)), None)
        if self.helper is not None:
            self.helper.add_done_callback(self._helper_ended)
        else:
            self.main.throw(LoopExit("This operation would block forever", self, []))

    def _helper_ended(self, helper: object) -> None:
        self.helper = None
        self.loop.called.set()

    def throw_to(self, into: greenlet, error: Any) -> None:
        """Raise an exception in a greenlet, wherever it waits: in the hub."""
        tasklet = self.running.get(into)
        if tasklet is None or waits_as(tasklet, into) or not greenlet.__bool__(into):
            into.throw(*error) if isinstance(error, tuple) else into.throw(error)
        else:
            if isinstance(error, tuple):
                error = error[1] or error[0]
            self.turns.woke = True
            tasklet.kill(error, block=False)

    def handle_system_error(self, type: Any, value: Any, tb: Any = None) -> None:
        """Raise an exception in the main tasklet, as for any tasklet."""
        if value is None:
            value = type()
        if not current_loop().interrupt(value.with_traceback(tb)):
            raise value

    def join(self, timeout: float | None = None) -> bool:
        """Wait until nothing of gevent's is left to do."""
        self.loop.over.clear()
        self.loop.called.set()
        over: bool = self.loop.over.wait(timeout)
        return over

    def destroy(self, destroy_loop: bool | None = None) -> None:
        """End the hub. The next call of gevent in this thread makes another."""
        if self.loop is None:
            return
        if _hubs.get(current_loop()) is self:
            del _hubs[current_loop()]
        if _hub_local.get_hub_if_exists() is self:
            _hub_local.set_hub(None)
        resolver, threadpool = vars(self).get("_resolver"), vars(self).get("_threadpool")
        self._resolver = self._threadpool = None
        if resolver is not None:
            resolver.close()
        if threadpool is not None:
            threadpool.kill()
        self.loop.destroy()
        self.turns.end()
        if current() is not self.host:
            self.host.join()


def _kill(hub: Hub, into: greenlet, error: Any, waiter: Any) -> None:
    _throw(hub, into, error)
    if waiter is not None:
        waiter.switch(None)


def _kill_all(hub: Hub, greenlets: Any, error: Any, waiter: Any = None) -> None:
    for each in greenlets:
        if not each.dead:
            _throw(hub, each, error)
    if waiter is not None:
        waiter.switch([each for each in greenlets if not each.dead])


def _throw(hub: Hub, into: greenlet, error: Any) -> None:
    try:
        hub.throw_to(into, error)
    except BaseException as raised:
        hub.handle_error(into, type(raised), raised, raised.__traceback__)


def _start(self: Timeout) -> None:
    self.tasklet = current()
    _original_start(self)


def _expire(self: Timeout, waiting: greenlet, error: Any) -> None:
    """The tasklet may wait elsewhere than in gevent: its greenlet is none that the hub may switch to then."""
    hub = gevent.get_hub()
    if self.tasklet is None or self.tasklet is hub.host or waits_as(self.tasklet, waiting):
        waiting.throw(error)
    else:
        self.tasklet.kill(error, block=False)


_original_start = Timeout.start


_hubs: WeakKeyDictionary[Any, Hub] = WeakKeyDictionary()


def _is_in_gevent(tasklet: Any) -> bool:
    hub = _hubs.get(current_loop())
    return isinstance(tasklet, _turns.Carried) or (hub is not None and hub.turns.host is tasklet)


def install() -> None:
    """Make new gevent hubs wait in the loop of their thread, if that has one."""
    if Timeout.start is _start:
        return
    if _hub_local.get_hub_if_exists() is not None:
        raise RuntimeError(
            "gevent's hub already runs in this thread: call syncless.contrib.gevent.install() before it "
            "starts"
        )
    _turns.set_hub = _hub_local.set_hub
    signals.in_its_thread.append(_is_in_gevent)
    _hub_local.set_default_hub_class(Hub)
    gevent.hub.Hub = Hub
    Timeout.start, Timeout._on_expiration = _start, _expire
