"""The cost of a switch of greenlets by itself."""

from __future__ import annotations

import greenlet

from benchmark.engine.measuring import cpu_per_operation


def run(what: str, divisor: int) -> dict[str, float]:
    """Two greenlets of the same parent that do nothing but switch to one another; per switch, as schedule()
    is measured."""
    if what != "schedule":
        return {}

    def switch(n: int) -> None:
        main = greenlet.getcurrent()

        def turn() -> None:
            here = greenlet.getcurrent()
            other = two if here is one else one
            for _ in range(n // 2):
                other.switch()
            main.switch()

        one, two = greenlet.greenlet(turn), greenlet.greenlet(turn)
        one.switch()
        for each in one, two:
            each.throw(greenlet.GreenletExit)

    return {"schedule": cpu_per_operation(switch, 400_000 // divisor)}
