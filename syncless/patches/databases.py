"""What the patch knows of sqlite3's databases and connections; sqlite.py uses it."""

from __future__ import annotations

import os
import re
import weakref
from typing import Any

from syncless._core.threads import Share

ENTERING = 8
"""Calls of one database at a time that may wait for a lock to write."""
READING = 16
HOLDING = 64
STATEMENTS = 512
"""That are remembered for each database in memory."""


_REACHES_OUT = re.compile(r"\b(ATTACH|VACUUM)\b", re.IGNORECASE)


class Database:
    """The threads that calls of one database may use at a time."""

    def __init__(self) -> None:
        self.entering = Share(ENTERING)
        self.reading = Share(READING)
        self.holding = Share(HOLDING)


_databases: weakref.WeakValueDictionary[str, Database] = weakref.WeakValueDictionary()
_elsewhere = Database()
"""Of connections that were made before the patch."""


class Connection:
    """What is known of a connection."""

    __slots__ = ("alone", "database", "holds", "in_threads", "strict", "timeout", "trials")

    def __init__(self, database: Database, alone: bool, timeout: float | None):
        self.database = database
        self.alone = alone
        """Whether it is in memory and nothing else can come to it."""
        self.timeout = timeout
        self.holds = False
        """Whether its transaction has a lock."""
        self.strict = False
        """Whether it must stay in its thread."""
        self.in_threads: set[object] = set()
        """The calls of it that are made in threads now."""
        self.trials: dict[str, list[int]] = {}
        """Statement -> how often it is to be executed in a thread yet, and after the next failure."""

    def look_at(self, sql: str) -> None:
        """At a statement that it has not seen yet."""
        if _REACHES_OUT.search(sql):
            self.alone = False
        if len(self.trials) >= STATEMENTS:
            self.trials.clear()


connections: dict[int, Connection] = {}
"""By id(). A connection made under the patch takes the place of what had its id before; an older one has its id for itself."""


def known_of(connection: Any) -> Connection:
    known = connections.get(id(connection))
    if known is None:
        known = connections[id(connection)] = Connection(_elsewhere, False, None)
    return known


def database_of(path: Any) -> Database:
    """The same object for the same file, if it is named in the same way."""
    if path == ":memory:" or not isinstance(path, (str, bytes, os.PathLike)):
        return Database()
    name = os.fsdecode(path)
    name = name.partition("?")[0] if name.startswith("file:") else os.path.abspath(name)
    found = _databases.get(name)
    if found is None:
        found = _databases[name] = Database()
    return found
