"""A load generator for WebSockets: each connection sends a message of 64 bytes and waits for its echo."""

from __future__ import annotations

import os
import select
import time

from benchmark.loads import Load
from benchmark.measure import CORES, LOAD_CORE, room_for
from benchmark.servers import Running
from benchmark.servers.websocketclient import ECHO, FRAME, connect


def echo(server: Running, connections: int, seconds: float) -> Load:
    """Each connection sends its next message when the last one has come back. Every echo is compared."""
    os.sched_setaffinity(0, {LOAD_CORE})
    clients = {}
    poll = select.epoll()
    try:
        for _ in range(room_for(connections)):
            client = connect(server.port)
            client.setblocking(False)
            clients[client.fileno()] = client
            poll.register(client, select.EPOLLIN)
        server.measured_from = server.cpu_ns
        sent = dict.fromkeys(clients, time.perf_counter())
        for client in clients.values():
            client.send(FRAME)
        waits: list[float] = []
        started = now = time.perf_counter()
        while now - started < seconds:
            for number, _ in poll.poll(1):
                client = clients[number]
                answer = client.recv(4096)
                if answer != ECHO:
                    raise AssertionError(f"wrong answer: {answer[:100]!r}")
                now = time.perf_counter()
                waits.append(now - sent[number])
                sent[number] = now
                client.send(FRAME)
            now = time.perf_counter()
    finally:
        poll.close()
        for client in clients.values():
            client.close()
        os.sched_setaffinity(0, set(CORES))
    waits.sort()
    latency = {
        "p50": waits[len(waits) // 2] * 1e3,
        "p99": waits[len(waits) * 99 // 100] * 1e3,
        "max": waits[-1] * 1e3,
    }
    return Load(len(waits), now - started, 0, latency, f"{connections} connections, in Python")
