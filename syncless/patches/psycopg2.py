"""Makes psycopg2 wait in a callback of ours. COPY and large objects, which psycopg2 refuses while a callback
is set, run in threads.

Fact: only libpq's own blocking loop enforces connect_timeout, and tries the next address after it. Danger:
under a callback, waiting for a silent server would never end. Decision: the callback enforces the timeout of
each address, and `connect` restarts with the remaining addresses.

Fact: psycopg2 makes a connection non-blocking before the callback's first step, and libpq then forgets which
server its next error is about. Decision: the callback adds the server, in libpq's words.

Fact: COPY and `connection.lobject` first check whether a wait callback is set, for the whole process. Danger:
a tasklet that executes a statement while the callback is unset blocks all others, forever if the server makes
it wait for one of them. Decision: the callback is removed and set again without a bytecode in between, so no
other thread can run meanwhile. `map` makes the first two calls. psycopg2 then checks the callback, and right
afterwards reads an attribute of the file or the factory, which sets the callback again. Statements of such a
call wait in the callback, in the thread. Price: copy_from and copy_to are built on copy_expert, which reads
the attribute of its file in time.

Fact: a connection made under a wait callback is non-blocking. libpq then keeps in memory all data that is
copied faster than the server reads it, and waits forever for the response to a large `lobject.write`.
Decision: the connection is blocking during these calls.

Guarded by tests/patches/test_psycopg2.py and test_hostile_servers.py.
"""

from __future__ import annotations

import _thread
import ctypes
import select
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, update_wrapper, wraps
from itertools import chain, repeat
from operator import attrgetter, methodcaller
from types import SimpleNamespace
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.functions import original_of
from syncless._core.current import wait_readable, wait_writable
from syncless._core.wait.sync import Event
from syncless.patches.queries import cancel_until, finish, in_thread, shut_down
from syncless.patches.registry import Patcher

_get_os_ident = original_of(_thread.get_ident)

LARGE_OBJECT = ("read", "write", "seek", "tell", "truncate", "unlink", "export", "close")
ACTIVE = 1
"""PQTRANS_ACTIVE: a command is under way."""
NAMED = "connection to server "
"""How libpq begins an error of a server."""
WHY = "is refused beside a wait callback"

Address = tuple[str, str, str]
"""A server's host, number and port."""

_poll: Callable[[], Any] = select.poll
_pool = ThreadPool(32)


class _File:
    """A file for copy_expert, which looks up `read` right after it has checked the callback."""

    read = property(methodcaller("next_read"))
    __class__: Any = property(attrgetter("class_of_file"))  # psycopg2 asks whether it is a text file

    def __init__(self, file: Any, restored: Iterator[Any]):
        self.class_of_file = type(file)
        self.next_read = partial(next, chain(restored, repeat(getattr(file, "read", None))))
        if hasattr(file, "write"):
            self.write = file.write


class _Factory:
    """A factory for connection.lobject, which calls the factory right after it has checked the callback."""

    __call__ = property(methodcaller("next_call"))

    def __init__(self, factory: Any, restored: Iterator[Any]):
        self.next_call = partial(next, chain(restored, repeat(factory)))


def _libpq() -> Any:
    """Return the libpq that the module uses, or None if it is linked statically."""
    library = ctypes.CDLL(sys.modules["psycopg2._psycopg"].__file__)
    try:
        for name in ("PQisnonblocking", "PQtransactionStatus", "PQclear", "PQgetCancel", "PQfreeCancel"):
            getattr(library, name).argtypes = [ctypes.c_void_p]
        library.PQsetnonblocking.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.PQexec.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        library.PQcancel.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        library.PQexec.restype = library.PQgetCancel.restype = ctypes.c_void_p
    except AttributeError:
        return None
    with suppress(AttributeError):  # since version 12
        library.PQhostaddr.argtypes, library.PQhostaddr.restype = [ctypes.c_void_p], ctypes.c_char_p
    return library


def _server_at(address: Address) -> str:
    """Return the address as libpq names it since version 14."""
    host, number, port = address
    if host.startswith(("/", "@")):
        return f'{NAMED}on socket "{host}/.s.PGSQL.{port}"'
    if number and number != host:
        return f'{NAMED}at "{host}" ({number}), port {port}'
    return f'{NAMED}at "{host}", port {port}'


