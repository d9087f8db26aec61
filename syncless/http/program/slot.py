"""A worker process as its master sees it, and the place that one has. master.py moves them."""

from __future__ import annotations

import time
from socket import socket


class Worker:
    """A process, as its master sees it."""

    def __init__(self, pid: int, pipe: int, clock: int):
        self.pid = pid
        self.pipe = pipe
        self.clock = clock
        self.born = time.monotonic()
        self.ready = False
        self.reason: bytes | None = None
        """Why it cannot start, if it has said so."""
        self.unwanted = False
        """To be replaced by another one."""
        self.tired = False
        """It has asked for that itself."""
        self.reopen = False
        """Log files have been renamed since it was born, and it was not ready to be told."""
        self.killed_at = 0.0
        """When it is killed unless it has ended by then; 0: not yet decided."""


class Slot:
    """The place of one worker."""

    def __init__(self) -> None:
        self.current: Worker | None = None
        self.next: Worker | None = None
        self.failures = 0
        self.not_before = 0.0
        self.listeners: list[tuple[socket, bool]] = []
        """Its own with reuse_port, else those that all share."""
