"""What files cost when what is asked for is in memory, and how long others wait beside 200 MB: unpatched, ours, gevent.

``python -m benchmark.files LIBRARY time DIVISOR`` prints one JSON object: nanoseconds of CPU per operation, milliseconds for the pauses.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable

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


def measure(library: str, divisor: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="benchmark-files-") as directory:
        return {**costs(directory, divisor), **(pauses(library, directory, divisor) if library != "unpatched" else {})}


def costs(directory: str, divisor: int) -> dict[str, float]:
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

    runs: dict[str, tuple[Callable[[], object], int, int]] = {
        "os.read 64k": (read_descriptor, 10_000, 1),
        "read 64k": (read_file, 10_000, 1),
        "open read 4k": (whole, 5_000, 1),
        "readline": (line, 50_000, 1),
        "lines": (lines, 20, 65536),
        "text": (text, 5_000, 1),
        "write 4k": (written, 3_000, 1),
        "stat": (lambda: os.stat(path), 50_000, 1),
        "exists": (lambda: os.path.exists(path), 50_000, 1),
        "listdir": (lambda: os.listdir(many), 2_000, 1),
        "scandir": (scanned, 2_000, 1),
        "pipe": (pipe, 50_000, 1),
    }
    found = {}
    for name, (function, n, each) in runs.items():
        n = max(2, n // divisor)
        for _ in range(20):
            function()
        times = []
        for _ in range(5):
            started = time.process_time_ns()
            for _ in range(n):
                function()
            times.append((time.process_time_ns() - started) / n / each)
        found[name] = min(times)
    return found


def pauses(library: str, directory: str, divisor: int) -> dict[str, float]:
    """In milliseconds, beyond the millisecond that the ticker sleeps."""
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

    return {"slowest write": longest_pause(write), "slowest read": longest_pause(read)}


def longest_pause(function: Callable[[], None]) -> float:
    import threading

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


if __name__ == "__main__":
    if sys.argv[1] == "syncless":
        from syncless.patches import patch_all

        patch_all()
    elif sys.argv[1] == "gevent":
        from gevent.monkey import patch_all

        patch_all()
    print(json.dumps(measure(sys.argv[1], int(sys.argv[3]))), flush=True)
    os._exit(0)
