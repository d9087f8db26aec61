"""Instructions per request, counted by valgrind's callgrind: the same on a busy machine as on a quiet one.

``python -m benchmark.instructions [LOAD ...] [--tree DIR]``. Each load runs twice, each time in a new server,
the second time with twice the requests. The difference divided by the additional requests is the cost of one.
The client sends one piece at a time and reads the answer, so each piece needs a poll. The figures are higher
than those of a server that finds many requests ready, but they are exact. ``keepalive+counted`` is the load
with requests counted as for metrics, ``keepalive+logged`` with the access log, ``keepalive+asgi`` with ASGI,
``keepalive+patched`` with the patch, ``keepalive+standby`` with the patch and a thread that stands by,
``keepalive+untraced`` and ``keepalive+traced`` with OpenTelemetry and none or all of the requests traced,
``"keepalive+hello unrecorded"`` without the record of its waits.
``--tree`` counts another built checkout, to compare a change with the state before it.
``make bench ARGS=instructions`` counts the loads that have a budget, and fails if one needs more, or if what
has a price of its own costs more than that.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from benchmark.servers.websocketclient import ECHO, FRAME, connect

HERE = pathlib.Path(__file__).parent
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: wrk\r\nAccept: */*\r\n\r\n"
WARM = 300  # requests before the first that counts: caches fill, type slots specialise
ENGINE = {
    "switch": """
from syncless import sleep, spawn
def turns(n):
    for _ in range(n):
        sleep(0)
a = spawn(turns, COUNT); b = spawn(turns, COUNT); a.join(); b.join()
""",
    "channel": """
from syncless import Channel, spawn
c = Channel()
def put(n):
    for i in range(n):
        c.send(i)
t = spawn(put, COUNT)
for _ in range(COUNT):
    c.receive()
t.join()
""",
    "spawn": """
from syncless import spawn
for _ in range(COUNT):
    spawn(int).join()
""",
    "timeout": """
from syncless import Timeout, sleep
for _ in range(COUNT):
    with Timeout(5):
        sleep(0)
