"""The state that the patch keeps of each database and connection of sqlite3."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

from syncless._core.calls.threads import Share
from syncless.patches.sqlite.uses import Job, Use, remember, use_of

ENTERING = 8
"""Calls per database that may wait for the write lock at the same time."""
READING = 16
"""Calls per database that may read at the same time."""
HOLDING = 64
"""Calls per database that may run at the same time on connections that have a lock already."""


class Database:
    """A database, with limits on the threads that its calls may use."""

    def __init__(self) -> None:
        self.entering = Share(ENTERING)
        self.reading = Share(READING)
        self.holding = Share(HOLDING)


_databases: weakref.WeakValueDictionary[str, Database] = weakref.WeakValueDictionary()
_elsewhere = Database()
"""For connections made before the patch."""


class Connection(Use):
    """The state that the patch keeps of a connection."""

    __slots__ = ("database", "strict")

    def __init__(self, database: Database):
        super().__init__(database.entering)
        self.database = database
        self.strict = False
        """Whether it must stay in its thread."""


def known_of(connection: Any) -> Connection:
    known: Any = use_of(connection)
    if known is None:
        known = Connection(_elsewhere)
        remember(connection, known)
    return known  # type: ignore[no-any-return]


def file_of(database: Any) -> str | None:
    """Return the path of a database that is a file without a shared cache, or None for any other database."""
    if database == ":memory:" or not isinstance(database, (str, bytes, os.PathLike)):
        return None
    name = os.fsdecode(database)
    if not name.startswith("file:"):
        return os.path.abspath(name) if name else None
    name, _, options = name.removeprefix("file:").partition("?")
    return None if not name or "%" in name or "memory" in options or "cache" in options else name


def database_of(path: Any) -> Database:
    """Return the Database of a path. The same file has the same object if its path is spelled the same
    way."""
    if path == ":memory:" or not isinstance(path, (str, bytes, os.PathLike)):
        return Database()
    name = os.fsdecode(path)
    name = name.partition("?")[0] if name.startswith("file:") else os.path.abspath(name)
    found = _databases.get(name)
    if found is None:
        found = _databases[name] = Database()
    return found


class Threads:
    """Runs calls in the threads that a database may use."""

    def __init__(self, module: Any):
        self.module = module

    def run(
        self, known: Connection, share: Share, connection: Any, function: Callable[..., Any], *args: Any
    ) -> Any:
        """Call function(*args) in a thread, or here if the connection must stay in its thread or is in use by
        the caller. If the tasklet is interrupted, so is the statement."""
        if known.strict or known.is_inside():
            return known.call(connection, True, function, args)
        job = Job()
        try:
            seconds = known.timeout if share is known.database.entering else None
            return share.run_soon(seconds, known.call, connection, True, function, args, job)
        except self.module.ProgrammingError as wrong:
            if "created in a thread can only be used in that same thread" not in str(wrong):
                raise
            known.strict = True
        finally:
            job.over = True
        return known.call(connection, True, function, args)

    def in_transaction(self, known: Connection, connection: Any) -> bool:
        """Return whether the connection is, or may be, in a transaction."""
        try:
            return known.is_used_elsewhere() or connection.in_transaction
        except self.module.ProgrammingError:  # another tasklet has closed it
            return False
