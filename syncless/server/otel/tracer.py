"""Tracer: makes a record of each traced request, in the tasklet of the request.

It decides what Listener.trace() leaves to it: what the traceparent of a client means (W3C Trace Context). A
record has all that is known of a request that has ended, as it is; a thread makes a message of it later.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from syncless._core.current import current
from syncless._core.recorder import recorded
from syncless._core.waits import Wait
from syncless.http.exchange import Exchange
from syncless.http.request import Request
from syncless.http.requestids import RequestIds, current_ids, outgoing_trace, state_of, trace_of

ROUTES = (
    ("http.route", ""),
    ("path_template", ""),  # Litestar
    ("route", "path"),  # FastAPI
)
"""Keys under which frameworks leave objects with the request, and the attribute of each that is the route.
The first key is for the application, and for routes.py: Flask and Django leave nothing."""

make = tuple.__new__
"""Makes a NamedTuple in a third of the time of its class."""


class Event(NamedTuple):
    """An event of a request, which has one moment."""

    time: int
    """ns since 1970."""
    name: str
    attributes: dict[str, str | int | float]


class Span(NamedTuple):
    """The identity of the span of a request."""

    ids: RequestIds
    parent: str
    """The ID of the client's span, or ""."""
    state: str
    """The client's tracestate."""
    events: list[Event]

    def add_event(self, name: str, attributes: dict[str, str | int | float]) -> None:
        self.events.append(Event(time.time_ns(), name, attributes))


class Ended(NamedTuple):
    """A traced request that has ended."""

    span: Span
    end: int
    """ns since 1970."""
    duration: int
    """ns."""
    method: str
    route: Any
    path: str
    """In characters that are bytes."""
    scheme: str
    host: str
    version: str
    client: str
    user_agent: str
    code: int
    """0: there was no response."""
    error: str
    """The type of the exception that has ended it, or ""."""
    waits: list[Wait]
    clock: int
    """The monotonic clock at its end, ns: that of the waits."""


class Tracer:
    """Tracer(share, parents, put): `put` is called with each Ended; the others are as Listener.trace() has
    them."""

    def __init__(self, share: float, parents: str, put: Callable[[Ended], None]):
        self._below = int(share * 2**64)
        self._parents_decide = parents == "decide"
        self._put = put
        self._bits = random.Random().getrandbits  # no seed of the application makes IDs repeat

    def begin(self, exchange: Exchange, parent: str | None, sampled: bool) -> Span | None:
        """Return the span of a request, or None if it is not traced. `sampled`: what chance says."""
        trace = None if parent is None else trace_of(parent)
        if parent is None or trace is None:
            parent_id = state = ""
            traceparent = self._new(sampled)
        else:
            state = state_of(exchange.field("tracestate"))
            if self._parents_decide:
                sampled = bool(int(parent[53:55], 16) & 1)
            else:
                sampled = int(trace[16:], 16) < self._below
            parent_id = parent[36:52]
            traceparent = f"00-{trace}-{self._bits(64):016x}-{'01' if sampled else '00'}"
        if "opentelemetry.trace" in sys.modules:
            _tell_sdk(traceparent, state, exchange)
        if state or not sampled:
            outgoing_trace.set((traceparent, state))
        if not sampled:
            return None
        ids = make(RequestIds, (exchange.id, traceparent))
        current_ids.set(ids)
        return make(Span, (ids, parent_id, state, []))

    def _new(self, sampled: bool) -> str:
        """Return the traceparent of a new trace. Other services that decide by its ID decide alike."""
        made = self._bits(192).to_bytes(24, "big").hex()
        if self._below == 2**64 and sampled:
            return f"00-{made[:32]}-{made[32:]}-01"
        low = int(made[16:32], 16)
        low = low * self._below >> 64 if sampled else self._below + (low * (2**64 - self._below) >> 64)
        return f"00-{made[:16]}{low:016x}-{made[32:]}-{'01' if sampled else '00'}"

    def outgoing(self) -> list[tuple[str, str]]:
        """Return traceparent and tracestate for a call that is made now: none outside of requests."""
        if "opentelemetry.propagate" in sys.modules and (fields := _of_sdk()):
            return fields
        trace = outgoing_trace.get()
        if trace is None:
            ids = current_ids.get()
            if ids is None and not isinstance(current(), Exchange):
                return []
            trace = self._new(False) if ids is None else ids.traceparent, ""
            outgoing_trace.set(trace)  # all its calls are of one trace
        return _told(*trace) if trace_of(trace[0]) is not None else []

    def end(
        self,
        span: Span,
        exchange: Exchange,
        request: Request,
        code: int,
        duration: int,
        failure: BaseException | None,
    ) -> None:
        """Note the end of a request."""
        recorder = recorded(exchange)
        fields = (
            span,
            time.time_ns(),
            duration,
            str(request.method or ""),
            route_of(request),
            f"{request.root_path or ''}{request.path or ''}",
            request.scheme or "http",
            str(request.host or ""),
            request.version or "",
            str(request.client or ""),
            str(request.field("user-agent") or ""),
            code,
            "" if failure is None else _name(type(failure)),
            recorder.kept() if recorder is not None and recorder.number else [],
            time.monotonic_ns(),
        )
        self._put(make(Ended, fields))


def route_of(request: Request) -> Any:
    """Return the route that the framework has found, or None."""
    for key, path in ROUTES:
        found = request.left(key)
        if found is not None:
            return getattr(found, path, None) if path else found
    return None


def _told(traceparent: str, state: str) -> list[tuple[str, str]]:
    return [("traceparent", traceparent), *([("tracestate", state)] if state else [])]


def _of_sdk() -> list[tuple[str, str]]:
    """Return the fields for the current span of OpenTelemetry's SDK: one of the application is nearer."""
    found: dict[str, str] = {}
    sys.modules["opentelemetry.propagate"].inject(found)
    return [(name, found[name]) for name in ("traceparent", "tracestate") if name in found]


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _tell_sdk(traceparent: str, state: str, exchange: Exchange) -> None:
    """Make the span the current one of OpenTelemetry's SDK in the context of the request: spans of the
    application become its children, and instrumentations of frameworks make no second span of a server."""
    given = {"traceparent": traceparent, "tracestate": state, "baggage": exchange.field("baggage") or ""}
    propagate = sys.modules.get("opentelemetry.propagate")
    context = sys.modules.get("opentelemetry.context")
    if propagate is not None and context is not None:
        context.attach(propagate.extract({name: value for name, value in given.items() if value}))
