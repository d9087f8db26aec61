"""Request slots: the requests of a server share `threading.local` values and thread idents in turn, like the
requests on a pool's threads. threadlocal.pyx explains why, and implements the slots."""

from __future__ import annotations

from typing import Any

from syncless._core.cpython.threadlocal import Slots, use_slots
from syncless._core.current import sleep
from syncless._core.tasklet import Tasklet, end_idle_slots, spawn
from syncless.http.errors import require_one_of

KEEP, FRESH = CHOICES = ("keep", "fresh")
IDLE_SECONDS = 60.0
"""Seconds. A slot that no request has had for that time ends, at the next look."""
ROUNDS = 4
"""Looks for idle slots in that time."""
PATIENCE_SECONDS = 2.0
"""Seconds. How long a server that stops waits for the finalisers of the values."""


class RequestSlots:
    """RequestSlots(request_slots): the slots of one server, with this option. Raise ValueError for an unknown
    value."""

    def __init__(self, request_slots: str):
        require_one_of("request_slots", request_slots, CHOICES)
        self.slots = Slots(self._tend_soon) if request_slots == KEEP else None
        """None: each request has values of its own."""
        self.tender: Tasklet[Any] | None = None
        """The tasklet that ends idle slots, while there are slots."""
        self._ended = False

    def begin(self) -> None:
        """Note that the server starts."""
        self._ended = False

    def use(self) -> None:
        """Make the current context use the server's slots."""
        use_slots(self.slots)

    def end(self) -> None:
        """End the slots after the server has stopped. Each slot ends in a tasklet with its number. Slots of
        running requests end with these requests."""
        self._ended = True
        if self.tender is not None:
            self.tender.kill(block=False)
            self._tend_soon()
            self.tender.join(PATIENCE_SECONDS)

    def _tend_soon(self) -> None:
        self.tender = spawn(self._tend)

    def _tend(self) -> None:
        me, slots = self.tender, self.slots
        assert slots is not None
        try:
            if not self._ended:
                sleep(IDLE_SECONDS / ROUNDS)
            while end_idle_slots(slots, 0 if self._ended else ROUNDS):
                sleep(IDLE_SECONDS / ROUNDS)
        finally:
            if self.tender is me:
                self.tender = None
