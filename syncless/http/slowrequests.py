"""Slow requests: what the error log says of them.

Takes a request that ends, with what it has waited for (_core/recorder.pyx). Its time is running, its own code
and the C functions that it calls; the ready queue, where it could go on and others ran; and waits.
"""

from __future__ import annotations

from typing import Any

from syncless._core.recorder import recorded
from syncless._core.waits import Wait, in_words, longest
from syncless.http.errorlog import WARNING, ErrorLog

ROWS = 5
"""Of waits, in an entry of the log."""


def account(request: Any, seconds: float) -> dict[str, Any]:
    """Where the time of a request went, as JSON has it."""
    kept = recorded(request)
    waited, queued = (kept.waited_seconds, kept.queued_seconds) if kept else (0.0, 0.0)
    return {
        "request": request.name,
        "seconds": seconds,
        "running": max(0.0, seconds - waited - queued),
        "queued": queued,
        "waited": waited,
        "number": kept.number if kept else 0,
        "switches": request.switches,
        "waits": [wait._asdict() for wait in kept.kept()] if kept else [],
    }


def sentence(told: dict[str, Any]) -> str:
    number = told["number"]
    return (
        f"{told['request']} took {told['seconds']:.3f} s: {told['running']:.3f} s running, "
        f"{told['queued']:.3f} s in the ready queue, "
        f"{told['waited']:.3f} s in {number} wait{'' if number == 1 else 's'}"
    )


def rows(told: dict[str, Any]) -> list[str]:
    """The longest waits in words, then the rest."""
    found = longest(Wait(**wait) for wait in told["waits"])[:ROWS]
    left = told["number"] - sum(number for _, number in found)
    seconds = told["waited"] - sum(wait.seconds for wait, _ in found)
    rest = [f"{seconds:.3f} s in {left} further wait{'' if left == 1 else 's'}"] if left else []
    return [in_words(wait, number) for wait, number in found] + rest


class SlowRequests:
    """SlowRequests(seconds, log): requests that took as long are logged."""

    def __init__(self, seconds: float, log: ErrorLog):
        self.seconds = seconds
        self.log = log

    def ended(self, request: Any, seconds: float) -> None:
        told = account(request, seconds)
        head = f"Slow request: {sentence(told)}"
        self.log.entry(WARNING, head, None, request, rows(told), {"slow_request": told})
