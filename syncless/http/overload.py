"""AutoLimit: how many requests run at a time where the limit `requests` is "auto", and how long others wait.

Takes the time that each request took, gives the limit; has no clock of its own, so tests drive it by a
virtual one (tests/http/test_auto_limit.py). It does not know requests: listener/admission.pxi counts and
queues them.

The limit follows a gradient: latency with few requests, divided by latency now. As long as more requests at a
time do not make each slower, there is room for more. From then on they only wait for each other, behind a
database's connections perhaps, and the limit shrinks to where that begins. The formula is that of Netflix's
concurrency-limits (Gradient2Limit) and of Envoy's adaptive concurrency:

    gradient = tolerance * latency with few requests / latency now,   from 0.5 to 2
    limit    = gradient * limit + headroom

Fact: Netflix takes the average of the last minutes for the first latency. Danger: in an overload that lasts,
it becomes the new normal, and the limit grows on. Decision: as Envoy, it is measured, by fewer requests for a
moment. Envoy lets 3 run; here half as many as before, and half of these again only while that makes requests
faster. Price: a moment at half the rate, every PROBE_SECONDS and when the limit
has halved, while there are more requests than may run.

Requests beyond the limit wait, and how long they may is the rule of "Fail at Scale" (Maurer, ACM Queue 13-8,
2015), after the router algorithm CoDel: a queue that has not been empty for a while will not get empty by
waiting. Then the newest is next, whose client is still there, and those that have waited longer get a 503.
"""

from __future__ import annotations

from math import sqrt

from syncless.http.priorities import HIGH, LOW

START = 20
"""Requests at first, until there are measurements (Netflix: 20)."""
LEAST, MOST = 3, 10_000
"""Bounds of the limit (Envoy: 3, 1000)."""
TOLERANCE = 1.1
"""How much longer requests may take than with few of them (Netflix: 1.5, Envoy: 1.25)."""
WINDOW_SECONDS = 0.1
SAMPLES = 50
"""A measurement lasts as long, and has at least as many requests (Envoy: 0.1 s, 50)."""
PROBE_SECONDS, PROBE_SHARE = 10.0, 20
"""Seconds between two measurements with few requests, and as a multiple of the last one (Envoy: 60)."""
FASTER = 0.75
"""Requests that take at most that share of the time have waited for each other before."""
STANDING_SECONDS = 0.1
"""Seconds after which a queue that was never empty is late ("Fail at Scale": 0.1), or empty for good."""
TARGET_SECONDS = 0.005
"""Seconds that requests may wait in a late queue ("Fail at Scale": 0.005), or half their latency."""


class AutoLimit:
    """AutoLimit(now): all times are in seconds, by any clock."""

    def __init__(self, now: float) -> None:
        self.limit = START
        self.latency = 0.0
        """Seconds that a request takes when few run; 0: not known yet."""
        self.late = False
        """Whether requests have waited for so long that the newest is next."""
        self.queued = 0
        """Requests that wait."""
        self._exact = float(START)
        self._grows_fast = True
        """As in TCP's slow start: the limit doubles until requests get slower."""
        self._full = 0.0
        """The limit before a probe; 0: there is none."""
        self._usual = 0.0
        """The limit at the last probe; half of it is a reason for the next."""
        self._slower = 0.0
        """The latency at twice the limit, in a probe."""
        self._next_probe = self._probe_began = now
        self._mean = 0.0
        """The latency that was measured last."""
        self._stood_since = now
        """When the queue was empty for good for the last time."""
        self._left = now - STANDING_SECONDS
        """When it was empty for the last time."""
        self._count = self._most = 0
        self._seconds = 0.0
        self._measure(now)

    # -- how many run ---------------------------------------------------------------------------------------

    def ended(self, now: float, seconds: float, running: int) -> int:
        """A request has ended that ran for `seconds`, with `running` in all. Return the limit."""
        if now >= self._opens:
            self._count += 1
            self._seconds += seconds
            self._most = max(self._most, running)
            if now >= self._closes and self._count >= SAMPLES:
                self._conclude(now, self._seconds / self._count)
                self._measure(now)
        return self.limit

    def _measure(self, now: float) -> None:
        """Begin a measurement, when the requests that began before have ended."""
        self._opens = now + self._mean
        self._closes = self._opens + max(WINDOW_SECONDS, self._mean)
        self._count = self._most = 0
        self._seconds = 0.0

    def _conclude(self, now: float, mean: float) -> None:
        self._mean = mean
        if self._full:
            self._go_on_with_probe(now, mean)
        elif self._most < self._exact / 2:  # the limit limits nothing
            self.latency += (mean - self.latency) / (8 if self.latency else 1)
        elif not self.latency or now >= self._next_probe or self._exact < self._usual / 2:
            self._full = self._usual = self._exact
            self._probe_began = now
            self._slower = mean
            self._set(self._exact / 2)
        else:
            self._follow(mean)

    def _go_on_with_probe(self, now: float, mean: float) -> None:
        if mean <= self._slower * FASTER and self.limit > LEAST:
            self._slower = mean
            self._set(self._exact / 2)
            return
        slow = mean > self.latency * 1.5
        if self.latency and not slow:
            mean = (mean + self.latency) / 2
        self.latency = mean
        self._next_probe = now + max(PROBE_SECONDS, PROBE_SHARE * (now - self._probe_began))
        self._grows_fast |= slow
        self._set(self._full)
        self._full = 0.0

    def _follow(self, mean: float) -> None:
        gradient = max(0.5, min(2.0, TOLERANCE * self.latency / mean))
        self._grows_fast &= gradient >= 1.0
        if self._grows_fast:
            self._set(self._exact * 2)
        else:
            self._set(self._exact * gradient + sqrt(self._exact) / 2)

    def _set(self, limit: float) -> None:
        self._exact = max(float(LEAST), min(float(MOST), limit))
        self.limit = round(self._exact)

    # -- how long the others wait ---------------------------------------------------------------------------

    def may_wait(self, now: float, rank: int) -> bool:
        """Return whether a request of this rank may begin to wait."""
        if not self.queued and now - self._left >= self._standing():
            self._stood_since, self.late = now, False
        return not (self.look(now) and rank == LOW)

    def waits(self, now: float) -> None:
        """A request begins to wait."""
        self.queued += 1

    def waits_no_more(self, now: float) -> None:
        self.queued -= 1
        self._left = now

    def look(self, now: float) -> bool:
        """Return whether the newest of those that wait is next."""
        if self.queued and now - self._stood_since >= self._standing():
            self.late = True
        return self.late

    def patience(self, rank: int) -> float:
        """Return for how many seconds a request of this rank may wait."""
        if not self.late or rank <= HIGH:
            return self._standing()
        return 0.0 if rank == LOW else max(TARGET_SECONDS, self.latency / 2)

    def _standing(self) -> float:
        return max(STANDING_SECONDS, 2 * self.latency)