""",
}
"""Programs that do one operation of the engine COUNT times."""


def exchange(client: socket.socket, requests: bytes, answers: int) -> None:
    """Requests in one piece, and their answers."""
    client.sendall(requests)
    received = b""
    while received.count(b"Hello, World!") < answers:
        more = client.recv(65536)
        if not more:
            raise SystemExit(f"the server closed the connection before it had answered: {received!r}")
        received += more


def kept(connections: int, pipelined: int = 1) -> Callable[[int, int], None]:
    """Requests in turn on that many kept connections."""

    def load(port: int, requests: int) -> None:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for number in range(requests // pipelined):
            exchange(clients[number % connections], REQUEST * pipelined, pipelined)
        for client in clients:
            client.close()

    load.warm = max(WARM, 4 * connections)  # type: ignore[attr-defined]
    return load


def fresh(port: int, requests: int) -> None:
    """A new connection for each request."""
    for _ in range(requests):
        with socket.create_connection(("127.0.0.1", port)) as client:
            exchange(client, REQUEST, 1)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def streams(at_once: int) -> Callable[[int, int], None]:
    """Requests on one connection of HTTP/2, so many in one piece."""
    wide = frame(8, 0, 0, (1 << 30).to_bytes(4, "big"))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(4, 1, 0) + wide
    first = b"\x82\x86\x84\x41\x09127.0.0.1\x7a\x06h2load"  # GET, http, /, :authority, user-agent
    later = b"\x82\x86\x84\xbf\xbe"  # the same, from the table

    def load(port: int, requests: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as client:
            exchange(client, preface + frame(1, 5, 1, first), 1)
            for number in range(3, 2 * requests, 2 * at_once):
                heads = [frame(1, 5, number + 2 * i, later) for i in range(at_once)]
                exchange(client, b"".join(heads), at_once)

    return load


def echoes(port: int, messages: int) -> None:
    """Messages on one WebSocket, each sent when the one before has come back."""
    with connect(port) as client:
        for _ in range(messages):
            client.sendall(FRAME)
            if client.recv(len(ECHO), socket.MSG_WAITALL) != ECHO:
                raise SystemExit("the server did not send the message back")


LOADS: dict[str, Callable[[int, int], None]] = {
    "keepalive": kept(1),
    "keepalive-64": kept(64),
    "keepalive-65": kept(65),
    "keepalive-200": kept(200),
    "keepalive-1000": kept(1000),
    "pipelined": kept(1, 16),
    "connections": fresh,
    "http2": streams(1),
    "http2-10": streams(10),
    "websocket": echoes,
}
APPLICATIONS = {"http2": "http2", "http2-10": "http2", "websocket": "echo"}
"""Of loads that are not answered by hello."""


BUDGET = {
    "keepalive": 4_700,
    "pipelined": 3_200,
    "connections": 11_050,
    "keepalive+asgi": 17_300,
    "connections+asgi": 23_700,
    "keepalive+sleep": 11_200,
    "http2": 21_000,
    "http2-10": 18_200,
    "http2+asgi": 34_000,
    "http2-10+asgi": 30_600,
    "websocket": 9_150,
    "websocket+asgi": 18_350,
}
"""The most that a request may need, on CPython 3.11: up to 2 % above the count when it was last set.
The interpreter's own instructions are the larger part, so other versions and builds need others. A new
connection needs 450 more where its request comes too late for the poll that finds it."""
PRICES = {
    "keepalive": ("keepalive+hello unrecorded", 1.005),
    "keepalive+sleep": ("keepalive+sleep unrecorded", 1.02),
    "keepalive+untraced": ("keepalive", 1.02),
}
"""A load -> the same without the record of its waits, or without OpenTelemetry, and what it may need at most,
as a multiple of that."""


def collected(
    command: list[str], tree: pathlib.Path, out: pathlib.Path | str = "/dev/null"
) -> subprocess.Popen[str]:
    """The command under callgrind, with hash randomisation and other causes of variation turned off. `out`:
    the file of its counts."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    valgrind = ["setarch", "-R", "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    return subprocess.Popen(
        [*valgrind, sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True
    )


def total(process: subprocess.Popen[str]) -> int:
    """The number of instructions that it says at its end."""
    said = process.communicate(timeout=600)[1]
    found = re.search(r"Collected : (\d+)", said)
    if process.returncode or not found:
        raise SystemExit(f"the program under valgrind failed with status {process.returncode}:\n{said}")
    return int(found[1])


Load = Callable[[int, int], None]
"""Sends that many requests to a port."""
Command = Callable[[int], list[str]]
"""The arguments of Python for a server on a port."""


def served(load: Load, requests: int, command: Command, tree: pathlib.Path) -> int:
    """Instructions of a server that starts, answers that many requests and stops."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = collected(command(port), tree)
    try:
        end = time.monotonic() + 600  # on a machine that does much else
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > end:
                    process.kill()
                    raise SystemExit(f"the server did not start:\n{process.communicate()[1]}") from None
                time.sleep(0.2)
        load(port, requests)
    finally:
        process.terminate()
    return total(process)


def per_request(load: Load, requests: int, command: Command, tree: pathlib.Path = HERE.parent) -> float:
    """Instructions for each further request, behind those that warm up."""
    warm = getattr(load, "warm", WARM)
    few, many = (served(load, number, command, tree) for number in (warm, warm + requests))
    return (many - few) / requests


def count(name: str, requests: int, tree: pathlib.Path) -> float:
    """Instructions for each further request, or each further turn of an engine's program."""
    if name in ENGINE:
        few, many = (
            total(collected(["-c", ENGINE[name].replace("COUNT", str(number))], tree))
            for number in (WARM, WARM + requests)
        )
        return (many - few) / requests
    name, _, kind = name.partition("+")

    def command(port: int) -> list[str]:
        asgi = kind == "asgi"
        application = APPLICATIONS.get(name, "hello")
        script = str(HERE / "servers" / ("run_asgi.py" if asgi else "run_syncless.py"))
        if kind == "standby":
            return [script, str(port), "hello", "0", "", "1"]
        if asgi:
            return [script, "syncless", str(port), application]
        return [script, str(port), kind or application]

    return per_request(LOADS[name], requests, command, tree)


def fewest(name: str, most: int, requests: int) -> float:
    """Instructions of a load. One that needs more than `most` is counted three times: addresses, by which
    tasks are found in sets and dictionaries, differ from run to run, and with them what collides there."""
    needed = count(name, requests, HERE.parent)
    for _ in range(2):
        if needed > most:
            needed = min(needed, count(name, requests, HERE.parent))
    return needed


def within_budget(requests: int = 12_800) -> bool:
    """Whether each load needs no more than its budget, and each price is kept. Prints both."""
    within = True
    found = {}
    for name, most in BUDGET.items():
        needed = found[name] = fewest(name, most, requests)
        within = within and needed <= most
        print(f"{name:16} {needed:10,.0f} of {most:10,}{'' if needed <= most else ': too many'}", flush=True)
    for name, (without, limit) in PRICES.items():
        for each in (name, without):
            if each not in found:
                found[each] = count(each, requests, HERE.parent)
        ratio = found[name] / found[without]
        within = within and ratio <= limit
        words = "" if ratio <= limit else ": too many"
        print(f"{name} is {ratio:.4f} of {without}, of at most {limit}{words}", flush=True)
    return within


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmark.instructions", description=__doc__)
    choices = [*LOADS, *ENGINE]
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=f"{', '.join(choices)}; default: all")
    parser.add_argument(
        "--tree",
        type=pathlib.Path,
        default=HERE.parent,
        help="the built checkout to count (default: this one)",
    )
    parser.add_argument("--requests", type=int, default=3200, help="requests that count (default 3200)")
    options = parser.parse_args()
    for name in options.loads:
        if name.partition("+")[0] not in choices:
            parser.error(f"there is no load {name!r}; choose from {', '.join(choices)}")
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    for name in options.loads or choices:
        print(f"{name:14} {count(name, options.requests, options.tree.resolve()):10,.0f}", flush=True)


if __name__ == "__main__":
    main()
