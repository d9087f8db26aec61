"""Hold: a response that goes on after its request, as a stream of events (server-sent events), or as a
WebSocket if the client asks for one.

Where this server runs the request, the iteration ends, and a HeldStream keeps the connection. Otherwise the
iteration continues, like that of any other stream: behind other servers, over HTTP/2, with Redis, and if
something between the application and the server changes the bytes, such as compression.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from syncless._core.current import current
from syncless._core.tasklet import spawn
from syncless._core.threadloop import current_loop
from syncless.http import running
from syncless.http.errors import ConnectionLost
from syncless.http.exchange import Exchange
from syncless.http.websocket.websocket import STOPS
from syncless.shared import area
from syncless.shared.content import BYTES, LAGGED, encode, name_of
from syncless.shared.errors import InvalidName, Lagged
from syncless.shared.messages import Record, Subscription, hub_of, pattern_of, subscribe
from syncless.shared.store import INTERNAL

HOLD = "syncless.hold"
"""The name of the extension of ASGI."""
HEADERS = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")]
BEAT = b":\n\n"
LAST_EVENT_ID = re.compile(r"([0-9a-f]{8})-(\d{1,18})", re.ASCII)


def event_of(message: Record | int) -> bytes:
    """Return the event of a message, whose ID is the number of the message behind the mark of the region; or
    the event that tells that so many are missing."""
    if isinstance(message, int):
        return b"event: lagged\ndata: %d\n\n" % message
    number, _, _, data = message
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"id: %b-%d\n%b\n" % (area.store().mark, number, b"".join(b"data: %b\n" % line for line in lines))


class Client:
    """The client of a WebSocket that occupies a tasklet, as on_message() gets it. See HeldSocket."""

    def __init__(self, websocket: Any, remote_addr: str | None):
        self._websocket = websocket
        self.remote_addr = remote_addr
        self.close = websocket.close

    def send(self, message: Any) -> None:
        form, data = encode(message, running.limits().shared_message_bytes, "shared_message_bytes")
        self._websocket.send(data if form == BYTES else data.decode())

    def tell_end(self, code: int, reason: str) -> None:
        try:
            self._websocket.send_close(code, reason)
        except ConnectionLost:
            pass

    @property
    def closed(self) -> bool:
        return bool(self._websocket.closed)


class Hold:
    """See syncless.wsgi.hold()."""

    def __init__(
        self,
        topics: tuple[str, ...],
        after: str | None,
        retry: float,
        on_message: Callable[[str | bytes, Any], object] | None = None,
    ):
        if not topics:
            raise InvalidName("hold at least one topic")
        self._topics = topics
        self._names = [
            (name, pattern_of(name) if b"*" in name else None)
            for name in dict.fromkeys(name_of(topic, "topic") for topic in topics)
        ]
        self._after = after
        self._retry = retry
        self._on_message = None if on_message is None else _in_the_loop(on_message)
        self._subscription: Subscription | None = None
        self._left = False
        self._begin = area.store().figures()["messages"]
        """The number of the last message before it."""

    def __call__(self, *args: Any) -> Any:
        """Answer as a WSGI application (environ, start_response) or an ASGI one (scope, receive, send)."""
        if len(args) == 3:
            return self._answer_asgi(*args)
        environ, start_response = args
        if self._after is None:
            self._after = environ.get("HTTP_LAST_EVENT_ID")
        start_response("200 OK", list(HEADERS))
        return self

    def __iter__(self) -> Iterator[bytes]:
        request = current()
        if isinstance(request, Exchange) and (websocket := _streams().websocket_of(request)) is not None:
            websocket.accept(compression=False)
            session = self.session(request)
            if session is None or not request.hold(session, 0):
                self.converse(websocket, request.client)
            return
        first = self.opening(request)
        if isinstance(request, Exchange) and (session := self.session(request)) is not None:
            yield first
            if current() is request and request.hold(session, len(first)):
                return
            first = b""
        yield from self.parts(first)

    async def _answer_asgi(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if HOLD in (scope.get("extensions") or {}):
            await send({"type": HOLD, "response": self})
            return
        if scope["type"] == "websocket":
            raise RuntimeError("only the server of syncless holds WebSockets")
        self._read_id(dict(scope["headers"]).get(b"last-event-id", b"").decode("latin-1"))
        await send({"type": "http.response.start", "status": 200, "headers": self.fields()})
        in_tasklet = import_module("syncless.asyncio.tasklets").in_tasklet
        parts = self.parts(self.opening(None))
        try:
            while (part := await in_tasklet(lambda: next(parts, None))) is not None:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            self.leave()
        await send({"type": "http.response.body"})

    def _read_id(self, given: str | None) -> None:
        if self._after is None:
            self._after = given

    def _last(self) -> int:
        """Return the number of the last message that the client has, or a number that no message had yet."""
        if self._after is None or (found := LAST_EVENT_ID.fullmatch(self._after)) is None:
            return self._begin
        return int(found[2]) if found[1].encode() == area.store().mark else (1 << 63) - 1

    # -- its parts, for a server -----------------------------------------------------------------------------

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return the header, as ASGI has it."""
        return [(name.lower().encode(), value.encode()) for name, value in HEADERS]

    def opening(self, request: object) -> bytes:
        """Return the first bytes."""
        if isinstance(request, Exchange):
            self._read_id(request.field("last-event-id"))
        # clients that are told to go at the same time do not come back at the same time
        return b"retry: %d\n\n" % (self._retry * random.uniform(500, 1500))

    def session(self, request: Exchange) -> Any:
        """Return what goes on with the connection when the request has ended; None: nothing can."""
        if not area.store().holds:
            return None
        if not request.upgraded:
            return _streams().HeldStream(self._take_over)
        library = import_module("syncless.http.websocket.library")
        return _streams().HeldSocket(self._take_over, self._on_message, library)

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
                joined = hub.hold(event_of).join(stream, self._names, head, opening)
        finally:
            hub.drop_unused()
        if running.is_stopping():
            stream.end()

    def _history(self, missed: int, places: list[int]) -> list[Record | int]:
        """Return the last messages, no more than may wait for a client, and what is missing before them."""
        messages: list[Record | int] = []
        room = running.limits().event_bytes
        for place in reversed(places):
            message = area.region().read(place)
            if message is None or (size := len(event_of(message))) > room:
                break
            room -= size
            messages.append(message)
        missed += len(places) - len(messages)
        return ([missed] if missed else []) + messages[::-1]

    def _wants(self, topic: bytes) -> bool:
        return not topic.startswith(INTERNAL) and any(
            topic == name if pattern is None else pattern.fullmatch(topic) for name, pattern in self._names
        )

    # -- by a tasklet or a thread ----------------------------------------------------------------------------

    def leave(self) -> None:
        """End parts() or converse(): the client has left."""
        self._left = True
        if self._subscription is not None:
            self._subscription.close()

    def _subscribe(self) -> Subscription:
        subscription = self._subscription = subscribe(*self._topics, after=self._last())
        if self._left:
            subscription.close()
        return subscription

    def parts(self, first: bytes = b"") -> Iterator[bytes]:
        """Give the events as they come. `first`: comes before them, when none is missed any more."""
        limits = running.limits()
        with self._subscribe() as subscription:
            if first:
                yield first
            while not subscription.ended:
                try:
                    message = subscription.get(limits.ping_seconds)
                except Lagged as lagged:
                    yield event_of(lagged.missed)
                    continue
                if message is not None:
                    form, data = encode(message.data, limits.shared_message_bytes, "shared_message_bytes")
                    yield event_of((message.number, message.topic.encode(), form, data))
                elif not subscription.ended:
                    yield BEAT

    def converse(self, websocket: Any, remote_addr: str | None) -> None:
        """Serve a WebSocket until it is closed."""
        client = Client(websocket, remote_addr)
        with self._subscribe() as subscription:
            sender = spawn(self._pass_on, subscription, client)
            try:
                for message in websocket:
                    if self._on_message is not None:
                        self._on_message(message, client)
                websocket.answer_close()
            finally:
                sender.kill()

    @staticmethod
    def _pass_on(subscription: Subscription, client: Client) -> None:
        try:
            for message in subscription:
                client.send(message.data)
            client.tell_end(*STOPS)
        except Lagged:
            client.tell_end(*LAGGED)
        except ConnectionLost:
            pass


def _streams() -> Any:
    return import_module("syncless.shared.streams")


def _in_the_loop(function: Callable[[str | bytes, Any], object]) -> Callable[[str | bytes, Any], object]:
    """Return a function that waits for a coroutine function's end."""

    def call(message: str | bytes, client: Any) -> None:
        import_module("syncless.asyncio.backgroundloop").await_(function(message, client))

    return call if inspect.iscoroutinefunction(function) else function
