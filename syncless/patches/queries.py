"""Ends a query on the database server when its tasklet is interrupted.

After an interruption the connection is either usable, because the response to the cancel has been read, or
closed. psycopg2 has its own file.

Fact: a cancel is sent on another connection. Danger: it might end the next query of this connection.
Decision: it is complete before the connection is used again, or the connection is closed. Danger: it might
arrive before the query has begun, and do nothing. Decision: it is repeated until there is a response.

Guarded by tests/patches/test_interrupted.py.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from struct import pack
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.current import ThrownHere, current, may_park, uninterrupted, wait_readable
from syncless._core.tasklet import spawn
from syncless._core.timeout import Timeout
from syncless.patches.registry import Patcher

CANCEL_SECONDS = 1.0
"""Seconds for which an interrupted tasklet goes on, to end its query. A request has a limit of that name."""
AGAIN_SECONDS = 0.1
"""Seconds after which the server is told again."""

CANCEL_REQUEST = pack("!ii", 16, 80877102)
"""Of PostgreSQL: the number and the secret of the process follow."""
WHY = "leaves the query running"

_pool = ThreadPool(32)


def cancel_seconds() -> float:
    """Return the running tasklet's time limit for cancelling."""
    seconds: float = getattr(current(), "cancel_seconds", CANCEL_SECONDS)
    return seconds


def finish(function: Callable[..., object], *args: Any, leave: bool = False) -> None:
    """Run function(*args) for at most cancel_seconds(). An exception thrown at the tasklet meanwhile is
    raised at its next wait. With `leave`, the function may keep running afterwards. Errors of the function
    are dropped."""
    if not may_park():
        return

    def body() -> None:
        with suppress(Exception):
            function(*args)

    tidying = spawn(body)
    try:
        uninterrupted(tidying.join, cancel_seconds())
    finally:
        if not leave:
            uninterrupted(tidying.kill)


def cancel_until(answered: Callable[[], object], cancel: Callable[[], object]) -> None:
    """Call cancel() repeatedly until answered() returns or raises an error of its own."""
    over = False
    while not over:
        cancel()
        with Timeout(AGAIN_SECONDS, False):
            answered()
            over = True


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that waits in C, in a thread if possible."""
    return _pool.run(function, *args) if may_use_threads() else function(*args)


def shut_down(fd: int) -> None:
    """Shut down a connection that a C library or a thread is using."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as ours:
        ours.shutdown(socket.SHUT_RDWR)


def around(
    patcher: Patcher,
    owner: Any,
    names: tuple[str, ...],
    broken_off: Callable[..., None],
    own_errors: bool = True,
) -> None:
    """Call broken_off(self, error) if one of these methods raises. Without `own_errors`, ignore an Exception
    unless something was thrown at the tasklet meanwhile."""

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            with ThrownHere() as thrown:
                try:
                    return original(self, *args, **kwargs)
                except BaseException as error:
                    if own_errors or thrown or not isinstance(error, Exception):
                        broken_off(self, error)
                    raise

        return method

    for name in names:
        patcher.member(owner, name, wrapped(getattr(owner, name)), WHY)


def psycopg(patcher: Patcher, module: Any) -> None:
    """Patch psycopg 3, which itself cancels its query only after Ctrl-C and SystemExit, and waits longer."""
    wait = module.Connection.wait
    active = module.pq.TransactionStatus.ACTIVE

    def end_query(connection: Any, answer: Any) -> None:
        def cancel() -> None:
            if module.pq.version() < 170000:  # it waits in C
                in_thread(connection.cancel)
            else:
                connection.cancel_safe()

        cancel_until(lambda: module.waiting.wait(answer, connection.pgconn.socket), cancel)

    def wait_or_cancel(self: Any, gen: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return wait(self, gen, *args, **kwargs)
        except module.e.Error:
            raise
        except BaseException:
            if self.pgconn.transaction_status == active:
                try:
                    finish(end_query, self, gen)
                finally:
                    if self.pgconn.transaction_status == active:  # or in a COPY, or a pipeline
                        self.pgconn.finish()
            raise

    patcher.member_of_module(module, "_INTERRUPTED", (), WHY)
    patcher.member(module.Connection, "wait", wait_or_cancel, WHY)


def pg8000(patcher: Patcher, module: Any) -> None:
    """Patch pg8000, which has no cancel. Its connection is closed, because it may have read part of a
    response."""
    connections = module.CoreConnection
    close = connections.close

    def end_query(connection: Any) -> None:
        server = connection._usock.getpeername()

        def cancel() -> None:
            with socket.socket(connection._usock.family) as other:
                other.connect(server)
                other.sendall(CANCEL_REQUEST + connection._backend_key_data)
                other.recv(1)  # the server closes it when it has passed the cancel on

        connection._usock.shutdown(socket.SHUT_WR)  # a server that has nothing to do ends the connection
        cancel_until(lambda: wait_readable(connection._usock), cancel)

    def broken_off(connection: Any, error: BaseException) -> None:
        if connection._sock is None:
            return
        try:
            finish(end_query, connection)
        finally:
            shut_down(connection._usock.fileno())
            with suppress(Exception):
                connection._sock.close()
            connection._usock.close()
            connection._sock = None

    def close_silently(self: Any) -> None:
        """Close an interrupted connection without a last message to the server."""
        if self._sock is None:
            self._usock = None if self._usock else close(self)
        else:
            close(self)

    talks = ("execute_simple", "execute_unnamed", "execute_named", "prepare_statement")
    around(patcher, connections, (*talks, "close_prepared_statement"), broken_off, own_errors=False)
    patcher.member(connections, "close", close_silently, "says goodbye on a connection that was broken off")
