"""The hub as programs know it: timers, listeners, and switch(). Our loop does the work.

A timer is a tasklet that sleeps and then makes its call, so timers of no seconds come in the order in which
they and green threads were made. A listener is one that waits for a descriptor.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from syncless._core.current import park, sleep, wait_readable, wait_writable
from syncless.eventlet import _greenlet
from syncless.eventlet.support import greenlets

READ = "read"
WRITE = "write"

prevent_multiple_readers = True
"""Whether a second green thread that reads from a socket gets a RuntimeError."""


class Timer:
    """A call in some seconds."""

    def __init__(
        self,
        hub: BaseHub,
        seconds: float,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        owner: Any = None,
    ) -> None:
        self.seconds = seconds or 0
        self.scheduled_time = hub.clock() + self.seconds
        self.called = False
        self.tpl: tuple[Any, ...] | None = (function, args, kwargs)
        self._hub, self._owner = hub, owner
        hub._timers[self] = None
        self._tasklet = greenlets.Turn(self._wait)

    @property
    def pending(self) -> bool:
        return not self.called

    def _wait(self) -> None:
        if self.seconds > 0:
            sleep(self.seconds)
        if not self.called and (self._owner is None or not self._owner.dead):
            self()

    def __call__(self) -> None:
        """Make the call now, if it has not been made."""
        if self.called or self.tpl is None:
            return
        self.called = True
        self._hub._timers.pop(self, None)
        function, args, kwargs = self.tpl
        self.tpl = self._owner = None
        try:
            function(*args, **kwargs)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._hub.squelch_timer_exception(self, error)

    def cancel(self) -> None:
        """Never make the call; harmless if it has been made."""
        if not self.called:
            self.called = True
            self.tpl = self._owner = None
            self._hub._timers.pop(self, None)
            self._tasklet.kill(block=False)


class Listener:
    """Calls a function each time a descriptor is ready."""

    def __init__(self, hub: BaseHub, kind: str, fileno: int, function: Callable[[int], Any]) -> None:
        self.evtype, self.fileno, self.cb = kind, fileno, function
        self.greenlet = greenlets.getcurrent()
        self._hub = hub
        hub.listeners[kind].setdefault(fileno, []).append(self)
        self._tasklet = greenlets.Turn(self._wait)

    def _wait(self) -> None:
        wait = wait_readable if self.evtype == READ else wait_writable
        while wait(self.fileno) and self in self._hub.listeners[self.evtype].get(self.fileno, ()):
            try:
                self.cb(self.fileno)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                self._hub.remove(self)
                self._hub.squelch_generic_exception(sys.exc_info())
                return
            sleep()

    def defang(self) -> None:
        self._tasklet.kill(block=False)


class HubGreenlet:
    """The result of getcurrent() in a call that the hub makes."""

    dead = False
    parent = None

    def __init__(self, hub: BaseHub) -> None:
        self.switch = hub.switch

    def throw(self, *arguments: Any) -> None:
        raise greenlets.exception_of(arguments)


class BaseHub:
    """One for each OS thread; get_hub() returns it."""

    SYSTEM_EXCEPTIONS = (KeyboardInterrupt, SystemExit)
    READ, WRITE = READ, WRITE
    waits_in_our_loop = True  # tools/otherhubs.py need not warn

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or time.monotonic
        self.listeners: dict[str, dict[int, list[Listener]]] = {READ: {}, WRITE: {}}
        self._timers: dict[Timer, None] = {}
        self.greenlet = HubGreenlet(self)
        self.stopping = False
        self.running = False
        self.debug_exceptions = True
        self.debug_blocking = False
        self.debug_blocking_resolution: float = 1
        self.set_timer_exceptions(True)

    # -- waiting

    def switch(self) -> Any:
        """Stop the current green thread until one calls its switch(); return what it is given."""
        return park("hub.switch()")[1]

    def sleep(self, seconds: float = 0) -> None:
        sleep(seconds)

    wait = sleep

    def ensure_greenlet(self) -> None:
        """The loop runs whenever a green thread waits."""

    def abort(self, wait: bool = False) -> None:
        """Nothing to end: the loop runs only while a green thread waits."""
        if wait:
            sleep()

    # -- timers

    def schedule_call_global(
        self, seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Timer:
        """Call function(*args, **kwargs) in some seconds. Return a timer that has cancel()."""
        return Timer(self, seconds, function, args, kwargs)

    def schedule_call_local(
        self, seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Timer:
        """The same, unless the current green thread has ended by then."""
        return Timer(self, seconds, function, args, kwargs, greenlets.getcurrent())

    def get_timers_count(self) -> int:
        return len(self._timers)

    def timer_canceled(self, timer: Timer) -> None:
        timer.cancel()

    # -- descriptors

    def add(
        self,
        kind: str,
        fileno: int,
        function: Callable[[int], Any],
        tb: Any = None,
        mark_as_closed: Any = None,
    ) -> Listener:
        """Call function(fileno) whenever the descriptor is ready, until remove()."""
        return Listener(self, kind, fileno, function)

    def remove(self, listener: Listener) -> None:
        others = self.listeners[listener.evtype].get(listener.fileno, [])
        if listener in others:
            others.remove(listener)
            if not others:
                del self.listeners[listener.evtype][listener.fileno]
            listener.defang()

    def remove_descriptor(self, fileno: int) -> None:
        for kind in (READ, WRITE):
            for listener in list(self.listeners[kind].get(fileno, ())):
                self.remove(listener)

    def notify_close(self, fileno: int) -> None:
        self.remove_descriptor(fileno)

    def mark_as_reopened(self, fileno: int) -> None:
        self.remove_descriptor(fileno)

    def get_readers(self) -> list[Listener]:
        return [listener for some in self.listeners[READ].values() for listener in some]

    def get_writers(self) -> list[Listener]:
        return [listener for some in self.listeners[WRITE].values() for listener in some]

    # -- errors

    def set_debug_listeners(self, value: bool) -> None:
        """Stacks of listeners are not kept: a tasklet has its own."""

    def set_timer_exceptions(self, value: bool) -> None:
        self.debug_exceptions = _greenlet.show_errors = bool(value)

    def squelch_exception(self, fileno: int, exc_info: Any) -> None:
        self.squelch_generic_exception(exc_info)
        self.remove_descriptor(fileno)

    def squelch_timer_exception(self, timer: Timer, error: BaseException) -> None:
        greenlets.show(error)

    def squelch_generic_exception(self, exc_info: Any) -> None:
        if self.debug_exceptions:
            traceback.print_exception(*exc_info)
