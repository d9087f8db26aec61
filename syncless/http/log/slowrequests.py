"""Slow requests: reports them in the error log, and keeps the slowest of the last minutes.

The input is a request that ends, with the record of its waits (_core/recorder.pyx). Its time consists of
running (its own code and the C functions that it calls), of the ready queue (other tasklets ran) and of
waits.
"""

from __future__ import annotations

import time
from typing import Any

from syncless._core.recorder import recorded
from syncless._core.waits import Wait, in_words, longest
from syncless.http.log.errorlog import WARNING, ErrorLog

ROWS = 5
"""Of waits, in an entry of the log."""
KEPT_FROM = 0.1
"""Seconds. The slowest are among the requests that take as long."""
KEPT_FOR = 300.0
"""Seconds after its end for which a request is one of the slowest."""
KEPT = 10
KEPT_WAITS = 20
"""The longest, of each of them."""


def account(request: Any, seconds: float) -> dict[str, Any]:
    """Return how a finished request spent its time, for JSON. The `since` of a wait is its start, in seconds
    after the start of the request."""
    began = time.monotonic() - seconds
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
        "waits": [wait._replace(since=max(0.0, wait.since - began))._asdict() for wait in kept.kept()]
        if kept
        else [],
    }


def sentence(told: dict[str, Any]) -> str:
    number = told["number"]
    return (
        f"{told['request']} took {told['seconds']:.3f} s: {told['running']:.3f} s running, "
        f"{told['queued']:.3f} s in the ready queue, "
        f"{told['waited']:.3f} s in {number} wait{'' if number == 1 else 's'}"
    )


def rows(told: dict[str, Any]) -> list[str]:
    """Return the longest waits in words, and then the sum of the others."""
    found = longest(Wait(**wait) for wait in told["waits"])[:ROWS]
    left = told["number"] - sum(number for _, number in found)
    seconds = told["waited"] - sum(wait.seconds for wait, _ in found)
    rest = [f"{seconds:.3f} s in {left} further wait{'' if left == 1 else 's'}"] if left else []
    return [in_words(wait, number) for wait, number in found] + rest


class SlowRequests:
    """SlowRequests(seconds, log, keep): logs requests that took `log_seconds` (0: none), and with `keep`
    keeps the slowest. Callers need not report requests that took less than the attribute `seconds`."""

    def __init__(self, log_seconds: float, log: ErrorLog, keep: bool = False):
        self.log_seconds = log_seconds
        self.log = log
        self.keep = keep
        self.seconds = min(log_seconds or KEPT_FROM, KEPT_FROM) if keep else log_seconds
        self._slowest: list[dict[str, Any]] = []

    def ended(self, request: Any, seconds: float) -> None:
        """Note the end of a request. This may be called in any thread."""
        is_logged = 0 < self.log_seconds <= seconds
        slowest = self.slowest() if self.keep and seconds >= KEPT_FROM else None
        if slowest is not None and len(slowest) == KEPT and seconds <= slowest[-1]["seconds"]:
            slowest = None
        if not is_logged and slowest is None:
            return
        told = account(request, seconds)
        if is_logged:
            head = f"Slow request: {sentence(told)}"
            self.log.entry(WARNING, head, None, request, rows(told), {"slow_request": told})
        if slowest is not None:
            longest_waits = sorted(told["waits"], key=lambda wait: -wait["seconds"])[:KEPT_WAITS]
            waits = sorted(longest_waits, key=lambda wait: wait["since"])
            told |= {"id": request.id, "client": request.client, "at": time.time(), "waits": waits}
            self._slowest = sorted([*slowest, told], key=lambda one: -one["seconds"])[:KEPT]

    def slowest(self) -> list[dict[str, Any]]:
        """Return the slowest requests that ended in the last minutes, as `account` describes them."""
        since = time.time() - KEPT_FOR
        return [one for one in self._slowest if one["at"] > since]
