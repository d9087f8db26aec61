"""Whether a run may be recorded: the machine must have been quiet, and the rounds of ours must agree.

Takes what /proc/stat says before, at the beginning and at the end of an experiment, and its result. It starts
no load and writes no file; __main__.py does that.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any, NamedTuple

SECONDS = 2.0
"""For which the machine is watched before a run."""
MOST_LOAD = 0.2
"""Processors that other programs may use before the run."""
MOST_STEAL = 0.02
"""Part of the run's CPU time that the hypervisor may give to other machines."""
MOST_SPREAD = 1.5
"""The most CPU time per request of a row of ours, or the longest latency, as a multiple of its least."""
STAT = pathlib.Path("/proc/stat")


class Times(NamedTuple):
    """CPU time of all processors since the start of the machine, in ticks."""

    used: int
    idle: int
    stolen: int
    processors: int

    @classmethod
    def of(cls, stat: str) -> Times:
        first, *others = stat.splitlines()
        user, nice, system, idle, waiting, irq, softirq, stolen = map(int, first.split()[1:9])
        processors = sum(line.startswith("cpu") for line in others)
        return cls(user + nice + system + irq + softirq, idle + waiting, stolen, processors)

    def since(self, before: Times) -> Times:
        return Times(*(now - then for now, then in zip(self[:3], before[:3], strict=True)), self.processors)

    def part(self, ticks: int) -> float:
        return ticks / max(1, self.used + self.idle + self.stolen)


def now() -> Times:
    return Times.of(STAT.read_text())


class Watch:
    """Looks at the machine for some seconds before a run, and from then to its end."""

    def __init__(self, times: Callable[[], Times] = now, wait: Callable[[float], None] = time.sleep):
        self._times = times
        before = times()
        wait(SECONDS)
        self._began = times()
        others = self._began.since(before)
        self.load_before = others.part(others.used + others.stolen) * others.processors

    def end(
        self, result: dict[str, Any], ours: tuple[str, ...] = (), agrees: str = "cpu_us"
    ) -> dict[str, float]:
        """What is kept with the result. `ours`: the rows whose rounds must agree in what `agrees` names."""
        run = self._times().since(self._began)
        found = {"load_before": round(self.load_before, 3), "steal": round(run.part(run.stolen), 4)}
        rounds = [
            result["peers"][name]["rounds"] for name in ours if "rounds" in result["peers"].get(name, ())
        ]
        if rounds:
            found["spread"] = round(
                max(spread([(one | one["latency_ms"])[agrees] for one in each]) for each in rounds), 3
            )
        return found


def spread(values: list[float]) -> float:
    return max(values) / min(values)


def refusals(conditions: dict[str, float]) -> list[str]:
    """Why a run under these conditions is not recorded; empty if it may be."""
    found = []
    if (load := conditions.get("load_before", 0)) > MOST_LOAD:
        found.append(f"other programs used {load:.2f} processors before it (at most {MOST_LOAD})")
    if (steal := conditions.get("steal", 0)) > MOST_STEAL:
        found.append(f"other machines took {steal:.1%} of the CPU time (at most {MOST_STEAL:.0%})")
    if (rounds := conditions.get("spread", 1)) > MOST_SPREAD:
        found.append(f"rounds of ours differ by a factor of {rounds:.2f} (at most {MOST_SPREAD})")
    return found


def commit() -> str:
    """The commit that is measured, with "-dirty" if files other than results differ from it; empty outside of
    a checkout."""
    name = _git("rev-parse", "--short=12", "HEAD").stdout.strip()
    return name and (name if is_as_in(name, ":/", ":!/benchmark/results") else f"{name}-dirty")


def is_as_in(commit: str, *paths: str) -> bool:
    """Whether these files of the checkout are those of the commit."""
    return _git("diff", "--quiet", commit, "--", *paths).returncode == 0


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    folder = pathlib.Path(__file__).parent
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
