"""Ways to serve ten clients at once, whose requests compute (fib(35)) or wait (a second): the strengths and
weaknesses of each model.

``python -m benchmark.models MODEL TASK DIVISOR`` prints how many seconds the ten took together, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

CLIENTS = 10
MODELS = {
    "naive": "one after the other",
    "processes": "4 processes",
    "threads": "4 threads",
    "asyncio": "an event loop (asyncio)",
    "client": "a client that computes while it waits (non-blocking, by hand)",
    "unpatched": "syncless, unpatched",
    "patched": "syncless, patched",
    "workers": "syncless, 4 workers, unpatched",
    "in threads": "syncless, run_in_thread",
}
TASKS = {"sleep": "waits a second", "fib": "computes fib(35)"}


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def work(task: str, scale: int) -> None:
    if task == "sleep":
        time.sleep(1 / scale)
    else:
        fib(35 if scale == 1 else 22)


def application(do: Callable[[], None]) -> Callable[..., list[bytes]]:
    def app(environ, start_response):  # type: ignore[no-untyped-def]
        do()
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]

    return app


ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ndone"


def serve_one(listener: socket.socket, task: str, scale: int) -> None:
    client, _ = listener.accept()
    with client:
        client.recv(10_000)
        work(task, scale)
        client.sendall(ANSWER)


def serve_all(listener: socket.socket, task: str, scale: int) -> None:
    while True:
        serve_one(listener, task, scale)


async def serve_asyncio(listener: socket.socket, task: str, scale: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        if task == "sleep":
            await asyncio.sleep(1 / scale)
        else:
            work(task, scale)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listener)
    await server.serve_forever()


def serve(model: str, task: str, scale: int, fd: int) -> None:
    listener = socket.socket(fileno=fd)
    if model in ("naive", "client"):
        serve_all(listener, task, scale)
    elif model == "processes":
        for _ in range(3):
            if os.fork() == 0:
                break
        serve_all(listener, task, scale)
    elif model == "threads":
        for _ in range(3):
            threading.Thread(target=serve_all, args=(listener, task, scale), daemon=True).start()
        serve_all(listener, task, scale)
    elif model == "asyncio":
        asyncio.run(serve_asyncio(listener, task, scale))
    else:
        import syncless
        from syncless.patches import patch_all
        from syncless.wsgi import serve as serve_wsgi

        if model == "patched":
            patch_all()
        do = (
            (lambda: syncless.run_in_thread(work, task, scale))
            if model == "in threads"
            else lambda: work(task, scale)
        )
        serve_wsgi(
            application(do), bind=f"fd:{fd}", quiet=True, workers=4 if model == "workers" else 0, preload=True
        )


def ask(port: int, seconds: list[float]) -> None:
    started = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=120) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        answer = b""
        while data := sock.recv(1000):
            answer += data
    assert answer.endswith(b"done"), answer
    seconds.append(time.perf_counter() - started)


def ask_meanwhile(port: int, task: str, scale: int) -> float:
    """One client, one request; while it waits it does the same work itself, in pieces, and looks for the
    answer between them."""
    started = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=120) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        sock.setblocking(False)
        answer, pieces = b"", 0
        while not answer.endswith(b"done") or pieces < 13:
            if pieces < 13:
                fib(30 if scale == 1 else 17)  # thirteen of them are about one fib(35)
                pieces += 1
            try:
                answer += sock.recv(1000)
            except BlockingIOError:
                if pieces >= 13:
                    time.sleep(0.001)
    return time.perf_counter() - started


def measure(model: str, task: str, scale: int) -> float:
    """Seconds until all have their answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        port, fd = listener.getsockname()[1], listener.fileno()
        command = [sys.executable, "-m", "benchmark.models", "serve", model, task, str(scale), str(fd)]
        server = subprocess.Popen(command, pass_fds=[fd], start_new_session=True)
    try:
        time.sleep(2 if scale == 1 else 0.7)  # it starts
        if model == "client":
            return ask_meanwhile(port, task, scale)
        seconds: list[float] = []
        threads = [threading.Thread(target=ask, args=(port, seconds)) for _ in range(CLIENTS)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seconds) == CLIENTS, "not all have been answered"
        return time.perf_counter() - started
    finally:
        os.killpg(server.pid, 9)
        server.wait()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        model, task, scale = sys.argv[1], sys.argv[2], int(sys.argv[3])
        print(json.dumps({task: measure(model, task, scale)}), flush=True)
