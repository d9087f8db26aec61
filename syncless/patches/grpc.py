"""The waits of grpcio run in real OS threads: they are for threads of its own, so no hook can park there.

grpcio's Python code has a thread for each channel and each server that asks a completion queue for the next
event, in C. Under the patch such a thread is a tasklet, so the question itself moves to an OS thread and the
tasklet parks. All else of grpcio is locks and conditions of Python, which are cooperative.

A unary call has a queue of its own. If its tasklet is killed or late, the call is cancelled, and the thread
that still asks for its event ends.
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
