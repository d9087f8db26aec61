"""Traces what the tasklets of a thread do and wait for, in the format of Chrome, which Perfetto opens.

The spans come from a Tracer and from a watch of the loop. The events are dicts, or text: a JSON array with an
event on each line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from syncless._core.current import sleep
from syncless._core.recorder import Tracer
from syncless.tools.blockers import Stall, Watch

HELD_SECONDS = 0.05
"""For which code may hold the loop before the trace names it."""
LINES = 500
"""Events that are written at once."""


def trace(seconds: float) -> list[dict[str, Any]]:
    """Return the events of the next seconds, while other tasklets run. Each tasklet is a thread of the trace;
    thread 0 shows the code that blocked the loop."""
    stalls: list[dict[str, Any]] = []

    def note(stall: Stall, has_ended: bool) -> None:
        if has_ended:
            began = time.monotonic() - stall.seconds
            found = {"cure": stall.cure, "place": stall.place}
            stalls.append(_span(0, f"held by {stall.blocker}", "stall", began, stall.seconds, found))

    tracer = Tracer()
    watch = Watch(HELD_SECONDS, note)
    tracer.start()
    try:
        sleep(seconds)
    finally:
        tracer.stop()
        watch.stop()
    events = [_name(number, name) for number, name in {0: "the loop", **tracer.names}.items()]
    for number, wait in tracer.found():
        kind = wait.why if wait.why in ("running", "ready") else "wait"
        found = {"on": wait.on, "place": wait.place} if wait.on or wait.file else {}
        events.append(_span(number, wait.what, kind, wait.since, wait.seconds, found))
    if tracer.dropped:
        events.append(_name(0, f"the loop ({tracer.dropped} more spans were dropped)"))
    return events + stalls


def _name(number: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": number, "args": {"name": name}}


def _span(number: int, name: str, kind: str, since: float, seconds: float, args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": os.getpid(),
        "tid": number,
        "ts": round(since * 1e6, 3),
        "dur": round(seconds * 1e6, 3),
        "args": args,
    }


def as_json(events: Iterable[dict[str, Any]]) -> list[str]:
    """Return the events as lines of JSON."""
    lines = [json.dumps(event) for event in events]
    return ["[\n", *(f"{line},\n" for line in lines[:-1]), *(f"{line}\n" for line in lines[-1:]), "]\n"]


def tell(seconds: float) -> None:
    """Write a trace of the next seconds to stdout, for the console."""
    lines = as_json(trace(seconds))
    for first in range(0, len(lines), LINES):
        sys.stdout.write("".join(lines[first : first + LINES]))
