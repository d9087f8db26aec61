"""The time left of a request, for the services that it calls.

The header field is trust.REQUEST_TIMEOUT, as a called server reads it. patches/outgoing.py sends it.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from syncless._core.timeout import deadline
from syncless.http.trust import REQUEST_TIMEOUT


class RequestEnd:
    """RequestEnd(seconds): when the request that runs will be stopped, unlike tasklets that it
    leaves behind."""

    def __init__(self, seconds: float):
        self.when: float | None = time.monotonic() + seconds
        """None: the request is over."""


current_end: ContextVar[RequestEnd | None] = ContextVar("syncless.request_end", default=None)
"""Of the running request, for all that inherit its context."""


def fields() -> list[tuple[str, str]]:
    """Return the field for a call that is made now: none without a deadline."""
    end = current_end.get()
    when = None if end is None else end.when
    left = [seconds for seconds in (deadline.remaining(),) if seconds is not None]
    if when is not None:
        left.append(max(0.0, when - time.monotonic()))
    return [(REQUEST_TIMEOUT, f"{min(left):.3f}")] if left else []
