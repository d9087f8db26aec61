"""Requests of others while now and then one holds its server: 50 kept connections, requests at a steady rate,
and each hundredth is for a view that holds its thread for 300 ms."""

from __future__ import annotations

import os
import select
import socket
import time

from benchmark.loads import Load
from benchmark.measure import CORES, LOAD_CORE
from benchmark.servers import Running

CONNECTIONS = 50
RATE = 250
"""Requests per second: a hold takes 300 of each 400 ms."""
HOLDS_EACH = 100


def held(server: Running, seconds: float) -> Load:
    """The latency is that of the other requests, from the moment at which each was due."""
    os.sched_setaffinity(0, {LOAD_CORE})
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
                holds = number % HOLDS_EACH == 0
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
        os.sched_setaffinity(0, set(CORES))
    found.sort()
    latency = {
        "p50": found[len(found) // 2] * 1e3,
        "p99": found[len(found) * 99 // 100] * 1e3,
        "max": found[-1] * 1e3,
    }
    raw = f"{len(found)} answers to others, {held} to requests that held their thread"
    return Load(len(found), passed, errors, latency, raw)
