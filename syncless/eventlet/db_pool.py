"""Pools of connections to databases, whose calls run in OS threads (TpooledConnectionPool) or here
(RawConnectionPool)."""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from syncless.eventlet import hubs, tpool
from syncless.eventlet.pools import Pool
from syncless.eventlet.timeout import Timeout

__all__ = [
    "BaseConnectionPool",
    "ConnectTimeout",
    "ConnectionPool",
    "DatabaseConnector",
    "GenericConnectionWrapper",
    "PooledConnectionWrapper",
    "RawConnectionPool",
    "TpooledConnectionPool",
]


class ConnectTimeout(Exception):
    """A connection to a database could not be made in time."""


def cleanup_rollback(connection: Any) -> None:
    """Roll back; by default the pool calls this with each connection that comes back."""
    connection.rollback()


class BaseConnectionPool(Pool):
    """Connections of at most max_idle seconds without use, and max_age in all. Arguments that the pool does
    not know are for connect()."""

    def __init__(
        self,
        db_module: Any,
        min_size: int = 0,
        max_size: int = 4,
        max_idle: float = 10,
        max_age: float = 30,
        connect_timeout: float = 5,
        cleanup: Callable[[Any], Any] = cleanup_rollback,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        assert db_module
        self._db_module = db_module
        self._args, self._kwargs = args, kwargs
        self.max_idle, self.max_age = max_idle, max_age
        self.connect_timeout = connect_timeout
        self._expiration_timer: Any = None
        self.cleanup = cleanup
        super().__init__(min_size, max_size, order_as_stack=True)
        now = time.time()
        self.free_items = deque((now, now, connection) for connection in self.free_items)

    # -- free_items has (last use, beginning, connection)

    def _schedule_expiration(self) -> None:
        """Look again when the first free connection is too old."""
        if 0 in (self.max_idle, self.max_age):
            return
        if self._expiration_timer is not None and self._expiration_timer.pending:
            return
        if not self.free_items:
            self._expiration_timer = None
            return
        used, _, _ = self.free_items[-1]
        now = time.time()
        delay = min(used + self.max_idle - now, min(c for _, c, _ in self.free_items) + self.max_age - now)
        self._expiration_timer = hubs.get_hub().schedule_call_global(max(0.0, delay) + 0.01, self._expire_old)

    def _expire_old(self) -> None:
        self._expiration_timer = None
        now = time.time()
        kept: deque[Any] = deque()
        for item in self.free_items:
            if self._is_expired(now, item[0], item[1]):
                self.current_size -= 1
                self._safe_close(item[2], quiet=True)
            else:
                kept.append(item)
        self.free_items = kept
        self._schedule_expiration()

    def _is_expired(self, now: float, last_used: float, created_at: float) -> bool:
        idle, age = self.max_idle, self.max_age
        return idle <= 0 or age <= 0 or now - last_used > idle or now - created_at > age

    def _unwrap_connection(self, connection: Any) -> Any:
        return getattr(connection, "_base", None)

    def _safe_close(self, connection: Any, quiet: bool = False) -> None:
        """Close it, and print an error rather than raise it."""
        try:
            connection.close()
        except AttributeError:
            pass
        except Exception:
            if not quiet:
                print(f"Connection.close raised: {traceback.format_exc()}", file=sys.stderr)

    def get(self) -> Any:
        """Return a connection; its close() gives it back."""
        while True:
            item = super().get()
            if isinstance(item, tuple):
                used, created, connection = item
            else:
                used = created = time.time()
                connection = item
            if connection is None or (
                isinstance(item, tuple) and self._is_expired(time.time(), used, created)
            ):
                self._safe_close(connection, quiet=True)
                self.current_size -= 1
                continue
            break
        wrapped = PooledConnectionWrapper(connection, self)
        wrapped._db_pool_created_at = created
        return wrapped

    def put(self, conn: Any, cleanup: Any = None) -> None:
        """Take a connection back; None for one that is lost. cleanup(connection) is called with it first."""
        created = getattr(conn, "_db_pool_created_at", 0)
        now = time.time()
        base = self._unwrap_connection(conn)
        try:
            if base is not None:
                (cleanup or self.cleanup)(base)
        except KeyboardInterrupt:
            raise
        except AttributeError:
            base = None
        except Exception:
            self._safe_close(base, quiet=True)
            base = None
        finally:
            if conn is not None and hasattr(conn, "_destroy"):
                conn._destroy()
        if base is None or self._is_expired(now, now, created):
            if base is not None:
                self._safe_close(base, quiet=True)
            self.current_size -= 1
            self._replace_for_waiter()
            return
        super().put((now, created, base))
        self._schedule_expiration()

    def _replace_for_waiter(self) -> None:
        if self.waiting():
            self.current_size += 1
            try:
                made = self.create()
            except BaseException:
                self.current_size -= 1
                raise
            super().put((time.time(), time.time(), made))

    @contextmanager
    def item(self, cleanup: Any = None) -> Iterator[Any]:
        """Lend a connection for a block."""
        connection = self.get()
        try:
            yield connection
        finally:
            self.put(connection, cleanup=cleanup)

    def clear(self) -> None:
        """Close all connections that are not lent."""
        if self._expiration_timer is not None:
            self._expiration_timer.cancel()
        items, self.free_items = self.free_items, deque()
        for item in items:
            connection = item[2] if isinstance(item, tuple) else item
            self.current_size -= 1
            self._safe_close(connection, quiet=True)

    def __del__(self) -> None:
        self.clear()


class TpooledConnectionPool(BaseConnectionPool):
    """A pool of connections whose calls run in OS threads."""

    def create(self) -> Any:
        return self.connect(self._db_module, self.connect_timeout, *self._args, **self._kwargs)

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float, *args: Any, **kw: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            connection = tpool.execute(db_module.connect, *args, **kw)
        return tpool.Proxy(connection, autowrap_names=("cursor",))


class RawConnectionPool(BaseConnectionPool):
    """A pool of connections of a module that waits cooperatively by itself."""

    def create(self) -> Any:
        return self.connect(self._db_module, self.connect_timeout, *self._args, **self._kwargs)

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float, *args: Any, **kw: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            return db_module.connect(*args, **kw)


ConnectionPool = TpooledConnectionPool


def _forward(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._base, name)(*args, **kwargs)

    method.__name__ = name
    return method


class GenericConnectionWrapper:
    """A connection, and all that it has."""

    # methods, which can be looked up also when there is no connection any more
    cursor, commit, rollback, begin, ping, query = map(
        _forward, ("cursor", "commit", "rollback", "begin", "ping", "query")
    )

    def __init__(self, baseconn: Any) -> None:
        self._base = baseconn

    def __getattr__(self, name: str) -> Any:
        if name == "_base":
            raise AttributeError(name)
        return getattr(self._base, name)

    def __enter__(self) -> Any:
        return self._base.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._base.__exit__(*error)

    def __repr__(self) -> str:
        return repr(self._base)


class PooledConnectionWrapper(GenericConnectionWrapper):
    """A connection of a pool, whose close() gives it back. Then it is false, and has nothing."""

    _db_pool_created_at: float = 0

    def __init__(self, baseconn: Any, pool: Any) -> None:
        super().__init__(baseconn)
        self._pool = pool

    def __bool__(self) -> bool:
        return hasattr(self, "_base") and bool(self._base)

    def _destroy(self) -> None:
        self._pool = None
        self.__dict__.pop("_base", None)

    def close(self) -> None:
        """Give it back."""
        if self and self._pool:
            self._pool.put(self)
        self._destroy()

    def __del__(self) -> None:
        if self.__dict__.get("_pool") is not None and "_base" in self.__dict__:
            self.close()


class DatabaseConnector:
    """A pool for each host. `credentials` has the arguments of connect() by host; those of "default" are for
    all others."""

    def __init__(
        self, module: Any, credentials: Any, conn_pool: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        assert module
        self._conn_pool_class = ConnectionPool if conn_pool is None else conn_pool
        self._module = module
        self._args, self._kwargs = args, kwargs
        self._credentials = credentials
        self._databases: dict[Any, Any] = {}

    def credentials_for(self, host: str) -> Any:
        return self._credentials[host] if host in self._credentials else self._credentials.get("default")

    def get(self, host: str, dbname: str) -> Any:
        """Return the pool of a database on a host."""
        key = host, dbname
        if key not in self._databases:
            options = {**self._kwargs, "db": dbname, "host": host, **self.credentials_for(host)}
            self._databases[key] = self._conn_pool_class(self._module, *self._args, **options)
        return self._databases[key]
