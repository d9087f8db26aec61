"""Experiment: one row of measurements, and how long they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmark.loads import Load
from benchmark.servers import Running


@dataclass
class Scale:
    """How long it takes."""

    seconds: int = 4  # of each wrk run
    requests: int = 100_000  # of each ab run
    rounds: int = 5
    idle: int = 10_000  # idle connections


class Measure(NamedTuple):
    """The figure of a round that the bars of an experiment show."""

    key: str
    verb: str
    what: str
    text: str
    unit: str
    more_is_better: bool = False

    @property
    def note(self) -> str:
        return f"{self.text}; {'more' if self.more_is_better else 'less'} is better"


CPU = Measure("cpu_us", "needs", "CPU time", "CPU time per request", "µs")
RATE = Measure("rate", "serves", "requests", "requests per second", "", more_is_better=True)
P99 = Measure("p99", "has", "latency", "latency, 99th percentile", "ms")
MEMORY = Measure("bytes per idle connection", "needs", "memory", "memory per idle connection", "bytes")


@dataclass
class Experiment:
    name: str
    title: str
    """A name, a colon, and the load, such as: Hello: `wrk -t1 -c50`"""
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
    measure: Measure = CPU
    note: str = ""
    """A sentence below the table"""

    @property
    def heading(self) -> str:
        return self.title.partition(": ")[0]

    @property
    def load_text(self) -> str:
        return self.title.partition(": ")[2]

    def compared(self, peer: str) -> tuple[str, ...]:
        """The rows of ours with which a peer is compared."""
        return (
            ()
            if peer in self.ours or peer in self.same_work.values()
            else (self.same_work[peer],)
            if self.same_work
            else self.ours
        )
