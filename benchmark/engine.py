"""The engine beside gevent: what a switch, a spawn, a wake-up cost. Each library runs in processes of its own, in turn.

``python -m benchmark.engine LIBRARY time|memory DIVISOR`` prints one JSON object: CPU ns per operation, or bytes per tasklet.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

OPERATIONS: dict[str, tuple[str, float]] = {
    "yield alone": ("sleep(0), nobody else", 0.5),
    "yield": ("sleep(0) among 100", 0.5),
    "event": ("event wake, there and back", 0.5),
    "spawn": ("spawn + join, one at a time", 0.25),
    "spawn many": ("spawn + join, 10,000 at a time", 0.25),
    "ping-pong": ("socketpair, a byte there and back", 1 / 1.5),
    "switch": ("lock hand-over between two", 1.0),
    "queue 1": ("queue hand-off, maxsize 1", 1.0),
    "queue 100": ("queue hand-off, maxsize 100", 1.0),
    "memory": ("bytes per sleeping tasklet, 100,000 of them", 1.0),
}
"""operation -> what it is, and the most that ours may be of gevent's"""


class Syncless:
    def __init__(self) -> None:
        import syncless
        from syncless.io import socket

        self.sleep, self.spawn, self.Event, self.Queue, self.Lock = (
            syncless.sleep,
            syncless.spawn,
            syncless.Event,
            syncless.Queue,
            syncless.Lock,
        )
        self.socketpair: Callable[[], tuple[Any, Any]] = socket.socketpair


class Gevent:
    def __init__(self) -> None:
        import gevent
        import gevent.event
        import gevent.lock
        import gevent.queue
        import gevent.socket

        self.sleep, self.spawn, self.Event = gevent.sleep, gevent.spawn, gevent.event.Event
        self.Queue, self.Lock = gevent.queue.Queue, gevent.lock.BoundedSemaphore
        self.socketpair = gevent.socket.socketpair


def nothing() -> None:
    pass


def measure(library: Any, scale: int) -> dict[str, float]:
    """Nanoseconds of CPU per operation; the best of three, so that what others do on the machine counts least."""
    sleep, spawn = library.sleep, library.spawn

    def alone(n: int) -> None:
        for _ in range(n):
            sleep(0)

    def among(n: int) -> None:
        for tasklet in [spawn(alone, n // 100) for _ in range(100)]:
            tasklet.join()

    def one_at_a_time(n: int) -> None:
        for _ in range(n):
            spawn(nothing).join()

    def many(n: int) -> None:
        for _ in range(max(1, n // 10_000)):
            for tasklet in [spawn(nothing) for _ in range(10_000)]:
                tasklet.join()

    def event(n: int) -> None:
        here, there = library.Event(), library.Event()

        def other() -> None:
            for _ in range(n):
                there.wait()
                there.clear()
                here.set()

        tasklet = spawn(other)
        for _ in range(n):
            there.set()
            here.wait()
            here.clear()
        tasklet.join()

    def ping_pong(n: int) -> None:
        a, b = library.socketpair()

        def echo() -> None:
            for _ in range(n):
                b.sendall(b.recv(10))

        tasklet = spawn(echo)
        for _ in range(n):
            a.sendall(b"x")
            a.recv(10)
        tasklet.join()
        a.close()
        b.close()

    def switch(n: int) -> None:
        lock = library.Lock()

        def contend() -> None:
            for _ in range(n // 2):
                lock.acquire()
                sleep(0)
                lock.release()

        for tasklet in [spawn(contend), spawn(contend)]:
            tasklet.join()

    def queue(size: int) -> Callable[[int], None]:
        def run(n: int) -> None:
            items = library.Queue(size)

            def produce() -> None:
                for number in range(n):
                    items.put(number)

            tasklet = spawn(produce)
            for number in range(n):
                assert items.get() == number
            tasklet.join()

        return run

    runs = {
        "yield alone": (alone, 200_000),
        "yield": (among, 200_000),
        "event": (event, 50_000),
        "spawn": (one_at_a_time, 50_000),
        "spawn many": (many, 50_000),
        "ping-pong": (ping_pong, 30_000),
        "switch": (switch, 100_000),
        "queue 1": (queue(1), 50_000),
        "queue 100": (queue(100), 100_000),
    }
    found = {}
    for name, (function, n) in runs.items():
        n = max(1000, n // scale)
        best = float("inf")
        for _ in range(3):
            started = time.process_time_ns()
            function(n)
            best = min(best, (time.process_time_ns() - started) / n)
        found[name] = best
    return found


def memory(library: Any, scale: int) -> float:
    """Bytes of resident memory per tasklet that sleeps in a Python function."""

    def sleeper() -> None:
        library.sleep(3600)

    count = 100_000 // scale
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tasklets = [library.spawn(sleeper) for _ in range(count)]
    library.spawn(nothing).join()  # they start in the order of their spawning: now all of them sleep
    library.sleep(0.1)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / count
    assert len(tasklets) == count
    return used


if __name__ == "__main__":
    chosen = {"syncless": Syncless, "gevent": Gevent}[sys.argv[1]]()
    what, divisor = sys.argv[2], int(sys.argv[3])
    print(json.dumps({"memory": memory(chosen, divisor)} if what == "memory" else measure(chosen, divisor)), flush=True)
    sys.stdout.flush()
    __import__("os")._exit(0)  # ending 100,000 tasklets one by one is not what is measured
