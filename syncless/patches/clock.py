"""Patches time.sleep, and os.sched_yield, which lets other threads run."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from syncless._core.cpython.functions import original_of
from syncless._core.current import may_park
from syncless._core.current import sleep as park_for
from syncless.patches.registry import Patcher

_sleep = original_of(time.sleep)
_sched_yield: Any = original_of(getattr(os, "sched_yield", None))


def sleep(seconds: Any, /) -> None:
    """Sleep like time.sleep, but park the tasklet, so that others run."""
    if not isinstance(seconds, (int, float)):
        for convert in ("__float__", "__index__"):
            if hasattr(seconds, convert):
                seconds = getattr(seconds, convert)()
                break
        if not isinstance(seconds, (int, float)):
            _sleep(seconds)  # a TypeError in the interpreter's words
            return
    if isinstance(seconds, float) and math.isnan(seconds):
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if seconds > 9_000_000_000:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")
    park_for(seconds)


def sched_yield() -> None:
    """os.sched_yield, for tasklets."""
    if may_park():
        park_for(0)
    else:
        _sched_yield()


def patch(patcher: Patcher) -> None:
    patcher.rebind(time, "sleep", sleep, "stops the thread")
    patcher.rebind(os, "sched_yield", sched_yield, "lets no tasklets run")
