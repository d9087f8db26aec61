"""The engine beside others: the cost of a switch, a spawn, a wake-up. Each library runs in processes of its
own, in turn.

``python -m benchmark.engine LIBRARY time|schedule|memory DIVISOR`` prints one JSON object: CPU ns per
operation, or bytes per tasklet.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Operation:
    text: str
    peer: str
    """its competitors"""
    most: float
    """of what the peer needs"""


OPERATIONS: dict[str, Operation] = {
    "yield alone": Operation("sleep(0), nobody else", "gevent", 0.5),
    "yield": Operation("sleep(0) among 100", "gevent", 0.5),
    "schedule": Operation("stackless.schedule() of two; a raw greenlet switch", "greenlet", 1.2),
    "spawn": Operation("spawn + join, one at a time", "gevent", 0.25),
    "spawn many": Operation("spawn + join, 10,000 at a time", "gevent", 0.25),
    "event": Operation("event wake, there and back", "gevent", 0.5),
    "switch": Operation("lock hand-over between two", "gevent", 0.5),
    "queue 1": Operation("queue hand-off, maxsize 1", "gevent", 1.0),
    "queue 100": Operation("queue hand-off, maxsize 100", "gevent", 1.0),
    "channel": Operation("channel, send + receive", "gevent", 0.5),
    "timeout": Operation("timeout started and cancelled", "gevent", 0.5),
    "pool": Operation("pool.map, 10 at a time, per item", "gevent", 0.5),
    "pool spawn": Operation("pool.spawn, 100 at a time, per call", "gevent", 0.5),
    "select": Operation("the first of two events, and again", "gevent", 0.5),
    "timers": Operation("100,000 that sleep 0 to 0.1 s, each", "gevent", 0.5),
    "ping-pong": Operation("socketpair, a byte there and back", "gevent", 1 / 1.5),
    "memory 10k": Operation("bytes per sleeping tasklet, 10,000 of them", "gevent", 1.0),
    "memory": Operation("bytes per sleeping tasklet, 100,000 of them", "gevent", 1.0),
}

LIBRARIES = [
    "syncless",
    "gevent",
    "eventlet",
    "syncless.eventlet",
    "gevent, our loop",
    "asyncio",
    "uvloop",
    "greenlet",
    "threads",
    "go",
]

DIALECTS = [
    *((name, "syncless.eventlet", "syncless", 1.2) for name in ("spawn", "spawn many", "switch", "queue 1")),
    *((name, "syncless.eventlet", "syncless", 1.2) for name in ("queue 100", "pool spawn", "timeout")),
    ("ping-pong", "syncless.eventlet", "syncless", 1.2),
    *((name, "gevent, our loop", "gevent", 1.0) for name in OPERATIONS),
]
"""Operations through other APIs on our engine: which, what they are held against, and the most of that."""

THREADS = 2_000
"""as many OS threads as can be had everywhere"""
