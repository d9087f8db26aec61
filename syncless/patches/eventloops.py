"""Makes asyncio use our loops, unless the program has chosen others.

The interpreter records one running loop per OS thread; under the patch each tasklet has its own. Since Python
3.14 the same is true of the current task, which used to be recorded per loop. So several tasklets can be in
asyncio.run() at the same time, like several threads. This holds for other loops, too: polling.py patches
their waits, except in uvloop, whose waits in C are patched as by patch_native().
"""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import partial
from typing import Any

import greenlet  # type: ignore[import-untyped]

from syncless._core.cpython.features import THREAD_HAS_CURRENT_TASK
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import current, directly
from syncless.patches.registry import Patcher, when_imported
from syncless.tools.otherhubs import watch_hubs
from syncless.tools.runningloop import note_of_running_loop, swap_current_task

_forks = 0
"""Number of forks between the first process and this one."""


def _after_fork_in_child() -> None:
    global _forks
    _forks += 1


at_fork(in_child=_after_fork_in_child)


class _Running:
    """Removes asyncio's records of a tasklet's loop and task while other tasklets run.

    The child of a fork does not run the loop of its parent, so the records are not restored there.
    """

    def __init__(self, loop: Any, note: Any):
        self.loop = loop
        self.note = note
        self.task: Any = None
        self.forks = _forks

    def __call__(self, leaving: bool) -> None:
        if leaving:
            if THREAD_HAS_CURRENT_TASK:
                self.task = swap_current_task(self.loop, None)
            self.note(None)
        elif self.forks == _forks:
            self.note(self.loop)
            if self.task is not None:
                swap_current_task(self.loop, self.task)
                self.task = None


def _note_per_tasklet(patcher: Patcher, events: Any) -> None:
    note = note_of_running_loop(events)

    def set_running_loop(loop: Any, /) -> None:
        """asyncio._set_running_loop"""
        note(loop)
        tasklet = current()
        if tasklet is not None:
            tasklet.set_switch_hook(None if loop is None else _Running(loop, note))

    patcher.rebind(events, "_set_running_loop", set_running_loop, "notes it for all tasklets of a thread")
    running = events._get_running_loop()
    if running is not None:  # a notebook patches inside its loop
        set_running_loop(running)


def _install_loop(patcher: Patcher, asyncio: Any) -> None:
    """Install our loop only when the program imports asyncio, which takes long to import."""
    was_there = sys.modules.get("syncless.asyncio.eventloop")
    background: Any = importlib.import_module("syncless.asyncio.backgroundloop")
    if was_there is None or not was_there.is_mended():
        ours = sys.modules["syncless.asyncio.eventloop"]
        ours.mend_uncancel(True)
        patcher.at_undo(partial(ours.mend_uncancel, False))
    if not background.HAS_POLICIES:  # since Python 3.16
        for function in background.EventLoopPolicy().functions():
            why = "makes loops that a call which blocks stops"
            patcher.rebind(asyncio.events, function.__name__, function, why)
        return
    chosen = asyncio.events._event_loop_policy
    if chosen is not None and type(chosen) is not background.DefaultPolicy:
        return
    policy = background.EventLoopPolicy()

    def restore() -> None:
        if asyncio.events._event_loop_policy is policy:
            asyncio.events._event_loop_policy = chosen

    asyncio.events._event_loop_policy = policy
    patcher.note(
        "asyncio.events._event_loop_policy", policy, "makes loops that a call which blocks stops", restore
    )


def _run_in_real_threads(patcher: Patcher, base_events: Any) -> None:
    """Make real OS threads the default executor of loops, after concurrent.futures has been imported."""
    executor_type: Any = importlib.import_module("syncless.tools.realthreads").RealThreadPoolExecutor
    loop_type = base_events.BaseEventLoop
    original = loop_type.run_in_executor

    def run_in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
        """BaseEventLoop.run_in_executor"""
        if executor is None and self._default_executor is None and not self._executor_shutdown_called:
            self._default_executor = executor_type(thread_name_prefix="asyncio")
        return original(self, executor, func, *args)

    patcher.member(loop_type, "run_in_executor", run_in_executor, "calls in tasklets what may wait in C")


