"""A process that begins anew in the middle of another one: a worker of its master."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable, Iterable

from syncless.http.errorlog import process_log
from syncless.http.notices import flush

CRASHED = 70
"""Exit status after an exception that is our own fault (EX_SOFTWARE of sysexits.h)."""


def fork(work: Callable[[int], int], signals: Iterable[int], descriptors: Iterable[int]) -> tuple[int, int]:
    """A child that does the work and exits with what it returns; its number, and our end of a pipe. `work` is
    given the other end. The child has neither our handlers of the signals nor the descriptors. OSError."""
    flush()  # or the child would write it, too
    ours, theirs = os.pipe()
    # a signal that reached the child before it has left our handlers behind would be lost
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:  # here, or there is no child
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            os.close(theirs)
        if pid < 0:
            os.close(ours)
    if pid:
        return pid, ours
    code = CRASHED
    try:
        for fd in (ours, *descriptors):
            os.close(fd)
        _leave_behind(signals, unblocked)
        code = work(theirs)
    except BaseException as error:
        process_log().error("a process has failed:", error)
    finally:
        flush()
        os._exit(code)


def _leave_behind(signals: Iterable[int], unblocked: Iterable[int]) -> None:
    """Drops the parent's exit functions and signal handlers. Signals since the fork are delivered now."""
    atexit._clear()
    for number in signals:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
