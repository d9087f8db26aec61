"""Request slots: requests keep `threading.local` values and thread idents for one another, as a pool's
threads would. threadlocal.pyx says why, and has the slots; they are those of the process."""

from __future__ import annotations

from typing import Any

from syncless._core.cpython.threadlocal import keep_slots
from syncless._core.current import sleep
from syncless._core.tasklet import Tasklet, end_idle_slots, spawn

KEEP, FRESH = CHOICES = ("keep", "fresh")
IDLE_SECONDS = 60.0
"""Seconds. A slot that no request has had for that time ends, at the next look."""
ROUNDS = 4
"""Looks for idle slots in that time."""
PATIENCE_SECONDS = 2.0
"""Seconds. How long a server that stops waits for the finalisers of the values."""

_tender: Tasklet[Any] | None = None
"""The tasklet that ends idle slots, while there are slots."""


def begin(request_slots: str) -> None:
    """A server starts, with this option. ValueError."""
    keep_slots(request_slots == KEEP, _tend_soon)


def end() -> None:
    """A server has stopped: slots end, in a tasklet that has their numbers."""
    if _tender is not None:
        _tender.kill(block=False)
        spawn(end_idle_slots, 0).join(PATIENCE_SECONDS)


def _tend_soon() -> None:
    global _tender
    _tender = spawn(_tend)


def _tend() -> None:
    global _tender
    try:
        while True:
            sleep(IDLE_SECONDS / ROUNDS)
            if not end_idle_slots(ROUNDS):
                break
    finally:
        _tender = None
