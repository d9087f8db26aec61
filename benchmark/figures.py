"""The figures of a result, and how people write them. Takes results as they are recorded; knows no page."""

from __future__ import annotations

import math
import statistics
from typing import Any

from benchmark.experiments import EXPERIMENTS

LARGER = {"ns": "µs", "µs": "ms", "ms": "s", "bytes": "kB"}
"""A unit -> a thousand of it."""


def of(peer: dict[str, Any], key: str) -> list[float]:
    """A figure in each round, empty where it was not measured."""
    rounds = [each | each["latency_ms"] for each in peer.get("rounds", ())]
    return [each[key] for each in rounds if key in each]


def middle(peer: dict[str, Any], key: str) -> float | None:
    found = of(peer, key)
    return statistics.median(found) if found else None


def ratio(result: dict[str, Any], peer: str, our: str, key: str = "cpu_us") -> float:
    """Our figure divided by the peer's: the median over the rounds, as both ran in each."""
    pairs = zip(of(result["peers"][our], key), of(result["peers"][peer], key))  # noqa: B905
    return statistics.median(ours / theirs for ours, theirs in pairs)


def compared(result: dict[str, Any], peer: str) -> list[str]:
    """Our rows that are compared with this peer, if it was measured."""
    rows = EXPERIMENTS[result["name"]].compared(peer) if "rounds" in result["peers"].get(peer, {}) else ()
    return [our for our in rows if "rounds" in result["peers"].get(our, {})]


def number(value: float) -> str:
    """Three digits, or all before the point: 0.171, 12.6, 137,785. Infinity stands for what never ended."""
    if math.isinf(value):
        return "failed"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def amount(value: float, unit: str) -> str:
    """With a unit in which it has at most three digits before the point: 56.3 s, not 56300 ms."""
    while 999.5 <= value < math.inf and unit in LARGER:
        value, unit = value / 1000, LARGER[unit]
    return number(value) if math.isinf(value) else f"{number(value)} {unit}".strip()
