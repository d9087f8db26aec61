"""Patches sqlite3: a call that waits for a locked database or a disk, or that computes for long, runs in a
thread.

SQLite does all of this in C, where no tasklet can yield by itself.

Read in this order: uses.pyx (statements that are executed directly, and the users of a connection),
databases.py (the state of each database and connection; one call in a thread), rows.py (rows fetched ahead),
statements.py (statements in threads). This file opens and closes connections, ends transactions, and patches
the module.

A statement that only reads is executed directly if the file system of the database has not been slow, as is
any statement on an in-memory database that no other connection shares. A shared cache has a mutex that cannot
be entered twice, so its connections are used in threads, like connections that have executed ATTACH or were
made before the patch. Commits and statements that write run in threads, except for those that have been quick
and do not wait for the disk or for others (Use.writes_directly).

Fact: writers of one database wait for each other in threads. Danger: if they occupy all threads, the writer
that holds the lock has no thread left to commit in. Decision: each database has a limited share of threads
for calls that hold no lock yet. Calls of a connection in a transaction do not count: SQLite makes them wait
only for readers, which do not count either. Price: the patch must track connections that have executed only
BEGIN.

Connections made under the patch may be used from any thread, because the pool's threads use them. An object
that must not leave the thread in which it was made stays there, and may block that thread. Guarded by
tests/patches/test_sqlite.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from syncless._core.calls.files import FileFunction, may_use_threads
from syncless._core.cpython.features import ROLLBACK_ENDS_FETCHING
from syncless.patches.registry import Patcher, when_imported
from syncless.patches.sqlite import uses
from syncless.patches.sqlite.databases import Connection, Threads, database_of, file_of, known_of
from syncless.patches.sqlite.rows import Rows, aheads, forget_rows
from syncless.patches.sqlite.statements import Statements

CHECK_SAME_THREAD = 4
"""Position of this argument in sqlite3.connect."""
WHY = "waits for a database that is locked, and for a disk"

CALLBACKS = (
    ("create_function", "func", 2),
    ("create_aggregate", "aggregate_class", 2),
    ("create_window_function", "aggregate_class", 2),
    ("create_collation", "callable", 1),
    ("set_authorizer", "authorizer_callback", 0),
    ("set_trace_callback", "trace_callback", 0),
)
"""Methods of connections that take a function for SQLite to call; that argument, by name and position."""

_ABSENT: Any = object()


def _opened(path: Any, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
    """Open a connection to the file at `path`."""
    original(connection, *args, **kwargs)


_open = FileFunction(_opened)


class Connections:
    """The replacements for methods of sqlite3.Connection."""

    def __init__(self, threads: Threads, commit: Callable[..., None]):
        self.threads = threads
        self.commit = commit

    def new_connection(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
        database, *rest = args or (kwargs.pop("database", _ABSENT),)
        if database is _ABSENT:
            original(connection, **kwargs)  # the original reports the missing argument
        if len(rest) >= CHECK_SAME_THREAD:
            rest[CHECK_SAME_THREAD - 1] = False
        else:
            kwargs["check_same_thread"] = False
        timeout = rest[0] if rest else kwargs.get("timeout", 5.0)
        known = Connection(database_of(database))
        known.timeout, known.alone = timeout, database == ":memory:"
        file = file_of(database)
        if known.alone:
            original(connection, database, *rest, **kwargs)
        else:
            _open(file or database, original, connection, database, *rest, **kwargs)
        uses.remember(connection, known)
        known.opened(connection, file)

    def end_transaction(self, original: Any, connection: Any, *args: Any) -> Any:
        """commit, rollback and __exit__."""
        known = known_of(connection)
        if ROLLBACK_ENDS_FETCHING and original.__name__ != "commit":
            forget_rows(known)
        uses.in_turn()
        if known.alone or not (may_use_threads() and self.threads.in_transaction(known, connection)):
            return known.call(connection, True, original, (connection, *args))
        commits = original.__name__ == "commit" or args[:1] == (None,)
        if commits and known.commit_directly(connection, self.commit):
            known.holds = False
            return None if original.__name__ == "commit" else False
        call = partial(uses.timed, "COMMIT", original) if commits and known.unsynced else original
        found = self.threads.run(known, known.database.holding, connection, call, connection, *args)
        known.holds = False
        return found

    def transfer(self, original: Any, connection: Any, *args: Any, **kwargs: Any) -> Any:
        """backup, serialize, deserialize, blobopen: they wait for a disk or a lock, without a statement."""
        if not may_use_threads():
            return original(connection, *args, **kwargs)
        known = known_of(connection)
        call = partial(original, **kwargs)
        return self.threads.run(known, known.database.entering, connection, call, connection, *args)

    def setting(self, member: Any) -> property:
        """Return an attribute that commits when it is set: isolation_level, autocommit."""

        def change(connection: Any, *value: Any) -> None:
            known = known_of(connection)
            if may_use_threads() and not known.alone and self.threads.in_transaction(known, connection):
                self.threads.run(
                    known, known.database.holding, connection, member.__set__, connection, *value
                )
            else:
                member.__set__(connection, *value)

        return property(member.__get__, change, member.__delete__, doc=member.__doc__)

    def close(self, original: Any, connection: Any) -> None:
        known = known_of(connection)
        forget_rows(known)
        if may_use_threads():
            self.threads.run(known, known.database.holding, connection, original, connection)
        else:
            original(connection)


def _let_wait(module: Any) -> None:
    """Make connections that outlive the patch wait for locks as they would without it."""
    for each in gc.get_objects():
        if issubclass(type(each), module.Connection):
            uses.let_wait(each)


def _with_new_cursor(call: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """Return a method of connections that makes a cursor and calls the same method of cursors."""

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
    uses.install(module)
    threads = Threads(module)
    rows = Rows(module, threads)
    statements = Statements(module, threads, rows)
    ours = Connections(threads, vars(module.Connection)["commit"])
    cursor, connection = module.Cursor, module.Connection
    patcher.at_undo(partial(_let_wait, module))
    executing: dict[str, Callable[..., Any]] = {
        "executemany": statements.execute_many,
        "executescript": statements.execute_many,
    }
    of_cursor, of_connection = vars(cursor)["execute"], vars(connection)["execute"]
    with_cursor = _with_new_cursor(statements.execute, of_cursor)
    in_place = patcher.member_in_place
    in_place(connection, "execute", uses.executes(of_connection, with_cursor, True, aheads), WHY)
    in_place(cursor, "execute", uses.executes(of_cursor, statements.execute, False, aheads), WHY)
    for name, call in executing.items():
        _replace(patcher, connection, name, _with_new_cursor(call, vars(cursor)[name]), WHY)
    of_connections: dict[str, Callable[..., Any]] = {
        "__init__": ours.new_connection,
        "commit": ours.end_transaction,
        "rollback": ours.end_transaction,
        "__exit__": ours.end_transaction,
        "backup": ours.transfer,
        "serialize": ours.transfer,
        "deserialize": ours.transfer,
        "blobopen": ours.transfer,
        "close": ours.close,
    }
    of_cursors: dict[str, Callable[..., Any]] = {**executing, "close": rows.close_cursor}
    for owner, methods in ((connection, of_connections), (cursor, of_cursors)):
        for name, call in methods.items():
            if name in vars(owner):
                _replace(patcher, owner, name, call, WHY)
    for name, call in (
        ("fetchone", rows.fetches_one(lambda: None)),
        ("__next__", rows.fetches_one(partial(next, iter(())))),
        ("fetchall", rows.fetchall),
    ):
        in_place(cursor, name, uses.fetches(vars(cursor)[name], call, aheads), WHY)
    fetchmany = uses.fetches_many(vars(cursor)["fetchmany"], rows.fetchmany, aheads)
    in_place(cursor, "fetchmany", fetchmany, WHY)
    for name in ("isolation_level", "autocommit"):
        if name in vars(connection):
            in_place(connection, name, ours.setting(vars(connection)[name]), WHY)
    name = "set_progress_handler"
    in_place(connection, name, uses.sets_progress_handler(vars(connection)[name]), "keeps ours, too")
    for name, argument, position in CALLBACKS:
        if hasattr(connection, name):
            new = uses.registers(vars(connection)[name], argument, position)
            in_place(connection, name, new, "loses what is thrown at a tasklet in the function")
    if hasattr(module, "enable_shared_cache"):
        new = uses.enables_shared_cache(module.enable_shared_cache)
        patcher.rebind(module, "enable_shared_cache", new, "such a cache is used in threads only")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "sqlite3", _patch)
