"""Requests of others while now and then one holds its server: 50 kept connections, requests at a steady rate,
and each hundredth is for a view that holds its thread for 300 ms; and how long it takes until another thread
has taken over thousands of idle connections."""

from __future__ import annotations

import select
import socket
import time

from benchmark.loads import Load, idle_clients
from benchmark.measure import on_load_core
from benchmark.servers import Running

CONNECTIONS = 50
RATE = 250
"""Requests per second: a hold takes 300 of each 400 ms."""
HOLDS_EACH = 100
TAKEOVERS = 5


@on_load_core()
def held(server: Running, seconds: float, holds_each: int = HOLDS_EACH) -> Load:
    """The latency is that of the other requests, from the moment at which each was due. Holds overlap where
    `holds_each` is less than 75."""
    address = ("127.0.0.1", server.port)
    idle = [socket.create_connection(address, timeout=10) for _ in range(CONNECTIONS)]
    clients = {client.fileno(): client for client in idle}
    asked: dict[int, tuple[float, bool]] = {}
    found: list[float] = []
    held = errors = number = 0
    poll = select.epoll()
    for fd in clients:
        poll.register(fd, select.EPOLLIN)
    started = due = time.perf_counter()
    try:
        while (now := time.perf_counter()) < started + seconds:
            while due <= now and idle:
                number += 1
                holds = number % holds_each == 0
                client = idle.pop(0)
                asked[client.fileno()] = due, holds
                client.sendall(b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"held" if holds else b""))
                due += 1 / RATE
            for fd, _ in poll.poll(max(0.0, due - now) if idle else 0.5):
                began, holds = asked[fd]
                errors += not clients[fd].recv(65536).endswith(b"Hello, World!")
                if holds:
                    held += 1
                else:
                    found.append(time.perf_counter() - began)
                idle.append(clients[fd])
        passed = time.perf_counter() - started
    finally:
        poll.close()
        for client in clients.values():
            client.close()
    load = _load(found, passed, errors)
    due = passed * RATE * (holds_each - 1) / holds_each
    load.latency_ms["answered of those due"] = 100 * len(found) / due
    load.raw = f"{len(found)} answers to others, {held} to requests that held their thread"
    return load


@on_load_core()
def relieved(server: Running, idle: int) -> Load:
    """The latency is that of a request that comes when the thread has just been held, beside many connections
    that have been idle for longer. All of them are moved: `the oldest` is the latency of the one that has
    been idle for longest."""
    found: list[float] = []
    errors = 0
    with idle_clients(server.port, idle) as clients:
        started = time.perf_counter()
        others = [*clients[-2 * TAKEOVERS : -TAKEOVERS], clients[0]]
        for first, other in zip(clients[: -TAKEOVERS - 2 : -1], others, strict=True):
            first.sendall(b"GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.002)
            began = time.perf_counter()
            other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            errors += not other.recv(65536).endswith(b"Hello, World!")
            found.append(time.perf_counter() - began)
            errors += not first.recv(65536).endswith(b"Hello, World!")
        passed = time.perf_counter() - started
    of_oldest = found.pop()
    load = _load(found, passed, errors)
    load.latency_ms["the oldest"] = of_oldest * 1e3
    load.raw = f"{len(clients)} idle connections"
    return load


def _load(seconds: list[float], passed: float, errors: int) -> Load:
    found = sorted(each * 1e3 for each in seconds)
    percentiles = [found[(len(found) - 1) * percent // 100] for percent in range(101)]
    latency = {"p50": percentiles[50], "p99": percentiles[99], "max": percentiles[100]}
    return Load(len(found), passed, errors, latency, distribution=percentiles)
