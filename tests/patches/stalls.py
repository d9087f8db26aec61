"""How long a ticker beside a call that waits may stand still: a sixth of the wait, because what blocks does so for all of it.

Tests ask at most once for each of WAITS, and end with the first that passes: a machine may itself stand still for a tenth of a second
or two, again and again, and what fails for that reason passes when all takes longer.
"""

import os

WAITS = 0.3, 0.3, 0.3, 1.0, 3.0, 9.0
"""Seconds."""
WAIT = float(os.environ.get("SYNCLESS_TEST_WAIT", WAITS[0]))
"""What the programs under test wait for, in seconds."""


def worst(wait: float) -> float:
    """How long a ticker may stand still beside such a wait, both in seconds."""
    return wait / 6


def environment(wait: float) -> dict[str, str]:
    """For a program under test that is to wait for so many seconds."""
    return {**os.environ, "SYNCLESS_TEST_WAIT": str(wait)}
