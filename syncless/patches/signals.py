"""Waiting for signals: the kernel is asked every few milliseconds, because the standard library has no descriptor for a blocked signal."""

from __future__ import annotations

import signal
import time
from typing import Any

from syncless._core.tasklet import sleep
from syncless.patches.registry import Patcher

PAUSE = 0.005
"""Seconds between two looks for a signal."""

_sigtimedwait: Any = getattr(signal, "sigtimedwait", None)


def sigtimedwait(sigset: Any, timeout: float, /) -> Any:
    """signal.sigtimedwait, cooperative."""
    if timeout < 0:
        raise ValueError("timeout must be non-negative")
    wanted = list(sigset)
    until = time.monotonic() + timeout
    while True:
        found = _sigtimedwait(wanted, 0)
        if found is not None or time.monotonic() >= until:
            return found
        sleep(min(PAUSE, max(0.0, until - time.monotonic())))


def sigwaitinfo(sigset: Any, /) -> Any:
    """signal.sigwaitinfo, cooperative."""
    wanted = list(sigset)
    while True:
        found = _sigtimedwait(wanted, 0)
        if found is not None:
            return found
        sleep(PAUSE)


def sigwait(sigset: Any, /) -> signal.Signals:
    """signal.sigwait, cooperative."""
    return signal.Signals(sigwaitinfo(sigset).si_signo)


def patch(patcher: Patcher) -> None:
    for function in (sigtimedwait, sigwaitinfo, sigwait):
        if _sigtimedwait is not None:
            patcher.rebind(signal, function.__name__, function, "stops the thread")
