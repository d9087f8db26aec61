"""Attributes for each green thread."""

from __future__ import annotations

from syncless._core.tasklet import local
from syncless.eventlet.support.greenlets import getcurrent

__all__ = ["get_ident", "local"]


def get_ident() -> int:
    """Return a number of the running green thread."""
    return id(getcurrent())
