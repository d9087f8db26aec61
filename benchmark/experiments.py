"""What is measured: one row per experiment, with the peers it is compared with and the ratios that it should reach."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmark.loads import BROWSER, FEW, Load, ab, wrk
from benchmark.measure import CORES, LOAD_CORE
from benchmark.servers import Running

HELLO = ("syncless", "floor", "node", "go nethttp", "go fasthttp", "bjoern", "meinheld", "gevent")


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


def _idle(server: Running, scale: Scale) -> Load:
    """50 active connections, first alone, then beside many idle ones that have each had one answer.

    The memory of the idle ones and the CPU per request without them are in `latency_ms`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(scale.idle, hard - 200)
    if soft < wanted + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 200, hard))
    started = server.cpu_ns
    alone = wrk(server.port, scale.seconds, headers=FEW)
    cpu_alone = (server.cpu_ns - started) / alone.requests / 1000
    before = server.private_bytes
    clients = []
    try:
        for _ in range(wanted):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1000)
            clients.append(client)
        used = server.private_bytes - before
        server.measured_from = server.cpu_ns
        load = wrk(server.port, scale.seconds, headers=FEW)
    finally:
        for client in clients:
            client.close()
    load.latency_ms["bytes per idle connection"] = used / max(1, wanted)
    load.latency_ms["cpu_us alone"] = cpu_alone
    return load


def _hellos(port: int, number: int) -> list[float]:
    """Seconds that each of so many new clients waits for its hello, one after the other."""
    seconds = []
    for _ in range(number):
        started = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while client.recv(1000):
                pass
        seconds.append(time.perf_counter() - started)
    return seconds


def _half_sent(server: Running, scale: Scale) -> Load:
    """New clients, one after the other, first alone, then beside many that have sent half of a request and no more."""
    os.sched_setaffinity(0, {LOAD_CORE})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(scale.idle, hard - 200)
    if soft < wanted + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 200, hard))
    number = 2000 if scale.idle > 1000 else 100
    _hellos(server.port, number // 10)
    alone = statistics.median(_hellos(server.port, number))
    before = server.private_bytes
    clients = []
    try:
        for _ in range(wanted):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: half of a requ")
            clients.append(client)
        time.sleep(0.5)
        used = server.private_bytes - before
        server.measured_from = server.cpu_ns
        found = sorted(_hellos(server.port, number))
    finally:
        for client in clients:
            client.close()
        os.sched_setaffinity(0, set(CORES))
    latency = {"p50": found[number // 2] * 1e3, "p99": found[number * 99 // 100] * 1e3, "max": found[-1] * 1e3}
    latency |= {"alone": alone * 1e3, "bytes per half-sent request": used / max(1, wanted)}
    return Load(number, sum(found), 0, latency, "one client at a time, in Python")


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "keepalive",
            "Hello, keep-alive, 3 request headers: `wrk -t1 -c50`",
            "hello",
            HELLO,
            lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
            {"floor": 1.12, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        Experiment(
            "headers",
            "Hello, keep-alive, 12 request headers: `wrk -t1 -c50`",
            "hello",
            HELLO,
            lambda server, scale: wrk(server.port, scale.seconds, headers=BROWSER),
            {"floor": 1.15, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        Experiment(
            "connections",
            "Hello, a new connection for each request: `ab -n 100000 -c 50`",
            "hello",
            ("syncless", "floor, deferred accept", *HELLO[1:]),
            lambda server, scale: ab(server.port, scale.requests),
            {"floor, deferred accept": 1.1, "node": 1 / 2.2, "bjoern": 0.75, "meinheld": 1.0},
        ),
        Experiment(
            "pipelined",
            "Hello, 16 requests at a time: `wrk -t1 -c50`, pipelined",
            "hello",
            ("syncless", "floor", "node", "go nethttp", "go fasthttp", "meinheld", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, headers=FEW, script="pipeline.lua"),
            {"floor": 1.7, "node": 1 / 12},
        ),
        Experiment(
            "sleep",
            "An application that sleeps 10 ms, 1,000 connections: `wrk -t1 -c1000`",
            "sleep",
            ("syncless", "node", "go nethttp", "go fasthttp", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
            {"node": 1 / 1.4, "go nethttp": 1.0},
        ),
        Experiment(
            "flask",
            "Flask's hello: `wrk -t1 -c50`",
            "flask",
            ("syncless", "bjoern", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
            {"bjoern": 1.0},
        ),
        Experiment(
            "django",
            "Django's hello: `wrk -t1 -c50`",
            "django",
            ("syncless", "bjoern", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
            {"bjoern": 1.0, "gevent": 0.5},
        ),
        Experiment(
            "accesslog",
            "Hello with the access log on, 3 request headers: `wrk -t1 -c50`",
            "hello",
            ("syncless", "syncless, access log"),
            lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
        ),
        Experiment(
            "halfsent",
            "Hello on a new connection beside 10,000 half-sent requests, one client at a time",
            "hello",
            ("syncless", "node", "go nethttp", "gevent"),
            _half_sent,
        ),
        Experiment(
            "idle",
            "Hello beside 10,000 idle connections: `wrk -t1 -c50`",
            "hello",
            ("syncless", "node", "go nethttp", "bjoern", "gevent"),
            _idle,
        ),
    )
}
