"""Time that passes only where nothing can go on: it jumps to the next timer then.

Takes: the loop's moments in which nothing is ready. Gives: `virtual_time()`, in which the engine's clock and
those of the standard library stand still while anything runs. It must not know of schedules.

Fact: a job in another thread and an event of a descriptor come when they do. Danger: time jumps over a
timeout while the result is under way, and a correct test fails. Decision: time stands still while a job
runs, and GRACE real seconds longer if a descriptor is awaited. Price: such a jump takes as long.

Fact: files and SQLite are read and written in such jobs. Danger: tests of them differ from run to run, as the
jobs end sooner or later. Decision: a job has PATIENCE real seconds to end before others run, and
longer while a thread computes or waits for a processor or a disk, as on a busy machine. Then it is noted.
Price: a statement that waits for a locked database holds everything as long.

Danger: two kinds of programs wait for ever for a clock that stands still: those that read it again and again,
and those that let others run again and again. Decision: after LOOKS readings or SPINS polls in which nothing
has waited, it goes on by a millisecond, then by two, and so on.
"""

from __future__ import annotations

import _thread
import datetime
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from syncless._core.calls import threads
from syncless._core.clock import get_virtual, set_virtual
from syncless._core.cpython.functions import original_of, take_place
from syncless._core.cpython.replacing import set_in_type
from syncless._core.current import directly, sleep
from syncless._core.handling import main_tasklet
from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import current_loop
from syncless.debug import Deadlock, format_stuck
from syncless.testing.choices import Quiet, awaited_descriptors, next_deadline_of

GRACE, LONGEST = 0.001, 10.0
"""Real seconds: how long descriptors get before time jumps, and how long they and other threads do if there
is no timer."""
PATIENCE, BUSY = 0.02, 1.0
"""Real seconds that a call in an OS thread may take before the report names it, and at most while others do
something."""
NOISE = 20_000
"""Nanoseconds that pass between two readings of a clock, at most."""
inside: list[Callable[[int], bool]] = []
"""Functions that say whether only this process can wake a descriptor: it gets GRACE, also without a timer."""
before_polls: list[Callable[[], None]] = []
"""Functions that wait until what this process has sent to itself has arrived."""
SECOND, MILLISECOND = 10**9, 10**6
LOOKS, SPINS = 10_000, 100

_sleep = original_of(time.sleep)
_process_time_ns, _thread_time_ns = original_of(time.process_time_ns), original_of(time.thread_time_ns)
_time_ns = original_of(time.time_ns)
_monotonic_ns = original_of(time.monotonic_ns)
_current_frames, _get_ident = original_of(sys._current_frames), original_of(_thread.get_ident)


