"""Database drivers that wait in C, where no patch reaches: psycopg2 and psycopg 3 have hooks for it, which
are set when they are imported.

They may have been imported before the patch, or be imported after it. See psycopg2.py for that one.
"""

from __future__ import annotations

from typing import Any

from syncless.patches import psycopg2
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher


def _psycopg(patcher: Patcher, waiting: Any) -> None:
    """It has several ways to wait; the one that stands on selectors is cooperative."""
    patcher.member_of_module(waiting, "wait", waiting.wait_selector, "waits in C")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "psycopg2.extensions", psycopg2.patch)
    when_imported(patcher, "psycopg.waiting", _psycopg)
