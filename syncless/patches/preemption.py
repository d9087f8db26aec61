"""Makes threads that compute, or that poll in a loop, let other threads run.

OS threads do so every few milliseconds, even in `while not event.is_set(): pass` or `while not done: pass`. A
tasklet that is a thread of the program, or its main thread, yields at the next line of its code after it has
run for HELD_NS of processor time without a wait. Requests and plain tasklets do not: their code may rely on
running alone between two waits.

Fact: a switch in a pending call delays all other pending calls, because they do not nest; a switch in a
signal handler delays nothing. Decision: a timer of the OS thread's processor time sends a signal, in whose
handler the tasklet yields. The timer runs while there are threads, and until the first signal after that.
Danger: our own code relies on running alone between two waits. Decision: while our code is on the stack, the
tasklet continues until the next signal. Guarded by tests/patches/test_preemption.py.

Price: a second of computing has 100 signals (none while all tasklets wait). CPython 3.11 took 6 us for each,
8 us with 20 callers on the stack, and 15 us with 100, which is 1.0006, 1.0008 and 1.0015 times the processor
time without signals. Two threads that pass items to each other took 1.00 times as long.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import os
from collections.abc import Callable
from types import FrameType
from typing import Any

from syncless._core.cpython.forkhooks import at_fork
from syncless._core.cpython.functions import original_of
from syncless._core.current import current, sleep, uninterrupted
from syncless._core.handling import OnTop, main_tasklet
from syncless._core.tasklet import Tasklet
from syncless.patches.types.cputimer import ProcessorTimer

HELD_NS = 20_000_000
"""As for stand-by threads (`held_seconds`)."""
NUMBER = getattr(_signal, "SIGRTMAX", 0) - 7
"""The signal: one that programs, debuggers and other libraries hardly use."""

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BEGINNINGS = {os.path.join(_OURS, "patches", "program.py"), os.path.join(_OURS, "apps", "loading.py")}
"""Run a program, and import an application: whatever has called them is neither."""
_signal_of, _getsignal = original_of(_signal.signal), original_of(_signal.getsignal)


class Preemption:
    """Preemption(is_thread): preempts the tasklets of this OS thread for which is_thread is true."""

    def __init__(self, is_thread: Callable[[Tasklet[Any]], bool]):
        self._is_thread = is_thread
        self._timer: ProcessorTimer | None = None
        self._runs = self.wanted = False
        """Whether the timer runs, and whether there are threads."""
        self._refused = False
        self._last = (0, 0)
        """The number of the tasklet that ran at the last signal, and how often it had gone on until then."""
        self._is_over = False
        self.rests = False
        """Whether nothing is preempted, because a schedule says when (syncless.testing)."""
        at_fork(at_first_use=self._forget)
        atexit.register(self._end)

    def start(self) -> None:
        """Start preemption, until stop(). This has no effect if the system has no such timer, if the program
        uses the signal, or in another OS thread than the main one, which alone handles signals."""
        if main_tasklet() is None:
            return
        self.wanted = True
        if self._timer is None and not self._refused and not self._is_over:
            self._refused = True
            try:
                if _getsignal(NUMBER) not in (_signal.SIG_DFL, self._tick):
                    return
                timer = ProcessorTimer(NUMBER)
                _signal_of(NUMBER, self._tick)
                _signal.siginterrupt(NUMBER, False)
                self._timer = timer
            except (OSError, ValueError):  # there is none, or this is not the main interpreter
                return
            self._refused = False
        if self._timer is not None and not self._runs:
            self._runs = True
            self._timer.set(HELD_NS // 2)  # it takes two signals to see that a tasklet has run all the time

    def stop(self) -> None:
        """Stop at the next signal, not immediately: most programs start another thread, and setting a timer
        is a system call."""
        self.wanted = False

    def _end(self) -> None:
        """Stop for good when the interpreter ends: it restores all signal handlers, so the next signal would
        kill the process."""
        self._is_over = True
        self._stop_now()
        self._timer = None

    def _stop_now(self) -> None:
        self._runs = False
        if self._timer is not None:
            self._timer.set(0)

    def _forget(self) -> None:
        """Forget the timer in the child of a fork, which has no timers."""
        self._timer, self._refused, self._runs, self.wanted = None, False, False, False

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if not self.wanted:
            self._stop_now()
            return
        me = None if self.rests else current()
        if isinstance(me, OnTop):
            return  # the tasklet in which the other signal came has not waited
        now = id(me), 0 if me is None else me.switches  # the tasklet itself would live until the next signal
        if me is None or now != self._last:
            self._last = now
        elif (me.is_main or self._is_thread(me)) and not _is_inside_ours(frame):
            self._last = 0, 0
            uninterrupted(sleep, 0)


def _is_inside_ours(frame: FrameType | None) -> bool:
    """Return whether our code is on the stack above the program's code, even if it has called the program
    again."""
    ours = []  # innermost first
    while frame is not None and frame.f_code.co_filename not in _BEGINNINGS:
        ours.append(frame.f_code.co_filename.startswith(_OURS))
        frame = frame.f_back
    while ours and ours[-1]:  # what began the thread
        ours.pop()
    return any(ours)
