"""The processors and memory that this process may use, and the time that it has waited for them. The numbers
change when the system's do.

A container is limited by its control group: cpu.max and memory.max of version 2, cpu.cfs_quota_us and
memory.limit_in_bytes of version 1, in its own group and in the groups above. Kubernetes may change the limits
while the container runs, so callers ask each time, and the files are read at most once a second. Without
these files, the processors are those on which the scheduler may run this process, and the memory is the
machine's.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator

from syncless._core.cpython.functions import original_of

# The interpreter's own, whatever is put in their place later (syncless.patches): none of these files waits.
_monotonic = time.monotonic
_open, _read, _close = original_of(os.open), original_of(os.read), original_of(os.close)
_affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)

RESOURCES = ("cpu", "memory", "io")
"""Those of which the system tells the pressure."""
STALLED = re.compile(r"^(some|full) .*\btotal=(\d+)", re.MULTILINE)
"""A line of a file of pressure, which ends with microseconds."""
SECONDS = 1.0
"""For which what was read counts."""
MOST_BYTES = 1 << 20
NO_LIMIT = 1 << 60
"""Bytes: version 1 of control groups has a number near 2**63 where there is no limit."""


class Allowance:
    """Allowance(root): the limits in the files below that folder."""

    def __init__(self, root: str = ""):
        self._root = root
        self._processors = self._memory = 0
        self._read_at = float("-inf")

    def processors(self) -> int:
        """Return the number of processors, at least 1. A fraction of a processor counts as one."""
        self._look()
        return self._processors

    def memory(self) -> int:
        """Return the memory in bytes."""
        self._look()
        return self._memory

    def pressure(self) -> dict[str, dict[str, float]]:
        """Return the pressure stall information of this process's control group: for each of RESOURCES, the
        seconds in which "some" threads waited for it, or all threads that had work ("full"). The result is
        empty if the system does not report it."""
        found = {}
        for resource in RESOURCES:
            texts = (self._text(f"{folder}/{resource}.pressure") for folder in self._folders(resource))
            if text := next(filter(None, texts), ""):
                found[resource] = {threads: int(total) / 1e6 for threads, total in STALLED.findall(text)}
        return found

    def _look(self) -> None:
        now = _monotonic()
        if now - self._read_at < SECONDS:
            return
        processors = len(_affinity(0)) if _affinity is not None else os.cpu_count() or 1
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for folder in self._folders("cpu"):
            quota, period = self._quota(folder)
            if quota > 0 and period > 0:
                processors = min(processors, -(-quota // period))
        for folder in self._folders("memory"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                limit = _number(self._text(f"{folder}/{name}"))
                if 0 < limit < NO_LIMIT:
                    memory = min(memory, limit)
        self._processors, self._memory, self._read_at = processors, memory, now

    def _quota(self, folder: str) -> tuple[int, int]:
        """Return the processor time per period and the period, in microseconds; 0 means no limit."""
        quota, _, period = self._text(f"{folder}/cpu.max").partition(" ")
        if not quota:
            quota = self._text(f"{folder}/cpu.cfs_quota_us")
            period = self._text(f"{folder}/cpu.cfs_period_us")
        return _number(quota), _number(period)

    def _folders(self, controller: str) -> Iterator[str]:
        """Yield the visible folders of this process's group and of the groups above it."""
        groups = [line.split(":", 2) for line in self._text("/proc/self/cgroup").splitlines()]
        for line in self._text("/proc/self/mountinfo").splitlines():
            mount, _, system = line.partition(" - ")
            kind, _, options = system.partition(" ")
            if kind == "cgroup":
                wanted = [path for _, names, path in groups if controller in names.split(",")]
                if controller not in options.rpartition(" ")[2].split(","):
                    continue
            elif kind == "cgroup2":
                wanted = [path for number, names, path in groups if number == "0" and not names]
            else:
                continue
            root, top = map(_unescape, mount.split(" ")[3:5])
            for path in wanted:
                yield from _upwards(top, _below(root, path))

    def _text(self, path: str) -> str:
        """Return the text of a file, or "" if it does not exist."""
        try:
            fd = _open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            text = b""
            while len(text) < MOST_BYTES and (piece := _read(fd, 1 << 16)):
                text += piece
            return text.decode(errors="replace").strip()
        except OSError:
            return ""
        finally:
            _close(fd)


def _number(text: str) -> int:
    """Return the number in the text, or 0 if there is none ("max", "-1", "")."""
    return int(text) if text.isdecimal() else 0


def _unescape(text: str) -> str:
    """Return a field of mountinfo without escapes, such as \\040 for a space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _below(root: str, path: str) -> str:
    """Return the path of a group below a mount of `root`, or "" if the group is outside it."""
    root = root.rstrip("/")
    inside = path == root or path.startswith(f"{root}/")
    return path[len(root) :] if inside and ".." not in path.split("/") else ""


def _upwards(top: str, path: str) -> Iterator[str]:
    """Yield the folder of a group and the folders above it, up to `top`."""
    path = path.rstrip("/")
    while path:
        yield top + path
        path = path.rpartition("/")[0]
    yield top


_own = Allowance()
processors, memory, pressure = _own.processors, _own.memory, _own.pressure
