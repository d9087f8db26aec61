"""Descriptions of tasklets' past waits, and a test for source files that are not the program's own.
recorder.pyx keeps such waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import greenlet

SERVICES = {
    53: "DNS",
    1433: "SQL Server",
    1521: "Oracle",
    3306: "MySQL",
    5432: "PostgreSQL",
    5672: "AMQP",
    6379: "Redis",
    9042: "Cassandra",
    9092: "Kafka",
    9200: "Elasticsearch",
    11211: "memcached",
    27017: "MongoDB",
}
"""Ports and the services that usually listen on them."""
QUERY = 200
"""Characters of a query that are shown."""
OWN = tuple(f"{os.path.dirname(path)}/" for path in (os.path.dirname(__file__), greenlet.__file__))
"""The folders of syncless and greenlet."""
INSTALLED = (os.path.dirname(os.__file__) + "/", "<frozen ", *OWN)
"""Beginnings of the names of files that are not the program's."""


class Wait(NamedTuple):
    """A wait that is over."""

    why: str
    """As in Tasklet.waiting_for."""
    on: str
    """The peer of a socket, or what the wait was said to be for; or ""."""
    file: str
    """Where the program waited; "" if nobody has looked."""
    line: int
    function: str
    since: float
    """Seconds of the monotonic clock."""
    seconds: float
    query: str = ""
    """The text of the query for whose answer a driver waited, at most 1,000 characters; or ""."""

    @property
    def what(self) -> str:
        """The wait as text, without its place."""
        port = self.on.rpartition(":")[2]
        service = SERVICES.get(int(port)) if port.isdecimal() else None
        on = f"{service} {self.on}" if service else self.on
        words = " ".join(self.query.split())
        query = words if len(words) <= QUERY else f"{words[:QUERY]}..."
        return ": ".join(filter(None, (self.why, on, query)))

    @property
    def place(self) -> str:
        """The place of the wait as text, or ""."""
        file = self.file.removeprefix(f"{os.getcwd()}/")
        return f"{file}:{self.line} in {self.function}()" if file else ""

    def __str__(self) -> str:
        return f"{self.what} at {self.place}" if self.file else self.what


def longest(waits: Iterable[Wait]) -> list[tuple[Wait, int]]:
    """Return (wait, count) pairs, the longest wait first. Waits for the same thing at the same place become
    one, with their total time and the slowest query."""
    places: dict[tuple[str, str, str], list[Wait]] = {}
    for wait in waits:
        places.setdefault((wait.why, wait.on, wait.place), []).append(wait)
    found = []
    for several in places.values():
        query = max(several, key=lambda wait: wait.seconds).query
        row = several[0]._replace(seconds=sum(wait.seconds for wait in several), query=query)
        found.append((row, len(several)))
    return sorted(found, key=lambda row: -row[0].seconds)


def in_words(wait: Wait, number: int) -> str:
    """Return a row of `longest` as text."""
    several = f" in {number} waits" if number > 1 else ""
    return f"{wait.seconds:.3f} s{several}: {wait}"


def where_time_went(waits: Iterable[Wait]) -> str:
    """Return the longest row as the end of a sentence about a deadline, or "" if there were no waits."""
    rows = longest(waits)
    return f": {in_words(*rows[0])}" if rows else ""


def is_installed(file: str) -> bool:
    """Return whether the file belongs to Python, to syncless, or to an installed package."""
    folders = file.split("/")
    return file.startswith(INSTALLED) or "site-packages" in folders or "dist-packages" in folders
