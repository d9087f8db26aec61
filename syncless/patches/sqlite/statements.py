"""Where a statement is executed: in a thread, or directly if it has shown that it takes no time.

Takes: cursors and their statements. Gives: the methods that execute. The package's docstring says why the
threads are divided into shares, and why only a database in memory may be used directly.
"""

from __future__ import annotations

import re
from time import perf_counter as now
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless.patches.sqlite.databases import Connection, Threads, known_of
from syncless.patches.sqlite.rows import SECONDS, Rows, forget_rows_of

TRIAL, LONGEST_TRIAL = 3, 1024
"""A statement is executed in a thread this often before it is executed directly; twice as often after each
failure, up to the second number."""
NEVER = float("inf")

_READS = re.compile(
    r"\s*(SELECT|VALUES|EXPLAIN|WITH(?!.*\b(INSERT|UPDATE|DELETE|REPLACE)\b))\b", re.IGNORECASE | re.DOTALL
)
_LOCKS_NOTHING = re.compile(
    r"\s*(BEGIN(?!\s+(IMMEDIATE|EXCLUSIVE))|SAVEPOINT|RELEASE|PRAGMA|EXPLAIN)\b", re.IGNORECASE
)


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
        if connection is None or type(sql) is not str or not may_use_threads():
            return original(cursor, *args)
        known = known_of(connection)
        if known.alone:
            self._execute_alone(known, sql, cursor, args)
        else:
            self._execute_shared(known, connection, sql, cursor, args)
        return cursor

    def execute_many(self, original: Any, cursor: Any, *args: Any) -> Any:
        """executemany and executescript."""
        forget_rows_of(cursor)
        connection = getattr(cursor, "connection", None)
        if connection is None or not may_use_threads():
            return original(cursor, *args)
        known = known_of(connection)
        if known.alone and args and type(args[0]) is str:
            known.look_at(args[0])
        share = known.database.holding if known.holds else known.database.entering
        try:
            return self.threads.run(known, share, original, cursor, *args)
        finally:
            known.holds = self._in_transaction(connection)

    def _execute_alone(self, known: Connection, sql: str, cursor: Any, args: tuple[Any, ...]) -> None:
        """On a database in memory: a statement on trial."""
        trial = known.trials.get(sql)
        if trial is None:
            known.look_at(sql)
            trial = known.trials[sql] = [TRIAL, TRIAL]
        took = NEVER
        try:
            if trial[0] == 0 and not known.in_threads:
                took = self._execute_and_fetch(known, cursor, args)
            else:
                share = known.database.holding
                took = self.threads.run(known, share, self._execute_and_fetch, known, cursor, args)
        finally:
            if took <= SECONDS:
                trial[0] = max(0, trial[0] - 1)
            else:
                if trial[0] == 0:
                    trial[1] = min(2 * trial[1], LONGEST_TRIAL)
                trial[0] = trial[1]

    def _execute_shared(
        self, known: Connection, connection: Any, sql: str, cursor: Any, args: tuple[Any, ...]
    ) -> None:
        shares = known.database
        share = shares.holding if known.holds else shares.reading if _READS.match(sql) else shares.entering
        may_hold = not _LOCKS_NOTHING.match(sql)
        try:
            self.threads.run(known, share, self._execute_and_fetch, known, cursor, args)
        except self.module.OperationalError:  # it may have been locked
            may_hold = False
            raise
        finally:
            known.holds = known.holds or may_hold
            known.holds = known.holds and self._in_transaction(connection)

    def _execute_and_fetch(self, known: Connection, cursor: Any, args: tuple[Any, ...]) -> float:
        """Returns how long it took, or infinity if there are more rows."""
        started = now()
        self.execute_it(cursor, *args)
        if cursor.description is not None and not self.rows.begin(known, cursor):
            return NEVER
        return now() - started

    def _in_transaction(self, connection: Any) -> bool:
        try:
            return connection.in_transaction  # type: ignore[no-any-return]
        except self.module.ProgrammingError:  # another tasklet has closed it
            return False
