"""Fetches rows ahead, so that each row costs little and none blocks the other tasklets.

The thread that executes a statement fetches as many rows as arrive within a millisecond. When those are used
up, further threads fetch the next ones. Statements executed directly need no such threads.

This file provides the methods of cursors that fetch. It must not depend on where statements are executed
(statements.py).
"""

from __future__ import annotations

import weakref
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from operator import index
from time import perf_counter as now
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless.patches.sqlite.databases import Connection, Threads, known_of

SECONDS = 0.001
"""Rows are fetched ahead for this long."""
FIRST, MOST = 32, 1024
"""Rows to fetch ahead: the first time, and at most."""

_END: Any = object()


class _Ahead(weakref.ref[Any]):
    """The rows that have been fetched ahead for a cursor, the next row last."""

    known: Connection
    number: int
    rows: list[Any]
    at_end = False
    error: Exception | None = None
    limit = FIRST
    one_at_a_time: Any


aheads: dict[int, _Ahead] = {}
"""By id() of the cursor."""


def _forget(ahead: Any) -> None:
    """Drop the rows of a cursor, even after the cursor is gone."""
    number: int = ahead.number
    if aheads.get(number) is ahead:
        del aheads[number]


def forget_rows(known: Connection) -> None:
    """Drop the rows of all cursors of a connection."""
    for ahead in [each for each in list(aheads.values()) if each.known is known]:
        _forget(ahead)


def forget_rows_of(cursor: Any) -> None:
    aheads.pop(id(cursor), None)


class Rows:
    """The methods of sqlite3.Cursor that fetch."""

    def __init__(self, module: Any, threads: Threads):
        self.threads = threads
        self.step = module.Cursor.fetchone
        self.rest = module.Cursor.fetchall
        with closing(module.connect(":memory:")) as connection:
            self.none_means_all = bool(connection.execute("SELECT 1").fetchmany(0))
            """Whether fetchmany(0) gives all rows, as it did before it gave none (and refused -1)."""

    def begin(self, known: Connection, cursor: Any) -> None:
        """Fetch the first rows of a statement that was just executed."""
        ahead: Any = _Ahead(cursor, _forget)
        ahead.known, ahead.number, ahead.one_at_a_time = known, id(cursor), allocate_lock()
        self._fetch(cursor, ahead)
        aheads[id(cursor)] = ahead

    def _fetch(self, cursor: Any, ahead: _Ahead) -> None:
        """Fetch rows as long as they arrive quickly. The row factory is called only when a row is returned to
        the program."""
        rows: list[Any] = []
        factory = cursor.row_factory
        if factory is not None:
            cursor.row_factory = None
        left = iter(partial(self.step, cursor), None)
        until, size = now() + SECONDS, 1
        try:
            while len(rows) < ahead.limit:
                wanted = len(rows) + size
                rows.extend(islice(left, size))  # keeps the rows that came before an error
                if len(rows) < wanted:
                    ahead.at_end = True
                    break
                if now() > until:
                    break
                size *= 2  # the next ones take about as long as all so far
        except Exception as error:
            ahead.error = error.with_traceback(None)  # which refers to this frame
        finally:
            if factory is not None:
                cursor.row_factory = factory
            rows.reverse()
            ahead.rows = rows

    def _fetch_more(self, cursor: Any, ahead: _Ahead) -> None:
        """Fetch further rows, in a thread. The lock is needed for tasklets that share the cursor, and after a
        tasklet has stopped waiting while its thread still fetches."""
        with ahead.one_at_a_time:
            if not (ahead.rows or ahead.at_end or ahead.error):
                ahead.limit = min(4 * ahead.limit, MOST)
                self._fetch(cursor, ahead)

    def _now_or_in_thread(self, ahead: _Ahead, function: Callable[..., Any], *args: Any) -> Any:
        known = ahead.known
        if not may_use_threads():
            return known.call(None, True, function, args)
        return self.threads.run(known, known.database.holding, None, function, *args)

    def _next_row(self, cursor: Any, ahead: _Ahead) -> Any:
        while not ahead.rows:
            if ahead.error is not None:
                try:
                    raise ahead.error
                finally:
                    ahead.error = None
            if ahead.at_end:
                return _END
            self._now_or_in_thread(ahead, self._fetch_more, cursor, ahead)
        row = ahead.rows.pop()
        factory = cursor.row_factory
        return row if factory is None else factory(cursor, row)

    def fetches_one(self, at_end: Callable[[], Any]) -> Callable[..., Any]:
        """Return fetchone or __next__, which is called for each row."""

        def method(original: Any, cursor: Any) -> Any:
            ahead = aheads.get(id(cursor))
            if ahead is None:
                return original(cursor)
            if ahead.rows and cursor.row_factory is None:
                return ahead.rows.pop()
            row = self._next_row(cursor, ahead)
            return at_end() if row is _END else row

        return method

    def fetchall(self, original: Any, cursor: Any) -> list[Any]:
        return self._fetch_all(original, cursor, None)

    def fetchmany(self, original: Any, cursor: Any, size: int | None = None) -> list[Any]:
        size = cursor.arraysize if size is None else index(size)
        if size > 0:
            return self._fetch_all(original, cursor, size)
        if self.none_means_all:
            return self._fetch_all(original, cursor, None)
        return original(cursor, size)  # type: ignore[no-any-return]

    def _fetch_all(self, original: Any, cursor: Any, size: int | None) -> list[Any]:
        ahead = aheads.get(id(cursor))
        sized = () if size is None else (size,)
        if size is None:
            original = self.rest
        if ahead is None:
            if not may_use_threads() or getattr(cursor, "description", None) is None:
                return original(cursor, *sized)  # type: ignore[no-any-return]
            known = known_of(cursor.connection)
            found: list[Any] = self.threads.run(known, known.database.holding, None, original, cursor, *sized)
            return found
        rows: list[Any] = []
        while True:
            while len(rows) != size and (ahead.rows or ahead.error):
                rows.append(self._next_row(cursor, ahead))
            if ahead.at_end or len(rows) == size:
                return rows
            left = None if size is None else size - len(rows)
            rows += self._now_or_in_thread(ahead, self._fetch_rest, original, cursor, ahead, left)

    def _fetch_rest(self, original: Any, cursor: Any, ahead: _Ahead, size: int | None) -> list[Any]:
        with ahead.one_at_a_time:
            if ahead.rows or ahead.at_end or ahead.error:
                return []
            found: list[Any] = self.rest(cursor) if size is None else original(cursor, size)
            ahead.at_end = len(found) != size
            return found

    def close_cursor(self, original: Any, cursor: Any) -> None:
        forget_rows_of(cursor)
        original(cursor)
