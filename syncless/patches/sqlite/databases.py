"""Each database and connection of sqlite3, as the patch knows it."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable
from typing import Any

from syncless._core.calls.threads import Share

ENTERING = 8
"""Calls per database that may wait for the write lock at the same time."""
READING = 16
"""Calls per database that may read at the same time."""
HOLDING = 64
"""Calls per database that may run at the same time on connections that have a lock already."""
STATEMENTS = 512
"""Statements remembered for each database in memory."""

_REACHES_OUT = re.compile(r"\b(ATTACH|VACUUM)\b", re.IGNORECASE)


class Database:
    """The threads that calls of one database may use at a time."""

    def __init__(self) -> None:
        self.entering = Share(ENTERING)
        self.reading = Share(READING)
        self.holding = Share(HOLDING)


_databases: weakref.WeakValueDictionary[str, Database] = weakref.WeakValueDictionary()
_elsewhere = Database()
"""For connections made before the patch."""


class Connection:
    """A connection, as the patch knows it."""

    __slots__ = ("alone", "database", "holds", "in_threads", "strict", "timeout", "trials")

    def __init__(self, database: Database, alone: bool, timeout: float | None):
        self.database = database
        self.alone = alone
        """Whether the database is in memory and no other connection can reach it."""
        self.timeout = timeout
        self.holds = False
        """Whether its transaction has a lock."""
        self.strict = False
        """Whether it must stay in its thread."""
        self.in_threads: set[object] = set()
        """Its calls that run in threads now."""
        self.trials: dict[str, list[int]] = {}
        """Statement -> how often it runs in a thread yet, and how often after its next failure."""

    def look_at(self, sql: str) -> None:
        """Notes whether a new statement reaches beyond the database in memory."""
        if _REACHES_OUT.search(sql):
            self.alone = False
        if len(self.trials) >= STATEMENTS:
            self.trials.clear()


connections: dict[int, Connection] = {}
"""By id(). A connection made under the patch replaces any earlier one with its id; an older connection is the
only one with its id."""


def known_of(connection: Any) -> Connection:
    known = connections.get(id(connection))
    if known is None:
        known = connections[id(connection)] = Connection(_elsewhere, False, None)
    return known


def database_of(path: Any) -> Database:
    """The same object for the same file, if the path is spelled the same way."""
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

    def run(self, known: Connection, share: Share, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args) in a thread, or here if the connection must stay in its thread."""
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
