"""The types of the arguments of `Server`, for editors, type checkers and `serve`. ``python -m
scripts.docs.options`` writes this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypedDict

if TYPE_CHECKING:
    import os
    import ssl

    from syncless.http.content.static.files import Paths
    from syncless.http.limits import Limits
    from syncless.server.addresses import Bind
    from syncless.server.certificates import Files


class LimitOptions(TypedDict, total=False):
    """The limits as single arguments; limits.py describes them."""

    request_line: int
    header_count: int
    head_bytes: int
    chunk_line: int
    trailer_bytes: int
    body_bytes: int
    remembered: int
    recorded_waits: int
    drain_bytes: int
    streams: int
    pipelined: int
    connections: int
    client_connections: int
    requests: int | Literal["auto"]
    queued: int
    buffered_bytes: int
    websocket_bytes: int
    linger_bytes: int
    linger_connections: int
    event_bytes: int
    shared_value_bytes: int
    shared_ring_bytes: int
    shared_message_bytes: int
    backlog: int
    head_seconds: float
    greeting_seconds: float
    idle_seconds: float
    body_seconds: float
    body_total_seconds: float
    body_rate: int
    body_grace_seconds: float
    request_seconds: float
    cancel_seconds: float
    queue_seconds: float
    retry_seconds: float
    write_seconds: float
    write_rate: int
    write_grace_seconds: float
    ping_seconds: float
    linger_seconds: float
    linger_idle_seconds: float
    worker_requests: int
    worker_requests_jitter: int
    worker_seconds: float
    worker_memory_bytes: int
    worker_memory_percent: int
    worker_stuck_seconds: float
    worker_boot_seconds: float
    held_seconds: float
    shared_seconds: float
    stop_delay_seconds: float
    stop_seconds: float
    stop_notice_seconds: float
    stop_idle_seconds: float


class ServerOptions(LimitOptions, total=False):
    """The arguments of `Server` after `application`, `host` and `port`."""

    native: Mapping[str, Any] | None
    native_threads: int
    standby_threads: int
    self_cure: bool
    request_slots: str
    on_hangup: str
    pass_deadline: bool
    bind: str | Bind | Iterable[str | Bind] | None
    unix_mode: int | None
    unix_owner: str | None
    ipv6_only: bool
    reuse_port: bool
    defer_accept: bool
    certfile: str | None
    keyfile: str | None
    key_password: str | None
    certificates: Mapping[str, Files] | None
    client_ca: str | None
    ciphers: str | None
    tls_minimum: str
    ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None
    plain_http: bool
    http2: str
    static: Paths | None
    static_max_age: float
    compress: bool | str | Iterable[str]
    compress_minimum: int
    trusted: str | Iterable[str]
    trusted_fields: str | Iterable[str]
    proxy_protocol: bool
    access_log: bool | str | os.PathLike[str] | TextIO | None
    access_log_format: str | Mapping[str, str]
    error_log: str | os.PathLike[str] | TextIO | None
    error_log_format: str
    slow_request: float
    request_ids: bool
    otel: bool | str | None
    priority: str | Iterable[str]
    multiprocess: bool
    limits: Limits | None
