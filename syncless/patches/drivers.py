"""Database drivers that wait in C, where no patch reaches: psycopg2 and psycopg 3 have hooks for it.

The hooks are set when the driver is imported, or now if it has been. psycopg2 has a file of its own.
"""

from __future__ import annotations

from typing import Any

from syncless.patches import psycopg2
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher


def _psycopg(patcher: Patcher, waiting: Any) -> None:
    """psycopg has several ways to wait. The one that uses selectors is cooperative."""
    patcher.member_of_module(waiting, "wait", waiting.wait_selector, "waits in C")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "psycopg2.extensions", psycopg2.patch)
    when_imported(patcher, "psycopg.waiting", _psycopg)
