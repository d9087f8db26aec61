"""The store for several machines: Redis, or a server that speaks its protocol, such as Valkey.

The package redis reads the URL, and speaks the protocol; its sockets are ours, so that they wait in the loop
also where nothing is patched. TLS without the patch is the exception: it waits in OS threads. Each loop has
connections of its own (Pool), and one more for its messages (redisfeed.py). An operation is one command, most
of them a script, so it is atomic and waits once.

Keys in Redis begin with a prefix and the kind of what they name. Two applications may use one Redis with
another ``?prefix=`` in their URLs. The number of the database belongs to the prefix of messages, because
Redis sends those to all databases.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary
from zlib import crc32

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.retry import Retry

from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless._core.calls.threads import run_in_thread
from syncless._core.current import may_park
from syncless._core.loop import Loop
from syncless._core.threadloop import current_loop
from syncless._core.timeout import deadline
from syncless._core.wait.sync import Semaphore
from syncless.http.limits import Limits
from syncless.io import socket
from syncless.shared.errors import StoreFull, Unavailable
from syncless.shared.redisfeed import Feed
from syncless.shared.store import INTERNAL

if TYPE_CHECKING:
    from syncless.shared.messages import Hub, Inbox

T = TypeVar("T")

CONNECTIONS = 32
"""Of a loop, without ``?max_connections=``; further operations wait for one."""
LEASE_SECONDS = 10.0
"""After which the lock of a process that has died, or cannot reach Redis, is free."""
EXAMPLE = "redis://host:6379/0, rediss://user:password@host:6380/0 or unix:///run/redis.sock?db=0"

POP = b"""local v = redis.call('GET', KEYS[1])
if v then redis.call('DEL', KEYS[1]) end
return v"""
COMPARE_AND_SET = b"""if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1"""
# The time at which all turns will have come back, in microseconds: one number tells all (GCRA).
TAKE = b"""local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local n, most, each = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local whole = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + n * each
local late = whole - now - most * each
if late > 0 then return math.ceil(late) end
redis.call('SET', KEYS[1], string.format('%.17g', whole), 'PX', math.ceil((whole - now) / 1000) + 1)
return 0"""
ACQUIRE = b"""if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return -3 end
return redis.call('PTTL', KEYS[1])"""
RENEW = b"""if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"""
RELEASE = b"""if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], redis.call('INCR', KEYS[2]) .. ' 0')
return 1"""
PUBLISH = b"""local n = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], n .. ' ' .. ARGV[2] .. ARGV[3])
return n"""


class Ours:
    """The common base of our connections."""

    _sock: Any

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def _opened(self, made: Any) -> Any:
        made.settimeout(self.socket_timeout)  # type: ignore[attr-defined]
        return made


class Plain(Ours, Connection):  # type: ignore[misc]
    def _connect(self) -> Any:
        made = socket.create_connection((self.host, self.port), self.socket_connect_timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._opened(made)


class TLS(SSLConnection, Plain):  # type: ignore[misc]
    """`super()` of SSLConnection connects as we do."""


class Unix(Ours, UnixDomainSocketConnection):  # type: ignore[misc]
    def _connect(self) -> Any:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(self.socket_connect_timeout)
            made.connect(self.path)
        except BaseException:
            made.close()
            raise
        return self._opened(made)


KINDS: dict[Any, Any] = {Connection: Plain, SSLConnection: TLS, UnixDomainSocketConnection: Unix}


class Pool:
    """Pool(store): the connections of one loop."""

    def __init__(self, store: Redis, most: int):
        self._store = store
        self._turns = Semaphore(most)
        self._idle: list[Any] = []

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            self._idle.pop().disconnect()

    def ask(self, *command: Any) -> Any:
        with self._turns:
            connection = self._idle_one() or self._store.connect()
            try:
                reply = self._store.run(_ask, connection, command)
            except ResponseError:  # which is a reply, too
                self._idle.append(connection)
                raise
            except BaseException:
                connection.disconnect()
                raise
            self._idle.append(connection)
            return reply

    def _idle_one(self) -> Any:
        """One that Redis has not closed meanwhile: a command that was sent may have been done, so none is
        sent again."""
        while self._idle:
            connection = self._idle.pop()
            with contextlib.suppress(RedisError):
                if not connection.can_read(0):
                    return connection
            connection.disconnect()
        return None


def _ask(connection: Any, command: tuple[Any, ...]) -> Any:
    connection.send_command(*command)
    return connection.read_response()


class Redis:
    """Redis(url, limits): nothing connects before the first operation. Raises ValueError."""

    holds = False

    def __init__(self, url: str, limits: Limits):
        self.seconds = limits.shared_seconds
        self.ring_bytes, self.value_bytes = limits.shared_ring_bytes, limits.shared_value_bytes
        try:
            given: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
            prefix = given.pop("prefix", "syncless")
            kind = KINDS[given.pop("connection_class", Connection)]
            path = urlsplit(url).path
            if kind is Unix and not path:
                raise ValueError("it lacks a path")
            if kind is not Unix and path.strip("/") not in ("", str(given.get("db"))):
                raise ValueError("its path is not the number of a database")
            self._most = int(given.pop("max_connections", CONNECTIONS))
            given |= {"protocol": 2, "socket_timeout": self.seconds, "socket_connect_timeout": self.seconds}
            self._make = partial(kind, retry=Retry(NoBackoff(), 0), **given)
            self.where = self._make()._host_error()
        except (ValueError, TypeError, RedisError) as error:
            raise ValueError(f"shared: write {EXAMPLE}, not {_without_password(url)!r}: {error}") from None
        self._in_threads = kind is TLS and not ssl.SSLSocket.do_handshake.__module__.startswith("syncless.")
        self._prefix = prefix.encode() + b":"
        self.numbers = self._prefix + b"messages"
        self.channels = self._prefix + b"%d:" % given.get("db", 0)
        self.mark = b"%08x" % crc32(self.where.encode() + self.channels)
        self._pools: WeakKeyDictionary[Loop, Pool] = WeakKeyDictionary()
        self._held: dict[bytes, bytes] = {}
        self._renewing = SideThread(self._renew)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        for pool in list(self._pools.values()):
            pool.close()

    # -- asking ----------------------------------------------------------------------------------------------

    def connect(self) -> Any:
        """Return a new connection."""
        connection = self._make()
        try:
            self.run(connection.connect)
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return function(*args), which waits for a connection."""
        return run_in_thread(function, *args) if self._in_threads else function(*args)

    def ask(self, *command: Any) -> Any:
        """Return the reply to a command. Raise Unavailable, StoreFull, or ResponseError of an overflow."""
        loop = current_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = Pool(self, self._most)
        try:
            with deadline(self.seconds) if may_park() else contextlib.nullcontext():
                return pool.ask(*command)
        except TimeoutError:
            text = f"{self.where} has not answered within shared_seconds, {self.seconds:g} s"
            raise Unavailable(f"Redis at {text}") from None
        except (RedisError, OSError) as error:
            if isinstance(error, ResponseError) and "overflow" in str(error):
                raise
            kind = StoreFull if isinstance(error, OutOfMemoryError) else Unavailable
            raise kind(f"Redis at {self.where}: {error}") from error

    def evaluate(self, script: bytes, keys: list[bytes], *args: Any) -> Any:
        return self.ask("EVAL", script, len(keys), *keys, *args)

    # -- values ----------------------------------------------------------------------------------------------

    def add(self, name: bytes, n: int) -> int:
        if -(2**63) <= n < 2**63:
            with contextlib.suppress(ResponseError):
                return int(self.ask("INCRBY", self._prefix + b"counter:" + name, n))
        raise OverflowError("a counter is an integer of 64 bits")

    def number(self, name: bytes, remove: bool = False) -> int:
        return int(self._get(self._prefix + b"counter:" + name, remove) or 0)

    def get(self, name: bytes, remove: bool = False) -> tuple[int, bytes] | None:
        found = self._get(self._prefix + b"value:" + name, remove)
        return None if found is None else (int(found[:1]), found[1:])

    def put(self, name: bytes, format: int, value: bytes, expires_in: int) -> None:
        self._set(name, format, value, expires_in)

    def put_if_missing(self, name: bytes, format: int, value: bytes, expires_in: int) -> bool:
        return self._set(name, format, value, expires_in, "NX") is not None

    def put_if_equal(
        self, name: bytes, old_format: int, old: bytes, format: int, value: bytes, expires_in: int
    ) -> bool:
        key, stored = self._prefix + b"value:" + name, b"%d%b" % (format, value)
        return bool(
            self.evaluate(COMPARE_AND_SET, [key], b"%d%b" % (old_format, old), stored, _ms(expires_in))
        )

    def take(self, name: bytes, n: int, most: int, each: int) -> int:
        return int(self.evaluate(TAKE, [self._prefix + b"rate:" + name], n, most, each / 1000)) * 1000

    def _get(self, key: bytes, remove: bool) -> bytes | None:
        found: bytes | None = self.evaluate(POP, [key]) if remove else self.ask("GET", key)
        return found

    def _set(self, name: bytes, format: int, value: bytes, expires_in: int, *more: str) -> Any:
        until = ("PX", _ms(expires_in)) if expires_in else ()
        return self.ask("SET", self._prefix + b"value:" + name, b"%d%b" % (format, value), *until, *more)

    # -- locks -----------------------------------------------------------------------------------------------

    def owner(self) -> bytes:
        return os.urandom(16)

    def acquire(self, name: bytes, owner: bytes, patient: bool) -> bytes | None:
        """Others learn only the time for which the holder has the lock without renewing it."""
        key = self._prefix + b"lock:" + name
        left = self.evaluate(ACQUIRE, [key], owner, _ms(int(LEASE_SECONDS * 1e9)))
        if left != -3:
            return b"%d" % left
        self._held[key] = owner
        self._renewing.start()
        return None

    def wait(self, inbox: Inbox, holder: bytes, seconds: float | None) -> None:
        left = max(0, int(holder)) / 1000 + 0.001
        inbox.news.wait(left if seconds is None else min(seconds, left))

    def release(self, name: bytes, owner: bytes) -> bool:
        key = self._prefix + b"lock:" + name
        if self._held.get(key) == owner:
            del self._held[key]
        told = self.channels + INTERNAL + name
        return bool(self.evaluate(RELEASE, [key, self.numbers], owner, told))

    def is_locked(self, name: bytes) -> bool:
        return bool(self.ask("EXISTS", self._prefix + b"lock:" + name))

    def _renew(self, told: int) -> bool:
        """Keep the locks of this process, in an OS thread: its loop may compute for long meanwhile."""
        if wait_readable([told], LEASE_SECONDS / 3):
            return True
        for key, owner in list(self._held.items()):
            with contextlib.suppress(Unavailable):
                self.evaluate(RENEW, [key], owner, _ms(int(LEASE_SECONDS * 1e9)))
        return True

    # -- messages --------------------------------------------------------------------------------------------

    def publish(self, topic: bytes, format: int, value: bytes) -> int:
        return int(self.evaluate(PUBLISH, [self.numbers], self.channels + topic, format, value))

    def published(self) -> int:
        """Return the number of the last message."""
        return int(self.ask("GET", self.numbers) or 0)

    def feed(self, hub: Hub) -> Feed:
        return Feed(self, hub)

    def figures(self) -> dict[str, int]:
        told = dict(line.split(":", 1) for line in self.ask("INFO").decode().splitlines() if ":" in line)
        return {
            "messages": self.published(),
            "overwritten": 0,
            "ring_bytes": self.ring_bytes,
            "entries": self.ask("DBSIZE"),
            "used_bytes": int(told["used_memory"]),
            "value_bytes": int(told["maxmemory"]),
            "evicted": int(told["evicted_keys"]),
            "expired": int(told["expired_keys"]),
            "repaired": 0,
        }

    def leave_to_parent(self) -> None:
        self._pools.clear()
        self._held.clear()
        self._renewing = SideThread(self._renew)


def _ms(ns: int) -> int:
    """Return milliseconds, at least one if it is not 0."""
    return -(-ns // 1_000_000)


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    scheme, _, user = head.partition("://")
    return f"{scheme}://{user.partition(':')[0]}:...@{tail}" if at and ":" in user else url
