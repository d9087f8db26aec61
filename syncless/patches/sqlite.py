"""sqlite3: what waits for a locked database or a disk, or computes for long, is done in threads, because
SQLite does so in C.

Rows are fetched ahead, as many as come in a millisecond, in the thread that executes the statement and in
later ones, so each row costs little and none stops the others.

Fact: writers of one database wait for each other in threads. Danger: they take all threads, and the writer
that holds the lock has none to commit in. Decision: only so many calls of a database that hold no lock yet
are in threads at a time, and those of a connection in a transaction are not counted with them: SQLite lets it
wait for readers only, which are not either. Price: a connection whose BEGIN has been executed, but nothing
else, has to be known.

Fact: nothing can hold up a database in memory that no other connection shares. A statement that has run to
its end soon, three times in threads, is executed directly from then on, and goes back to the threads when it
takes longer, or while a thread uses the connection, or for good when it may call back. Price: a statement
that suddenly takes long stops the others once.

Connections made under the patch may be used from any thread, since those of the pool use them; what is not
allowed to leave the thread in which it was made stays there, and may stop it. Guarded by
tests/patches/test_sqlite.py.
"""

from __future__ import annotations

import re
import sys
import weakref
from _thread import allocate_lock
from collections.abc import Callable
from functools import partial, wraps
from itertools import islice
from time import perf_counter as now
from typing import Any

from syncless._core.calls.files import FileFunction, parks_now
from syncless._core.threads import Share
from syncless.patches.databases import Connection, connections, database_of, known_of
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher

SECONDS = 0.001
"""For so long rows are fetched ahead, and so long may a statement take that is executed directly."""
FIRST, MOST = 32, 1024
"""Rows that are fetched ahead: the first time, and each time at most."""
TRIAL, LONGEST_TRIAL = 3, 1024
"""Times that a statement is executed in a thread before it is executed directly; twice as many after each failure."""
NEVER = float("inf")
CALL_BACK = (
    *("create_function", "create_aggregate", "create_window_function", "create_collation"),
    *("set_authorizer", "set_progress_handler", "set_trace_callback"),
)
ROLLBACK_RESETS = sys.version_info < (3, 11)
"""Whether rows cannot be fetched any more after a rollback."""
CHECK_SAME_THREAD = 4
"""The argument's position in sqlite3.connect."""
WHY = "waits for a database that is locked, and for a disk"

_READS = re.compile(
    r"\s*(SELECT|VALUES|EXPLAIN|WITH(?!.*\b(INSERT|UPDATE|DELETE|REPLACE)\b))\b", re.IGNORECASE | re.DOTALL
)
_LOCKS_NOTHING = re.compile(
    r"\s*(BEGIN(?!\s+(IMMEDIATE|EXCLUSIVE))|SAVEPOINT|RELEASE|PRAGMA|EXPLAIN)\b", re.IGNORECASE
)
_END: Any = object()


class _Ahead(weakref.ref[Any]):
    """Rows that have been fetched ahead for a cursor, the next one last."""

    known: Connection
    number: int
    rows: list[Any]
    at_end = False
    error: Exception | None = None
    limit = FIRST
    one_at_a_time: Any


_aheads: dict[int, _Ahead] = {}
"""By id() of the cursor."""


def _forget(ahead: Any) -> None:
    """Also called when the cursor is gone."""
    number: int = ahead.number
    if _aheads.get(number) is ahead:
        del _aheads[number]


