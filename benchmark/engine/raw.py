"""What a switch of greenlets costs by itself."""

from __future__ import annotations

import greenlet

from benchmark.engine.measuring import cpu_per_operation


def run(what: str, divisor: int) -> dict[str, float]:
    """Two greenlets that do nothing but switch to one another; per switch, as schedule() is."""
    if what != "time":
        return {}

    def switch(n: int) -> None:
        main = greenlet.getcurrent()

        def other() -> None:
            while True:
                main.switch()

        there = greenlet.greenlet(other)
        for _ in range(n // 2):
            there.switch()
        there.throw(greenlet.GreenletExit)

    return {"schedule": cpu_per_operation(switch, 400_000 // divisor)}
