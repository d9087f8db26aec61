"""Store and Feed: what the API asks of the memory of a machine (embedded.py), and of Redis (redisstore.py).

Names, keys and owners are bytes; a value is a format (content.py) and bytes; times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from syncless.shared.messages import Hub, Inbox


class Store(Protocol):
    """All operations are atomic, and raise Unavailable if the store cannot be reached."""

    mark: bytes
    """8 hexadecimal digits: of messages whose numbers are counted together."""
    holds: bool
    """Whether its feeds can be held by streams that have no tasklet."""
    ring_bytes: int
    """For the messages that a subscriber may be behind."""
    value_bytes: int

    def add(self, name: bytes, n: int) -> int:
        """Add to a counter. Return its new value. Raise OverflowError or StoreFull."""

    def number(self, name: bytes, remove: bool = False) -> int:
        """Return a counter, or 0."""

    def get(self, name: bytes, remove: bool = False) -> tuple[int, bytes] | None: ...
    def put(self, name: bytes, format: int, value: bytes, expires_in: int) -> None:
        """Raise StoreFull. A time of 0 is without end."""

    def put_if_missing(self, name: bytes, format: int, value: bytes, expires_in: int) -> bool: ...
    def put_if_equal(
        self, name: bytes, old_format: int, old: bytes, format: int, value: bytes, expires_in: int
    ) -> bool: ...
    def take(self, name: bytes, n: int, most: int, each: int) -> int:
        """Take n turns of a rate of which ``most`` are free at once, and each comes back after a time. Return
        0, or the time until they are free."""

    def owner(self) -> bytes:
        """Return a name for one that takes a lock."""

    def acquire(self, name: bytes, owner: bytes, patient: bool) -> bytes | None:
        """Take a lock, and return None; or return what wait() wants to know of its holder. Only who is
        patient looks whether the holder is alive."""

    def wait(self, inbox: Inbox, holder: bytes, seconds: float | None) -> None:
        """Wait until the inbox has news, or the lock may be free because its holder has died."""

    def release(self, name: bytes, owner: bytes) -> bool:
        """Free a lock, and tell those who wait for it. Return whether this owner had it."""

    def is_locked(self, name: bytes) -> bool: ...
    def publish(self, topic: bytes, format: int, value: bytes) -> int:
        """Return the number of the message."""

    def feed(self, hub: Hub) -> Feed:
        """Return the messages for a hub of this thread's loop."""

    def figures(self) -> dict[str, int]: ...
    def leave_to_parent(self) -> None:
        """Called in a child, before it uses anything."""


class Feed(Protocol):
    """The messages that have come to one loop, each at a place; places grow. It calls hub.deliver() for new
    ones, and hub.interrupt() if some may be missing."""

    def listen(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        """Return when messages of these topics come. Raise Unavailable. The feed may hear more than that."""

    def forget(self, topics: Collection[bytes], patterns: Collection[bytes]) -> None:
        """Undo listen(). It must not wait."""

    def head(self) -> int:
        """Return the place of the next message."""

    def tail(self) -> int:
        """Return the place of the oldest message that can be read."""

    def behind(self, number: int, until: int) -> tuple[int, list[tuple[bytes, int]]]:
        """Return how many messages behind this number are missing, and topic and place of those that are not,
        up to a place."""

    def read(self, at: int) -> tuple[int, bytes, int, bytes] | None:
        """Return number, topic, format and bytes; None if the message was overwritten."""

    def close(self) -> None:
        """Deliver nothing any more. It must not wait."""

    def leave_to_parent(self) -> None:
        """Called in a child."""


INTERNAL = b"\xff"
"""First byte of our own topics, with which no name in UTF-8 begins."""
