"""Native handlers in two threads beside one: CPU time, instructions and system calls of a request, and waits
for locks.

``python -m benchmark scaling`` measures. The load shares the machine's cores, so rates say little. The cost
of a request depends on the core of its client, because a wake-up on another core is dear. So each thread has
a core of its own, and the same four clients, two on each core, ask all threads.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmark.instructions import kept, per_request
from benchmark.loads import FEW, Load, wrk
from benchmark.measure import CORES
from benchmark.servers import PEERS, Absent, Running

THREADS = {"one thread": 1, "two threads": 2}
OPERATIONS = {
    "cpu": ("CPU time of a request, µs", 1.03),
    "instructions": ("instructions of a request, in user space", 1.03),
    "calls": ("system calls of its thread", None),
    "waits": ("waits for locks (futex), all requests together", None),
    "requests": ("requests in which they were counted", None),
}
"""a cost -> its name in the table, and the largest ratio of two threads to one"""
PARTS = ["cpu", "instructions", "waits"]
CLIENTS = 4
CONNECTIONS = 40


def peer_of(threads: int) -> str:
    return f"syncless native, {threads}"


def cpu(threads: int, seconds: int) -> dict[str, float]:
    """Each thread on a core, and as many clients on each core."""
    peer = replace(PEERS[peer_of(threads)], cores=2)
    with Running(peer, "hello") as server, ThreadPoolExecutor(CLIENTS) as clients:
        for thread, core in zip(sorted(native_threads(server.process.pid)), CORES):  # noqa: B905
            os.sched_setaffinity(int(thread), {core})

        def client(number: int) -> Load:
            cores = [CORES[number % len(CORES)]]
            return wrk(server.port, seconds, CONNECTIONS // CLIENTS, headers=FEW, cores=cores)

        began = server.cpu_ns
        loads = list(clients.map(client, range(CLIENTS)))
        used = server.cpu_ns - began
    failed = [load.raw for load in loads if load.errors]
    if failed:
        raise AssertionError(f"requests have failed:\n{failed[0]}")
    return {"cpu": used / sum(load.requests for load in loads) / 1000}


def instructions(threads: int, requests: int) -> dict[str, float]:
    """One request at a time, on connections of all threads in turn."""
    command = PEERS[peer_of(threads)].command
    return {"instructions": per_request(kept(CONNECTIONS), requests, lambda port: command(port, "hello")[1:])}


def native_threads(pid: int) -> set[str]:
    """The ids of those that answer."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return {task.name for task in tasks if (task / "comm").read_text().startswith("syncless native")}


def attached(pid: int) -> bool:
    """Whether each of its threads is traced."""
    statuses = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return all("TracerPid:\t0\n" not in status for status in statuses)


def waits(threads: int, seconds: int) -> dict[str, float]:
    """The system calls of the threads that answer, as strace sees them."""
    if shutil.which("strace") is None:
        raise Absent("strace is not installed")
    with Running(PEERS[peer_of(threads)], "hello") as server, tempfile.NamedTemporaryFile("r") as seen:
        pid = server.process.pid
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", seen.name, "-p", str(pid)])
        end = time.monotonic() + 20
        while not attached(pid):
            if tracer.poll() is not None or time.monotonic() > end:
                raise Absent("strace cannot trace the server")
            time.sleep(0.01)
        load = wrk(server.port, seconds, connections=CONNECTIONS, headers=FEW, threads=2)
        answering = native_threads(pid)
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        found: Counter[str] = Counter()
        busy = set()
        for line in seen:
            thread, name = re.match(r"(\d+) +(?:<\.\.\. )?(\w+)?", line).groups()
            if thread in answering and name and "<unfinished" not in line:
                found[name] += 1
                busy.add(thread)
    if len(busy) != threads:
        raise AssertionError(f"{len(busy)} of {threads} threads have answered")
    return {
        "calls": sum(found.values()) / load.requests,
        "waits": found["futex"],
        "requests": load.requests,
    }


def measure(threads: int, part: str, divisor: int) -> dict[str, float]:
    seconds = max(1, 2 // divisor)
    if part == "cpu":
        return cpu(threads, seconds)
    if part == "instructions":
        return instructions(threads, max(400, 4000 // divisor))
    return waits(threads, seconds)


if __name__ == "__main__":
    PEERS[peer_of(1)].version()  # compiles the handlers
    os.environ.setdefault("PYTHONHASHSEED", "0")
    print(json.dumps(measure(THREADS[sys.argv[1]], sys.argv[2], int(sys.argv[3]))), flush=True)
