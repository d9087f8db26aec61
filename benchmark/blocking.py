"""Calls that wait, beside a ticker: its largest pause with OS threads, under gevent and under syncless.

``python -m benchmark blocking`` prints two tables. For the first it starts the servers of the clients' tests
and measures every library in C that is installed: thirty threads wait 0.2 s each. The second is of calls of
the standard library. ``--quick`` measures two of each, once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from benchmark import names, operations
from tests.patches import clients, servers, stalls

WAYS = ("threads", "gevent", "syncless")
THREADS = 30
PERIOD = 0.005
SECONDS = 20
"""A process that takes longer hangs: one waits in C for what another thread would do."""
ROUNDS = 3
"""The best of so many: a busy machine makes pauses of its own."""
QUICK = ["psycopg2's COPY", "pycurl"]
LIBRARIES = [*clients.IN_C, *clients.OFFLOADED, "grpcio", "redis"]


class Ticker:
    """A thread that ticks: an OS thread, a greenlet or a tasklet."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._tick)
        self._thread.start()
        time.sleep(4 * PERIOD)

    def _tick(self) -> None:
        clock = stalls.Clock()
        last = clock.now()
        while not self._over:
            time.sleep(PERIOD)
            now = clock.now()
            self.worst = max(self.worst, now - last - PERIOD)
            last = now

    def end(self) -> float:
        """Its longest pause in seconds."""
        time.sleep(2 * PERIOD)  # in which it sees what has just ended
        self._over = True
        self._thread.join()
        return self.worst


def patch(way: str, **areas: Any) -> None:
    if way == "gevent":
        importlib.import_module("gevent.monkey").patch_all()
    elif way == "syncless":
        importlib.import_module("syncless.patches").patch_all(**areas)


def measure_library(name: str, way: str, port: int) -> dict[str, float]:
    """In a process of its own: seconds, and the ticker's worst pause in seconds."""
    patch(way, drivers=name not in clients.IN_C, offload=clients.OFFLOADED.get(name, ()))
    if way == "syncless" and name in clients.IN_C:
        importlib.import_module("syncless.patches").patch_native(*clients.IN_C[name])
    clients.THREADS = THREADS
    wait = clients.CLIENTS[name][0](port)
    wait(0)
    ticker = Ticker()
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "worst": ticker.end()}


def measure_operation(name: str, way: str, directory: str) -> dict[str, float]:
    patch(way, cpu=name in operations.COMPUTE)
    call = operations.operation(name, directory)
    ticker = Ticker()
    started = time.perf_counter()
    call()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "worst": ticker.end()}


def in_process(name: str, way: str, place: int | str) -> dict[str, float] | str:
    """`place`: the port of a server, or a directory. Gives a word if nothing was measured."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmark.blocking", name, way, str(place)]
    if name == operations.NAMES:
        command = names.namespaced(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.CalledProcessError:
        return "fails"
    except subprocess.TimeoutExpired:
        return "hangs"
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cell(name: str, way: str, place: Callable[[], int | str], rounds: int) -> str:
    found = []
    for _ in range(rounds):
        one = in_process(name, way, place())
        if isinstance(one, str):
            return one
        found.append(one)
    best = min(found, key=lambda one: one["worst"])
    return f"{best['worst'] * 1000:.0f} ms, {best['seconds']:.2f} s"


def row(name: str, place: Callable[[], int | str], quick: bool) -> str:
    return " | ".join(cell(name, way, place, 1 if quick else ROUNDS) for way in WAYS)


def table_of_libraries(quick: bool) -> None:
    print("| library | OS threads, unpatched | gevent | syncless |\n|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        for name in QUICK if quick else LIBRARIES:
            _, module, server = clients.CLIENTS[name]
            if importlib.util.find_spec(module.partition(".")[0]) is None:
                print(f"| {name} | not installed | | |")
                continue
            try:
                if server not in ports:
                    ports[server] = stack.enter_context(servers.SERVERS[server]())
            except pytest.skip.Exception as why:
                print(f"| {name} | {why} | | |")
                continue
            port = ports[server]
            print(f"| {name} | {row(name, lambda port=port: port, quick)} |", flush=True)


def table_of_operations(quick: bool) -> None:
    print("| call | OS threads, unpatched | gevent | syncless |\n|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        fresh, why_not = None, ""
        try:
            fresh = stack.enter_context(operations.slow_files())
        except RuntimeError as error:
            why_not = str(error)
        for name in operations.QUICK if quick else operations.OPERATIONS:
            label = operations.label(name)
            if name == operations.NAMES and os.geteuid() != 0:
                print(f"| {label} | a name server on port 53 needs root | | |")
            elif name not in operations.FILES:
                print(f"| {label} | {row(name, lambda: '', quick)} |", flush=True)
            elif fresh is None:
                print(f"| {label} | {why_not} | | |")
            else:
                print(f"| {label} | {row(name, fresh, quick)} |", flush=True)


def table(quick: bool = False) -> None:
    table_of_libraries(quick)
    print()
    table_of_operations(quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*LIBRARIES, *operations.OPERATIONS])
    parser.add_argument("way", nargs="?", choices=WAYS)
    parser.add_argument("place", nargs="?", help="the port of the server, or a directory of slow files")
    parser.add_argument("--quick", action="store_true", help="two of each, once: whether it works")
    options = parser.parse_args()
    if options.name is None:
        table(options.quick)
        return
    code = 1
    try:
        if options.name in operations.OPERATIONS:
            found = measure_operation(options.name, options.way, options.place)
        else:
            found = measure_library(options.name, options.way, int(options.place))
        print(json.dumps(found), flush=True)
        code = 0
    except Exception:
        traceback.print_exc()
    os._exit(code)  # the ticker, and libraries with threads of their own, would go on


if __name__ == "__main__":
    main()