class Clock:
    """The virtual clock of this thread's loop, while it is on: there is one in the process."""

    def __init__(self, body: Tasklet[Any] | None = None) -> None:
        self.body = body
        self.outside: set[str] = set()
        """Names of waits for something that has a clock of its own."""
        self._loop = current_loop()
        self._looks = self._spins = self._rounds = 0
        self._quiet = Quiet(self._when_quiet)
        self._known = set(_current_frames())

    def start(self) -> None:
        """Time stands still at the next whole second from now on."""
        loop = self._loop
        self._before = loop.when_idle, loop.idle_or_not, loop.timer_slack
        begin = -(-_monotonic_ns() // SECOND) * SECOND
        self.offset: int = -(-_time_ns() // SECOND) * SECOND - begin
        loop.when_idle, loop.idle_or_not, loop.timer_slack = self._when_idle, True, 0
        threads.settle = self._settle
        set_virtual(begin)

    def stop(self) -> None:
        set_virtual(-1)
        threads.settle = None
        self._loop.when_idle, self._loop.idle_or_not, self._loop.timer_slack = self._before

    def monotonic_ns(self) -> int:
        """As the program reads it."""
        self._looks += 1
        if self._looks > LOOKS:
            set_virtual(get_virtual() + (self._looks - LOOKS) * MILLISECOND)
        return get_virtual()

    def is_of_this_thread(self) -> bool:
        """Return whether this thread has this clock, or runs a call for one that has."""
        ident = _get_ident()
        return ident == self._loop.thread_id or ident in threads.workers

    def _when_idle(self, loop: Loop) -> None:
        """Before each poll."""
        for arrive in before_polls:
            arrive()
        if loop.ready_count:
            self._spins += 1
            self._rounds = 0
            if self._spins > SPINS:
                set_virtual(get_virtual() + (self._spins - SPINS) * MILLISECOND)
        elif not loop.jobs:
            if self._before[0] is not None:
                self._before[0](loop)
            self._quiet.look(loop)

    def _when_quiet(self, loop: Loop) -> None:
        """No event has come, either."""
        if loop.jobs:
            return
        when = next_deadline_of(loop)
        awaited, others = awaited_descriptors(loop), self._has_new_threads()
        waited = self._rounds * GRACE / 5
        if (awaited or others) and waited < self._grace(awaited, others, when):
            self._rounds += 1
            _sleep(GRACE / 5)
            return
        self._looks = self._spins = self._rounds = 0
        if when is not None:
            set_virtual(max(when, get_virtual()))
        elif (main := self.body or main_tasklet()) is not None and main.status == "waiting":
            main.kill(Deadlock(_stuck(loop)), block=False)

    def _grace(self, awaited: list[int], others: bool, when: int | None) -> float:
        if when is None and (others or not all(any(knows(fd) for knows in inside) for fd in awaited)):
            return LONGEST
        return GRACE

    def _has_new_threads(self) -> bool:
        """Return whether an OS thread has begun since that may wake a tasklet."""
        idle = sum(len(pool._idle) for pool in threads._used if not pool._backlog)
        return len(_current_frames().keys() - self._known) > idle

    def _settle(self, has_ended: Callable[[], bool]) -> None:
        waited, pause, spent = 0.0, PATIENCE / 1000, -NOISE
        while not has_ended():
            if waited > PATIENCE:
                before, spent = spent, _process_time_ns() - _thread_time_ns()
                if waited > BUSY or (spent - before < NOISE and not directly(_has_running_threads)):
                    self.outside.add("calls in OS threads")
                    break
            _sleep(pause)
            waited += pause
            pause = min(pause * 1.2, PATIENCE)


def _has_running_threads() -> bool:
    """Return whether another OS thread of this process computes, or waits for a processor or for a disk. One
    that waits for the GIL seems to sleep."""
    own = str(_thread.get_native_id())
    with suppress(OSError):
        for number in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{number}/stat", "rb") as stat:
                if stat.read().rpartition(b") ")[2][:1] in (b"R", b"D") and number != own:
                    return True
    return False


def _stuck(loop: Loop) -> str:
    waiting = [each for each in loop.tasklets() if each.status == "waiting"]
    return f"nothing can go on\n{format_stuck(waiting, stacks=False)}".rstrip()


_clock: Clock | None = None


def active_clock() -> Clock:
    """Return the clock that is on. Raise RuntimeError if there is none."""
    if _clock is None:
        raise RuntimeError("this needs virtual time: use it in a test with schedules, or in virtual_time()")
    return _clock


def is_on() -> bool:
    """Return whether time is virtual."""
    return _clock is not None


def _is_off() -> bool:
    """Return whether this thread reads the system's clock."""
    clock = _clock  # another thread may turn it off meanwhile
    return clock is None or not clock.is_of_this_thread()


def _now() -> int:
    return active_clock().monotonic_ns()


def _wall() -> int:
    clock = active_clock()
    return clock.monotonic_ns() + clock.offset


def _read(clock: Callable[[], int]) -> Callable[[], float]:
    return lambda: clock() / SECOND


def _with_now(name: str, argument: int) -> Callable[..., Any]:
    """Return the function of the module time, whose last argument is the present time if it is missing."""
    original = original_of(getattr(time, name))

    def function(*args: Any) -> Any:
        if len(args) <= argument or args[argument] is None:
            present: Any = _wall() // SECOND
            if name in ("asctime", "strftime"):
                present = time.localtime(present)
            args = (*args[:argument], present)
        return original(*args)

    return function


def _at(present: int, kind: type[datetime.datetime], zone: datetime.tzinfo | None) -> datetime.datetime:
    return kind.fromtimestamp(present // SECOND, zone).replace(microsecond=present % SECOND // 1000)


def _datetime_now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return _at(_wall(), cls, tz)


def _datetime_utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    return _at(_wall(), cls, datetime.timezone.utc).replace(tzinfo=None)


def _replacements() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for names, clock in (("monotonic perf_counter", _now), ("time", _wall)):
        for name in names.split():
            found |= {name: _read(clock), f"{name}_ns": clock}
    for name, argument in {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}.items():
        found[name] = _with_now(name, argument)
    return found


@contextmanager
def clocks_replaced() -> Iterator[None]:
    """In the block the clocks of the standard library are the virtual one, which must be on when they are
    read by a tasklet; while it is not, they are their own."""
    undo: list[Callable[[], object]] = []
    try:
        for name, function in _replacements().items():
            original = getattr(time, name)
            restore = take_place(original, _unless_off(function, original_of(original)))
            if restore is not None:
                undo.append(restore)
        for name, method in {"now": _datetime_now, "utcnow": _datetime_utcnow}.items():
            before = vars(datetime.datetime)[name]
            set_in_type(datetime.datetime, name, classmethod(_method_unless_off(method, before)))
            undo.append(partial(set_in_type, datetime.datetime, name, before))
        yield
    finally:
        for step in reversed(undo):
            step()


def _unless_off(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def either(*args: Any, **kwargs: Any) -> Any:
        return (original if _is_off() else function)(*args, **kwargs)

    return either


def _method_unless_off(method: Callable[..., Any], before: Any) -> Callable[..., Any]:
    def either(cls: type, *args: Any, **kwargs: Any) -> Any:
        if _is_off():
            return before.__get__(None, cls)(*args, **kwargs)
        return method(cls, *args, **kwargs)

    return either


@contextmanager
def clock_on(clock: Clock) -> Iterator[Clock]:
    """In the block this clock is on."""
    global _clock
    if _clock is not None:
        raise RuntimeError("time is virtual already")
    clock.start()
    _clock = clock
    try:
        yield clock
    finally:
        _clock = None
        with suppress(BaseException):
            clock.stop()


@contextmanager
def virtual_time() -> Iterator[None]:
    """In the block time stands still while any tasklet of this thread can go on, and jumps to the next timer
    when all wait: sleeps and timeouts take no time. The clocks of `time` and `datetime` agree with it.

    Time stands still while a call runs in another thread. Other threads and processes have the system's
    clock. With the patch (`patch_all()`), threads are tasklets and have the virtual one.
    """
    with clocks_replaced(), clock_on(Clock()):
        yield


def advance(seconds: float) -> None:
    """Let that much virtual time pass, and everything happen that is due until then."""
    active_clock()
    if seconds:
        sleep(seconds)
    until_idle()


def until_idle() -> None:
    """Wait until all other tasklets wait for time to pass, for a descriptor or for one another."""
    active_clock()
    sleep(1e-9)
