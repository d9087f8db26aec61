"""Stackless Python's API on today's CPython: tasklets, channels, and the I/O of syncless underneath.

A program written for Stackless runs with ``import syncless.stackless as stackless``, or unchanged after
``sys.modules["stackless"] = syncless.stackless``. docs/moving/stackless.md lists what greenlets cannot do.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any

from syncless._core.exits import TaskletExit
from syncless.stackless._channel import channel, get_channel_callback, set_channel_callback
from syncless.stackless._tasklet import (
    atomic,
    enable_softswitch,
    get_thread_info,
    getcurrent,
    getcurrentid,
    getdebug,
    getmain,
    getruncount,
    getthreads,
    getuncollectables,
    run,
    schedule,
    schedule_remove,
    switch_trap,
    tasklet,
)
from syncless.stackless._thread import bomb, get_schedule_callback, set_error_handler, set_schedule_callback

vars(builtins)["TaskletExit"] = TaskletExit  # as in Stackless, whose programs name it without an import

stackless = sys.modules[__name__]  # programs say `from stackless import *`, and then stackless.run()

_FRESH = {
    "current": getcurrent,
    "main": getmain,
    "runcount": getruncount,
    "threads": getthreads,
    "debug": getdebug,
    "uncollectables": getuncollectables,
}
"""Stackless's attributes that are always up to date. ``from stackless import *`` gives their present
values."""


def __getattr__(name: str) -> Any:
    # rather than a module class with properties, in which the interpreter would look up stackless.schedule at
    # each call
    if name in _FRESH:
        return _FRESH[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __reduce__() -> tuple[Any, ...]:
    # Stackless's module has it, and programs call it; pickle itself asks the type
    return importlib.import_module, (__name__,)


def __dir__() -> list[str]:
    return sorted([*globals(), *_FRESH])


__all__ = [
    "TaskletExit",
    "atomic",
    "bomb",
    "channel",
    "current",
    "enable_softswitch",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getdebug",
    "getmain",
    "getruncount",
    "getthreads",
    "getuncollectables",
    "main",
    "run",
    "runcount",
    "schedule",
    "schedule_remove",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "stackless",
    "switch_trap",
    "tasklet",
    "threads",
]
