"""Names for features of interpreter versions. Code outside this folder never compares versions.

Features that Python code can detect, such as a module or a name, are checked where they are used, not here.
"""

from __future__ import annotations

import sys

from syncless._core.cpython import layouts

HAS_EXCEPTION_TABLES = sys.version_info >= (3, 11)
"""A code object has a table of its exception handlers, and instructions know their columns."""

COUNTS_CANCELLATIONS = sys.version_info >= (3, 11)
"""Tasks of asyncio have uncancel() and cancelling()."""
LEAVES_MARK_OF_CANCELLATION = (3, 11) <= sys.version_info < (3, 13)
"""Task.uncancel() does not take away the mark that the next await raises CancelledError."""
SWAPS_CURRENT_TASK = sys.version_info >= (3, 12)
"""asyncio sets the current task of a loop by a function of C, and lists tasks in _scheduled_tasks."""
THREAD_HAS_CURRENT_TASK = sys.version_info >= (3, 14)
"""asyncio notes the current task, and all of them, in the thread, and no longer in a dict and a set."""

ROLLBACK_ENDS_FETCHING = sys.version_info < (3, 11)
"""A rollback of sqlite3 ends the fetching of rows."""
FORK_EXEC_ASKS_FOR_VFORK = (3, 11) <= sys.version_info < (3, 14)
"""The last argument of _posixsubprocess.fork_exec is allow_vfork."""
MAP_FLUSH_TAKES_FLAGS = sys.version_info >= (3, 15)
"""mmap.flush has ``flags``, and a size of -1 is all that follows."""


def is_newer_than_known() -> bool:
    """Return whether this Python is newer than the newest one whose internals are known."""
    return sys.version_info[:2] > layouts.NEWEST


COUNTS_BORROWED_REFERENCES = sys.version_info < (3, 14)
"""sys.getrefcount() counts what calls under way refer to; later versions borrow some of it."""
