"""asyncio: its loops are ours, unless the program has chosen others.

The interpreter notes one running loop per OS thread; under the patch each tasklet has its own. Since Python
3.14 the same is true of the current task, which was noted per loop before. So several tasklets can be in
asyncio.run() at the same time, as several threads can, also with other loops, whose waits are patched by
polling.py; uvloop's, which waits in C, as patch_native() does.
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
    """Takes away the notes of a tasklet's loop and its task while others run.

    The child of a fork runs no loop of its parent, so the note is not restored there.
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
    """asyncio takes long to import, and our loop imports it: so this waits until the program does."""
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
    """The parts of concurrent.futures that it needs have been imported by then."""
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
    """Its loop waits in C, for tasklets among others: the threads of its executor are some."""
    importlib.import_module("syncless.patches.libraries").patch_where_possible("uvloop", patcher)


def _warn_of_early_uvloop() -> None:
    """Its C code keeps asyncio's note of the running loop, and signal.set_wakeup_fd, as it found them."""
    warnings.warn(
        "uvloop was imported before the patch, so only one of its loops can run in this thread at a time; "
        "import it after patch_all(), or call it with syncless.run_in_thread()",
        RuntimeWarning,
        stacklevel=2,
    )


def _extract_stacks_directly(patcher: Patcher, traceback: Any) -> None:
    """Fact: in debug mode each future and handle notes the stack on which it is made, with source lines.
    Danger: under the patch files are read where others run meanwhile, and code that makes a future counts on
    nothing else running: wake-ups were lost. Decision: for stacks, files are read directly. Price: a slow
    disk blocks all. Guarded by
    tests/patches/test_asyncio.py::test_making_a_future_in_debug_mode_does_not_wait.
    """
    original = traceback.StackSummary.extract

    def extract(cls: type, *args: Any, **kwargs: Any) -> Any:
        """StackSummary.extract"""
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
    """Greenlets in which SQLAlchemy runs synchronous code of a task, and awaits by a switch to their parent.

    Fact: the parent is the greenlet in which the task began. Danger: our loop makes each step of a task on
    any carrier, so the switch went to a carrier that ran something else. Decision: the parent is the greenlet
    that last switched there. Guarded by tests/asyncio/test_libraries.py (sqlalchemy).
    """
    for name in ("sqlalchemy.util._concurrency_py3k", "sqlalchemy.util.concurrency"):
        when_imported(patcher, name, _change_parents)
