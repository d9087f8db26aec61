"""Ends interrupted queries of PyMySQL and mysqlclient on the server, too.

A connection that is interrupted in the middle of a response is closed. A command on another connection then
makes the server end its thread of the closed one.

Fact: each server numbers its own threads. Danger: one address may lead to several servers, and on another
server the same number belongs to another client. Decision: the command is sent only if the thread with that
number serves the port that the connection had here. Price: queries through a proxy are not ended.

Fact: a KILL QUERY that arrives before the query does nothing. Decision: the whole thread is killed.
"""

from __future__ import annotations

import copy
import math
import os
import socket
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

from syncless._core.current import next_thrown
from syncless._core.wait.sync import Semaphore
from syncless.patches.queries import WHY, around, cancel_seconds, finish
from syncless.patches.registry import Patcher

FIND = (
    "SELECT 1 FROM information_schema.processlist WHERE id = %s AND %s IN (0, SUBSTRING_INDEX(host, ':', -1))"
)

_places = Semaphore(8)
"""Each such connection is one more for the server."""


def port_of(sock: Any) -> int:
    """Return the port by which a server identifies the connection, or 0 for a UNIX socket."""
    return sock.getsockname()[1] if sock.family in (socket.AF_INET, socket.AF_INET6) else 0


def _kill(connect: Callable[[], Any], number: int, port: int) -> None:
    with _places, closing(connect()) as connection, closing(connection.cursor()) as cursor:
        if cursor.execute(FIND, (number, port)):
            cursor.execute("KILL %s", (number,))


def pymysql(patcher: Patcher, module: Any) -> None:
    connections, error_of_driver = module.Connection, module.err.MySQLError
    connect, write, ports = connections.connect, connections._write_bytes, "_syncless_port"

    def connect_and_remember(self: Any, *args: Any, **kwargs: Any) -> None:
        connect(self, *args, **kwargs)
        setattr(self, ports, port_of(self._sock))

    def write_whole(self: Any, data: Any) -> None:
        try:
            write(self, data)
        except error_of_driver:
            raise
        except BaseException:
            self._force_close()
            raise

    def another(broken: Any, seconds: float) -> Any:
        made = copy.copy(broken)
        made.init_command = made.sql_mode = made.autocommit_mode = made._result = None
        made.connect_timeout = made._read_timeout = made._write_timeout = seconds
        made.cursorclass = module.Cursor
        connect(made)
        return made

    def broken_off(connection: Any, error: BaseException) -> None:
        cause = error.__context__ if isinstance(error, error_of_driver) else error
        if connection._sock is None and cause is not None and getattr(cause, "errno", None) is None:
            port = vars(connection).pop(ports, None)  # the driver closes what is interrupted
            if port is not None:
                number = connection.server_thread_id[0]
                finish(_kill, partial(another, connection, cancel_seconds()), number, port, leave=True)

    def rows_broken_off(result: Any, error: BaseException) -> None:
        connection = result.connection
        if connection is not None and connection._sock is None:
            result.unbuffered_active, result.connection = False, None  # or closing its cursor fails
            broken_off(connection, error)

    patcher.member(connections, "connect", connect_and_remember, WHY)
    patcher.member(connections, "_write_bytes", write_whole, "leaves half a packet on its way")
    around(patcher, connections, ("_execute_command", "_read_query_result", "_read_ok_packet"), broken_off)
    unbuffered = ("_read_rowdata_packet_unbuffered", "_finish_unbuffered_query")
    around(patcher, module.MySQLResult, unbuffered, rows_broken_off)


def mysqlclient(patcher: Patcher, module: Any) -> None:
    """Patch mysqlclient, which waits in C. After an interruption under patch_native("MySQLdb"), it raises its
    own error."""
    connections = module.Connection
    connect = connections.__init__
    made: weakref.WeakKeyDictionary[Any, tuple[int, Callable[..., Any]]] = weakref.WeakKeyDictionary()
    """Connection -> its port here, and what makes another one."""

    def connect_and_remember(self: Any, *args: Any, **kwargs: Any) -> None:
        connect(self, *args, **kwargs)
        others = {
            name: value for name, value in kwargs.items() if name not in ("init_command", "cursorclass")
        }
        with suppress(AttributeError), socket.socket(fileno=os.dup(self.fileno())) as sock:
            made[self] = port_of(sock), partial(another, *args, **others)

    def another(*args: Any, **kwargs: Any) -> Any:
        connection = connections.__new__(connections, *args, **kwargs)
        connect(connection, *args, **kwargs)
        return connection

    def broken_off(connection: Any, error: BaseException) -> None:
        if isinstance(error, connections.OperationalError) and 2000 <= error.args[0] < 3000:
            thrown = next_thrown()
            if thrown is not None:
                if (remembered := made.pop(connection, None)) is not None:
                    port, connect_again = remembered
                    seconds = math.ceil(cancel_seconds())
                    limits = {f"{name}_timeout": seconds for name in ("connect", "read", "write")}
                    finish(_kill, partial(connect_again, **limits), connection.thread_id(), port, leave=True)
                raise thrown from error

    def rows_broken_off(cursor: Any, error: BaseException) -> None:
        try:
            broken_off(cursor.connection, error)
        except BaseException:
            cursor._result = None  # or closing the cursor fails, too
            raise

    methods = (
        "query",
        "store_result",
        "use_result",
        "next_result",
        "discard_result",
        "commit",
        "rollback",
        "ping",
    )
    around(patcher, connections, tuple(name for name in methods if hasattr(connections, name)), broken_off)
    around(patcher, module.cursors.BaseCursor, ("_fetch_row",), rows_broken_off)
    patcher.member(connections, "__init__", connect_and_remember, WHY)
