from collections.abc import Callable, Iterable, Sequence
from ssl import SSLContext
from typing import Any, Protocol

from syncless._core.cpython.threadlocal import Slots
from syncless._core.loop import Loop
from syncless._core.scheduler import Runnable
from syncless.http.exchange import Application, Sessions
from syncless.http.limits import Limits
from syncless.http.log.errorlog import ErrorLog
from syncless.http.log.loglines import AccessLog
from syncless.http.log.slowrequests import SlowRequests
from syncless.http.overload import AutoLimit
from syncless.http.priorities import Priorities

SECONDS: tuple[float, ...]
FREE: int
CELLS: int

class Quota:
    """Quota(requests, used_up): calls ``used_up`` once, when the last of the requests begins."""

    used_up: Callable[[], object]
    def __init__(self, requests: int, used_up: Callable[[], object]) -> None: ...
    def take_many(self, requests: int) -> None:
        """Count requests that have begun elsewhere."""

class Deadlines:
    def __new__(cls, loop: Loop) -> Deadlines: ...

class Flusher(Runnable):
    def __new__(cls, loop: Loop) -> Flusher: ...

class DataRate: ...

class DataRates:
    def __new__(cls, loop: Loop, limits: dict[str, Any]) -> DataRates: ...

class ResponseHeads:
    def __init__(self, loop: Loop) -> None: ...

class Reached:
    def __new__(cls, loop: Loop, limits: Limits, error_log: ErrorLog) -> Reached: ...

class Admission:
    active: int
    exempt: int
    queued: int
    refused: int
    rule: AutoLimit | None
    def __init__(
        self,
        deadlines: Deadlines,
        reached: Reached,
        requests: int | str,
        queued: int,
        priorities: Priorities | None = None,
    ) -> None: ...
    def close(self) -> None:
        """Look at the queue no more, and tell no limit."""
    def told_limit(self) -> int:
        """Return the limit that the rule has set; 0 if it is another's of its account, or a fixed one."""

class Counters:
    def __init__(self, memory: bytearray | memoryview) -> None: ...
    def count(self, code: int, ns: int = -1) -> None: ...

def totals(cells: Sequence[int] | memoryview) -> dict[str, Any]: ...

class _ErrorLog(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...

class Listener:
    application: Application
    error_log: _ErrorLog
    connections: int
    requests: int
    accepted: int
    stopping: bool
    place: tuple[str, str]
    on_hangup: str
    counters: Counters | None
    quota: Quota | None
    http2: Sessions | None
    send_away: Callable[[Any], object] | None
    def __init__(
        self,
        application: Application,
        limits: Limits,
        access_log: AccessLog | None,
        error_log: _ErrorLog,
        *,
        certificates: Callable[[], SSLContext] | None = None,
        plain_http: bool = False,
        trusted: Callable[[str], bool] | None = None,
        proxy_protocol: bool = False,
        trusted_fields: Iterable[str] = (),
        on_hangup: str = "continue",
        request_ids: bool = False,
        request_slots: Slots | None = None,
        pass_deadline: bool = False,
        priority: Priorities | None = None,
    ) -> None: ...
    def trace(self, tracer: object, share: float, parents: str, tells_all: bool) -> None:
        """Have `tracer` make a span for this share of the requests. `parents`: the traceparent of a request
        "decide"s whether it is traced, only "count"s as the trace of which it is a part, or is "ignored".
        `tells_all`: the tracer is told of requests that are not traced, too."""
    def report_slow(self, slow_requests: SlowRequests) -> None:
        """Pass each request that takes at least `slow_requests.seconds` to `slow_requests` when it ends."""
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def figures(self) -> dict[str, int]: ...
    def census(self) -> dict[str, int]: ...
