"""Connections that come all at once while a server is busy: its listen backlog takes them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmark.loads import Load, ab
from benchmark.measure import CORES, LOAD_CORE, room_for
from benchmark.servers import Running

BUSY = 0.01
"""Seconds that the server is busy for, after the last of them has come."""
PATIENCE = 70.0
"""Seconds. Linux gives a connection up 63 s after it came, if there has been no room for it."""
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Client:
    """One connection, which sends one request as soon as it can, and is answered until the server closes."""

    def __init__(self, port: int):
        self.connected = 0.0  # seconds after it began; 0: not yet
        self.answered = 0.0
        self.received = b""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.began = time.perf_counter()
        self.socket.connect_ex(("127.0.0.1", port))
        try:
            self.socket.getpeername()
        except OSError:
            pass  # the backlog is full: the kernel asks again in a second
        else:
            self._now_connected()

    def _now_connected(self) -> None:
        self.connected = time.perf_counter() - self.began
        self.socket.send(REQUEST)

    def proceed(self) -> bool:
        """Does what is possible now; True if that was the last step. OSError if the connection is lost."""
        if not self.connected:
            if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            self._now_connected()
            return False
        data = self.socket.recv(4096)
        self.received += data
        if not data:
            self.answered = time.perf_counter() - self.began
        return not data


@contextmanager
def stopped(server: Running) -> Iterator[None]:
    """All of its processes get no CPU, as if something else had it; its sockets are the kernel's and go
    on."""
    os.killpg(server.process.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(BUSY)
    finally:
        os.killpg(server.process.pid, signal.SIGCONT)


def _attend(waiting: dict[int, Client], end: float) -> int:
    """Sees them through until then; returns how many are left."""
    with select.epoll() as epoll:
        for fd, client in waiting.items():
            epoll.register(fd, select.EPOLLIN if client.connected else select.EPOLLOUT)
        while waiting and (left := end - time.perf_counter()) > 0:
            for fd, _ in epoll.poll(left):
                try:
                    last = waiting[fd].proceed()
                except OSError:
                    last = True  # it counts as lost, because it has no answer
                if last:
                    epoll.unregister(fd)
                    del waiting[fd]
                else:
                    epoll.modify(fd, select.EPOLLIN)
    return len(waiting)


def burst(server: Running, number: int) -> Load:
    """So many at once, for a server that is warm.

    `worst connect`: the most ms until one was connected. `lost`: those that were reset or not answered at
    all.
    """
    number = room_for(number)
    ab(server.port, 10_000)
    server.measured_from = server.cpu_ns
    os.sched_setaffinity(0, {LOAD_CORE})
    clients: dict[int, Client] = {}
    started = time.perf_counter()
    try:
        with stopped(server):
            for _ in range(number):
                client = Client(server.port)
                clients[client.socket.fileno()] = client
        left = _attend(dict(clients), started + PATIENCE)
        seconds = time.perf_counter() - started
    finally:
        for client in clients.values():
            client.socket.close()
        os.sched_setaffinity(0, set(CORES))
    found = sorted(
        client.answered for client in clients.values() if client.received.endswith(b"Hello, World!")
    )
    if not found:
        raise AssertionError(f"it answered none of {number} connections that came at once")
    connected = sum(1 for client in clients.values() if client.connected)
    latency = {
        "p50": found[len(found) // 2] * 1e3,
        "p99": found[len(found) * 99 // 100] * 1e3,
        "max": found[-1] * 1e3,
        "worst connect": max(client.connected for client in clients.values()) * 1e3,
        "lost": number - len(found),
    }
    raw = (
        f"{number} at once; {connected} were connected, {len(found)} answered, "
        f"{left} not yet after {seconds:.1f} s\n"
        f"answers in each second: {dict(sorted(Counter(map(int, found)).items()))}"
    )
    return Load(len(found), seconds, number - len(found), latency, raw)
