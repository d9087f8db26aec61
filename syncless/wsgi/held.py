"""hold(): a stream of events that the server goes on with when the view has returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol


class HeldResponse(Protocol):
    """A WSGI application, and an iterable of bytes."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]: ...
    def __iter__(self) -> Iterator[bytes]: ...


def hold(*topics: str, after: str | None = None, retry: float = 2.0) -> HeldResponse:
    """Return a response whose client gets the messages of these topics (`syncless.shared`) as server-sent
    events, from now on: ``return hold("news", "user:7")``. The request ends at once; the server holds the
    connection without a tasklet, and writes to it what any worker publishes.

    The result is a WSGI application, which a Flask view can return, and an iterable of bytes, the body of
    Django's StreamingHttpResponse(..., content_type="text/event-stream"). ``after``: the Last-Event-ID of
    the client, if it is not that of the request. ``retry``: seconds after which the client comes again, of
    which each is told half as much to half as much again, at random. Raises InvalidName or Unavailable.
    """
    held: HeldResponse = import_module("syncless.shared.hold").Hold(topics, after, retry)
    return held
