"""publish() and subscribe(): messages between all workers, threads, tasklets and coroutines of a server.

Each loop that has subscribers has a Hub. The hub's feed (store.py) keeps the newest messages, and tells the
hub of new ones; the hub notes for each subscriber the places of its messages. A subscriber reads them from
there. So a slow subscriber costs one number per message, and learns how many messages were overwritten before
it read them.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import give_way
from syncless._core.loop import Loop
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event
from syncless.http import running
from syncless.shared import area
from syncless.shared.content import decode, encode, name_of
from syncless.shared.errors import InvalidName, Lagged
from syncless.shared.store import INTERNAL

if TYPE_CHECKING:
    from syncless.shared.streams import Streams


Record = tuple[int, bytes, int, bytes]
"""Number, topic, format and data of a message, as they are in the ring."""


class Message(NamedTuple):
    """A message that a subscriber receives."""

    topic: str
    data: Any
    """As it was published; of JSON, a copy."""
    number: int
    """Of the message among those of all topics; it grows."""


def publish(topic: str, message: Any) -> int:
    """Send a message to all subscribers of the topic, in all workers, and return its number. The call does
    not wait for subscribers, and each gets the message at most once.

    ``topic``: 1 to 250 bytes of UTF-8. ``message``: bytes, str, or what JSON can carry, of at most
    `Limits.shared_message_bytes`. Messages of one publisher arrive in order. Raises InvalidName, UnfitValue,
    TooLarge or Unavailable.
    """
    name = name_of(topic, "topic")
    coded = encode(message, area.largest_message(), "shared_message_bytes")
    number = area.store().publish(name, *coded)
    give_way()
    return number


class Inbox:
    """Where the messages of one subscriber are. ``patterns`` match a whole topic. Raises Unavailable."""

    def __init__(self, topics: Sequence[bytes], patterns: Sequence[bytes] = (), *, ends_at_stop: bool = True):
        self.topics, self.patterns, self.ends_at_stop = frozenset(topics), frozenset(patterns), ends_at_stop
        self._expressions = [pattern_of(pattern) for pattern in self.patterns]
        self.places: deque[int] = deque()
        self.missed = 0
        self.interrupted = False
        self.news = Event()
        self.ended = False
        self._hub = hub_of(current_loop())
        self.feed = self._hub.feed
        self.begins_at = self.feed.head()
        self._hub.add(self)

    def matches(self, topic: bytes) -> bool:
        return any(expression.fullmatch(topic) for expression in self._expressions)

    def note(self, place: int, tail: int) -> None:
        """Note the place of a message in the ring. Drop the notes of overwritten messages, so there are never
        more notes than messages in the ring."""
        places = self.places
        while places and places[0] < tail:
            places.popleft()
            self.missed += 1
        places.append(place)
        self.news.set()

    def recall(self, number: int) -> None:
        """Note the messages after this number that are still in memory. Called once, after __init__()."""
        missed, found = self.feed.behind(number, self.begins_at)
        self.places.extendleft(place for topic, place in reversed(found) if self.wants(topic))
        self.missed += missed

    def wants(self, topic: bytes) -> bool:
        return topic in self.topics or (not topic.startswith(INTERNAL) and self.matches(topic))

    def lose(self, number: int, interrupted: bool = False) -> None:
        self.missed += number
        self.interrupted |= interrupted
        self.news.set()

    def end(self) -> None:
        self.ended = True
        self.news.set()

    def close(self) -> None:
        if not self.ended:
            self._hub.remove(self)
            self.end()


class Hub:
    """The inboxes of one loop."""

    def __init__(self, loop: Loop):
        self._loop = loop
        self._of_topic: dict[bytes, dict[Inbox, None]] = {}
        self._with_patterns: dict[Inbox, None] = {}
        self._all: dict[Inbox, None] = {}
        self.streams: Streams | None = None
        """Streams that are held, as long as there are some."""
        self.feed = area.store().feed(self)

    def add(self, inbox: Inbox) -> None:
        """Add an inbox; its messages come when this returns."""
        self._all[inbox] = None
        for topic in inbox.topics:
            self._of_topic.setdefault(topic, {})[inbox] = None
        if inbox.patterns:
            self._with_patterns[inbox] = None
        try:
            self.feed.listen(inbox.topics, inbox.patterns)
        except BaseException:
            inbox.close()
            raise

    def remove(self, inbox: Inbox) -> None:
        """Remove an inbox. Removing the last one removes the hub."""
        self._all.pop(inbox, None)
        self._with_patterns.pop(inbox, None)
        for topic in inbox.topics:
            inboxes = self._of_topic.get(topic, {})
            inboxes.pop(inbox, None)
            if not inboxes:
                self._of_topic.pop(topic, None)
        self.feed.forget(inbox.topics, inbox.patterns)
        self.drop_unused()

    def drop_unused(self) -> None:
        """End the hub if it has no inboxes and no streams."""
        if not self._all and not self.streams:
            self.close()

    def close(self) -> None:
        if _hubs.get(self._loop) is self:
            del _hubs[self._loop]
        self.feed.close()

    def deliver(self, found: list[tuple[bytes, int]], lost: int) -> None:
        """Note new messages. Called by the feed. Loops over copies, because a finaliser may close a
        subscription at any time."""
        if lost:
            for inbox in list(self._all):
                inbox.lose(lost)
        if self.streams is not None:
            self.streams.deliver(found, lost)
        if not self._all:  # as in a feed that begins: it has found messages, and is not known here yet
            return
        tail = self.feed.tail()
        for topic, place in found:
            for inbox in list(self._of_topic.get(topic, ())):
                if place >= inbox.begins_at:
                    inbox.note(place, tail)
            if self._with_patterns and not topic.startswith(INTERNAL):
                for inbox in list(self._with_patterns):
                    if place >= inbox.begins_at and topic not in inbox.topics and inbox.matches(topic):
                        inbox.note(place, tail)

    def hold(self, event_of: Callable[[Record | int], bytes]) -> Streams:
        if self.streams is None:
            streams = import_module("syncless.shared.streams")
            self.streams = streams.Streams(self.feed.read, event_of, self.drop_unused)
        return self.streams

    def interrupt(self, lost: int) -> None:
        """Tell all inboxes that messages may be missing. Called by the feed."""
        for inbox in list(self._all):
            inbox.lose(lost, interrupted=True)

    def end(self) -> None:
        """End all streams, and all inboxes that end with the server. Called when it stops."""
        if self.streams is not None:
            self.streams.end()
        for inbox in list(self._all):
            if inbox.ends_at_stop:
                inbox.close()

    def leave_to_parent(self) -> None:
        self.feed.leave_to_parent()
        for inbox in list(self._all):
            inbox.ended = True


_hubs: dict[Loop, Hub] = {}
_of_parents: list[Hub] = []
"""The hubs of the parent, kept in a child: the loop there may still refer to their feeds."""


def hub_of(loop: Loop) -> Hub:
    """Return the hub of this thread's loop. Raise SharedError, OSError or Unavailable."""
    hub = _hubs.get(loop)
    if hub is None:
        made = Hub(loop)
        hub = _hubs.setdefault(loop, made)  # it may have waited, and others come first
        if hub is not made:
            made.close()
    return hub


