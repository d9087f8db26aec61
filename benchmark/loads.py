"""Load generators: ab for new connections, wrk for kept ones, h2load for HTTP/2. Each
gives requests, seconds, latencies in ms and its raw output."""

from __future__ import annotations

import pathlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmark.measure import CORES as LOAD_CORES
from benchmark.measure import LOAD_CORE, room_for
from benchmark.servers import BUILD, Absent

HERE = pathlib.Path(__file__).parent

BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) "
    "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language": "en-US,en;q=0.5",
    "Accept-Encoding": "gzip, deflate, br",
    "Cookie": "session=0123456789abcdef0123456789abcdef; theme=dark",
    "Cache-Control": "max-age=0",
    "Referer": "http://localhost/",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Site": "none",
    "Upgrade-Insecure-Requests": "1",
}
"""With Host, the twelve fields that a browser sends."""
FEW = {"User-Agent": "wrk", "Accept": "*/*"}
"""With Host, three fields."""

PATIENCE_SECONDS = 3.0
"""Longest wait of a new connection for its first answer beside idle ones."""


@dataclass
class Load:
    requests: int
    seconds: float
    errors: int
    latency_ms: dict[str, float] = field(default_factory=dict)
    raw: str = ""
    distribution: list[float] = field(default_factory=list)
    """Latencies in ms by percentile, from 0 to 100, where that is of interest."""


def _run(command: list[str], cores: list[int] | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise Absent(f"{command[0]} is not installed")
    return subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores or [LOAD_CORE])), *command],
        capture_output=True,
        text=True,
        timeout=600,
    ).stdout


def ab(port: int, requests: int, connections: int = 50, keep: bool = False) -> Load:
    """A new connection for each request, unless they are kept. `worst connect`: the most ms that the
    connection itself took."""
    raw = _run(
        [
            "ab",
            "-q",
            *(["-k"] if keep else []),
            "-n",
            str(requests),
            "-c",
            str(connections),
            f"http://127.0.0.1:{port}/",
        ]
    )

    def number(pattern: str) -> float:
        found = re.search(pattern, raw)
        return float(found[1]) if found else 0.0

    latency = {name: number(rf"\n\s+{name}%\s+(\d+)") for name in ("50", "99", "100")}
    return Load(
        int(number(r"Complete requests:\s+(\d+)")),
        number(r"Time taken for tests:\s+([\d.]+)"),
        int(number(r"Failed requests:\s+(\d+)") + number(r"Non-2xx responses:\s+(\d+)")),
        {
            "p50": latency["50"],
            "p99": latency["99"],
            "max": latency["100"],
            "worst connect": number(r"Connect:.* (\d+)\n"),
        },
        raw,
    )


def h2load(port: int, requests: int, connections: int, streams: int, tls: bool = False) -> Load:
    """Each connection with so many streams at a time. One on which nothing comes for 20 s is given up: its
    requests are errors."""
    log = BUILD / "h2load.log"
    log.unlink(missing_ok=True)
    command = ["h2load", f"-n{requests}", f"-c{connections}", f"-m{streams}", "-N20", f"--log-file={log}"]
    raw = _run([*command, f"http{'s' * tls}://127.0.0.1:{port}/"])
    finished = re.search(r"finished in ([\d.]+)(us|ms|s|m)", raw)
    if not finished:
        raise AssertionError(f"h2load said nothing of its requests:\n{raw}")
    answers = [line.split() for line in log.read_text().splitlines()]  # start, status, us until its end
    took = sorted(int(us) / 1000 for _, status, us in answers if status == "200")
    if not took:
        raise AssertionError(f"no request was answered:\n{raw}")
    return Load(
        len(took),
        float(finished[1]) * _UNITS[finished[2]] / 1000,
        requests - len(took),
        {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100], "max": took[-1]},
        raw,
    )


_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60000.0}


def wrk(
    port: int,
    seconds: int,
    connections: int = 50,
    headers: dict[str, str] | None = None,
    script: str | None = None,
    threads: int = 1,
    cores: list[int] | None = None,
    arguments: Sequence[str] = (),
    tls: bool = False,
) -> Load:
    """Kept connections, each with one request at a time unless the script pipelines; it gets the `arguments`.
    Several threads may use all cores."""
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s"]
    for name, value in (headers or {}).items():
        command += ["-H", f"{name}: {value}"]
    if script:
        command += ["-s", str(HERE / script)]
    if threads > 1:
        cores = LOAD_CORES
    raw = _run([*command, f"http{'s' * tls}://127.0.0.1:{port}/", "--", *arguments], cores)
    counted = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", raw)
    if not counted:
        raise AssertionError(f"wrk said nothing of its requests:\n{raw}")

    def latency(pattern: str) -> float:
        found = re.search(pattern + r"\s+([\d.]+)(us|ms|s|m)", raw)
        return float(found[1]) * _UNITS[found[2]] if found else 0.0

    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", raw)))
    errors += sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", raw)))
    worst = re.search(r"Latency\s+\S+\s+\S+\s+([\d.]+)(us|ms|s|m)", raw)
    return Load(
        int(counted[1]),
        float(counted[2]) * _UNITS[counted[3]] / 1000,
        errors,
        {
            "p50": latency(r"\n\s+50%"),
            "p99": latency(r"\n\s+99%"),
            "max": float(worst[1]) * _UNITS[worst[2]] if worst else 0.0,
        },
        raw,
    )


@contextmanager
def idle_clients(port: int, wanted: int) -> Iterator[list[socket.socket]]:
    """That many connections, or as many as there is room for, that have each had one answer."""
    wanted = room_for(wanted)
    clients: list[socket.socket] = []
    end = time.monotonic() + 120
    try:
        for number in range(wanted):
            if time.monotonic() > end:
                raise AssertionError(f"in two minutes only {number:,} connections had their responses")
            try:
                client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
                clients.append(client)
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.recv(1000)
            except TimeoutError:
                raise AssertionError(
                    f"with {number:,} idle connections the next one has no response in {PATIENCE_SECONDS:g} s"
                ) from None
        yield clients
    finally:
        for client in clients:
            client.close()
