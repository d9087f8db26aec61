"""Patches bdb, so that pdb stays in its own tasklet while it waits for a command (Python 3.14 and later).

Fact: a tool of sys.monitoring sees all code of an OS thread except that of tools, and bdb's
tracer asks only for its threading.Thread. Danger: while pdb waits for a command, other asyncio tasks of this
thread run; the tracer reports them, and a second prompt begins inside the first. Decision: a tracer reports
nothing while it is at work, as in a thread where nothing else can run meanwhile. And its thread is the one
that runs the loop, while other debuggers see a thread for each task (get_ident() in locks.pyx). Guarded by
tests/patches/test_tools.py::test_tasks_that_run_during_a_prompt_of_pdb_begin_no_other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from syncless.patches.registry import Patcher, when_imported

_at_work: set[int] = set()
"""By id, tracers that are calling pdb."""


def patch(patcher: Patcher, current_thread: Callable[[], object]) -> None:
    """`current_thread` returns the thread whose code a tracer reports."""

    def patch_tracer(patcher: Patcher, bdb: Any) -> None:
        tracer = getattr(bdb, "_MonitoringTracer", None)
        if tracer is None:  # before Python 3.14
            return
        patcher.member(
            tracer,
            "callback_wrapper",
            _unless_at_work(tracer.callback_wrapper),
            "reports what runs meanwhile",
        )
        names = SimpleNamespace(current_thread=current_thread)
        patcher.member_of_module(bdb, "threading", names, "takes each task for a thread")

    when_imported(patcher, "bdb", patch_tracer)


def _unless_at_work(wrap: Callable[..., Any]) -> Callable[..., Any]:
    def callback_wrapper(self: Any, function: Callable[..., Any], event: int) -> Any:
        @functools.wraps(function)
        def unless_at_work(*args: Any) -> Any:
            me = id(self)
            if me in _at_work:
                return None
            _at_work.add(me)
            try:
                return function(*args)
            finally:
                _at_work.discard(me)

        return wrap(self, unless_at_work, event)

    return callback_wrapper
