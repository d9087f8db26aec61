"""``python -m benchmark.stackless``: Stackless's operations here, and goless on them and on gevent.

Prints CPU ns per operation, the median of the rounds. Each library runs in a process of its own, because
goless chooses its backend at import. docs/moving/stackless.md has figures that were published for Stackless.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmark.engine.measuring import cpu_per_operation

ROUNDS = 5
MANY = 10_000
"""Tasklets that exist at the same time where they are started."""


def direct() -> dict[str, Callable[[int], object]]:
    """syncless.stackless itself."""
    import syncless.stackless as stackless

    def schedule(n: int) -> None:
        def turns() -> None:
            for _ in range(n // 2):
                stackless.schedule()

        stackless.tasklet(turns)()
        stackless.tasklet(turns)()
        stackless.run()

    def exchange(n: int) -> None:
        channel = stackless.channel()

        def send() -> None:
            for number in range(n):
                channel.send(number)

        stackless.tasklet(send)()
        for _ in range(n):
            channel.receive()
        stackless.run()

    def start(n: int) -> None:
        for _ in range(n // MANY):
            for _ in range(MANY):
                stackless.tasklet(int)()
            stackless.run()

    return {"schedule": schedule, "channel": exchange, "start": start}


def through_goless() -> dict[str, Callable[[int], object]]:
    import goless

    def schedule(n: int) -> None:
        def turns() -> None:
            for _ in range(n // 2):
                goless.backends.current.yield_()

        ended = goless.chan(2)
        for _ in range(2):
            goless.go(lambda: (turns(), ended.send(None)))
        ended.recv()
        ended.recv()

    def exchange(n: int) -> None:
        channel = goless.chan()

        def send() -> None:
            for number in range(n):
                channel.send(number)

        goless.go(send)
        for _ in range(n):
            channel.recv()

    def start(n: int) -> None:
        ended = goless.chan(-1)
        for _ in range(n // MANY):
            for _ in range(MANY):
                goless.go(ended.send, None)
            for _ in range(MANY):
                ended.recv()

    return {"schedule": schedule, "channel": exchange, "start": start}


def goless_on_syncless() -> dict[str, Callable[[int], object]]:
    import syncless.stackless

    sys.modules["stackless"] = syncless.stackless
    return through_goless()


LIBRARIES = {
    "syncless.stackless": direct,
    "goless on syncless.stackless": goless_on_syncless,
    "goless on gevent": through_goless,
}
OPERATIONS = {
    "schedule": ("schedule() of two", 200_000),
    "channel": ("channel, send + receive", 100_000),
    "start": ("start 10,000, and run them, each", 50_000),
}


def measure(library: str) -> dict[str, float]:
    functions = LIBRARIES[library]()
    return {name: cpu_per_operation(functions[name], n) for name, (_, n) in OPERATIONS.items()}


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return 0
    table: dict[str, Any] = {}
    for library in LIBRARIES:
        rounds = []
        for _ in range(ROUNDS):
            command = [sys.executable, "-W", "ignore", "-m", "benchmark.stackless", library]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                print(f"{library}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                break
            rounds.append(json.loads(done.stdout))
        if rounds:
            table[library] = {name: statistics.median(each[name] for each in rounds) for name in OPERATIONS}
    print(f"| CPU ns per operation, Python {sys.version.split()[0]} | {' | '.join(table)} |")
    print("|---" * (len(table) + 1) + "|")
    for name, (text, _) in OPERATIONS.items():
        print(f"| {text} | {' | '.join(f'{row[name]:,.0f}' for row in table.values())} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
