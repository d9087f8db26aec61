"""sqlite3: a call that waits for a locked database or a disk, or that computes for long, runs in a thread.

SQLite does all of this in C, where no tasklet can give way.

Read in this order: databases.py (what the patch knows of each database and connection; one call in a thread),
rows.py (rows fetched ahead), statements.py (where a statement is executed). This file opens and closes
connections, ends transactions, and puts all of it into the module.

Fact: writers of one database wait for each other in threads. Danger: they take all threads, and the writer
that holds the lock has none left to commit in. Decision: each database has a limited share of threads for
calls that hold no lock yet. Calls of a connection in a transaction do not count: SQLite makes them wait only
for readers, which do not count either. Price: a connection that has executed BEGIN and nothing else must be
known.

Fact: nothing can hold up a database in memory that no other connection shares. A statement that ran to its
end quickly in a thread, three times, is executed directly from then on. It goes back to the threads when it
takes longer, while a thread uses the connection, and for good once it may call back into Python. Price: a
statement that suddenly takes long stops the other tasklets once.

Connections made under the patch may be used from any thread, because the pool's threads use them. An object
that must not leave the thread in which it was made stays there, and may stop it. Guarded by
tests/patches/test_sqlite.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from syncless._core.calls.files import FileFunction, may_use_threads
from syncless._core.cpython.replacing import stand_in_method
from syncless.patches.registry import Patcher, when_imported
from syncless.patches.sqlite.databases import Connection, Threads, connections, database_of, known_of
from syncless.patches.sqlite.rows import Rows, forget_rows
from syncless.patches.sqlite.statements import Statements

CALL_BACK = (
    *("create_function", "create_aggregate", "create_window_function", "create_collation"),
    *("set_authorizer", "set_progress_handler", "set_trace_callback"),
)
"""Methods of a connection that register a function for SQLite to call."""
ROLLBACK_RESETS = sys.version_info < (3, 11)
"""Whether a rollback ends the fetching of rows."""
CHECK_SAME_THREAD = 4
"""Position of this argument in sqlite3.connect."""
WHY = "waits for a database that is locked, and for a disk"

_ABSENT: Any = object()


def _opened(path: Any, original: Any, connection: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    original(connection, path, *args, **kwargs)


_open = FileFunction(_opened)


class Connections:
    """The methods of sqlite3.Connection that stand in for its own."""

    def __init__(self, threads: Threads):
        self.threads = threads

    def new_connection(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        database, *rest = args or (kwargs.pop("database", _ABSENT),)
        if database is _ABSENT:
            original(connection, **kwargs)  # the original reports the missing argument
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
        if not may_use_threads():
            return original(connection, *args)
        known = known_of(connection)
        if ROLLBACK_RESETS and original.__name__ != "commit":
            forget_rows(known)
        if known.alone and not known.in_threads:
            return original(connection, *args)
        found = self.threads.run(known, known.database.holding, original, connection, *args)
        known.holds = False
        return found

    def back_up(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        if not may_use_threads():
            return original(connection, *args, **kwargs)  # type: ignore[no-any-return]
        known = known_of(connection)
        self.threads.run(known, known.database.entering, partial(original, **kwargs), connection, *args)
        return None

    def close(self, original: Any, connection: Any) -> None:
        known = known_of(connection)
        forget_rows(known)
        if may_use_threads():
            self.threads.run(known, known.database.holding, original, connection)
        else:
            original(connection)


def _may_call_back(connection: Any) -> None:
    """The function that is registered may wait inside SQLite, so statements run in threads from now on."""
    known_of(connection).alone = False


def _with_new_cursor(call: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """A method of connections that makes a cursor and calls the same method of cursors."""

    def method(_: Any, connection: Any, *args: Any) -> Any:
        return call(original, connection.cursor(), *args)

    return method


def _replace(patcher: Patcher, owner: type, name: str, call: Callable[..., Any], why: str) -> None:
    original = vars(owner)[name]

    @wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(original, self, *args, **kwargs)

    patcher.member_in_place(owner, name, method, why)


def _patch(patcher: Patcher, module: Any) -> None:
    threads = Threads(module)
    rows = Rows(module, threads)
    statements = Statements(module, threads, rows)
    ours = Connections(threads)
    cursor, connection = module.Cursor, module.Connection
    executing: dict[str, Callable[..., Any]] = {
        "execute": statements.execute,
        "executemany": statements.execute_many,
        "executescript": statements.execute_many,
    }
    for name, call in executing.items():
        _replace(patcher, connection, name, _with_new_cursor(call, vars(cursor)[name]), WHY)
    of_connections: dict[str, Callable[..., Any]] = {
        "__init__": ours.new_connection,
        "commit": ours.end_transaction,
        "rollback": ours.end_transaction,
        "__exit__": ours.end_transaction,
        "backup": ours.back_up,
        "close": ours.close,
    }
    of_cursors: dict[str, Callable[..., Any]] = {
        **executing,
        "fetchmany": rows.fetchmany,
        "fetchall": rows.fetchall,
        "close": rows.close_cursor,
    }
    for owner, methods in ((connection, of_connections), (cursor, of_cursors)):
        for name, call in methods.items():
            _replace(patcher, owner, name, call, WHY)
    for name, at_end in (("fetchone", lambda: None), ("__next__", partial(next, iter(())))):
        patcher.member_in_place(cursor, name, rows.fetches_one(vars(cursor)[name], at_end), WHY)
    for name in CALL_BACK:
        if name in vars(connection):
            method = stand_in_method(vars(connection)[name], _may_call_back)
            patcher.member_in_place(connection, name, method, "may call code that waits")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "sqlite3", _patch)
