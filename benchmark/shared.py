"""What workers share, beside a Redis server on loopback through redis-py: ``python -m benchmark.shared``.

Increments, values, and messages to a subscriber in another process, each with the CPU time of all that is
involved; and what two workers need for each of 10,000 streams that they hold, for a message to all. A message
carries the time at which it was sent. ``--quick`` shows that it works, and measures little. Needs
redis-server, and redis-py; without them only syncless is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from syncless.shared import Counter, Mapping, publish, subscribe
from syncless.wsgi import Server, hold

PAUSE = 0.001
"""Seconds between two messages of which the delay is measured."""


def cpu_of(pid: int) -> float:
    """Seconds of CPU that the process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(call: Callable[[], object], number: int, server: int) -> tuple[float, float]:
    """µs of time, and µs of CPU here and in the server, for each call."""
    for _ in range(min(number, 100)):
        call()
    began, used = time.perf_counter(), time.process_time() + (cpu_of(server) if server else 0)
    for _ in range(number):
        call()
    seconds = time.perf_counter() - began
    cpu = time.process_time() + (cpu_of(server) if server else 0) - used
    return seconds / number * 1e6, cpu / number * 1e6


def delays(
    send: Callable[[bytes], object], listen: Callable[[int], Iterator[bytes]], number: int, server: int
) -> tuple[float, float, float]:
    """Median and 99th percentile of the delay, and the CPU for each message, all in µs, to a child that
    listens."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        messages, found = listen(ours), []
        for _ in range(number):
            sent = int(next(messages))
            found.append(time.monotonic_ns() - sent)
        found.sort()
        used = int(time.process_time() * 1e9)
        os.write(theirs, f"{statistics.median(found)} {found[len(found) * 99 // 100]} {used}\n".encode())
        os._exit(0)
    time.sleep(0.5)
    used = time.process_time() + (cpu_of(server) if server else 0)
    for _ in range(number):
        time.sleep(PAUSE)
        send(str(time.monotonic_ns()).encode())
    used = time.process_time() + (cpu_of(server) if server else 0) - used
    os.waitpid(pid, 0)
    p50, p99, listened = map(float, os.read(ours, 1000).split())
    os.close(ours)
    os.close(theirs)
    return p50 / 1000, p99 / 1000, (used + listened / 1e9) / number * 1e6


@contextlib.contextmanager
def redis_server() -> Iterator[tuple[int, Any]]:
    """(its process, a client), on loopback."""
    import redis

    with tempfile.TemporaryDirectory() as folder:
        port = 20_000 + os.getpid() % 20_000
        command = ["redis-server", "--port", f"{port}", "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis(port=port)
            while True:
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    break
                time.sleep(0.05)
            yield process.pid, client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def ours(number: int) -> dict[str, tuple[float, ...]]:
    counter, values = Counter("hits"), Mapping("values")
    values.set("k", b"x" * 100)

    def listen(_: int) -> Iterator[bytes]:
        return (message.data for message in subscribe("news"))

    return {
        "increment": rate(counter.add, number, 0),
        "get 100 bytes": rate(lambda: values.get("k"), number, 0),
        "set 100 bytes": rate(lambda: values.set("k", b"x" * 100), number, 0),
        "publish, p50 / p99": delays(lambda data: publish("news", data), listen, number // 20, 0),
    }


def of_redis(number: int) -> dict[str, tuple[float, ...]]:
    with redis_server() as (pid, client):

        def listen(_: int) -> Iterator[bytes]:
            heard = client.pubsub(ignore_subscribe_messages=True)
            heard.subscribe("news")
            return (message["data"] for message in heard.listen())

        def send(data: bytes) -> None:
            client.publish("news", data)

        return {
            "increment": rate(lambda: client.incr("hits"), number // 10, pid),
            "get 100 bytes": rate(lambda: client.get("k"), number // 10, pid),
            "set 100 bytes": rate(lambda: client.set("k", b"x" * 100), number // 10, pid),
            "publish, p50 / p99": delays(send, listen, number // 20, pid),
        }


def in_child(run: Callable[[int], object]) -> tuple[int, int]:
    """Return the process that calls the function, and the pipe on which it reports."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            run(theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    return pid, ours


def hold_streams(report: int) -> None:
    """A worker."""
    server = Server(lambda *args: hold("news")(*args), port=0).start()
    os.write(report, b"%d\n" % server.port)
    server.wait()


def listen_to_streams(port: int, number: int, report: int) -> None:
    """Report when all streams have begun, and then each message that all of them have."""
    clients = {}
    poll = select.epoll()
    for each in range(number):
        sock = socket.socket()
        sock.bind((f"127.0.1.{each // 200 + 1}", 0))
        sock.connect(("127.0.0.1", port))
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while b"retry" not in sock.recv(4096):
            pass
        clients[sock.fileno()] = sock
        poll.register(sock, select.EPOLLIN)
    while True:
        os.write(report, b".")
        left = number
        while left:
            for fd, _ in poll.poll():
                left -= clients[fd].recv(65536).count(b"\ndata: ")


def streams(number: int, messages: int) -> tuple[float, float]:
    """µs of time, and µs of CPU of two workers, for each stream and message. Each message is alone."""
    workers = [in_child(hold_streams) for _ in range(2)]
    ports = [int(os.read(pipe, 100)) for _, pipe in workers]
    clients = [in_child(partial(listen_to_streams, port, number // 2)) for port in ports]
    try:
        for _, pipe in clients:
            os.read(pipe, 1)
        began, used = time.perf_counter(), sum(cpu_of(pid) for pid, _ in workers)
        for _ in range(messages):
            publish("news", b"x" * 100)
            for _, pipe in clients:
                os.read(pipe, 1)
        seconds = time.perf_counter() - began
        cpu = sum(cpu_of(pid) for pid, _ in workers) - used
    finally:
        for pid, pipe in workers + clients:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(pipe)
    return seconds / number / messages * 1e6, cpu / number / messages * 1e6


def shown(figures: tuple[float, ...] | None) -> str:
    if figures is None:
        return "| | "
    *times, cpu = figures
    return f"| {' / '.join(f'{one:.1f}' for one in times)} | {cpu:.1f} "


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmark.shared", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shows that it works")
    number = 2000 if parser.parse_args().quick else 20_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    found = ours(number)
    found[f"message to each of {number // 2:,} held streams"] = streams(number // 2, number // 100)
    peer: dict[str, tuple[float, ...]] = {}
    if shutil.which("redis-server"):
        with contextlib.suppress(ModuleNotFoundError):
            peer = of_redis(number)
    print("| µs | syncless | CPU | Redis by redis-py | CPU |\n|---|---:|---:|---:|---:|")
    for name, figures in found.items():
        print(f"| {name} {shown(figures)}{shown(peer.get(name))}|")
    print(f"\nload of the machine before and after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
