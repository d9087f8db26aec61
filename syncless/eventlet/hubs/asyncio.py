"""A name for the hub: programs choose `asyncio`. The loop chooses its own backend."""

from __future__ import annotations

from syncless.eventlet.hubs.hub import READ, WRITE, BaseHub

__all__ = ["READ", "WRITE", "Hub", "is_available"]


def is_available() -> bool:
    return True


class Hub(BaseHub):
    """The hub."""
