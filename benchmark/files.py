"""The cost of file operations on data in memory, and how long others pause while 200 MB are read or written.

Unpatched (with the pauses of threads), patched by syncless, gevent, eventlet; asyncio and uvloop, which have
no files, with asyncio.to_thread(); Go.

``python -m benchmark.files LIBRARY time DIVISOR`` prints one JSON object: nanoseconds of CPU per operation,
milliseconds for the pauses.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmark.engine import go
from benchmark.engine.asynchronous import new_event_loop
from benchmark.servers import Absent

OPERATIONS: dict[str, str] = {
    "os.read 64k": "os.read, 64 kB",
    "read 64k": "file.read, 64 kB",
    "open read 4k": "open().read(), 4 kB",
    "readline": "readline of a binary file",
    "lines": "iteration over lines, a line",
    "text": "open() as text, read, close",
    "write 4k": "open(), write 4 kB, close",
    "stat": "os.stat",
    "exists": "os.path.exists",
    "listdir": "os.listdir, 100 files",
    "scandir": "os.scandir, 100 files, is_file of each",
    "pipe": "os.write + os.read, a pipe",
    "slowest read": "200 MB read by one: longest pause of a 1 ms ticker",
    "slowest write": "200 MB written by one: longest pause of a 1 ms ticker",
}
"""operation -> what it is"""

PAUSES = frozenset({"slowest read", "slowest write"})
MEGABYTE = 1 << 20

PATCHES = {
    "syncless": ("syncless.patches", "patch_all"),
    "gevent": ("gevent.monkey", "patch_all"),
    "eventlet": ("eventlet", "monkey_patch"),
}
"""library -> the function that patches: its module, its name"""


@dataclass
class Run:
    function: Callable[[], object]
    n: int
    """how often"""
    each: int = 1
    """how many operations at a time"""


def operations(directory: str) -> dict[str, Run]:
    path, large = os.path.join(directory, "small"), os.path.join(directory, "large")
    many = os.path.join(directory, "many")
    os.mkdir(many)
    for number in range(100):
        with open(os.path.join(many, str(number)), "w"):
            pass
    with open(path, "wb") as file:
        file.write((b"x" * 63 + b"\n") * 64)
    with open(large, "wb") as file:
        file.write((b"x" * 63 + b"\n") * 1024 * 64)
    fd = os.open(large, os.O_RDONLY)
    buffered = open(large, "rb")  # noqa: SIM115
    listed = open(large, "rb")  # noqa: SIM115
    data = b"x" * 4096
    reading, writing = os.pipe()

    def read_descriptor() -> None:
        if not os.read(fd, 65536):
            os.lseek(fd, 0, 0)

    def read_file() -> None:
        if not buffered.read(65536):
            buffered.seek(0)

    def line() -> None:
        if not listed.readline():
            listed.seek(0)

    def whole() -> None:
        with open(path, "rb") as file:
            file.read()

    def text() -> None:
        with open(path) as file:
            file.read()

    def written() -> None:
        with open(path + "2", "wb") as file:
            file.write(data)

    def lines() -> None:
        with open(large, "rb") as file:
            for _ in file:
                pass

    def scanned() -> None:
        for entry in os.scandir(many):
            entry.is_file()

    def pipe() -> None:
        os.write(writing, data[:64])
        os.read(reading, 100)

    return {
        "os.read 64k": Run(read_descriptor, 10_000),
        "read 64k": Run(read_file, 10_000),
        "open read 4k": Run(whole, 5_000),
        "readline": Run(line, 50_000),
        "lines": Run(lines, 20, 65536),
        "text": Run(text, 5_000),
        "write 4k": Run(written, 3_000),
        "stat": Run(lambda: os.stat(path), 50_000),
        "exists": Run(lambda: os.path.exists(path), 50_000),
        "listdir": Run(lambda: os.listdir(many), 2_000),
        "scandir": Run(scanned, 2_000),
        "pipe": Run(pipe, 50_000),
    }


def huge_file(directory: str, divisor: int) -> dict[str, Callable[[], object]]:
    path = os.path.join(directory, "huge")
    size = max(1, 200 // divisor)

    def write() -> None:
        with open(path, "wb") as file:
            for _ in range(size):
                file.write(bytes(MEGABYTE))

    kept = []  # giving 200 MB back to the system takes its time, too, but is not reading

    def read() -> None:
        with open(path, "rb") as file:
            kept.append(file.read())
        assert len(kept[0]) == size * MEGABYTE

    return {"slowest write": write, "slowest read": read}


def measure(directory: str, divisor: int) -> dict[str, float]:
    found = {}
    for name, run in operations(directory).items():
        n = max(2, run.n // divisor)
        for _ in range(20):
            run.function()
        times = []
        for _ in range(5):
            started = time.process_time_ns()
            for _ in range(n):
                run.function()
            times.append((time.process_time_ns() - started) / n / run.each)
        found[name] = min(times)
    for name, function in huge_file(directory, divisor).items():
        found[name] = longest_pause(function)
    return found


def longest_pause(function: Callable[[], object]) -> float:
    """In milliseconds, beyond the millisecond that the ticker sleeps."""
    stop = False
    worst = 0.0

    def tick() -> None:
        nonlocal worst
        last = time.monotonic()
        while not stop:
            time.sleep(0.001)
            worst, last = max(worst, time.monotonic() - last), time.monotonic()

    ticker = threading.Thread(target=tick)
    ticker.start()
    time.sleep(0.01)
    worst = 0.0
    function()
    stop = True
    ticker.join()
    return worst * 1000 - 1


async def measure_coroutines(directory: str, divisor: int) -> dict[str, float]:
    """As measure(), each operation by a thread of the loop's."""
    found = {}
    for name, run in operations(directory).items():
        if name == "pipe":
            continue  # for which there are streams
        n = max(2, run.n // divisor // 10)
        times = []
        for _ in range(5):
            started = time.process_time_ns()
            for _ in range(n):
                await asyncio.to_thread(run.function)
            times.append((time.process_time_ns() - started) / n / run.each)
        found[name] = min(times)
    for name, function in huge_file(directory, divisor).items():
        worst = 0.0

        async def tick() -> None:
            nonlocal worst
            while True:
                last = time.monotonic()
                await asyncio.sleep(0.001)
                worst = max(worst, time.monotonic() - last)

        ticker = asyncio.create_task(tick())
        await asyncio.to_thread(function)
        ticker.cancel()
        found[name] = worst * 1000 - 1
    return found


def run_library(library: str, divisor: int) -> dict[str, float]:
    if library == "go":
        return go.run("files", divisor)
    if library in PATCHES:
        module, function = PATCHES[library]
        getattr(importlib.import_module(module), function)()
    with tempfile.TemporaryDirectory(prefix="benchmark-files-") as directory:
        if library in ("asyncio", "uvloop"):
            return new_event_loop(library).run_until_complete(measure_coroutines(directory, divisor))
        return measure(directory, divisor)


if __name__ == "__main__":
    try:
        found = run_library(sys.argv[1], int(sys.argv[3]))
    except (Absent, ImportError) as error:
        sys.exit(str(error))
    print(json.dumps(found), flush=True)
    os._exit(0)