def _end_all() -> None:
    for hub in list(_hubs.values()):
        hub.end()


def _leave_to_parent() -> None:
    for hub in list(_hubs.values()):
        hub.leave_to_parent()
    _of_parents.extend(_hubs.values())
    _hubs.clear()


running.at_stop(_end_all)
at_fork(in_child=_leave_to_parent)


class Subscription:
    """The result of subscribe(): messages, oldest first, from the moment it was made.

    ``for message in subscription`` waits for the next message; in an event loop of syncless, ``async for``
    does, too. Both end when the server is told to stop, or when the subscription is closed: at the end of
    ``with``, or when nothing refers to it.
    """

    _inbox: Inbox | None = None

    def __init__(self, *topics: str, after: int | None = None):
        if not topics:
            raise InvalidName("subscribe to at least one topic")
        if after is not None and not 0 <= operator.index(after) < 1 << 63:
            raise ValueError(f"after must be the number of a message, not {after}")
        names = [name_of(topic, "topic") for topic in topics]
        if not running.is_stopping():
            patterns = [name for name in names if b"*" in name]
            self._inbox = Inbox([name for name in names if b"*" not in name], patterns)
            if after is not None:
                self._inbox.recall(after)

    def get(self, timeout: float | None = None) -> Message | None:
        """Return the next message, after waiting for at most ``timeout`` seconds. Return None after the
        timeout or if the subscription has `ended`. Raise Lagged if messages are missing here; the next call
        continues after them."""
        inbox = self._inbox
        until = None if timeout is None else monotonic() + timeout
        while inbox is not None and not inbox.ended:
            message = self._next(inbox)
            if message is not None:
                give_way()
                return message
            inbox.news.clear()
            if inbox.places or inbox.missed or inbox.interrupted or inbox.ended:
                continue
            if not inbox.news.wait(None if until is None else max(0.0, until - monotonic())):
                break
        return None

    @property
    def ended(self) -> bool:
        """Whether no more messages will come."""
        return self._inbox is None or self._inbox.ended

    def close(self) -> None:
        """End the subscription: a waiting get() returns None. Closing it again does nothing."""
        if self._inbox is not None:
            self._inbox.close()

    @staticmethod
    def _next(inbox: Inbox) -> Message | None:
        """Return the next message, if it has arrived. Raise Lagged."""
        places = inbox.places
        found: Record | None = None
        while places and (found := inbox.feed.read(places[0])) is None:
            places.popleft()
            inbox.missed += 1
        if inbox.missed or inbox.interrupted:
            lagged = Lagged(inbox.missed, inbox.interrupted)
            inbox.missed, inbox.interrupted = 0, False
            raise lagged
        if found is None:
            return None
        places.popleft()
        number, topic, form, data = found
        return Message(topic.decode(), decode(form, data), number)

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        message = self.get()
        if message is None:
            raise StopIteration
        return message

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = None
        if not self.ended:
            assert self._inbox is not None
            message = self._next(self._inbox)
            if message is None:
                message = await import_module("syncless.asyncio.tasklets").in_tasklet(self.get)
        if message is None:
            raise StopAsyncIteration
        return message

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


S = TypeVar("S", bound=Subscription)


def subscribe(*topics: str, after: int | None = None) -> Subscription:
    """Subscribe to the messages of these topics from now on. ``*`` in a topic stands for any characters:
    ``subscribe("news", "room:*")``.

    A message is a tuple (topic, data, number). ``after``: the number of the last message that the subscriber
    has: those behind it that are still in memory come first. A subscriber whose messages were overwritten
    before it read them (`Limits.shared_ring_bytes`) gets Lagged in their place, as does one after Redis was
    away. Raises InvalidName or Unavailable.
    """
    return Subscription(*topics, after=after)


def pattern_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(b".*".join(re.escape(part) for part in name.split(b"*")), re.DOTALL)
