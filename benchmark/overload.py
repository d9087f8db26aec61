"""More requests than a database of 20 connections can answer: `python -m benchmark.overload [NAME]`.

The load is open: requests come at a fixed rate, each on a connection of its own, whether the earlier ones
have been answered or not. The database is a sleep of 0.25 s under a semaphore of 20, so 80 requests/s are the
most. Each server has one process; first the load is 0.9 times that, then twice that. Good are responses
within a second, four times the usual; then users leave. Prints a table; docs/howto/overload.md has one.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

SERVICE, CONNECTIONS = 0.25, 20
BEST = CONNECTIONS / SERVICE
GOOD = 4 * SERVICE
SECONDS, WARM = 20.0, 8.0
"""Of each load; answers of the first part do not count."""
PATIENCE = 10.0
ME = "benchmark.overload:app"
SERVERS = {
    "syncless --limit requests=auto": (
        "-m", "syncless", ME, "-q", "-l", "requests=auto", "-b", "127.0.0.1:{}",
    ),
    "syncless": ("-m", "syncless", ME, "-q", "-b", "127.0.0.1:{}"),
    "gunicorn gthread, 100 threads": ("-m", "gunicorn", ME, "--threads", "100", "-b", "127.0.0.1:{}"),
    "granian, 100 threads": (
        "-m", "granian", "--interface", "wsgi", "--blocking-threads", "100", "--port", "{}", "--no-log", ME,
    ),
}  # fmt: skip

database = threading.BoundedSemaphore(CONNECTIONS)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Query the database."""
    with database:
        time.sleep(SERVICE)
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]


async def ask(port: int, began: float, found: list[tuple[float, float, int]]) -> None:
    """Send a request, and note when it began, how long it took, and its status; 0: none came."""
    since, status = time.perf_counter(), 0
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            status = int((await reader.readline()).split()[1])
            writer.close()
    except (OSError, TimeoutError, IndexError):
        pass
    found.append((since - began, time.perf_counter() - since, status))


async def load(port: int, rate: float) -> tuple[float, float, float]:
    """Return good responses per second, p99 of all with status 200, in seconds, and the share of others."""
    found: list[tuple[float, float, int]] = []
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * SECONDS)):
            await asyncio.sleep(began + number / rate - time.perf_counter())
            group.create_task(ask(port, began, found))
    counted = [(seconds, status) for at, seconds, status in found if at >= WARM]
    answered = sorted(seconds for seconds, status in counted if status == 200)
    good = sum(seconds <= GOOD for seconds in answered) / (SECONDS - WARM)
    p99 = answered[int(len(answered) * 0.99)] if answered else float("inf")
    return good, p99, 1 - len(answered) / len(counted)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def measure(arguments: Iterable[str]) -> list[str]:
    port = free_port()
    command = [sys.executable, *(word.format(port) for word in arguments)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        cells = []
        for share in (0.9, 2.0):
            good, p99, others = asyncio.run(load(port, BEST * share))
            cells += [f"{good:.0f}/s", f"{p99:.2f} s", f"{others:.0%}"]
        return cells
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    print("| server | good at 72/s | p99 | others | good at 160/s | p99 | others |")
    print("|---|---|---|---|---|---|---|")
    for name, arguments in SERVERS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if find_spec(arguments[1]) is not None:
            print(f"| {name} | {' | '.join(measure(arguments))} |", flush=True)


if __name__ == "__main__":
    main()
