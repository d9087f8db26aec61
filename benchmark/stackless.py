"""``python -m benchmark stackless``: Stackless's operations here, and goless on them and on gevent.

Each library runs in a process of its own, because goless chooses its backend at import.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from benchmark.engine.measuring import cpu_per_operation

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


POST = "http://www.stackless.com/pipermail/stackless/2003-April/002023.html"
PUBLISHED = (
    "Stackless itself does not run on today's interpreters, so it cannot be measured beside this one. Its "
    f"author published for 3.0 alpha 1 in [2003]({POST}) 4.2 million soft switches of frames a second and "
    "2.6 million with the C stack, which are 240 and 380 ns, on a processor of 1.67 GHz. They are switches "
    "in C, without `schedule()` around them."
)


def measure(library: str, divisor: int) -> dict[str, float]:
    """Each operation, a `divisor` of the usual times."""
    functions = LIBRARIES[library]()
    return {
        name: cpu_per_operation(functions[name], max(MANY, n // divisor))
        for name, (_, n) in OPERATIONS.items()
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[3]))), flush=True)
