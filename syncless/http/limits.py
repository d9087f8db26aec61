"""Defines every limit and deadline of the server, with its unit, its default and the origin of the default.

``python -m scripts.docs.options`` writes them for C (wire/wire.h) and for type checkers (arguments.py).
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from syncless.tools.records import record

Number = TypeVar("Number", int, float)

MAY_BE_ZERO: set[str] = set()
"""Limits that may be 0, though their default is not."""
MAY_BE_AUTO = ("requests",)
"""Limits that the server may find by itself."""
MOST: dict[str, int] = {}
"""Limit -> its largest value, if there is one."""


class _Bounds:
    """A placeholder for a default until the name of its limit is known."""

    def __init__(self, default: float, zero: bool, most: int | None):
        self._default, self._zero, self._most = default, zero, most

    def __set_name__(self, limits: type, name: str) -> None:
        setattr(limits, name, self._default)
        if self._zero:
            MAY_BE_ZERO.add(name)
        if self._most is not None:
            MOST[name] = self._most


def bounded(default: Number, *, zero: bool = False, most: int | None = None) -> Number:
    """Return the default of a limit that may be 0, or that has a maximum."""
    made: Any = _Bounds(default, zero, most)
    return made  # type: ignore[no-any-return]


@record(frozen=True)
class Limits:
    """The limits of a server. Pass an instance to `serve()`, or single fields as keyword arguments."""

    request_line: int = 8190
    """Maximum bytes of a request line; a longer one gets a 414 (Apache LimitRequestLine)."""
    header_count: int = bounded(100, most=128)
    """Maximum number of header fields of a request; more get a 431 (Apache LimitRequestFields). At most
    128."""
    head_bytes: int = bounded(32768, most=60_000)
    """Maximum bytes of a request head; a larger one gets a 431 (nginx large_client_header_buffers: 4 of 8k).
    At most 60000."""
    chunk_line: int = 256
    """Maximum bytes of the line before a chunk, extensions included; a longer one gets a 413 (Go net/http:
    4096 per line, 16 kB in total)."""
    trailer_bytes: int = 8192
    """Maximum bytes of the trailer section of a chunked body; a larger one gets a 431."""
    body_bytes: int = 1 << 30
    """Maximum bytes of a request body; a larger one gets a 413 (waitress max_request_body_size)."""
    remembered: int = bounded(1024, zero=True)
    """Number of active connections whose last request head is cached, about 4 kB each, so that repeated
    header fields need not be parsed again. 0: none."""
    recorded_waits: int = bounded(64, zero=True, most=10_000)
    """Number of waits recorded for each running request, 104 bytes each; the longest waits are kept. The log
    of slow requests, the status page and the message of a deadline show them. 0: none. At most 10000."""
    drain_bytes: int = bounded(1 << 16, zero=True)
    """Maximum bytes of an unread request body that the server reads and drops to keep the connection open; if
    more are left, it closes the connection."""
    streams: int = 100
    """Maximum number of concurrent requests of one HTTP/2 connection; more are refused, and the client may
    retry them (RFC 9113, 6.5.2)."""
    pipelined: int = 32
    """Number of pipelined requests of one connection that are served before other connections get a turn."""
    connections: int = 0
    """Maximum number of open connections. One more closes the oldest idle connection; if none is idle, it
    waits in the backlog. 0: no limit except the number of file descriptors."""
    client_connections: int = 0
    """Maximum number of open connections of one client address (IPv6: of one /64 network); one more is closed
    at once. Connections of trusted proxies and of UNIX sockets are not counted, but clients announced by a
    PROXY header are. 0: no limit (nginx limit_conn: off)."""
    requests: int | Literal["auto"] = 0
    """Maximum number of concurrent requests; more are queued. "auto": found by their latency (see
    docs/howto/overload.md). 0: no limit except the number of connections."""
    queued: int = bounded(1000, zero=True)
    """Maximum number of queued requests if `requests` is set; more get a 503 with Retry-After."""
    buffered_bytes: int = 1 << 28
    """Maximum bytes in the buffers of all connections of an address. Beyond it, the server closes the
    connections that take longest to send their request head, and HTTP/2 streams with unread bodies."""
    websocket_bytes: int = 1 << 20
    """Maximum bytes of a WebSocket message, decompressed; a larger one closes the connection with 1009
    (websockets: 1 MiB). Messages that grow more than a hundredfold on decompression, and by more than this
    limit in a second, close it, too."""
    linger_bytes: int = bounded(1 << 30, most=4_000_000_000)
    """Maximum bytes that a client may still send after its response, for a body that was refused or not read;
    then the connection is closed, or the HTTP/2 stream is reset (as `body_bytes`). At most 4,000,000,000."""
    linger_connections: int = bounded(1000, zero=True)
    """Maximum number of lingering connections (see `linger_bytes`); one more closes the oldest. 0: no
    limit."""
    event_bytes: int = 1 << 16
    """Maximum bytes of events that wait for the client of a held stream (`syncless.wsgi.hold`); with more,
    its connection is reset, and the client may come again."""
    shared_value_bytes: int = bounded(1 << 25, most=1 << 38)
    """Memory for the counters, values and locks of `syncless.shared`, and for metrics of the application, for
    all workers together. When it is full, values are dropped: some expired ones, then the least recently
    used. At most 274,877,906,944."""
    shared_ring_bytes: int = bounded(1 << 23, most=1 << 38)
    """Memory for the messages of `syncless.shared`, for all workers together: a subscriber that is that far
    behind is told what it has missed. At most 274,877,906,944."""
    shared_message_bytes: int = bounded(1 << 20, most=1 << 30)
    """Maximum bytes of a message of `syncless.shared`, at most a quarter of `shared_ring_bytes`; a larger one
    raises TooLarge (WebSockets: 1 MiB). At most 1,073,741,824."""
    backlog: int = 1024
    """Number of connections that the system queues before they are accepted, see listen(2) (Node: 511,
    gunicorn: 2048)."""

    head_seconds: float = 30.0
    """Seconds from the first byte of a request (or from the start of the connection) to the end of its head,
    then 408 (Apache RequestReadTimeout)."""
    greeting_seconds: float = 10.0
    """Seconds for a TLS handshake and a PROXY header; then the connection is closed without a response (Go
    net/http: no limit, nginx: 60)."""
    idle_seconds: float = 75.0
    """Seconds between two requests of a connection; then it is closed without a response (nginx
    keepalive_timeout)."""
    body_seconds: float = 60.0
    """Seconds to wait for the next byte of a request body, then 408 (nginx client_body_timeout)."""
    body_total_seconds: float = bounded(3600.0, zero=True)
    """Total seconds to wait for a request body, then 408. 0: no limit."""
    body_rate: int = bounded(240, zero=True)
    """Minimum bytes per second of a request body, averaged over the time that the application waits for it; a
    slower body gets a 408 (Kestrel). 0: no minimum."""
    body_grace_seconds: float = bounded(5.0, zero=True)
    """Seconds of waiting for a body before `body_rate` applies (Kestrel)."""
    request_seconds: float = 0.0
    """Seconds from the head of a request to the end of its response; then RequestTimeout is raised in its
    tasklet. If the application does not catch it, the client gets a 503. 0: no limit (gunicorn: 30)."""
    cancel_seconds: float = 1.0
    """Maximum seconds for a request that is interrupted in a query to cancel the query on the database
    server; then the connection is closed. Other tasklets have one second."""
    queue_seconds: float = 30.0
    """Maximum seconds that a request is queued (see `queued`), then 503 with Retry-After. If a trusted proxy
    sends X-Request-Start, the time since then counts, too."""
    retry_seconds: float = bounded(1.0, zero=True)
    """Seconds in the Retry-After field of a 503."""
    write_seconds: float = 60.0
    """Seconds to wait for a client to read more of its response; then the connection is reset, a few seconds
    later at most (nginx send_timeout)."""
    write_rate: int = bounded(240, zero=True)
    """Minimum bytes per second at which a client must read its response, averaged over the time that the
    server waits for it; the connection of a slower client is reset (Kestrel MinResponseDataRate). 0: no
    minimum."""
    write_grace_seconds: float = bounded(5.0, zero=True)
    """Seconds of waiting for a client before `write_rate` applies (Kestrel)."""
    ping_seconds: float = 20.0
    """Seconds without traffic after which the server sends a WebSocket ping; after the same time without any
    reply the connection is closed (websockets: 20). A held stream gets a comment as often."""
    linger_seconds: float = bounded(30.0, zero=True)
    """Seconds that a client may still send after its response, at `body_rate`, before the connection is
    closed (nginx lingering_time)."""
    linger_idle_seconds: float = 5.0
    """Seconds without data from a lingering client before the connection is closed (nginx
    lingering_timeout)."""
    worker_requests: int = 0
    """Number of requests after which a worker is replaced; its last response on each connection says
    Connection: close. 0: no limit (gunicorn max_requests)."""
    worker_requests_jitter: int = 0
    """Maximum number of requests added to `worker_requests` at random, so that not all workers are replaced
    at once."""
    worker_seconds: float = 0.0
    """Age in seconds at which a worker is replaced. 0: no limit."""
    worker_memory_bytes: int = 0
    """Resident memory in bytes at which a worker is replaced. 0: no limit."""
    worker_memory_percent: int = 0
    """Resident memory at which a worker is replaced, in percent of its share: the memory limit of the
    container (memory.max), or else the memory of the machine, divided by the number of workers. 0: no
    limit."""
    worker_stuck_seconds: float = 30.0
    """Seconds that a worker's loop may be blocked before the worker is killed and replaced (gunicorn
    timeout)."""
    worker_boot_seconds: float = 60.0
    """Seconds that a worker may take to import its application before it is killed."""
    held_seconds: float = 0.02
    """Seconds for which the application may hold the serving thread before a standby thread
    (`standby_threads`) takes over."""
    shared_seconds: float = 5.0
    """Seconds for an operation of `syncless.shared` on Redis; then it raises Unavailable (redis-py: 5)."""
    stop_delay_seconds: float = 0.0
    """Seconds that a server keeps serving after it is told to stop, while /readyz already says that it is not
    ready, so that load balancers can redirect clients first (Kubernetes: a preStop hook that sleeps)."""
    stop_seconds: float = bounded(30.0, zero=True)
    """Seconds that requests in flight have to finish when the server shuts down; then they are interrupted
    (gunicorn graceful_timeout)."""
    stop_notice_seconds: float = bounded(5.0, zero=True)
    """Seconds after the start of a shutdown at which the server ends event streams and WebSockets, which do
    not end by themselves: receive() of an ASGI application returns http.disconnect, a WebSocket is closed
    with 1001. Other streams get this notice the same time before the end of `stop_seconds`. At most half of
    `stop_seconds`."""
    stop_idle_seconds: float = bounded(2.0, zero=True)
    """Seconds that a stopping server or worker keeps its idle connections open; the response to the next
    request on each says Connection: close. Otherwise a proxy's POST could arrive at a closed connection, and
    proxies do not retry a POST."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value == "auto" and name in MAY_BE_AUTO:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                unless = ' or "auto"' if name in MAY_BE_AUTO else ""
                raise TypeError(f"limit {name} must be a number{unless}, not {value!r}")
            zero = name in MAY_BE_ZERO or getattr(Limits, name, None) == 0
            if value < 0 or (value == 0 and not zero):
                raise ValueError(f"limit {name} must be positive, not {value!r}")
            if value > MOST.get(name, value):
                raise ValueError(f"limit {name} can be {MOST[name]} at most, not {value}")


