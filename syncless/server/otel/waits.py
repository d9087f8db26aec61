"""The longest waits of a request as spans of their own, by the semantic conventions for their kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from syncless._core.waits import SERVICES, Wait

MOST = 10
"""The longest, of each request."""
LEAST = 0.0005
"""Seconds; shorter waits are no spans."""
SYSTEMS = {
    "SQL Server": "microsoft.sql_server",
    "Oracle": "oracle.db",
    "MySQL": "mysql",
    "PostgreSQL": "postgresql",
    "Redis": "redis",
    "Cassandra": "cassandra",
    "Elasticsearch": "elasticsearch",
    "MongoDB": "mongodb",
}
"""A service that usually listens on a port -> its db.system.name."""
DNS = "DNS name "
HOLDER = "held by "
SOCKETS = ("socket read", "socket write", "descriptor", "descriptor in a C library")


class Part(NamedTuple):
    """A wait as a span."""

    name: str
    is_client: bool
    """Whether another service is asked meanwhile."""
    attributes: dict[str, str | int]
    since: float
    seconds: float


def parts(waits: list[Wait]) -> Iterator[Part]:
    """Yield the longest waits, in chronological order."""
    long = sorted((wait for wait in waits if wait.seconds >= LEAST), key=lambda wait: -wait.seconds)[:MOST]
    for wait in sorted(long, key=lambda wait: wait.since):
        attributes: dict[str, str | int] = {"syncless.wait": wait.why}
        name, is_client = _describe(wait, attributes)
        if wait.file:
            attributes["code.file.path"] = wait.file
            attributes["code.line.number"] = wait.line
            attributes["code.function.name"] = wait.function
        yield Part(name, is_client, attributes, wait.since, wait.seconds)


def _describe(wait: Wait, attributes: dict[str, str | int]) -> tuple[str, bool]:
    """Return the name of the span and whether it is a client's; add what is known to the attributes."""
    if wait.on.startswith(DNS):
        attributes["dns.question.name"] = wait.on.removeprefix(DNS)
        return "DNS lookup", True
    if wait.on.startswith(HOLDER):
        attributes["syncless.lock.holder"] = wait.on.removeprefix(HOLDER)
    host, port = _peer(wait.on) if wait.why in SOCKETS else ("", 0)
    if host:
        attributes["server.address"] = host
        if port:
            attributes["server.port"] = port
    system = SYSTEMS.get(SERVICES.get(port, ""), "")
    if wait.query or system:
        attributes["db.system.name"] = system or "other_sql"
        operation = next(iter(wait.query.split(None, 1)), "").upper()
        if wait.query:
            attributes["db.query.text"] = wait.query
        if operation.isalpha():
            attributes["db.operation.name"] = operation
        else:
            operation = ""
        where = f"{host}:{port}" if port else host
        return " ".join(filter(None, (operation, where))) or "query", True
    if host:
        return f"{wait.why} {host}:{port}" if port else f"{wait.why} {host}", True
    return wait.why, False


def _peer(on: str) -> tuple[str, int]:
    """Return host and port of a socket's peer; a UNIX socket has a path and 0."""
    host, _, port = on.rpartition(":")
    if host and port.isdecimal():
        return host.strip("[]"), int(port)
    return (on, 0) if on.startswith("/") else ("", 0)
