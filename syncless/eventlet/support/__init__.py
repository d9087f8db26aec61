"""Names of eventlet.support that programs import."""

from __future__ import annotations

from typing import Any

from syncless.eventlet.support.greenlets import GreenletExit, getcurrent, greenlet

__all__ = ["GreenletExit", "bytes_to_str", "get_errno", "getcurrent", "greenlet"]


def get_errno(error: BaseException) -> Any:
    """Return the number of an OSError, or its first argument; None if it has neither."""
    number = getattr(error, "errno", None)
    return number if number is not None or not error.args else error.args[0]


def bytes_to_str(b: bytes, encoding: str = "ascii") -> str:
    return b.decode(encoding)
