"""C libraries that wait, beside a ticker: its largest pause with OS threads, under gevent and under syncless.

``python -m benchmark blocking`` starts the servers of the clients' tests, measures every library that is
installed, and prints a table. Thirty threads wait 0.2 s each. ``--quick`` measures two libraries, once.
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
from typing import Any

import pytest

from tests.patches import clients, servers

WAYS = ("threads", "gevent", "syncless")
THREADS = 30
PERIOD = 0.005
SECONDS = 30
"""A process that takes longer hangs: one waits in C for what another thread would do."""
ROUNDS = 3
"""The best of so many: a busy machine makes pauses of its own."""
QUICK = ["psycopg2's COPY", "pycurl"]
LIBRARIES = [*clients.IN_C, *clients.OFFLOADED, "redis"]


def tick(state: dict[str, float]) -> None:
    last = time.perf_counter()
    while not state.get("over"):
        time.sleep(PERIOD)
        now = time.perf_counter()
        state["worst"] = max(state["worst"], now - last - PERIOD)
        last = now


def measure(name: str, way: str, port: int) -> dict[str, float]:
    """In a process of its own: seconds, and the ticker's worst pause in seconds."""
    if way == "gevent":
        importlib.import_module("gevent.monkey").patch_all()
    elif way == "syncless":
        patches = importlib.import_module("syncless.patches")
        patches.patch_all(drivers=False, offload=clients.OFFLOADED.get(name, ()))
        if name in clients.IN_C:
            patches.patch_native(*clients.IN_C[name])
    clients.THREADS = THREADS
    wait = clients.CLIENTS[name][0](port)
    wait(0)
    state = {"worst": 0.0}
    ticker = threading.Thread(target=tick, args=(state,))
    ticker.start()
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    state["over"] = True
    ticker.join()
    return {"seconds": seconds, "worst": state["worst"]}


def in_process(name: str, way: str, port: int) -> dict[str, float] | None:
    command = [sys.executable, "-W", "ignore", "-m", "benchmark.blocking", name, way, str(port)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cell(found: list[dict[str, float] | None]) -> str:
    whole = [one for one in found if one is not None]
    if not whole:
        return "hangs, or fails"
    best = min(whole, key=lambda one: one["worst"])
    return f"{best['worst'] * 1000:.0f} ms, {best['seconds']:.2f} s"


def table(quick: bool = False) -> None:
    print("| library | OS threads, unpatched | gevent | syncless |\n|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        ports: dict[str, Any] = {}
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
            rounds = 1 if quick else ROUNDS
            cells = [cell([in_process(name, way, ports[server]) for _ in range(rounds)]) for way in WAYS]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=LIBRARIES)
    parser.add_argument("way", nargs="?", choices=WAYS)
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("--quick", action="store_true", help="two libraries, once: whether it works")
    options = parser.parse_args()
    if options.name is None:
        table(options.quick)
    else:
        print(json.dumps(measure(options.name, options.way, options.port)), flush=True)
        os._exit(0)  # libraries with threads of their own may take long to end


if __name__ == "__main__":
    main()
