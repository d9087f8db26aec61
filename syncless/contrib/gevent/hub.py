"""Hub: gevent's hub as one tasklet, its *host*, and each of gevent's greenlets as a tasklet of its own.

So whatever waits in a greenlet, gevent's calls or the patched ones of the standard library, lets all other
greenlets and tasklets run. Any tasklet may call gevent, too: it is parked until the hub switches to it.

Fact: the hub switches to the greenlet in which gevent was called, without asking our scheduler. Danger: that
greenlet would go on in the host's turn, inside the park() of another tasklet. Decision: a greenlet of its own
parks for the tasklet, so that the hub may come back to the first one at any time; that one notes what it is
given, wakes the tasklet and returns to the hub. Price: two more greenlet switches for each wait. Guarded by
tests/contrib/test_gevent.py.

Fact: gevent relies on it that a greenlet has run when its hub's switch to it returns; a queue then looks
whether it has more values. Danger: all getters wake for one value. Decision: the host gives others a turn
before it returns to the hub. Guarded by
tests/contrib/test_gevent.py::test_values_of_a_queue_wake_as_many_greenlets.

Fact: a greenlet that ends goes on in its parent, which is the hub for gevent's. Danger: the hub may be parked
in the host's turn then. Decision: a greenlet runs on a Ground, which is its parent, and does all that gevent
asks of a parent.
"""

from __future__ import annotations

import _thread
import asyncio
import functools
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

from syncless._core.current import current, directly, may_park, park, sleep, wake
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.threadloop import current_loop
from syncless.contrib.gevent.loop import Callback
from syncless.contrib.gevent.loop import Loop as _Loop

classImplements(Callback, ICallback)
classImplements(_Loop, ILoop)


class Ground(SwitchOutGreenletWithLoop):  # type: ignore[misc]
    """The parent of a greenlet that runs in a tasklet. It ends with it."""

    def __init__(self, hub: Hub, carried: greenlet, args: tuple[Any, ...]):
        super().__init__(functools.partial(self.carry, carried, args), getcurrent())
        self.hub = hub
        self.loop = hub.loop

    def carry(self, carried: greenlet, args: tuple[Any, ...]) -> None:
        carried.parent = self
        try:
            carried.switch(*args)
        except BaseException as error:
            self.hub.handle_error(carried, type(error), error, error.__traceback__)
        carried.parent = self.hub

    def switch(self) -> Any:
        return self.hub.switch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hub, name)


class Loop(_Loop):
    hub: Hub

    def wait(self) -> None:
        self.hub.base.switch(super().wait)

    def end(self) -> None:
        super().end()
        self.hub.end_hopeless_wait()

    def give_turns(self) -> None:
        hub = self.hub
        if hub.woke:
            hub.woke = False
            hub.base.switch(sleep)

    def run_callback(self, func: Any, *args: Any) -> Any:
        if func.__module__ in _OF_GREENLETS:
            name = func.__name__
            if name == "_kill":
                func, args = _kill, (self.hub, *args)
            elif name == "wrap" or name.startswith("_killall"):
                func, args = _kill_all, (self.hub, *args)
        return super().run_callback(func, *args)

    def is_alive(self) -> bool:
        hub = self.hub
        return super().is_alive() or any(each not in hub.waiting for each in hub.running)


