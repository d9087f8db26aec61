"""Hold: a response that goes on after its request, as a stream of events (server-sent events).

Where this server runs the request, the iteration ends, and a HeldStream keeps the connection. Otherwise the
iteration continues, like that of any other stream: behind other servers, over HTTP/2, with Redis, and if
something between the application and the server changes the bytes, such as compression.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from syncless._core.current import current
from syncless._core.threadloop import current_loop
from syncless.http import running
from syncless.http.exchange import Exchange
from syncless.shared import area
from syncless.shared.content import encode, name_of
from syncless.shared.errors import InvalidName, Lagged
from syncless.shared.messages import Record, hub_of, pattern_of, subscribe
from syncless.shared.store import INTERNAL

HEADERS = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")]
BEAT = b":\n\n"
LAST_EVENT_ID = re.compile(r"([0-9a-f]{8})-(\d{1,18})", re.ASCII)


def event_of(message: Record) -> bytes:
    """Return the event of a message, whose ID is the number of the message behind the mark of the region."""
    number, _, _, data = message
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"id: %b-%d\n%b\n" % (area.store().mark, number, b"".join(b"data: %b\n" % line for line in lines))


def gap_of(number: int) -> bytes:
    """Return the event that tells that messages are missing."""
    return b"event: lagged\ndata: %d\n\n" % number


class Hold:
    """See syncless.wsgi.hold()."""

    def __init__(self, topics: tuple[str, ...], after: str | None, retry: float):
        if not topics:
            raise InvalidName("hold at least one topic")
        self._topics = topics
        self._names = [
            (name, pattern_of(name) if b"*" in name else None)
            for name in dict.fromkeys(name_of(topic, "topic") for topic in topics)
        ]
        self._after = after
        self._retry = retry
        self._begin = area.store().figures()["messages"]
        """The number of the last message before it."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer as a WSGI application."""
        if self._after is None:
            self._after = environ.get("HTTP_LAST_EVENT_ID")
        start_response("200 OK", list(HEADERS))
        return self

    def __iter__(self) -> Iterator[bytes]:
        request = current()
        is_ours = isinstance(request, Exchange) and area.store().holds
        if self._after is None and isinstance(request, Exchange):
            self._after = request.field("last-event-id")
        # clients that are told to go at the same time do not come back at the same time
        retry = b"retry: %d\n\n" % (self._retry * random.uniform(500, 1500))
        yield retry
        if is_ours and current() is request and isinstance(request, Exchange):
            stream = import_module("syncless.shared.streams").HeldStream(self._take_over)
            if request.hold(stream, len(retry)):
                return
        yield from self._go_on()

    def _last(self) -> int:
        """Return the number of the last message that the client has, or a number that no message had yet."""
        if self._after is None or (found := LAST_EVENT_ID.fullmatch(self._after)) is None:
            return self._begin
        return int(found[2]) if found[1].encode() == area.store().mark else (1 << 63) - 1

    # -- held ------------------------------------------------------------------------------------------------

    def _take_over(self, stream: Any) -> None:
        """The request has ended: the stream begins with what has come since its client's last event."""
        region = area.region()
        hub = hub_of(current_loop())
        joined = False
        try:
            while not joined:
                head = region.head()
                missed, found = region.behind(self._last(), head)
                opening = self._history(missed, [place for topic, place in found if self._wants(topic)])
                joined = hub.hold(event_of, gap_of).join(stream, self._names, head, opening)
        finally:
            hub.drop_unused()
        if running.is_stopping():
            stream.end()

    def _history(self, missed: int, places: list[int]) -> bytes:
        """Return the last messages, no more than may wait for a client, and what is missing before them."""
        events: list[bytes] = []
        room = running.limits().event_bytes
        for place in reversed(places):
            message = area.region().read(place)
            event = None if message is None else event_of(message)
            if event is None or len(event) > room:
                break
            room -= len(event)
            events.append(event)
        missed += len(places) - len(events)
        return (gap_of(missed) if missed else b"") + b"".join(reversed(events))

    def _wants(self, topic: bytes) -> bool:
        return not topic.startswith(INTERNAL) and any(
            topic == name if pattern is None else pattern.fullmatch(topic) for name, pattern in self._names
        )

    # -- by a tasklet or a thread ----------------------------------------------------------------------------

    def _go_on(self) -> Iterator[bytes]:
        limits = running.limits()
        with subscribe(*self._topics, after=self._last()) as subscription:
            while not subscription.ended:
                try:
                    message = subscription.get(limits.ping_seconds)
                except Lagged as lagged:
                    yield gap_of(lagged.missed)
                    continue
                if message is not None:
                    form, data = encode(message.data, limits.shared_message_bytes, "shared_message_bytes")
                    yield event_of((message.number, message.topic.encode(), form, data))
                elif not subscription.ended:
                    yield BEAT
