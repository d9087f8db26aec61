"""``python -m benchmark.native [SECONDS [ROUNDS]]``: native handlers beside a C program that parses nothing,
and beside Go.

Prints the server's CPU per request as the median of rounds in which the servers take turns, and its ratio to
that of the row's first server.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmark.loads import FEW, wrk
from benchmark.measure import room_for
from benchmark.servers import BUILD, HERE, PEERS, Absent, Peer, Running

IDLE = 10_000


def library() -> str:
    """The handlers, compiled."""
    from syncless import native  # not before it is needed: a table of other servers needs no syncless

    source, target = HERE / "native_handlers.c", BUILD / "native_handlers.so"
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{native.get_include()}"]
    subprocess.run([*command, source, "-o", target], check=True)
    return str(target)


def native_peer(name: str, function: str, *, route: str = "/", threads: int = 1) -> Peer:
    script = str(HERE / "run_native.py")
    built = library()
    return Peer(
        name,
        lambda port, app: [sys.executable, script, built, str(port), route, function, str(threads)],
        lambda: "",
        ("hello", "fib"),
        cores=threads,
    )


def cpu_us(peer: Peer, application: str, seconds: int, script: str | None) -> float:
    with Running(peer, application) as server:
        before = server.cpu_ns
        load = wrk(server.port, seconds, headers=FEW, script=script)
        return (server.cpu_ns - before) / load.requests / 1000


def idle_bytes(peer: Peer) -> float:
    """Memory of an idle connection that has had an answer."""
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with Running(peer, "hello") as server:
        wanted = room_for(IDLE)
        before = server.private_bytes
        clients = []
        try:
            for _ in range(wanted):
                client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                client.sendall(request)
                client.recv(1000)
                clients.append(client)
            time.sleep(0.5)
            return (server.private_bytes - before) / wanted
        finally:
            for client in clients:
                client.close()


def rows() -> list[tuple[str, str, str | None, list[Peer]]]:
    """Title, application, script of wrk, servers; the first one is what the others are compared with."""
    floor, nethttp, fasthttp = PEERS["floor"], PEERS["go nethttp"], PEERS["go fasthttp"]
    hello = native_peer("native", "hello")
    beside = native_peer("beside native", "hello", route="/native")
    two = native_peer("native, 2 threads", "hello", threads=2)
    return [
        ("hello, keep-alive", "hello", None, [floor, hello, fasthttp, nethttp]),
        ("hello, 16 pipelined", "hello", "pipeline.lua", [floor, hello, fasthttp]),
        ("fibonacci(10^6)", "fib", None, [native_peer("native", "fib"), nethttp, fasthttp]),
        ("two threads", "hello", None, [hello, two]),
        ("a Python route", "hello", None, [PEERS["syncless"], beside]),
    ]


def main() -> None:
    seconds, rounds = int((sys.argv[1:] or ["3"])[0]), int((sys.argv[2:] or ["5"])[0])
    for title, application, script, peers in rows():
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            for peer in peers:
                try:
                    peer.version()
                    found.setdefault(peer.name, []).append(cpu_us(peer, application, seconds, script))
                except (Absent, OSError, AssertionError) as error:
                    print(f"{title}: {peer.name} is absent: {error}", flush=True)
        measured = {name: statistics.median(values) for name, values in found.items()}
        first = next(iter(measured.values()))
        for name, value in measured.items():
            print(f"{title:20} {name:20} {value:9.2f} us  {value / first:5.2f}", flush=True)
    measure: Callable[[Peer], float] = idle_bytes
    print(f"{IDLE} idle: {measure(native_peer('native', 'hello')):.0f} bytes each")


if __name__ == "__main__":
    main()