def defaults() -> dict[str, int | float]:
    """Return each limit and its default."""
    return {name: getattr(Limits, name) for name in Limits.__annotations__}


CHECK = 5.0  # seconds after which a client that makes the server wait is checked, at the latest
LARGEST = 1 << 62
LARGEST_32 = (1 << 32) - 1


def field_of(name: str) -> tuple[str, str]:
    """Return the type and the name of a limit in C, where times are in nanoseconds."""
    if name.endswith("_seconds"):
        return "int64_t", f"{name.removesuffix('_seconds')}_ns"
    return ("double" if name.endswith("_rate") else "int64_t"), name


def limit_values(limits: Limits) -> dict[str, object]:
    """Return the fields of `struct limits` in wire/wire.h."""

    def whole(number: float) -> int:
        return int(min(number, LARGEST))

    def check(most: float, grace: float) -> int:
        return whole(min(most, max(0.1, min(grace, CHECK))) * 1e9)

    values: dict[str, object] = {}
    for name, value in vars(limits).items():
        kind, field = field_of(name)
        value = 0 if name in MAY_BE_AUTO and value == "auto" else value
        values[field] = value if kind == "double" else whole(value * 1e9 if field != name else value)
    return {
        **values,
        "body_check_ns": check(limits.body_seconds, limits.body_grace_seconds),
        "write_check_ns": check(limits.write_seconds, limits.write_grace_seconds),
        "linger_check_ns": whole(min(limits.linger_idle_seconds, limits.linger_seconds) * 1e9),
        "head": {
            "line": int(min(limits.request_line, LARGEST_32)),
            "headers": int(limits.header_count),
            "total": int(limits.head_bytes),
        },
    }
