"""Overview: everything that is known of a server, in one dict, and the figures of the last minutes.

The sources are the scoreboard, the master's knowledge of its workers, and the reports of their reporters. The
result can be written as JSON; docs/howto/operating.md describes it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import syncless
from syncless._core.allowance import pressure
from syncless.http.listener import SECONDS as BOUNDS
from syncless.server.status.scoreboard import PHASES, Scoreboard, figures_of
from syncless.tools.records import record

HISTORY = 120
"""Seconds of which the figures are kept, one sample each."""


@record(frozen=True)
class Process:
    """A process that serves or is about to serve, as seen by its master."""

    pid: int
    number: int
    """Its place among the workers, from 1; 0: there are none."""
    row: int
    state: str
    """starting, ready, stopping."""
    born: float
    beat: float
    """When its loop has last been seen running; both by the monotonic clock."""


class Program(Protocol):
    """The state of a server: a master with its workers, or one process."""

    @property
    def master(self) -> int | None: ...
    def processes(self) -> Sequence[Process]: ...
    def is_live(self) -> bool: ...
    def is_ready(self) -> bool: ...
    def urls(self) -> list[str]: ...


class Overview:
    """Overview(scoreboard, program)."""

    def __init__(self, scoreboard: Scoreboard, program: Program):
        self._scoreboard = scoreboard
        self._program = program
        self._started = time.time()
        self._last: dict[str, Any] | None = None
        self._last_at = 0.0
        self.history: deque[dict[str, float]] = deque(maxlen=HISTORY)

    def sample(self) -> None:
        """Add to the history. This is called once a second."""
        now, figures = time.monotonic(), self._scoreboard.sum()
        if self._last is not None and now > self._last_at:
            self.history.append(rates(self._last, figures, now - self._last_at))
        self._last, self._last_at = figures, now

    def now(self, reports: dict[int, tuple[dict[str, Any] | None, float]]) -> dict[str, Any]:
        """Return the overview. ``reports`` has each reporter's last report, and the seconds for which it has
        not responded (0: it responds)."""
        processes = self._program.processes()
        return {
            "syncless": syncless.__version__,
            "time": time.time(),
            "started": self._started,
            "urls": self._program.urls(),
            "master": self._program.master,
            "live": self._program.is_live(),
            "ready": self._program.is_ready(),
            "workers": [self._worker(one, reports.get(one.pid)) for one in processes],
            "totals": shown(self._scoreboard.sum()),
            "pressure": pressure(),
            "history": list(self.history),
        }

    def _worker(self, process: Process, told: tuple[dict[str, Any] | None, float] | None) -> dict[str, Any]:
        report, silent = told or (None, 0.0)
        now = time.monotonic()
        stands = max(0.0, now - process.beat)
        worker = {
            "pid": process.pid,
            "number": process.number,
            "state": process.state,
            "age_seconds": now - process.born,
            "answers": silent == 0.0,
            "silent_seconds": silent,
            "beat_seconds": stands,
        }
        return worker | shown(figures_of(self._scoreboard.row(process.row))) | (report or {"requests": []})


def shown(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures with units, and the sum of the connections."""
    told = {
        name: value for name, value in figures.items() if name not in (*PHASES, "latency", "pid", "requests")
    }
    told["connections"] = {"open": figures["connections"]} | {name: figures[name] for name in PHASES}
    for name in ("stalled", "longest_stall", "recent_stall", "cpu"):
        told[f"{name}_seconds"] = told.pop(f"{name}_ns") / 1e9
    told["utilization"] = told.pop("utilization_ppm") / 1e6
    told["answers_by_status"] = figures["requests"]
    told["answered"] = sum(figures["requests"].values())
    told["refused_by_status"] = told.pop("refused")
    told["latency"] = {
        "seconds": told.pop("latency_seconds"),
        "buckets": figures["latency"],
        "bounds": BOUNDS,
    }
    return told


def rates(before: dict[str, Any], after: dict[str, Any], seconds: float) -> dict[str, float]:
    """Return the events between two sums of the scoreboard, per second."""
    buckets = [b - a for a, b in zip(before["latency"], after["latency"], strict=True)]
    answered = sum(buckets)
    failed = sum(
        count - before["requests"].get(code, 0) for code, count in after["requests"].items() if code >= 500
    )
    refused = sum(after["refused"].values()) - sum(before["refused"].values())
    spent = after["latency_seconds"] - before["latency_seconds"]
    return {
        "requests": answered / seconds,
        "errors": failed / seconds,
        "refused": refused / seconds,
        "sent_bytes": (after["sent_bytes"] - before["sent_bytes"]) / seconds,
        "received_bytes": (after["received_bytes"] - before["received_bytes"]) / seconds,
        "mean_seconds": spent / answered if answered else 0.0,
        "p95_seconds": quantile(buckets, 0.95),
        "running": after["running"],
        "queued": after["queued"],
        "connections": after["connections"],
        "cpu": (after["cpu_ns"] - before["cpu_ns"]) / 1e9 / seconds,
        "utilization": after["utilization_ppm"] / 1e6,
    }


def quantile(buckets: Sequence[int], part: float) -> float:
    """Return the estimated latency, in seconds, below which that part of the requests was answered, or 0 for
    none. Like Prometheus, assume an even spread within each bucket."""
    wanted = sum(buckets) * part
    if not wanted:
        return 0.0
    below = 0
    for number, count in enumerate(buckets[:-1]):
        if count and below + count >= wanted:
            lower = BOUNDS[number - 1] if number else 0.0
            return float(lower + (BOUNDS[number] - lower) * (wanted - below) / count)
        below += count
    return float(BOUNDS[-1])
