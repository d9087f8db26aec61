"""The arguments of `serve` and `Server` by name, for type checkers: each field of Limits is one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO, TypedDict

if TYPE_CHECKING:
    import os
    import ssl

    from syncless.http.addresses import Bind
    from syncless.http.certificates import Files
    from syncless.http.limits import Limits
    from syncless.http.static.files import Paths


class LimitOptions(TypedDict, total=False):
    """Single limits; limits.py has their texts."""

    request_line: int
    header_count: int
    head_bytes: int
    chunk_line: int
    trailer_bytes: int
    body_bytes: int
    remembered: int
    drain_bytes: int
    pipelined: int
    connections: int
    client_connections: int
    requests: int
    queued: int
    buffered_bytes: int
    websocket_bytes: int
    linger_bytes: int
    linger_connections: int
    backlog: int
    head_seconds: float
    greeting_seconds: float
    idle_seconds: float
    body_seconds: float
    body_total_seconds: float
    body_rate: int
    body_grace_seconds: float
    request_seconds: float
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
    worker_stuck_seconds: float
    worker_boot_seconds: float
    stop_delay_seconds: float
    stop_seconds: float
    stop_notice_seconds: float
    stop_idle_seconds: float


class ServerOptions(LimitOptions, total=False):
    """The arguments of `Server` after `application`, `host` and `port`."""

    bind: str | Bind | Iterable[str | Bind] | None
    access_log: bool | str | os.PathLike[str] | TextIO | None
    access_log_format: str | Mapping[str, str]
    error_log: str | os.PathLike[str] | TextIO | None
    error_log_format: str
    limits: Limits | None
    ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None
    certfile: str | None
    keyfile: str | None
    certificates: Mapping[str, Files] | None
    client_ca: str | None
    ciphers: str | None
    tls_minimum: str
    key_password: str | None
    plain_http: bool
    trusted: str | Iterable[str]
    trusted_fields: Iterable[str]
    proxy_protocol: bool
    unix_mode: int | None
    unix_owner: str | None
    ipv6_only: bool
    defer_accept: bool
    reuse_port: bool
    static: Paths | None
    static_max_age: float
    compress: bool | str | Iterable[str]
    compress_minimum: int
    multiprocess: bool
    native: Mapping[str, Any] | None
    native_threads: int