class Hub(gevent.hub.Hub):  # type: ignore[misc]
    loop_class = Loop
    waits_in_our_loop = True  # no warning is needed

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """One for each thread of the system: gevent keeps it in a threading.local, which is a tasklet's own
        under the patch."""
        here = current_loop()
        return _hubs.get(here) or _hubs.setdefault(here, super().__new__(cls))

    def __init__(self, loop: Any = None, default: Any = None):
        if not hasattr(self, "waiting"):
            directly(self._make, loop, default)  # it imports: nobody else may meet half a hub

    def _make(self, loop: Any, default: Any) -> None:
        super().__init__(loop, default)
        self.waiting: dict[greenlet, Tasklet[Any]] = {}
        """Greenlets that wait for the hub to switch to them."""
        self.running: dict[greenlet, Tasklet[Any]] = {}
        """Those that have begun and not ended, with the tasklets in which they run."""
        self.woke = False
        """Whether a greenlet or tasklet has become ready since others had their turn."""
        self.helper: Any = None
        """A tasklet or task that ends before the main greenlet may wait in vain."""
        self.loop.hub = self
        self.loop.begin = self._begin
        self.host = spawn(self._live)
        self.host.name = "gevent's hub"

    @property
    def thread_ident(self) -> int:
        """gevent compares it with that of the caller, which is a tasklet's own under the patch."""
        return _thread.get_ident() if _hubs.get(current_loop()) is self else self._thread_ident

    @thread_ident.setter
    def thread_ident(self, number: int) -> None:
        self._thread_ident = number

    def _live(self) -> None:
        """The host: it waits between the hub's rounds. In the child of a fork another one goes on."""
        self.parent = self.base = self.main = getcurrent()
        while self.main.parent is not None:
            self.main = self.main.parent
        wait = greenlet.switch(self)
        while not self.dead:
            wait()
            wait = greenlet.switch(self)

    def run(self) -> None:
        """Run the loop until the hub is destroyed."""
        self.start_periodic_monitoring_thread()
        self.loop.error_handler = self
        self.loop.run()

    def _begin(self, new: greenlet, args: tuple[Any, ...], source: Any) -> None:
        self.woke = True
        self.running[new] = spawn(self._carry, new, args, source)

    def _carry(self, new: greenlet, args: tuple[Any, ...], source: Any) -> None:
        """The life of a greenlet, unless it was killed before its first turn."""
        try:
            if source is None or source.active:
                _hub_local.set_hub(self)
                greenlet.switch(Ground(self, new, args))
                if source is not None:
                    source.stop()
        finally:
            del self.running[new]
            if not self.running:
                self.loop.called.set()

    def end_hopeless_wait(self) -> None:
        """gevent has nothing left to do: raise LoopExit in the main greenlet if it and all tasklets wait for
        gevent. Any other tasklet could help it on, until that ends."""
        if self.main not in self.waiting or self.helper is not None:
            return
        waits = self.loop.waits
        others = set(current_loop().tasklets()) - {self.host, waits._tasklet, *self.waiting.values()}
        self.helper = next(iter(others or asyncio.all_tasks(waits)), None)
        if self.helper is not None:
            self.helper.add_done_callback(self._helper_ended)
        elif all(tasklet.status == "waiting" for tasklet in self.waiting.values()):
            self.main.throw(LoopExit("This operation would block forever", self, []))

    def _helper_ended(self, helper: object) -> None:
        self.helper = None
        self.loop.called.set()

    def throw_to(self, into: greenlet, error: Any) -> None:
        """Raise an exception in a greenlet, wherever it waits: in the hub."""
        tasklet = self.running.get(into)
        if tasklet is None or into in self.waiting or not greenlet.__bool__(into):
            into.throw(*error) if isinstance(error, tuple) else into.throw(error)
        else:
            if isinstance(error, tuple):
                error = error[1] or error[0]
            self.woke = True
            tasklet.kill(error, block=False)

    def switch(self) -> Any:
        """Wait until the hub switches back, with what it brings."""
        tasklet, here = current(), getcurrent()
        if tasklet is None or tasklet is self.host or not may_park():
            return super().switch()
        switch_out = getattr(here, "switch_out", None)
        if switch_out is not None:
            switch_out()
        if self.host.done():  # it has stayed behind in the process that forked
            self.host = spawn(self._live)
        self.loop.called.set()
        return self._wait(tasklet, here)

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
                away = functools.partial(greenlet.switch, self._switcher())
                if brought is None:  # and the hub has switched to us; it may do so again before our turn
                    brought = value, error
                    del self.waiting[here]
                    wake(tasklet)
                    if current() is self.host:  # gevent relies on it that we have run when that returns
                        away = functools.partial(greenlet.switch, self.base, sleep)
                    else:
                        self.woke = True
        finally:
            self.waiting.pop(here, None)
        if error is None and brought is not None:
            value, error = brought
        if error is not None:
            raise error
        return value

    def _switcher(self) -> greenlet:
        """Return the greenlet that has switched to one that waits: the hub, or one that calls switch()."""
        me = current()
        if me is self.host:
            return self
        return next((each for each, tasklet in self.running.items() if tasklet is me), self)

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


_OF_GREENLETS = frozenset({"gevent.greenlet", "gevent._gevent_cgreenlet", "cfunc.to_py"})
"""Modules of the functions of gevent that raise in greenlets from the hub. Where gevent is compiled, those of
killall() have a name that the compiler made."""


def _start(self: Timeout) -> None:
    self.tasklet = current()
    _original_start(self)


def _expire(self: Timeout, waiting: greenlet, error: Any) -> None:
    """The tasklet may wait elsewhere than in gevent: its greenlet is none that the hub may switch to then."""
    hub = gevent.get_hub()
    if self.tasklet is None or self.tasklet is hub.host or waiting in hub.waiting:
        waiting.throw(error)
    else:
        self.tasklet.kill(error, block=False)


_original_start = Timeout.start


_hubs: WeakKeyDictionary[Any, Hub] = WeakKeyDictionary()


def install() -> None:
    """Make new gevent hubs wait in the loop of their thread, if that has one."""
    if Timeout.start is _start:
        return
    if _hub_local.get_hub_if_exists() is not None:
        raise RuntimeError(
            "gevent's hub already runs in this thread: call syncless.contrib.gevent.install() before it "
            "starts"
        )
    _hub_local.set_default_hub_class(Hub)
    gevent.hub.Hub = Hub
    Timeout.start, Timeout._on_expiration = _start, _expire