def _untried(parameters: dict[str, str], address: Address) -> dict[str, str]:
    """Return the parameters that name the addresses after this one. The dict is empty if there are none."""
    hosts, numbers, ports = (parameters.get(name, "").split(",") for name in ("host", "hostaddr", "port"))
    count = max(len(hosts), len(numbers))
    hosts, numbers, ports = (each * count if len(each) == 1 else each for each in (hosts, numbers, ports))
    rows = list(zip(hosts, numbers, ports, strict=False))
    host, number, port = address
    here = [at for at, row in enumerate(rows) if row[2] in (port, "") and host in row[:2]]
    if not here:
        return {}
    left = rows[here[0] + 1 :]
    if number and number != host and not rows[here[0]][1]:  # one of several addresses of a name
        with suppress(OSError, ValueError):
            found = [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            left = [(host, each, port) for each in found[found.index(number) + 1 :]] + left
    names = ("host", "hostaddr", "port")
    return {name: ",".join(row[at] for row in left) for at, name in enumerate(names)} if left else {}


class Psycopg2:
    """The module psycopg2 with our wait callback, and the calls that psycopg2 refuses while a callback is
    set."""

    def __init__(self, extensions: Any):
        self.extensions = extensions
        self.error: type[Exception] = sys.modules["psycopg2._psycopg"].OperationalError
        self.set_callback = extensions.set_wait_callback
        self.lobject = extensions.connection.lobject
        self.copy_expert = extensions.cursor.copy_expert
        self._blocked: dict[int, int] = {}
        """Threads in which a connection may block -> how many calls deep."""
        self._connections: dict[int, weakref.ref[Any]] = {}
        """id() of a large object -> its connection. A newer object with that id replaces the entry."""
        self._libpq = _libpq()

    def wait(self, connection: Any) -> None:
        """Wait, as the callback of psycopg2, which closes a connection whose callback raises."""
        try:
            self._wait(connection)
        except BaseException:
            if not connection.closed and connection.get_transaction_status() == ACTIVE:
                finish(cancel_until, partial(self._wait, connection), partial(self.cancel, connection))
            raise

    def _wait(self, connection: Any) -> None:
        """Park until the server has responded."""
        states = self.extensions
        here = _get_os_ident() in self._blocked
        begins = connection.status == states.STATUS_SETUP
        limit = self._connect_seconds(connection) if begins and not here else None
        address, until = ("", "", ""), 0.0
        poll = partial(self._begin, connection, self._address(connection)) if begins else connection.poll
        while (state := poll()) != states.POLL_OK:
            if state not in (states.POLL_READ, states.POLL_WRITE):
                raise self.error(f"psycopg2's connection is in the unknown state {state!r}")
            if here:
                blocking = _poll()
                blocking.register(connection, select.POLLIN if state == states.POLL_READ else select.POLLOUT)
                blocking.poll()
                continue
            left = None
            if limit is not None:
                before, address = address, self._address(connection)
                if address != before:
                    until = time.monotonic() + limit
                left = max(0.0, until - time.monotonic())
            if not (wait_readable if state == states.POLL_READ else wait_writable)(connection, left):
                raise self._timed_out(connection, address)

    def _begin(self, connection: Any, first: Address) -> Any:
        """Perform a step of a new connection, and add the server to its errors (see above)."""
        try:
            return connection.poll()
        except self.error as error:
            if self.extensions.libpq_version() >= 140000 and not str(error).startswith(NAMED):
                error.args = (f"{_server_at(first)} failed: {error}",)
            raise

    def _connect_seconds(self, connection: Any) -> float | None:
        """Return connect_timeout, which applies to each address of the server."""
        try:
            seconds = int(connection.get_dsn_parameters().get("connect_timeout", 0))
        except ValueError:  # libpq tells what is wrong with it
            return None
        if seconds <= 0:
            return None
        return max(seconds, 2) if self.extensions.libpq_version() < 170000 else seconds

    def _address(self, connection: Any) -> Address:
        """Return the address that is being tried."""
        info = connection.info
        tell = getattr(self._libpq, "PQhostaddr", None)
        found = tell(connection.pgconn_ptr) if tell else None
        return info.host or "", (found or b"").decode(), str(info.port)

    def _timed_out(self, connection: Any, address: Address) -> Exception:
        """Return the error of libpq for an expired timeout."""
        error: Exception = self.error(f"{_server_at(address)} failed: timeout expired\n")
        error.untried = _untried(connection.get_dsn_parameters(), address)  # type: ignore[attr-defined]
        return error

    def connect(self, original: Callable[..., Any], dsn: str, *args: Any, **kwargs: Any) -> Any:
        """Call psycopg2._connect, and try the remaining addresses after connect_timeout, like libpq."""
        told = ""
        while True:
            try:
                return original(dsn, *args, **kwargs)
            except self.error as error:
                untried = getattr(error, "untried", None)
                if not untried:
                    if told:
                        error.args = (told + str(error),)
                    raise
                told, dsn = told + str(error), self.extensions.make_dsn(dsn, **untried)

    def cancel(self, connection: Any) -> None:
        """Cancel the query in a thread: connection.cancel() holds the GIL until the server responds."""
        if self._libpq is None:
            connection.cancel()
        else:
            in_thread(self._cancel, self._libpq.PQgetCancel(connection.pgconn_ptr))

    def _cancel(self, request: int) -> None:
        try:
            self._libpq.PQcancel(request, ctypes.create_string_buffer(256), 256)
        finally:
            self._libpq.PQfreeCancel(request)

    def blocking(self, connection: Any, function: Callable[..., Any], *args: Any) -> Any:
        """Run function(*args) in a thread, with this connection in blocking mode."""
        ended = Event()
        if not may_use_threads():
            return self._blocking(ended, connection, function, args)
        ended.set()  # until it begins
        try:
            return _pool.run(self._blocking, ended, connection, function, args)
        except BaseException:
            if connection is not None and not ended.is_set():
                try:
                    finish(cancel_until, ended.wait, partial(self.cancel, connection))
                finally:
                    if not ended.is_set():  # the thread meets the end of the connection
                        shut_down(connection.fileno())
            raise

    def _blocking(self, ended: Event, connection: Any, function: Any, args: tuple[Any, ...]) -> Any:
        ended.clear()
        me = _get_os_ident()
        self._blocked[me] = self._blocked.get(me, 0) + 1
        address = connection.pgconn_ptr if self._libpq and connection is not None else None
        nonblocking = address is not None and self._libpq.PQisnonblocking(address)
        try:
            if nonblocking:
                self._libpq.PQsetnonblocking(address, 0)
            return function(*args)
        except BaseException:
            alive = address is not None and not connection.closed
            if alive and self._libpq.PQtransactionStatus(address) == ACTIVE:
                # a COPY that was broken off: PQexec ends it, commands under a callback do not
                self._libpq.PQclear(self._libpq.PQexec(address, b""))
            raise
        finally:
            if nonblocking and not connection.closed:
                self._libpq.PQsetnonblocking(address, 1)
            self._blocked[me] -= 1
            if not self._blocked[me]:
                del self._blocked[me]
            ended.set()

    def unseen(self, call: Callable[[Iterator[Any]], partial[Any]]) -> Any:
        """Make a call that must not see the callback.

        `call` gets an empty iterator, which sets the callback again when an item is requested.
        """
        callback = self.extensions.get_wait_callback()
        restored = filter(None, map(self.set_callback, (callback,)))
        try:
            return list(map(partial.__call__, (partial(self.set_callback, None), call(restored))))[1]
        finally:
            self.set_callback(callback)

    # -- in place of psycopg2's own --

    def cursor_copy_expert(self, cursor: Any, sql: Any, file: Any, size: int = 8192) -> None:
        text = cursor.mogrify(sql)  # bytes: psycopg2 calls no Python code to use them
        if hasattr(file, "read") or hasattr(file, "write"):
            call = lambda restored: partial(self.copy_expert, cursor, text, _File(file, restored), size)  # noqa: E731
        else:
            call = lambda _: partial(self.copy_expert, cursor, text, SimpleNamespace(), size)  # noqa: E731
        self.blocking(cursor.connection, self.unseen, call)

    def copy(
        self,
        cursor: Any,
        file: Any,
        way: str,
        table: str,
        sep: str,
        null: str,
        size: int,
        columns: Iterable[Any] | None,
    ) -> None:
        need = "read" if way == "FROM stdin" else "write"
        if not hasattr(file, need):
            raise TypeError(f"argument 1 must have a .{need}() method")
        names = ",".join(self._name(cursor, each) for each in columns or ())
        names = f"({names})" if names else ""
        options = f"DELIMITER AS {self._text(cursor, sep)} NULL AS {self._text(cursor, null)}"
        sql = f"COPY {self._name(cursor, table)}{names} {way} WITH {options}"
        self.cursor_copy_expert(cursor, sql, file, size)

    def _name(self, cursor: Any, name: str | bytes) -> str:
        if isinstance(name, bytes):
            name = name.decode(self.extensions.encodings[cursor.connection.encoding])
        return self.extensions.quote_ident(name, cursor)  # type: ignore[no-any-return]

    def _text(self, cursor: Any, text: str) -> str:
        quoted = self.extensions.QuotedString(text)
        quoted.prepare(cursor.connection)
        return quoted.getquoted().decode(quoted.encoding)  # type: ignore[no-any-return]

    def new_lobject(self, connection: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        factory = kwargs.pop("lobject_factory", args[4] if len(args) > 4 else self.extensions.lobject)

        def call(restored: Iterator[Any]) -> partial[Any]:
            ours = _Factory(factory, restored)
            return partial(self.lobject, connection, *args[:4], lobject_factory=ours, **kwargs)

        made = self.blocking(connection, self.unseen, call)
        self._connections[id(made)] = weakref.ref(connection)
        return made

    def lobject_method(self, original: Any) -> Any:
        def method(lobject: Any, *args: Any) -> Any:
            where = self._connections.get(id(lobject))
            return self.blocking(where and where(), original, lobject, *args)

        return update_wrapper(method, original)


def patch(patcher: Patcher, extensions: Any) -> None:
    ours = Psycopg2(extensions)
    cursor, connection = extensions.cursor, extensions.connection

    def copy_from(
        self: Any,
        file: Any,
        table: str,
        sep: str = "\t",
        null: str = "\\N",
        size: int = 8192,
        columns: Iterable[Any] | None = None,
    ) -> None:
        ours.copy(self, file, "FROM stdin", table, sep, null, size, columns)

    def copy_to(
        self: Any,
        file: Any,
        table: str,
        sep: str = "\t",
        null: str = "\\N",
        columns: Iterable[Any] | None = None,
    ) -> None:
        ours.copy(self, file, "TO stdout", table, sep, null, 8192, columns)

    def copy_expert(self: Any, sql: Any, file: Any, size: int = 8192) -> None:
        ours.cursor_copy_expert(self, sql, file, size)

    def lobject(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours.new_lobject(self, args, kwargs)

    connect_once = sys.modules["psycopg2._psycopg"]._connect

    @wraps(connect_once)
    def connect(dsn: str, *args: Any, **kwargs: Any) -> Any:
        return ours.connect(connect_once, dsn, *args, **kwargs)

    for method in (copy_from, copy_to, copy_expert):
        update_wrapper(method, getattr(cursor, method.__name__))
        patcher.member_in_place(cursor, method.__name__, method, WHY)
    patcher.member_in_place(connection, "lobject", update_wrapper(lobject, connection.lobject), WHY)
    for name in LARGE_OBJECT:
        original = extensions.lobject.__dict__[name]
        patcher.member_in_place(extensions.lobject, name, ours.lobject_method(original), "waits in C")
    patcher.member_of_module(sys.modules["psycopg2"], "_connect", connect, "keeps no connect_timeout")
    before = extensions.get_wait_callback()
    extensions.set_wait_callback(ours.wait)
    target = "psycopg2.extensions.set_wait_callback"
    patcher.note(target, ours.wait, "waits in C", lambda: extensions.set_wait_callback(before))
