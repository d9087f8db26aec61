"""The IDs of requests, for Server's `request_ids`: in a context variable and, through a filter, in the
records of logging.

An Exchange sets the variable before it calls its application. Threads, tasklets and tasks that inherit the
context of the request see the same value.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Any, NamedTuple

TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
"""W3C Trace Context, 3.2. Only later versions than 00 may have more at the end."""
TRACESTATE = re.compile(r"[\t -~]{1,512}")
"""As much as must be passed on (W3C Trace Context, 3.3.1.5)."""


class RequestIds(NamedTuple):
    request_id: str
    traceparent: str

    @property
    def trace_id(self) -> str:
        """The part of the traceparent that all requests of a trace share."""
        return self.traceparent[3:35]


current_ids: ContextVar[RequestIds | None] = ContextVar("syncless.request_ids", default=None)

outgoing_trace: ContextVar[tuple[str, str] | None] = ContextVar("syncless.outgoing_trace", default=None)
"""traceparent and tracestate for the services that a request calls, if its server traces requests."""


def trace_of(traceparent: str | None) -> str | None:
    """Return the trace ID in a traceparent field, or None if there is none."""
    found = TRACEPARENT.fullmatch(traceparent or "")
    if traceparent is None or found is None or (found[1] == "00" and found[2]):
        return None
    return traceparent[3:35]


def state_of(tracestate: str | None) -> str:
    """Return the field if it may be passed on, or "". Danger: any client can send it, and called services
    refuse requests with other characters, or with heads that are too large."""
    return tracestate if tracestate and TRACESTATE.fullmatch(tracestate) else ""


def begin(request_id: str, traceparent: str | None) -> RequestIds:
    """Return the IDs of a new request, and set them in its context. `traceparent` is the field of a trusted
    proxy, or None."""
    if trace_of(traceparent) is None:
        random = os.urandom(24).hex()
        traceparent = f"00-{random[:32]}-{random[32:]}-00"  # nobody has recorded it
    ids = RequestIds(request_id, traceparent or "")
    current_ids.set(ids)
    return ids


class RequestFilter:
    """A filter for logging: each record gets ``request_id`` and ``trace_id``, or "-" outside of requests."""

    def filter(self, record: Any) -> bool:
        ids = current_ids.get()
        for name in ("request_id", "trace_id"):
            if getattr(record, name, None) is None:  # the server's own records have them already
                setattr(record, name, "-" if ids is None else getattr(ids, name))
        return True
