"""Experiment: one row of measurements, and how long they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmark.loads import Load
from benchmark.servers import Running


@dataclass
class Scale:
    """How long it takes."""

    seconds: int = 4  # of each wrk run
    requests: int = 100_000  # of each ab run
    rounds: int = 5
    idle: int = 10_000  # idle connections


@dataclass
class Experiment:
    name: str
    title: str
    application: str
    peers: tuple[str, ...]
    load: Callable[[Running, Scale], Load]
    targets: dict[str, float] = field(default_factory=dict)
    """peer -> the most that our CPU per request may be of the peer's"""
    ours: tuple[str, ...] = ("syncless",)
    """Rows of ours with which the peers are compared"""
    same_work: dict[str, str] = field(default_factory=dict)
    """peer -> the row of ours that does the same work, where not all do"""
    rates: dict[str, float] = field(default_factory=dict)
    """peer -> how many times its requests/s we want at least, where waiting is what bounds it"""
    agrees: str = "cpu_us"
    """Of a round of ours: what must agree with that of the others; "p99" where the load has a fixed rate, or
    takes a few hundredths of a second of CPU time"""
    note: str = ""
    """A sentence below the table"""

    def compared(self, peer: str) -> tuple[str, ...]:
        """The rows of ours with which a peer is compared."""
        return (
            ()
            if peer in self.ours or peer in self.same_work.values()
            else (self.same_work[peer],)
            if self.same_work
            else self.ours
        )
