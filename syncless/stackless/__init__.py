"""Stackless Python's API on today's CPython: tasklets, channels, and the I/O of syncless underneath.

``import syncless.stackless as stackless`` serves a program written for Stackless; so does
``sys.modules["stackless"] = syncless.stackless`` before it is imported. What greenlets cannot do is listed in docs/stackless.md.
"""

from __future__ import annotations

import sys
from types import ModuleType

from syncless._core.tasklet import TaskletExit
from syncless.stackless._channel import channel, get_channel_callback, set_channel_callback
from syncless.stackless._schedule import (
    atomic,
    enable_softswitch,
    get_thread_info,
    getcurrent,
    getcurrentid,
    getmain,
    getruncount,
    getthreads,
    run,
    schedule,
    schedule_remove,
    switch_trap,
)
from syncless.stackless._tasklet import bomb, get_schedule_callback, set_error_handler, set_schedule_callback, tasklet


class _Module(ModuleType):
    """What Stackless has as attributes is always fresh."""

    current = property(lambda self: getcurrent())
    main = property(lambda self: getmain())
    runcount = property(lambda self: getruncount())
    threads = property(lambda self: getthreads())


sys.modules[__name__].__class__ = _Module

__all__ = [
    "TaskletExit",
    "atomic",
    "bomb",
    "channel",
    "enable_softswitch",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getmain",
    "getruncount",
    "getthreads",
    "run",
    "schedule",
    "schedule_remove",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "switch_trap",
    "tasklet",
]
