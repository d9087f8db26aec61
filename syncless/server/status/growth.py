"""Growth: the places in a program where more and more tasklets wait.

Takes: the tasklets of a process, every second. Gives: the places, with how many wait there now, and how many
more they have become. A leak of tasklets shows only there: each of them is in order, and nothing fails until
the memory does.

Decision: a place is a line of the application and the reason of the wait. It grows if in each quarter of the
time there were never as few as in the quarter before, and now at least LEAST more than at first: traffic goes
up and down within minutes, and forgotten tasklets only become more. Price: each minute the place of MOST
tasklets is looked up, some microseconds each; of more, a part is looked up.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from operator import itemgetter
from typing import Any

from syncless._core.tasklet import Tasklet
from syncless.server.status.places import place_of_wait

EVERY = 60.0
"""Seconds between two looks."""
LOOKS = 60
"""That are kept: an hour."""
FIRST_TOLD = 12
"""Looks before anything is told."""
LEAST = 50
"""Tasklets that have come."""
MOST = 2000
"""Tasklets whose places are looked up at a time."""
SHOWN = 10
"""Places, those that have grown most."""


class Growth:
    """Growth(): starts with the first look()."""

    def __init__(self) -> None:
        self.growing: list[dict[str, Any]] = []
        """The places: `where`, `waits_for`, `tasklets` now, `grown` by, in `seconds`."""
        self._looks: deque[Counter[tuple[str, str]]] = deque(maxlen=LOOKS)
        self._last = float("-inf")

    def look(self, tasklets: list[Tasklet[Any]]) -> None:
        """Look at these, if it is time."""
        now = time.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        self._looks.append(_places(tasklets))
        self.growing = self._found()

    def _found(self) -> list[dict[str, Any]]:
        looks = list(self._looks)
        if len(looks) < FIRST_TOLD:
            return []
        found = []
        for place, count in looks[-1].items():
            counts = [each[place] for each in looks]
            quarter = len(counts) // 4
            parts = [counts[:quarter], *(counts[-quarter * n :][:quarter] for n in (3, 2, 1))]
            least = [min(part) for part in parts]
            if least[0] < least[1] < least[2] < least[3] and least[3] - max(parts[0]) >= LEAST:
                waits_for, where = place
                grown, seconds = count - counts[0], EVERY * (len(counts) - 1)
                told = {"where": where, "waits_for": waits_for, "tasklets": count}
                found.append(told | {"grown": grown, "seconds": seconds})
        return sorted(found, key=itemgetter("grown"), reverse=True)[:SHOWN]


def _places(tasklets: list[Tasklet[Any]]) -> Counter[tuple[str, str]]:
    """Return how many wait at each place, for each reason."""
    step = -(-len(tasklets) // MOST) or 1
    found: Counter[tuple[str, str]] = Counter()
    for tasklet in tasklets[::step]:
        why = tasklet.waiting_for
        if why is not None:
            try:
                where = place_of_wait(tasklet)
            except Exception:  # it goes on meanwhile
                continue
            found[why, where or "unknown"] += step
    return found
