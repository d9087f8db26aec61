"""Failures of workers: when the next one is tried, when the master gives up, and what it says of that."""

from __future__ import annotations

import time

from syncless.http.errorlog import warn
from syncless.http.program.slot import Slot

GIVE_UP_AFTER = 3
"""Workers that die before any has been ready."""
LONGEST_BACK_OFF = 10.0
"""Seconds between two attempts to start a worker."""


class WorkersFailed(Exception):
    """No worker could start; the text has the reason, or stderr does."""


class Failures:
    """Failures(slots): those of the workers of these slots."""

    def __init__(self, slots: list[Slot]):
        self._slots = slots
        self.ever_ready = False
        """A worker has been ready: from then on the master never gives up."""
        self._explained = ""
        """Why the last worker that could not start could not."""

    def forget(self) -> None:
        """There may be new code: each slot tries at once."""
        self._explained = ""
        for slot in self._slots:
            slot.not_before = 0.0

    def explain(self, reason: str) -> None:
        """Tells why workers cannot start: once, however many say the same. WorkersFailed if none has been
        ready."""
        if not self.ever_ready:
            raise WorkersFailed(f"no worker can start: {reason}")
        if reason != self._explained:
            self._explained = reason
            warn(f"a new worker cannot start: {reason}")

    def failed(self, slot: Slot, why: str) -> None:
        """Counts a worker that could not start, or died at once. WorkersFailed if no other has been
        better."""
        slot.failures += 1
        if not self.ever_ready and sum(slot.failures for slot in self._slots) >= GIVE_UP_AFTER:
            raise WorkersFailed(f"{why}, like others before it; none has become ready")
        self.again(slot, why)

    def again(self, slot: Slot, why: str) -> None:
        """Another worker is tried, the later the more have failed in this slot."""
        pause = min(LONGEST_BACK_OFF, 0.1 * 2**slot.failures) if slot.failures else 0.0
        slot.not_before = time.monotonic() + pause
        warn(f"{why}; another one starts{f' in {pause:.1f} s' if pause else ''}")
