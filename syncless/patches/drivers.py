"""Database drivers that wait in C, where no patch reaches: psycopg2 and psycopg 3 have hooks for it, which are set when they are imported.

They may have been imported before the patch, or be imported after it.
"""

from __future__ import annotations

from typing import Any

from syncless._core.loop import wait_readable, wait_writable
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher


def _psycopg2(patcher: Patcher, extensions: Any) -> None:
    def wait_callback(connection: Any) -> None:
        """Parks until the server has answered."""
        while (state := connection.poll()) != extensions.POLL_OK:
            if state == extensions.POLL_READ:
                wait_readable(connection)
            elif state == extensions.POLL_WRITE:
                wait_writable(connection)
            else:
                raise extensions.OperationalError(f"psycopg2's connection is in the unknown state {state!r}")

    before = extensions.get_wait_callback()
    extensions.set_wait_callback(wait_callback)
    restore = lambda: extensions.set_wait_callback(before)  # noqa: E731
    patcher.note("psycopg2.extensions.set_wait_callback", wait_callback, "waits in C", restore)


def _psycopg(patcher: Patcher, waiting: Any) -> None:
    """It has several ways to wait; the one that stands on selectors is cooperative."""
    patcher.member_of_module(waiting, "wait", waiting.wait_selector, "waits in C")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "psycopg2.extensions", _psycopg2)
    when_imported(patcher, "psycopg.waiting", _psycopg)
