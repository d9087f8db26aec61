"""The shapes of HttpArena's HTTP/1.1 profiles (www.http-arena.com) that the other experiments do not have, on
one core and beside the servers that people compare there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from benchmark.experiment import Experiment, Scale
from benchmark.loads import Load, wrk
from benchmark.measure import on_load_core
from benchmark.servers import Running

PYTHON = ("fastpysgi", "granian", "bjoern", "peregrine")
OTHERS = ("node", "go fasthttp")
AHEAD = dict.fromkeys((*PYTHON, "node"), 1.0)
CONNECTIONS = 50
SUM = b"GET /?a=13&b=42 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: arena\r\nAccept: */*\r\n\r\n"
PIECES = (SUM[:9], SUM[9:40], SUM[40:-3], SUM[-3:])
NOISE = (b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"BAD REQUEST\r\n\r\n", bytes(range(128, 192)))


class _Client:
    """A connection that the server may close, and that is then made anew."""

    def __init__(self, port: int):
        self.address = ("127.0.0.1", port)
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(self.address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def is_right(self) -> bool:
        """Reads a response: whether it is that to SUM."""
        response = b""
        while not response.endswith(b"\r\n\r\n55"):
            more = self.socket.recv(65536)
            if not more:
                return False
            response += more
        return response.startswith(b"HTTP/1.1 200 ")

    def read_away(self) -> None:
        """Reads an answer to what is no request, up to the end of the connection; then begins another one. A
        server may close without a word."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(65536):
                pass
        except OSError:
            pass  # it is closed
        self.socket.close()
        self.connect()


@on_load_core()
def in_pieces(server: Running, pieces: Sequence[bytes], rounds: int, noise: Sequence[bytes] = ()) -> Load:
    """CONNECTIONS requests in each round. A piece goes out on all connections before the next one, so the
    server meets each alone. With `noise`, each fourth connection sends some of it instead."""
    clients = [_Client(server.port) for _ in range(CONNECTIONS)]
    noisy = clients[::4] if noise else []
    asking = [client for client in clients if client not in noisy]
    took, errors = [], 0
    started = time.perf_counter()
    for number in range(rounds):
        for client in noisy:
            client.socket.sendall(noise[number % len(noise)])
        for piece in pieces:
            for client in asking:
                client.socket.sendall(piece)
        sent = time.perf_counter()
        for client in asking:
            errors += not client.is_right()
            took.append((time.perf_counter() - sent) * 1e3)
        for client in noisy:
            client.read_away()
    seconds = time.perf_counter() - started
    for client in clients:
        client.socket.close()
    took.sort()
    latency = {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100], "max": took[-1]}
    return Load(len(took), seconds, errors, latency, f"{rounds} rounds")


def _rounds(scale: Scale) -> int:
    return max(2, scale.requests // 4 // CONNECTIONS)


def _experiment(
    name: str,
    title: str,
    application: str,
    load: Callable[[Running, Scale], Load],
    targets: dict[str, float] = AHEAD,
    peers: tuple[str, ...] = (*PYTHON, *OTHERS),
    note: str = "",
) -> Experiment:
    return Experiment(f"httparena-{name}", title, application, ("syncless", *peers), load, targets, note=note)


ARENA = (
    _experiment(
        "baseline",
        "Sums: a GET, a POST and a chunked POST with numbers to add, in turn, `wrk -t1 -c50`",
        "sum",
        lambda server, scale: wrk(server.port, scale.seconds, script="arena.lua"),
    ),
    _experiment(
        "limited",
        "Sums on short connections: ten requests on each, `wrk -t1 -c50`",
        "sum",
        lambda server, scale: wrk(server.port, scale.seconds, script="arena.lua", arguments=("closing",)),
    ),
    _experiment(
        "json",
        "A list as JSON: 50 items, each with its total, `wrk -t1 -c50`",
        "items",
        lambda server, scale: wrk(server.port, scale.seconds),
        dict.fromkeys(PYTHON, 1.0),
        note="Most of the time is spent in Python's `json`.",
    ),
    _experiment(
        "upload",
        "Upload: 20 MB posted, the number of bytes returned, `wrk -t1 -c8`",
        "upload",
        lambda server, scale: wrk(server.port, 2 * scale.seconds, connections=8, script="arenaupload.lua"),
    ),
    _experiment(
        "database",
        "Rows from SQLite: 50 rows of an indexed table, as JSON, `wrk -t1 -c50`",
        "database",
        lambda server, scale: wrk(server.port, scale.seconds),
        dict.fromkeys(PYTHON, 1.0),
        PYTHON,
    ),
    _experiment(
        "fragments",
        f"Fragments: each request arrives in {len(PIECES)} pieces, {CONNECTIONS} connections",
        "sum",
        lambda server, scale: in_pieces(server, PIECES, _rounds(scale)),
        note="The client is written in Python and takes longer than the servers, so the rate says little.",
    ),
    _experiment(
        "noisy",
        f"Noise: one in four of {CONNECTIONS} connections sends bytes that are not HTTP",
        "sum",
        lambda server, scale: in_pieces(server, (SUM,), _rounds(scale), NOISE),
        note="The cost of a request includes that of refusals and of their new connections.",
    ),
)