def _let_uvloop_park(patcher: Patcher, module: Any) -> None:
    """Let uvloop's loop park while it waits in C for tasklets, such as those of its executor."""
    importlib.import_module("syncless.patches.libraries").patch_where_possible("uvloop", patcher)


def _warn_of_early_uvloop() -> None:
    """Warn that uvloop was imported too early: its C code has stored unpatched functions of asyncio and
    signal."""
    warnings.warn(
        "uvloop was imported before the patch, so only one of its loops can run in this thread at a time; "
        "import it after patch_all(), or call it with syncless.run_in_thread()",
        RuntimeWarning,
        stacklevel=2,
    )


def _extract_stacks_directly(patcher: Patcher, traceback: Any) -> None:
    """Fact: in debug mode each future and handle records the stack on which it is made, with source lines.
    Danger: under the patch other tasklets run while files are read, but code that makes a future relies on
    running alone, and lost wake-ups. Decision: for stacks, files are read directly, but not for the traceback
    of an exception, which asks for its lines. Price: a slow disk blocks all tasklets. Guarded by
    tests/patches/test_asyncio.py::test_making_a_future_in_debug_mode_does_not_wait and
    test_formatting_an_exception_lets_others_run.
    """
    original = traceback.StackSummary.extract

    def extract(cls: type, *args: Any, **kwargs: Any) -> Any:
        """StackSummary.extract"""
        if kwargs.get("lookup_lines"):  # Python 3.10: by TracebackException
            return original.__func__(cls, *args, **kwargs)
        return directly(original.__func__, cls, *args, **kwargs)

    why = "waits where a future is made in debug mode"
    patcher.member(traceback.StackSummary, "extract", classmethod(extract), why)


def patch(patcher: Patcher) -> None:
    watch_hubs()
    if "uvloop.loop" in sys.modules:
        _warn_of_early_uvloop()
    when_imported(patcher, "traceback", _extract_stacks_directly)
    when_imported(patcher, "asyncio.events", _note_per_tasklet)
    when_imported(patcher, "asyncio.base_events", _run_in_real_threads)
    when_imported(patcher, "asyncio", _install_loop)
    when_imported(patcher, "uvloop.loop", _let_uvloop_park)
    _mend_child_greenlets(patcher)


def _switch(self: Any, *args: Any, **kwargs: Any) -> Any:
    """greenlet.switch"""
    _come_back_here(self)
    return greenlet.greenlet.switch(self, *args, **kwargs)


def _throw(self: Any, *args: Any) -> Any:
    """greenlet.throw"""
    _come_back_here(self)
    return greenlet.greenlet.throw(self, *args)


def _come_back_here(child: Any) -> None:
    here = greenlet.getcurrent()
    if child.parent is not here and not child.dead:
        child.parent = here


def _change_parents(patcher: Patcher, module: Any) -> None:
    kind: Any = getattr(module, "_AsyncIoGreenlet", None)  # SQLAlchemy 2.0
    if kind is None:
        kind = getattr(getattr(module, "_concurrency_shim", None), "_AsyncIoGreenlet", None)  # 2.1
    if isinstance(kind, type):
        why = "switches back to the greenlet in which its task began"
        patcher.member(kind, "switch", _switch, why)
        patcher.member(kind, "throw", _throw, why)


def _mend_child_greenlets(patcher: Patcher) -> None:
    """Fix the greenlets in which SQLAlchemy runs the synchronous code of a task, and which await by switching
    to their parent.

    Fact: the parent is the greenlet in which the task began. Danger: our loop runs each step of a task on any
    carrier, so the switch went to a carrier that ran something else. Decision: the parent becomes the
    greenlet that last switched there. Guarded by tests/asyncio/test_libraries.py (sqlalchemy).
    """
    for name in ("sqlalchemy.util._concurrency_py3k", "sqlalchemy.util.concurrency"):
        when_imported(patcher, name, _change_parents)
