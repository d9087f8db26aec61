"""Runs the waits of grpcio in real OS threads: grpcio waits for its own threads, so no hook can park there.

In grpcio's Python code, each channel and each server has a thread that waits for the next event of a
completion queue, in C. Under the patch such a thread is a tasklet, so the wait itself moves to an OS thread
and the tasklet parks. Otherwise grpcio uses locks and conditions of Python, which are cooperative.

A unary call has its own queue. If its tasklet is killed or times out, the call is cancelled, and the thread
that still waits for its event ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless.patches.registry import Patcher

WHY = "waits for threads of C"
WAITS = (
    ("Channel", "next_call_event"),
    ("Channel", "watch_connectivity_state"),
    ("CompletionQueue", "poll"),
)

_pool = ThreadPool(1024)  # a wait may last as long as its channel or server


def _in_thread(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _pool.run(original, *args, **kwargs) if may_use_threads() else original(*args, **kwargs)

    return call


def patch(patcher: Patcher, cygrpc: Any) -> None:
    for kind, name in WAITS:
        owner = getattr(cygrpc, kind)
        patcher.member_in_place(owner, name, _in_thread(vars(owner)[name]), WHY)
    calls = cygrpc.SegregatedCall
    next_event = vars(calls)["next_event"]

    @functools.wraps(next_event)
    def cancelled_if_broken_off(self: Any) -> Any:
        if not may_use_threads():
            return next_event(self)
        try:
            return _pool.run(next_event, self)
        except BaseException:
            self.cancel(cygrpc.StatusCode.cancelled, "the tasklet was killed, or its deadline passed")
            raise

    patcher.member_in_place(calls, "next_event", cancelled_if_broken_off, WHY)
