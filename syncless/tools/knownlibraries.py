"""Lists which C libraries patch_native() may change: safe, with care, or refused, with the reason and how
this was tested.

The table in docs/reference/blocking.md and the fixes of blockers.py come from this one.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import NamedTuple

from syncless._core.waits import OWN

SAFE, CARE, REFUSED = "safe", "care", "refused"


class Library(NamedTuple):
    """A row of the table: a library, or several of one kind."""

    name: str
    """The module by which it is used; or its file, for one that has none."""
    verdict: str
    why: str
    """A remark for users. If it is refused, the reason, with which an error ends."""
    tested: str = ""
    files: str = ""
    """A pattern for the names of further files that belong to it, such as plug-ins. Of a library that is
    refused: for the names of its files."""
    instead: str = ""
    """The remedy for a library that is refused."""
    client: str = ""
    """A pattern for the beginning of the name of the client library that the module is linked against."""

    def owns(self, path: str) -> bool:
        """Return whether a loaded object belongs to this library."""
        file = path.rpartition("/")[2]
        return is_in(self.name, path) or bool(self.files and re.fullmatch(self.files, file))


LIBRARIES = [
    Library(
        "MySQLdb",
        SAFE,
        "mysqlclient, with MariaDB's or MySQL's client library",
        "MariaDB, also by SQLAlchemy: 50 waits; 200,000 queries of 200 tasklets with kills and deadlines",
        client="libm(ariadb|ysqlclient)",
    ),
    Library(
        "_mysql_connector",
        CARE,
        "the C extension of mysql-connector-python, which has the client library inside",
        "with MariaDB, by a prototype only",
    ),
    Library(
        "psycopg2",
        SAFE,
        "in force where the callback of the area `drivers` is not: patch_all(drivers=False, native=True)",
        "PostgreSQL: 50 waits at once, COPY, large objects, one connection of several tasklets, and a storm",
        client="libpq",
    ),
    Library(
        "pycurl",
        SAFE,
        "easy and multi handles; set NOSIGNAL if libcurl has no resolver thread",
        "a slow HTTP server: 50 waits at once, and a storm",
        client="libcurl",
    ),
    Library(
        "pyodbc",
        CARE,
        "a driver that holds a lock of the whole process while it waits serves one tasklet at a time",
        "PostgreSQL by psqlODBC: 50 waits at once, and a storm",
        r"libltdl\.so.*|libodbc\.so.*|libodbcinst\.so.*|psqlodbc\w*\.so|libmaodbc\.so|libpq\.so.*|libmariadb\.so.*",
    ),
    Library(
        "ldap",
        CARE,
        "python-ldap; a connection is locked while it waits, so it serves one tasklet at a time",
        "slapd: 50 searches at once",
        r"_ldap\..*",
        client="libldap",
    ),
    Library(
        "pylibmc",
        CARE,
        "by libmemcached",
        "memcached: 50 waits at once",
        r"_pylibmc\..*",
        client="libmemcached",
    ),
    Library(
        "zmq",
        CARE,
        "pyzmq; each of its sockets is for one tasklet, as for one thread; a killed tasklet that receives "
        "goes on with the next message",
        "50 waits for messages and in pollers at once",
    ),
    Library(
        "uvloop",
        SAFE,
        "patch_all() patches it by itself, so that its loops run in tasklets",
        "several loops at once in tasklets and threads, with executors",
    ),
    Library("pymssql", CARE, "has FreeTDS inside", "logins at once, with a server that refuses them"),
    Library(
        "cassandra",
        CARE,
        "cassandra-driver's default reactor (libev) waits in a thread of its own, which is a tasklet; unless "
        "it is patched, its first wait stops everything",
        "connections made at once, to a server that refuses them",
    ),
    Library(
        "libc.so",
        REFUSED,
        "every library, Python and syncless itself wait through it; name the libraries whose waits you mean",
        files=r"(libc|libpthread|libm|libdl|librt|libutil|libresolv|ld-linux.*|ld-musl.*|libc\.musl.*)[.-].*",
    ),
    Library(
        "libssl.so",
        REFUSED,
        "OpenSSL keeps the errors of a call per OS thread, where tasklets would mix them up; libraries wait "
        "outside of it",
        files=r"(libssl|libcrypto|_?ssl)[.-].*",
    ),
    Library(
        "libpython.so",
        REFUSED,
        "patch_all() makes Python's own calls cooperative",
        files=r"(libpython.*|python3?.*|greenlet|_greenlet\..*|syncless)",
    ),
    Library(
        "libstdc++.so",
        REFUSED,
        "it is a part of the compiler, and keeps exceptions in flight per OS thread",
        files=r"(libstdc\+\+|libgcc_s|libgomp|lib[alt]san|libubsan)[.-].*",
    ),
    Library(
        "_sqlite3",
        REFUSED,
        "the mutexes of SQLite are recursive, so two tasklets could use one connection at the same time",
        "two tasklets that share a connection get a false 'database is locked'",
        r"(libsqlite3|_?sqlite3)\..*",
        "patch_all(), under which other tasklets run during a statement of sqlite3",
    ),
    Library(
        "apsw",
        REFUSED,
        "this is SQLite: its mutexes are recursive, so two tasklets could use one connection at the same "
        "time",
        "a locked database",
        r"apsw\..*",
        'patch_all(offload=["apsw.Connection", "apsw.Cursor"])',
    ),
    Library(
        "grpc",
        REFUSED,
        "its calls wait for threads of its own by condition variables, not for descriptors",
        "an in-process server, all kinds of calls",
        r"cygrpc\..*",
        "patch_all(), whose area `drivers` moves its waits to OS threads",
    ),
    Library(
        "confluent_kafka",
        REFUSED,
        "librdkafka waits for threads of its own by condition variables, not for descriptors",
        files=r"(librdkafka|cimpl)[.-].*",
        instead="patch_all(), whose area `drivers` moves its waits to OS threads",
    ),
]


def refuse(name: str) -> None:
    """Raise ValueError for a library that must not be patched."""
    row = library(name)
    if row is None and name.partition(".")[0] in sys.stdlib_module_names:
        row = library("libpython.so")
    if (row is not None and row.verdict == REFUSED) or is_refused(name):
        why = row.why if row is not None else "it is a part of Python or of syncless"
        instead = f"; use {row.instead}" if row is not None and row.instead else ""
        raise ValueError(f"{name} cannot be patched: {why}{instead}")


def is_in(module: str, path: str) -> bool:
    """Return whether a loaded object is the module, or lies in the package of that name. Folders of that name
    elsewhere do not count."""
    inside = "/" + module.replace(".", "/")
    below = below_sys_path(path)
    folder, _, file = below.rpartition("/")
    if f"{folder}/{file.partition('.')[0]}" == inside or below.startswith(inside + "/"):
        return True
    places = getattr(sys.modules.get(module), "__path__", ())  # which need not lie below sys.path
    return any(path.startswith(place + "/") for place in places)


def below_sys_path(path: str) -> str:
    """Return the path of an extension module below its `sys.path` entry, with a leading slash, or only the
    file name if there is none."""
    return _below(path, tuple(sys.path))


@lru_cache(2048)
def _below(path: str, folders: tuple[str, ...]) -> str:
    absolute = [os.path.abspath(folder) for folder in folders]
    above = [folder for folder in absolute if path.startswith(folder.rstrip("/") + "/")]
    return path[len(max(above, key=len, default=os.path.dirname(path)).rstrip("/")) :]


def library(name: str) -> Library | None:
    """Return the row of a library, given the module or the file that a program names."""
    base = name.rpartition("/")[2]
    for row in LIBRARIES:
        if row.name == name or (row.verdict == REFUSED and re.fullmatch(row.files, base + ".")):
            return row
        if row.verdict == REFUSED and re.fullmatch(row.files, base):
            return row
    return None


def owner(path: str) -> Library | None:
    """Return the row of a loaded object."""
    return next((row for row in LIBRARIES if row.owns(path)), None)


def user(path: str) -> Library | None:
    """Return the row of an imported module that is linked against a client library."""
    file = path.rpartition("/")[2]
    rows = (row for row in LIBRARIES if row.client and row.name in sys.modules)
    return next((row for row in rows if re.match(row.client + r"\b", file)), None)


def is_refused(path: str) -> bool:
    """Return whether a loaded object is never patched: the table refuses it, or it is part of Python or of
    syncless."""
    folder, _, file = path.rpartition("/")
    if os.path.basename(folder) == "lib-dynload" or path.startswith(OWN):
        return True
    row = library(file)
    return row is not None and row.verdict == REFUSED
