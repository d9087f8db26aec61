"""The messages of Redis for one loop: a connection that subscribes, and the newest messages that have come.

One tasklet has the connection. It subscribes to the topics of the inboxes of the loop, puts messages into a
bounded queue, and tells the hub. When Redis goes away, it connects again, subscribes again, and then tells
the hub of the gap: Redis keeps nothing for those who are not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, RedisError

from syncless._core.current import current, sleep
from syncless._core.tasklet import spawn
from syncless._core.wait.select import readable, select
from syncless._core.wait.sync import Event
from syncless.shared.errors import Unavailable

if TYPE_CHECKING:
    from syncless.shared.messages import Hub
    from syncless.shared.redisstore import Redis

QUIET_SECONDS = 15.0
"""After which Redis is asked whether it is there; after as many more the connection is given up."""
PAUSE_SECONDS = 0.05, 2.0
"""Before the first new attempt to connect; it doubles with each, up to the second number."""
MESSAGE_BYTES = 200
"""Of memory for a message, beside its data."""
_SPECIAL = {byte: b"\\%c" % byte for byte in b"\\?[]^-"}
"""In a pattern of Redis, but not in ours."""
Key = tuple[bytes, bytes]
"""Of a subscription: "subscribe" or "psubscribe", and the name of the channel or the pattern."""


class Wanted:
    """A subscription of the connection."""

    def __init__(self) -> None:
        self.count = 0
        self.confirmed = Event()


class Feed:
    """Feed(store, hub), of the present loop."""

    def __init__(self, store: Redis, hub: Hub):
        self._store, self._hub = store, hub
        self._wanted: dict[Key, Wanted] = {}
        self._asked: set[Key] = set()
        self._awaited: dict[Key, int] = {}
        """Confirmations that are to come."""
        self._changed = Event()
        self._queue: deque[tuple[int, bytes, int, bytes]] = deque()
        self._bytes = 0
        self._tail = 0
        self._dropped = 0
        """Number of the last message that had no room in the queue any more."""
        self._number = 0
        """Of the last message that has come since it connected."""
        self._known = -1
        """Number of the last message when it connected; -1: it never has."""
        self._connection: Any = None
        self._closed = False
        self._tasklet = Context().run(spawn, self._run)
        self._tasklet.name = "messages of Redis"

    # -- what the hub asks -----------------------------------------------------------------------------------

    def listen(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        keys = list(self._keys(topics, patterns))
        for key in keys:
            each = self._wanted.setdefault(key, Wanted())
            each.count += 1
            if key in self._asked and key not in self._awaited:
                each.confirmed.set()
        self._changed.set()
        for each in [self._wanted[key] for key in keys]:
            if not each.confirmed.wait(self._store.seconds):
                raise Unavailable(
                    f"Redis at {self._store.where} has confirmed no subscription within shared_seconds, "
                    f"{self._store.seconds:g} s"
                )

    def forget(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        for key in self._keys(topics, patterns):
            self._wanted[key].count -= 1
            if not self._wanted[key].count:
                del self._wanted[key]
        self._changed.set()

    def head(self) -> int:
        return self._tail + len(self._queue)

    def tail(self) -> int:
        return self._tail

    def read(self, at: int) -> tuple[int, bytes, int, bytes] | None:
        return self._queue[at - self._tail] if at >= self._tail else None

    def behind(self, number: int, until: int) -> tuple[int, list[tuple[bytes, int]]]:
        """What came before it connected, and what had no room, is missing: of all topics, which it cannot
        tell apart."""
        found = [
            (record[1], self._tail + at)
            for at, record in enumerate(self._queue)
            if record[0] > number and self._tail + at < until
        ]
        return max(0, self._known - number, self._dropped - number), found

    def close(self) -> None:
        """The end of a subscription may come by its own tasklet, which goes on to look then."""
        self._closed = True
        if current() is not self._tasklet:
            self._tasklet.kill(block=False)

    def leave_to_parent(self) -> None:
        """Its tasklet is not in a child, but its descriptor is."""
        if self._connection is not None:
            self._connection.disconnect()

    def _keys(self, topics: Collection[bytes], patterns: Collection[bytes]) -> Iterator[Key]:
        prefix = self._store.channels
        for topic in topics:
            yield b"subscribe", prefix + topic
        escaped = b"".join(_SPECIAL.get(byte, b"%c" % byte) for byte in prefix)
        for pattern in patterns:
            yield b"psubscribe", escaped + b"".join(_SPECIAL.get(byte, b"%c" % byte) for byte in pattern)

    # -- its tasklet -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause, longest = PAUSE_SECONDS
        while not self._closed:
            try:
                self._connection = self._store.connect()
                self._begin()
                pause = PAUSE_SECONDS[0]
                self._serve()
            except (RedisError, OSError):
                pass
            finally:
                if self._connection is not None:
                    self._connection.disconnect()
                    self._connection = None
            sleep(pause)
            pause = min(2 * pause, longest)

    def _begin(self) -> None:
        """Subscribe to all that is wanted, and tell of the gap once that is confirmed."""
        self._connection.send_command("GET", self._store.numbers)
        published = int(self._reply() or 0)
        before, self._number = self._number or self._known, 0
        self._asked.clear()
        self._awaited.clear()
        for each in self._wanted.values():
            each.confirmed.clear()
        self._subscribe()
        while self._awaited:
            self._take(self._reply())
        if before >= 0:
            self._hub.interrupt(max(0, published - before))
        self._known = published

    def _serve(self) -> None:
        asked = False
        while not self._closed:
            if self._changed.is_set():
                self._subscribe()
            if self._connection.can_read(0):
                self._take(self._reply())
                asked = False
            elif select([self._changed, readable(self._connection.fileno())], QUIET_SECONDS) == (None, None):
                if asked:
                    raise ConnectionError("it does not answer")
                asked = True
                self._connection.send_command("PING")

    def _reply(self) -> Any:
        return self._store.run(self._connection.read_response)

    def _subscribe(self) -> None:
        """Subscribe to what is wanted and is not asked for yet, and the reverse."""
        self._changed.clear()
        new, old = self._wanted.keys() - self._asked, self._asked - self._wanted.keys()
        self._asked = set(self._wanted)
        for key in new:
            self._awaited[key] = self._awaited.get(key, 0) + 1
        for keys, un in ((new, b""), (old, b"un")):
            for kind in (b"subscribe", b"psubscribe"):
                names = [name for each, name in keys if each == kind]
                if names:
                    command = kind.replace(b"sub", un + b"sub")
                    self._connection.send_command(command.decode().upper(), *names)

    def _take(self, reply: Any) -> None:
        """Read what Redis sends: a message, a confirmation, or an answer to PING."""
        kind = reply[0]
        if kind in (b"message", b"pmessage"):
            self._put(*reply[-2:])
        elif kind in (b"subscribe", b"psubscribe"):
            key = kind, reply[1]
            self._awaited[key] -= 1
            if not self._awaited[key]:
                del self._awaited[key]
                if key in self._wanted:
                    self._wanted[key].confirmed.set()

    def _put(self, channel: bytes, payload: bytes) -> None:
        number, space, rest = payload.partition(b" ")
        if not (space and number.isdigit() and rest[:1].isdigit()):
            return  # of somebody else
        if int(number) == self._number:
            return  # it has come for another of our subscriptions
        self._number = int(number)
        topic = channel[len(self._store.channels) :]
        self._queue.append((self._number, topic, int(rest[:1]), rest[1:]))
        self._bytes += MESSAGE_BYTES + len(rest)
        while self._bytes > self._store.ring_bytes:
            self._dropped, _, _, data = self._queue.popleft()
            self._bytes -= MESSAGE_BYTES + 1 + len(data)
            self._tail += 1
        self._hub.deliver([(topic, self.head() - 1)], 0)