class _Calls:
    """The methods of sqlite3, and what stands in their place."""

    def __init__(self, module: Any):
        self.module = module
        self.step = module.Cursor.fetchone
        self.rest = module.Cursor.fetchall
        self.execute_it = module.Cursor.execute

    def in_thread(self, known: Connection, share: Share, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args), in a thread if it may be there."""
        if known.strict:
            return function(*args)
        try:
            seconds = known.timeout if share is known.database.entering else None
            return share.run_soon(seconds, self._noted, known, function, args)
        except self.module.ProgrammingError as wrong:
            if "created in a thread can only be used in that same thread" not in str(wrong):
                raise
            known.strict = True
        return function(*args)

    @staticmethod
    def _noted(known: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        token = object()
        known.in_threads.add(token)
        try:
            return function(*args)
        finally:
            known.in_threads.discard(token)

    def fetch(self, cursor: Any, ahead: _Ahead) -> None:
        """Rows for as long as they come soon, without row factories: those are called when a row is given
        out."""
        rows: list[Any] = []
        factory = cursor.row_factory
        if factory is not None:
            cursor.row_factory = None
        left = iter(partial(self.step, cursor), None)
        until, size = now() + SECONDS, 1
        try:
            while len(rows) < ahead.limit:
                wanted = len(rows) + size
                rows.extend(islice(left, size))  # keeps what it has got if there is an error
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

    def fetch_more(self, cursor: Any, ahead: _Ahead) -> None:
        """In a thread. The lock is for tasklets that share the cursor, and for one that did not wait for the
        last time."""
        with ahead.one_at_a_time:
            if not (ahead.rows or ahead.at_end or ahead.error):
                ahead.limit = min(4 * ahead.limit, MOST)
                self.fetch(cursor, ahead)

    def now_or_in_thread(self, ahead: _Ahead, function: Callable[..., Any], *args: Any) -> Any:
        known = ahead.known
        return (
            self.in_thread(known, known.database.holding, function, *args) if parks_now() else function(*args)
        )

    def next_row(self, cursor: Any, ahead: _Ahead) -> Any:
        while not ahead.rows:
            if ahead.error is not None:
                try:
                    raise ahead.error
                finally:
                    ahead.error = None
            if ahead.at_end:
                return _END
            self.now_or_in_thread(ahead, self.fetch_more, cursor, ahead)
        row = ahead.rows.pop()
        factory = cursor.row_factory
        return row if factory is None else factory(cursor, row)

    # -- executing ---------------------------------------------------------------------------------------------

    def execute_and_fetch(self, known: Connection, cursor: Any, args: tuple[Any, ...]) -> float:
        """Returns how long it took, or infinity if there are more rows."""
        started = now()
        self.execute_it(cursor, *args)
        if cursor.description is not None:
            ahead: Any = _Ahead(cursor, _forget)
            ahead.known, ahead.number, ahead.one_at_a_time = known, id(cursor), allocate_lock()
            self.fetch(cursor, ahead)
            _aheads[id(cursor)] = ahead
            if not ahead.at_end:
                return NEVER
        return now() - started

    def execute(self, original: Any, cursor: Any, *args: Any) -> Any:
        _aheads.pop(id(cursor), None)
        connection = getattr(cursor, "connection", None)
        sql = args[0] if args else None
        if connection is None or type(sql) is not str or not parks_now():
            return original(cursor, *args)
        known = known_of(connection)
        if known.alone:
            self.execute_alone(known, sql, cursor, args)
        else:
            self.execute_shared(known, connection, sql, cursor, args)
        return cursor

    def execute_alone(self, known: Connection, sql: str, cursor: Any, args: tuple[Any, ...]) -> None:
        """On a database in memory: a statement on trial."""
        trial = known.trials.get(sql)
        if trial is None:
            known.look_at(sql)
            trial = known.trials[sql] = [TRIAL, TRIAL]
        took = NEVER
        try:
            if trial[0] == 0 and not known.in_threads:
                took = self.execute_and_fetch(known, cursor, args)
            else:
                took = self.in_thread(
                    known, known.database.holding, self.execute_and_fetch, known, cursor, args
                )
        finally:
            if took <= SECONDS:
                trial[0] = max(0, trial[0] - 1)
            else:
                if trial[0] == 0:
                    trial[1] = min(2 * trial[1], LONGEST_TRIAL)
                trial[0] = trial[1]

    def execute_shared(
        self, known: Connection, connection: Any, sql: str, cursor: Any, args: tuple[Any, ...]
    ) -> None:
        shares = known.database
        share = shares.holding if known.holds else shares.reading if _READS.match(sql) else shares.entering
        may_hold = not _LOCKS_NOTHING.match(sql)
        try:
            self.in_thread(known, share, self.execute_and_fetch, known, cursor, args)
        except self.module.OperationalError:  # it may have been locked
            may_hold = False
            raise
        finally:
            known.holds = known.holds or may_hold
            known.holds = known.holds and self.in_transaction(connection)

    def in_transaction(self, connection: Any) -> bool:
        try:
            return connection.in_transaction  # type: ignore[no-any-return]
        except self.module.ProgrammingError:  # somebody has closed it
            return False

    def execute_many(self, original: Any, cursor: Any, *args: Any) -> Any:
        """executemany and executescript."""
        _aheads.pop(id(cursor), None)
        connection = getattr(cursor, "connection", None)
        if connection is None or not parks_now():
            return original(cursor, *args)
        known = known_of(connection)
        if known.alone and args and type(args[0]) is str:
            known.look_at(args[0])
        share = known.database.holding if known.holds else known.database.entering
        try:
            return self.in_thread(known, share, original, cursor, *args)
        finally:
            known.holds = self.in_transaction(connection)

    # -- fetching ----------------------------------------------------------------------------------------------

    def fetches_one(self, original: Any, at_end: Callable[[], Any]) -> Callable[..., Any]:
        """fetchone or __next__, which is called for each row."""

        @wraps(original)
        def method(cursor: Any) -> Any:
            ahead = _aheads.get(id(cursor))
            if ahead is None:
                return original(cursor)
            if ahead.rows and cursor.row_factory is None:
                return ahead.rows.pop()
            row = self.next_row(cursor, ahead)
            return at_end() if row is _END else row

        return method

    def fetchall(self, original: Any, cursor: Any) -> list[Any]:
        return self.fetch_all(original, cursor, None)

    def fetchmany(self, original: Any, cursor: Any, size: int | None = None) -> list[Any]:
        size = cursor.arraysize if size is None else size
        return self.fetch_all(original, cursor, size if size > 0 else None)

    def fetch_all(self, original: Any, cursor: Any, size: int | None) -> list[Any]:
        ahead = _aheads.get(id(cursor))
        sized = () if size is None else (size,)
        if size is None:
            original = self.rest
        if ahead is None:
            if not parks_now() or getattr(cursor, "description", None) is None:
                return original(cursor, *sized)  # type: ignore[no-any-return]
            known = known_of(cursor.connection)
            return self.in_thread(known, known.database.holding, original, cursor, *sized)  # type: ignore[no-any-return]
        rows: list[Any] = []
        while True:
            while len(rows) != size and (ahead.rows or ahead.error):
                rows.append(self.next_row(cursor, ahead))
            if ahead.at_end or len(rows) == size:
                return rows
            left = None if size is None else size - len(rows)
            rows += self.now_or_in_thread(ahead, self.fetch_rest, original, cursor, ahead, left)

    def fetch_rest(self, original: Any, cursor: Any, ahead: _Ahead, size: int | None) -> list[Any]:
        with ahead.one_at_a_time:
            if ahead.rows or ahead.at_end or ahead.error:
                return []
            found: list[Any] = self.rest(cursor) if size is None else original(cursor, size)
            ahead.at_end = len(found) != size
            return found

    def close_cursor(self, original: Any, cursor: Any) -> None:
        _aheads.pop(id(cursor), None)
        original(cursor)

    # -- connections -------------------------------------------------------------------------------------------

    def new_connection(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        database, *rest = args or (kwargs.pop("database", _END),)
        if database is _END:
            original(connection, **kwargs)  # which says what is missing
        if len(rest) >= CHECK_SAME_THREAD:
            rest[CHECK_SAME_THREAD - 1] = False
        else:
            kwargs["check_same_thread"] = False
        timeout = rest[0] if rest else kwargs.get("timeout", 5.0)
        alone = database == ":memory:"
        if alone:
            original(connection, database, *rest, **kwargs)
        else:
            _open(database, original, connection, rest, kwargs)
        connections[id(connection)] = Connection(database_of(database), alone, timeout)

    def end_transaction(self, original: Any, connection: Any, *args: Any) -> Any:
        """commit, rollback and __exit__."""
        if not parks_now():
            return original(connection, *args)
        known = known_of(connection)
        if ROLLBACK_RESETS and original.__name__ != "commit":
            _forget_rows(known)
        if known.alone and not known.in_threads:
            return original(connection, *args)
        found = self.in_thread(known, known.database.holding, original, connection, *args)
        known.holds = False
        return found

    def back_up(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        if not parks_now():
            return original(connection, *args, **kwargs)  # type: ignore[no-any-return]
        known = known_of(connection)
        self.in_thread(known, known.database.entering, partial(original, **kwargs), connection, *args)
        return None

    def close(self, original: Any, connection: Any) -> None:
        known = known_of(connection)
        _forget_rows(known)
        if parks_now():
            self.in_thread(known, known.database.holding, original, connection)
        else:
            original(connection)

    def by_cursor(self, call: Callable[..., Any], original: Any) -> Callable[..., Any]:
        """A method of connections that does what one of cursors does, with a new cursor."""

        def method(_: Any, connection: Any, *args: Any) -> Any:
            return call(original, connection.cursor(), *args)

        return method

    def call_back(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> Any:
        """What is registered may wait, in the midst of SQLite: not outside of threads."""
        known_of(connection).alone = False
        return original(connection, *args, **kwargs)


def _forget_rows(known: Connection) -> None:
    for ahead in [each for each in list(_aheads.values()) if each.known is known]:
        _forget(ahead)


def _opened(path: Any, original: Any, connection: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    original(connection, path, *args, **kwargs)


_open = FileFunction(_opened)


def _patch(patcher: Patcher, module: Any) -> None:
    calls = _Calls(module)

    def replace(owner: type, name: str, call: Callable[..., Any], why: str) -> None:
        original = vars(owner)[name]

        @wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return call(original, self, *args, **kwargs)

        patcher.member_in_place(owner, name, method, why)

    executing: dict[str, Callable[..., Any]] = {
        "execute": calls.execute,
        "executemany": calls.execute_many,
        "executescript": calls.execute_many,
    }
    for name, call in executing.items():
        replace(module.Connection, name, calls.by_cursor(call, vars(module.Cursor)[name]), WHY)
    of_connections: dict[str, Callable[..., Any]] = {
        "__init__": calls.new_connection,
        "commit": calls.end_transaction,
        "rollback": calls.end_transaction,
        "__exit__": calls.end_transaction,
        "backup": calls.back_up,
        "close": calls.close,
    }
    of_cursors: dict[str, Callable[..., Any]] = {
        **executing,
        "fetchmany": calls.fetchmany,
        "fetchall": calls.fetchall,
        "close": calls.close_cursor,
    }
    for owner, methods in ((module.Connection, of_connections), (module.Cursor, of_cursors)):
        for name, call in methods.items():
            replace(owner, name, call, WHY)
    for name, at_end in (("fetchone", lambda: None), ("__next__", partial(next, iter(())))):
        patcher.member_in_place(
            module.Cursor, name, calls.fetches_one(vars(module.Cursor)[name], at_end), WHY
        )
    for name in CALL_BACK:
        if name in vars(module.Connection):
            replace(module.Connection, name, calls.call_back, "may call what waits")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "sqlite3", _patch)
