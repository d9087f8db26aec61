"""Looking up names: syncless beside the C library in threads, gevent's and eventlet's resolvers on dnspython,
asyncio, uvloop and Go.

``python -m benchmark.names LIBRARY time DIVISOR`` prints one JSON object. Each library runs in its own mount
and network namespace, where /etc/resolv.conf names a server on 127.0.0.1 that answers any name. So it must be
run as root.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmark.engine import go
from benchmark.engine.asynchronous import new_event_loop
from benchmark.measure import LOAD_CORE, SERVER_CORE
from benchmark.servers import Absent

OPERATIONS = {
    "concurrent": ("1,000 names at once, a server that takes 100 ms", "s"),
    "threads": ("OS threads for that", ""),
    "uncached": ("a name for the first time, CPU", "µs"),
    "cached": ("a name once more, CPU", "µs"),
    "hosts": ("a name of /etc/hosts, CPU", "µs"),
    "numeric": ("a numeric address, CPU", "µs"),
    "first": ("the very first name: longest pause of a 5 ms ticker", "ms"),
}
"""operation -> what it is, and its unit"""


class Syncless:
    def __init__(self, resolver: str = "dns"):
        import syncless
        from syncless.io import dns

        dns.use(resolver)  # type: ignore[arg-type]
        self.spawn, self.sleep, self.getaddrinfo = syncless.spawn, syncless.sleep, dns.getaddrinfo


class Gevent:
    def __init__(self) -> None:
        os.environ["GEVENT_RESOLVER"] = "dnspython"
        # its resolver lacks what dnspython 2 calls: with 2.2 one method is enough
        if "BENCHMARK_DNSPYTHON_2_2" not in os.environ:
            raise SystemExit(
                "gevent's resolver needs dnspython 2.2, in a folder that BENCHMARK_DNSPYTHON_2_2 names"
            )
        sys.path.insert(0, os.environ["BENCHMARK_DNSPYTHON_2_2"])
        import gevent
        import gevent.socket
        from gevent.resolver import dnspython

        dnspython._DualResolver.resolve = dnspython._DualResolver.query  # type: ignore[attr-defined]

        self.spawn, self.sleep, self.getaddrinfo = gevent.spawn, gevent.sleep, gevent.socket.getaddrinfo


class Eventlet:
    def __init__(self) -> None:
        import eventlet
        from eventlet.green import socket

        class Thread:
            def __init__(self, function: Callable[..., Any], *args: Any):
                self.join = eventlet.spawn(function, *args).wait

        self.spawn, self.sleep, self.getaddrinfo = Thread, eventlet.sleep, socket.getaddrinfo


class Threads:
    def __init__(self) -> None:
        self.sleep, self.getaddrinfo = time.sleep, socket.getaddrinfo

    def spawn(self, function: Callable[..., Any], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=function, args=args)
        thread.start()
        return thread


def measure(library: Any, divisor: int) -> dict[str, float]:
    def look(name: str) -> None:
        assert library.getaddrinfo(name, 80, 0, socket.SOCK_STREAM)

    def cpu(function: Callable[[int], object], n: int) -> float:
        started = time.process_time_ns()
        for number in range(n):
            function(number)
        return (time.process_time_ns() - started) / n / 1000

    stalls: list[float] = []
    ticking = True

    def tick() -> None:
        last = time.perf_counter()
        while ticking:
            library.sleep(0.005)
            now = time.perf_counter()
            stalls.append(now - last)
            last = now

    ticker = library.spawn(tick)
    library.sleep(0.1)
    stalls.clear()
    look("first.example.")
    library.sleep(0.01)
    found = {"first": max([*stalls, 0.0]) * 1000}
    ticking = False
    ticker.join()
    count = 1000 // divisor
    started = time.perf_counter()
    if isinstance(library, Gevent):
        count = 0  # it asks one after the other, two tenths of a second each
    waiting = [library.spawn(look, f"slow{number}.example.") for number in range(count)]
    library.sleep(0.05)
    found["threads"] = float(len(os.listdir("/proc/self/task")) - 1)
    for tasklet in waiting:
        tasklet.join()
    found["concurrent"] = time.perf_counter() - started if count else float("inf")
    found["uncached"] = cpu(lambda number: look(f"name{number}.example."), 2000 // divisor)
    found["cached"] = cpu(lambda number: look("name1.example."), 5000 // divisor)
    found["hosts"] = cpu(lambda number: look("inhosts.example"), 5000 // divisor)
    found["numeric"] = cpu(lambda number: look("192.0.2.1"), 5000 // divisor)
    return found


async def measure_coroutines(divisor: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()

    async def look(name: str) -> None:
        assert await loop.getaddrinfo(name, 80, type=socket.SOCK_STREAM)

    async def cpu(name: Callable[[int], str], n: int) -> float:
        started = time.process_time_ns()
        for number in range(n):
            await look(name(number))
        return (time.process_time_ns() - started) / n / 1000

    stalls: list[float] = []

    async def tick() -> None:
        while True:
            last = time.perf_counter()
            await asyncio.sleep(0.005)
            stalls.append(time.perf_counter() - last)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.1)
    stalls.clear()
    await look("first.example.")
    await asyncio.sleep(0.01)
    found = {"first": max([*stalls, 0.0]) * 1000}
    ticker.cancel()
    started = time.perf_counter()
    waiting = asyncio.gather(*(look(f"slow{number}.example.") for number in range(1000 // divisor)))
    await asyncio.sleep(0.05)
    found["threads"] = float(len(os.listdir("/proc/self/task")) - 1)
    await waiting
    found["concurrent"] = time.perf_counter() - started
    found["uncached"] = await cpu(lambda number: f"name{number}.example.", 2000 // divisor)
    found["cached"] = await cpu(lambda number: "name1.example.", 5000 // divisor)
    found["hosts"] = await cpu(lambda number: "inhosts.example", 5000 // divisor)
    found["numeric"] = await cpu(lambda number: "192.0.2.1", 5000 // divisor)
    return found


def coroutines(library: str, divisor: int) -> dict[str, float]:
    return new_event_loop(library).run_until_complete(measure_coroutines(divisor))


LIBRARIES: dict[str, Callable[[int], dict[str, float]]] = {
    "syncless": lambda divisor: measure(Syncless(), divisor),
    "in threads": lambda divisor: measure(Syncless("thread"), divisor),
    "gevent": lambda divisor: measure(Gevent(), divisor),
    "eventlet": lambda divisor: measure(Eventlet(), divisor),
    "asyncio": lambda divisor: coroutines("asyncio", divisor),
    "uvloop": lambda divisor: coroutines("uvloop", divisor),
    "threads": lambda divisor: measure(Threads(), divisor),
    "go": lambda divisor: go.run("names", divisor),
}


def in_namespace(command: list[str]) -> None:
    """Becomes the network that the measuring process sees, and runs it."""
    from tests.io.compare_names import loopback_up

    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            "hosts": "127.0.0.1 localhost\n192.0.2.7 inhosts.example\n",
            "nsswitch.conf": "hosts: files dns\n",
            "resolv.conf": "nameserver 127.0.0.1\n",
        }.items():
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
            subprocess.run(["mount", "--bind", f"{folder}/{name}", f"/etc/{name}"], check=True)
        loopback_up()
        serving = ["taskset", "-c", str(LOAD_CORE), sys.executable, "-m", "tests.io.nameserver", "53"]
        with subprocess.Popen(serving, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline()
            done = subprocess.run(command, capture_output=True, text=True)
            server.kill()
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)


def namespaced(command: list[str]) -> list[str]:
    """A command that runs this one there."""
    here = [sys.executable, "-m", "benchmark.names", "namespace"]
    return ["unshare", "--mount", "--net", *here, *command]


def main(library: str, act: str, divisor: str) -> None:
    if act == "measure":
        try:
            found = LIBRARIES[library](int(divisor))
        except (Absent, ImportError) as error:
            sys.exit(str(error))
        print(json.dumps(found), flush=True)
        os._exit(0)
    measured = [sys.executable, "-m", "benchmark.names", library, "measure", divisor]
    sys.exit(subprocess.run(namespaced(["taskset", "-c", str(SERVER_CORE), *measured])).returncode)


if __name__ == "__main__":
    if sys.argv[1] == "namespace":
        in_namespace(sys.argv[2:])
    else:
        main(*sys.argv[1:])
