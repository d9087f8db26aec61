"""Executes statements in threads: those that write, and those that may have to wait while reading.

This file provides the methods of cursors that execute. The package's docstring explains why the threads are
divided into shares, and uses.pyx says which statements never get here.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless.patches.sqlite.databases import Connection, Threads, known_of
from syncless.patches.sqlite.rows import Rows, forget_rows_of
from syncless.patches.sqlite.uses import in_turn, read_synchronous, read_timeout, timed

_READS = re.compile(
    r"\s*(SELECT|VALUES|EXPLAIN|WITH(?!.*\b(INSERT|UPDATE|DELETE|REPLACE)\b))\b", re.IGNORECASE | re.DOTALL
)
_LOCKS_NOTHING = re.compile(
    r"\s*(BEGIN(?!\s+(IMMEDIATE|EXCLUSIVE))|SAVEPOINT|RELEASE|PRAGMA|EXPLAIN)\b", re.IGNORECASE
)
_SETS_TIMEOUT = re.compile(r"\bbusy_timeout\b", re.IGNORECASE)
_SETS_SYNCHRONOUS = re.compile(r"\bsynchronous\b", re.IGNORECASE)


class Statements:
    """The methods of sqlite3.Cursor that execute."""

    def __init__(self, module: Any, threads: Threads, rows: Rows):
        self.module = module
        self.threads = threads
        self.rows = rows
        self.execute_it = module.Cursor.execute

    def execute(self, original: Any, cursor: Any, *args: Any) -> Any:
        forget_rows_of(cursor)
        connection = getattr(cursor, "connection", None)
        sql = args[0] if args else None
        if connection is None or type(sql) is not str:
            return original(cursor, *args)
        in_turn()
        known = known_of(connection)
        if may_use_threads():
            self._execute_in_thread(known, connection, sql, cursor, args)
        else:
            known.call(connection, True, original, (cursor, *args))
        self._look_at_timeout(known, connection, sql)
        return cursor

    def execute_many(self, original: Any, cursor: Any, *args: Any) -> Any:
        """executemany and executescript."""
        forget_rows_of(cursor)
        connection = getattr(cursor, "connection", None)
        if connection is None:
            return original(cursor, *args)
        in_turn()
        known = known_of(connection)
        sql = args[0] if args and type(args[0]) is str else ""
        try:
            if known.stays_here(sql) or not may_use_threads():
                return known.call(connection, True, original, (cursor, *args))
            share = known.database.holding if known.holds else known.database.entering
            return self.threads.run(known, share, connection, original, cursor, *args)
        finally:
            known.holds = self.threads.in_transaction(known, connection)
            self._look_at_timeout(known, connection, sql)

    def _execute_in_thread(
        self, known: Connection, connection: Any, sql: str, cursor: Any, args: tuple[Any, ...]
    ) -> None:
        shares = known.database
        share = shares.holding if known.holds else shares.reading if _READS.match(sql) else shares.entering
        may_hold = not _LOCKS_NOTHING.match(sql)
        try:
            self.threads.run(known, share, connection, self._execute_and_fetch, known, cursor, args)
        except self.module.OperationalError:  # it may have been locked
            may_hold = False
            raise
        finally:
            known.holds = known.holds or may_hold
            known.holds = known.holds and self.threads.in_transaction(known, connection)

    def _execute_and_fetch(self, known: Connection, cursor: Any, args: tuple[Any, ...]) -> None:
        forget_rows_of(cursor)  # of a tasklet that was interrupted
        timed(args[0], self.execute_it, cursor, *args)
        if cursor.description is not None:
            self.rows.begin(known, cursor)

    def _look_at_timeout(self, known: Connection, connection: Any, sql: str) -> None:
        if _SETS_TIMEOUT.search(sql):
            with suppress(self.module.Error):
                read_timeout(connection, known)
        if _SETS_SYNCHRONOUS.search(sql):
            with suppress(self.module.Error):
                read_synchronous(connection, known)
