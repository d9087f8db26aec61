"""The costs of a process: CPU time in nanoseconds, memory in bytes; and which cores it may use."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = CORES[0]
LOAD_CORE = CORES[-1]


def pinned(cores: int | list[int], command: list[str], **options) -> subprocess.Popen:
    """A process that runs on that core, or those, only."""
    listed = str(cores) if isinstance(cores, int) else ",".join(map(str, cores))
    return subprocess.Popen(["taskset", "-c", listed, *command], **options)


@contextmanager
def on_load_core() -> Iterator[None]:
    """This process itself is the load."""
    os.sched_setaffinity(0, {LOAD_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(CORES))


def room_for(connections: int) -> int:
    """How many of the `connections` this process may have. Raises its limit of open files
    as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = min(connections, hard - 200)
    if soft < connections + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (connections + 200, hard))
    return connections


def tree(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            for child in (task / "children").read_text().split():
                found += tree(int(child))
        except FileNotFoundError:
            pass  # it has just ended
    return found


def cpu_ns(pid: int) -> int:
    """CPU time of a process and its children so far, user and system, threads and children that have ended
    included.

    The process's own CPU clock is exact to the nanosecond; of children that have ended the kernel keeps
    ticks.
    """
    total = 0
    for process in tree(pid):
        try:
            total += time.clock_gettime_ns(
                ~process << 3 | 2
            )  # CPUCLOCK_SCHED of another process: linux/posix-timers.h
            ended = (
                pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[13:15]
            )  # cutime, cstime
            total += sum(map(int, ended)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        except OSError:
            pass  # a child that has just ended; its parent has its time
    return total


def private_bytes(pid: int) -> int:
    """Memory that belongs to the process alone, and to its children."""
    total = 0
    for process in tree(pid):
        for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += int(line.split()[1]) * 1024
    return total


def machine() -> dict[str, str]:
    """The machine on which the figures were measured."""
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": models[0] if models else "unknown",
        "cores": str(len(CORES)),
        "kernel": os.uname().release,
        "system": os.uname().sysname,
    }
