"""hold(): a stream of events that the server goes on with when the view has returned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol, overload


class HeldResponse(Protocol):
    """A WSGI application, an iterable of bytes, and an ASGI application."""

    @overload
    def __call__(self, environ: dict[str, Any], start_response: Any, /) -> Iterable[bytes]: ...
    @overload
    def __call__(self, scope: dict[str, Any], receive: Any, send: Any, /) -> Awaitable[None]: ...
    def __iter__(self) -> Iterator[bytes]: ...


class HeldClient(Protocol):
    """The client of a WebSocket that the server holds."""

    remote_addr: str | None
    """Its address, None for a UNIX socket."""
    closed: bool
    """Whether nothing more can be sent."""

    def send(self, message: Any) -> None:
        """Send a message, of the types that publish() takes. Raise WebSocketClosed or SharedError."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame. Do nothing if the WebSocket is closed."""


def hold(
    *topics: str,
    after: str | None = None,
    retry: float = 2.0,
    on_message: Callable[[Any, HeldClient], object] | None = None,
) -> HeldResponse:
    """Return a response whose client gets the messages of these topics (`syncless.shared`) as server-sent
    events, from now on: ``return hold("news", "user:7")``. The request ends at once; the server holds the
    connection without a tasklet, and writes to it what any worker publishes.

    The result is a WSGI application, which a Flask view can return, and an iterable of bytes, the body of
    Django's StreamingHttpResponse(..., content_type="text/event-stream"); and an ASGI application. ``after``:
    the Last-Event-ID of the client, if it is not that of the request. ``retry``: seconds after which the
    client comes again, of which each is told half as much to half as much again, at random. Raises
    InvalidName or Unavailable.

    If the client asks for a WebSocket, it gets one, and the messages as those of the WebSocket. For each
    message that it sends, ``on_message(message, client)`` is called in a tasklet of its own, one at a time;
    ``message`` is str or bytes, and ``client.send()`` answers.
    """
    held: HeldResponse = import_module("syncless.shared.hold").Hold(topics, after, retry, on_message)
    return held
