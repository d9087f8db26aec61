"""Every limit and deadline of the server, each with its unit, its default and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAY_BE_ZERO = {
    "connections",
    "client_connections",
    "write_rate",
    "write_grace_seconds",
    "requests",
    "queued",
    "remembered",
    "drain_bytes",
    "body_rate",
    "body_grace_seconds",
    "body_total_seconds",
    "request_seconds",
    "retry_seconds",
    "linger_seconds",
    "linger_connections",
    "stop_seconds",
    "stop_idle_seconds",
    "stop_delay_seconds",
    "worker_requests",
    "worker_requests_jitter",
    "worker_seconds",
    "worker_memory_bytes",
}


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Give `serve()` another one, or single fields as keyword arguments."""

    request_line: int = 8190
    """Bytes of a request line; 414 beyond (Apache LimitRequestLine)."""
    header_count: int = 100
    """Header fields of a request; 431 beyond (Apache LimitRequestFields). At most 128."""
    head_bytes: int = 32768
    """Bytes of a whole request head; 431 beyond (nginx large_client_header_buffers, 4 of 8k). At most 60000.
    """
    chunk_line: int = 256
    """Bytes of a chunk's size line with its extensions; 413 beyond (Go net/http: 4096 per line, 16 kB in
    all)."""
    trailer_bytes: int = 8192
    """Bytes of the trailer section of a chunked body; 431 beyond."""
    body_bytes: int = 1 << 30
    """Bytes of a request body; 413 beyond (waitress max_request_body_size)."""
    remembered: int = 1024
    """Active connections whose last request head is kept, some 4 kB each, so that the same fields are not
    read again. 0: none."""
    drain_bytes: int = 1 << 16
    """Bytes of a body, left unread by the application, that are read away to keep the connection; it is
    closed beyond."""
    pipelined: int = 32
    """Requests of one connection that are answered before other connections get a turn."""
    connections: int = 0
    """Open connections. One more closes the oldest idle connection; if none is idle, it waits in the backlog.
    0: as many as there are file descriptors."""
    client_connections: int = 0
    """Open connections of one client address (IPv6: of one /64 network); one more is closed at once.
    Connections of trusted proxies and of UNIX sockets are not counted; the client that a PROXY header
    announces is. 0: any number (nginx limit_conn: off)."""
    requests: int = 0
    """Requests at work at a time; more are queued. 0: one for each connection."""
    queued: int = 1000
    """Requests that wait where `requests` is set; 503 with Retry-After beyond."""
    buffered_bytes: int = 1 << 28
    """Bytes in the buffers of all connections of an address; beyond, the connections that take longest for
    their request head are cut off."""
    websocket_bytes: int = 1 << 20
    """Bytes of a WebSocket message, decompressed; the connection is closed with 1009 beyond (websockets: 1
    MiB)."""
    linger_bytes: int = 1 << 30
    """Bytes that a client may go on sending after its answer before the connection is closed: a body that was
    refused or not read (as `body_bytes`). At most 4,000,000,000."""
    linger_connections: int = 1000
    """Connections of such clients; one more closes the oldest. 0: any number."""
    backlog: int = 1024
    """Connections that the system queues for accept() (listen(2); Node 511, gunicorn 2048)."""

    head_seconds: float = 30.0
    """Seconds from the first byte of a request (or the connection's start) to the end of its head, then 408
    (Apache RequestReadTimeout)."""
    greeting_seconds: float = 10.0
    """Seconds for a TLS handshake and a PROXY header; the connection is closed silently then (Go net/http has
    none; nginx 60)."""
    idle_seconds: float = 75.0
    """Seconds between requests of a kept connection; it is closed silently then (nginx keepalive_timeout)."""
    body_seconds: float = 60.0
    """Seconds without a byte of a body that the application waits for, then 408 (nginx client_body_timeout).
    """
    body_total_seconds: float = 3600.0
    """Seconds for which an application waits for a body in all, then 408. 0: no limit."""
    body_rate: int = 240
    """Bytes of a body per second, on average over the time that the application waits for it; 408 below
    (Kestrel). 0: any rate."""
    body_grace_seconds: float = 5.0
    """Seconds of waiting for a body before `body_rate` counts (Kestrel)."""
    request_seconds: float = 0.0
    """Seconds from a request's head to the end of its response; then RequestTimeout is raised in its tasklet,
    and uncaught it is a 503. 0: no limit (gunicorn: 30)."""
    queue_seconds: float = 30.0
    """Seconds for which a request is queued (see `queued`), then 503 with Retry-After."""
    retry_seconds: float = 1.0
    """Seconds that Retry-After says in a 503."""
    write_seconds: float = 60.0
    """Seconds without a byte that a client takes of its answer; the connection is reset, some seconds later
    at most (nginx send_timeout)."""
    write_rate: int = 240
    """Bytes of an answer per second that a client must take, on average over the time that it makes the
    server wait; its connection is reset below (Kestrel MinResponseDataRate). 0: any rate."""
    write_grace_seconds: float = 5.0
    """Seconds of waiting for a client to take its answer before `write_rate` counts (Kestrel)."""
    ping_seconds: float = 20.0
    """Seconds of silence after which a WebSocket is sent a ping; it is closed if it is silent for as long
    again (websockets: 20)."""
    linger_seconds: float = 30.0
    """Seconds for which a client may go on sending after its answer, at `body_rate`, before the connection is
    closed (nginx lingering_time)."""
    linger_idle_seconds: float = 5.0
    """Seconds of silence of such a client before the connection is closed (nginx lingering_timeout)."""
    worker_requests: int = 0
    """Requests after which a worker is replaced. 0: any number (gunicorn max_requests)."""
    worker_requests_jitter: int = 0
    """Further requests at random, up to so many, so that workers are not replaced all at once."""
    worker_seconds: float = 0.0
    """Age in seconds at which a worker is replaced. 0: any."""
    worker_memory_bytes: int = 0
    """Memory of a worker (resident set) at which it is replaced. 0: any."""
    worker_stuck_seconds: float = 30.0
    """Seconds for which a worker's loop may stand still before the worker is killed and replaced (gunicorn
    timeout)."""
    worker_boot_seconds: float = 60.0
    """Seconds for which a worker may import its application before it is killed."""
    stop_delay_seconds: float = 0.0
    """Seconds for which a server that is told to stop goes on as before, but says that it is not ready
    (/readyz), so that load balancers send their clients elsewhere first (Kubernetes: a preStop hook that
    sleeps)."""
    stop_seconds: float = 30.0
    """Seconds for requests in flight when the server stops; they are interrupted afterwards (gunicorn
    graceful_timeout)."""
    stop_idle_seconds: float = 2.0
    """Seconds for which a server that stops, or a worker that is replaced, keeps its idle connections: the
    next request of each is answered with Connection: close. A proxy that sends a POST at the moment at
    which its connection is closed does not send it again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"limit {field.name} must be a number, not {value!r}")
            if value < 0 or (value == 0 and field.name not in MAY_BE_ZERO):
                raise ValueError(f"limit {field.name} must be positive, not {value!r}")
        if self.header_count > 128:
            raise ValueError(f"limit header_count can be 128 at most, not {self.header_count}")
        if self.linger_bytes > 4_000_000_000:
            raise ValueError(f"limit linger_bytes can be 4000000000 at most, not {self.linger_bytes}")
        if self.head_bytes > 60000:
            raise ValueError(f"limit head_bytes can be 60000 at most, not {self.head_bytes}")
