"""COPY and large objects of psycopg2 run in threads: it refuses them while a wait callback is set.

Fact: COPY and `connection.lobject` first look whether a wait callback is set, for the whole process. Danger:
if a tasklet executes a statement while the callback is away, it stops all others, for ever if the server
makes it wait for one of them. Decision: the callback is removed and set again without a bytecode in between,
so no other thread can run meanwhile. `map` makes the first two calls. psycopg2 then looks for the callback,
and right afterwards asks the file or the factory for an attribute, which sets the callback again. Statements
of such a call wait by the callback, in the thread. Price: copy_from and copy_to are built on copy_expert,
which asks its file in time.

Fact: a connection made under a wait callback is non-blocking. libpq then keeps in memory all data that is
copied faster than the server reads it, and waits for ever for the answer to a large `lobject.write`.
Decision: the connection blocks during these calls.

Guarded by tests/patches/test_psycopg2.py.
"""

from __future__ import annotations

import _thread
import ctypes
import select
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial, update_wrapper
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
WHY = "is refused beside a wait callback"

_poll: Callable[[], Any] = select.poll
_pool = ThreadPool(32)


class _File:
    """A file for copy_expert, which asks for `read` right after it has looked for the callback."""

    read = property(methodcaller("next_read"))
    __class__: Any = property(attrgetter("class_of_file"))  # psycopg2 asks whether it is a text file

    def __init__(self, file: Any, restored: Iterator[Any]):
        self.class_of_file = type(file)
        self.next_read = partial(next, chain(restored, repeat(getattr(file, "read", None))))
        if hasattr(file, "write"):
            self.write = file.write


class _Factory:
    """A factory for connection.lobject, which calls it right after it has looked for the callback."""

    __call__ = property(methodcaller("next_call"))

    def __init__(self, factory: Any, restored: Iterator[Any]):
        self.next_call = partial(next, chain(restored, repeat(factory)))


def _libpq() -> Any:
    """The libpq that the module uses, or None if it is linked statically."""
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
    return library


class Psycopg2:
    """psycopg2, our wait callback, and the calls that psycopg2 refuses beside a callback."""

    def __init__(self, extensions: Any):
        self.extensions = extensions
        self.set_callback = extensions.set_wait_callback
        self.lobject = extensions.connection.lobject
        self.copy_expert = extensions.cursor.copy_expert
        self._blocked: dict[int, int] = {}
        """Threads in which a connection may block -> how many calls deep."""
        self._connections: dict[int, weakref.ref[Any]] = {}
        """id() of a large object -> its connection. A newer object with that id replaces the entry."""
        self._libpq = _libpq()

    def wait(self, connection: Any) -> None:
        """The wait callback. psycopg2 closes a connection whose callback raises."""
        try:
            self._wait(connection)
        except BaseException:
            if not connection.closed and connection.get_transaction_status() == ACTIVE:
                finish(cancel_until, partial(self._wait, connection), partial(self.cancel, connection))
            raise

    def _wait(self, connection: Any) -> None:
        """Parks until the server has answered."""
        states = self.extensions
        here = _get_os_ident() in self._blocked
        while (state := connection.poll()) != states.POLL_OK:
            if state not in (states.POLL_READ, states.POLL_WRITE):
                raise states.OperationalError(f"psycopg2's connection is in the unknown state {state!r}")
            if here:
                poll = _poll()
                poll.register(connection, select.POLLIN if state == states.POLL_READ else select.POLLOUT)
                poll.poll()
            elif state == states.POLL_READ:
                wait_readable(connection)
            else:
                wait_writable(connection)

    def cancel(self, connection: Any) -> None:
        """connection.cancel() holds the GIL until the server has answered, which it may never do."""
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
        """function(*args) in a thread, with this connection in blocking mode."""
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
        """Makes a call that must not see the callback.

        `call` gets an empty iterator, which sets the callback again when it is asked for an item.
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

    for method in (copy_from, copy_to, copy_expert):
        update_wrapper(method, getattr(cursor, method.__name__))
        patcher.member_in_place(cursor, method.__name__, method, WHY)
    patcher.member_in_place(connection, "lobject", update_wrapper(lobject, connection.lobject), WHY)
    for name in LARGE_OBJECT:
        original = extensions.lobject.__dict__[name]
        patcher.member_in_place(extensions.lobject, name, ours.lobject_method(original), "waits in C")
    before = extensions.get_wait_callback()
    extensions.set_wait_callback(ours.wait)
    target = "psycopg2.extensions.set_wait_callback"
    patcher.note(target, ours.wait, "waits in C", lambda: extensions.set_wait_callback(before))
