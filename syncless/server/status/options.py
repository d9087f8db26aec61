"""Checks the options of the status server: its addresses, and the peers that it answers."""

from __future__ import annotations

import importlib.util
import ipaddress

from syncless.server.addresses import Bind, parse_bind
from syncless.server.sockets import SocketOptions, Sockets
from syncless.tools.records import record

METRICS_PATH = "/metrics"
BACKLOG = 128


@record(frozen=True)
class StatusOptions:
    """The options ``status``, ``status_public``, ``metrics`` and ``health`` of `serve`; the sockets are
    opened later. With ``at_status`` the metrics are at METRICS_PATH of the status address. ``path`` is the
    path of the metrics on the main addresses, where the health checks are below ``health_path``."""

    status: Sockets | None = None
    metrics: Sockets | None = None
    at_status: bool = False
    path: str | None = None
    public: bool = False
    health: Sockets | None = None
    health_path: str | None = None

    @property
    def shows_metrics(self) -> bool:
        return bool(self.metrics or self.at_status or self.path)

    def __bool__(self) -> bool:
        return bool(self.status or self.metrics or self.path or self.health or self.health_path is not None)

    @property
    def warning(self) -> str:
        """Return the warning to print at the start, or ""."""
        shown = [sockets.binds[0] for sockets in (self.status, self.metrics) if sockets is not None]
        far = [f"{bind.host}:{bind.port}" for bind in shown if not is_local(bind)]
        return (
            f"--status-public: anyone who reaches {' or '.join(far)} sees request paths, client addresses "
            "and stacks without a password; --health ADDRESS serves only the health checks"
            if far
            else ""
        )

    @staticmethod
    def of(
        status: str | None,
        metrics: bool | str | None = None,
        public: bool = False,
        unix_mode: int | None = None,
        unix_owner: str | None = None,
        health: str | None = None,
    ) -> StatusOptions:
        """Return the options. Raise ValueError, which explains the syntax, if one is malformed."""
        files = SocketOptions(BACKLOG, False, 0, False, 0o600 if unix_mode is None else unix_mode, unix_owner)
        path = metrics if isinstance(metrics, str) and metrics.startswith("/") else None
        address = metrics if isinstance(metrics, str) and path is None else None
        if metrics:
            check_metrics_library()
            if metrics is True and status is None:
                raise ValueError(
                    "metrics need the status address: add --status 127.0.0.1:9100, or name another "
                    "address (--metrics 127.0.0.1:9101) or a path of the main addresses (--metrics "
                    "/metrics)"
                )
        return StatusOptions(
            None if status is None else Sockets([local_bind(status, "status", public)], files, False),
            None if address is None else Sockets([local_bind(address, "metrics", public)], files, False),
            at_status=bool(metrics) and status is not None,
            path=path,
            public=public,
            health=None
            if health is None or health.startswith("/")
            else Sockets([local_bind(health, "health", True)], files, False),
            health_path=health.rstrip("/") if health is not None and health.startswith("/") else None,
        )


def check_metrics_library() -> None:
    if not _is_installed("prometheus_client"):
        raise ValueError("metrics need prometheus_client: pip install 'syncless[metrics]'")


def local_bind(text: str, what: str, public: bool) -> Bind:
    """Return the address that the text names. Raise ValueError if other machines could reach it, unless it is
    `public`."""
    try:
        bind = parse_bind(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if bind.tls:
        raise ValueError(f"the {what} address serves plain HTTP: write {text!r} without https://")
    if not public and not is_local(bind):
        every = " (all addresses)" if bind.host == "*" else ""
        raise ValueError(
            f"the {what} address shows paths and stacks, so it must be local, such as 127.0.0.1:{bind.port} "
            f"or unix:/run/syncless.status, not {text!r}{every}; for health checks write --health {text}; if "
            "other machines may read all of it, add --status-public (status_public=True)"
        )
    return bind


def is_local(bind: Bind) -> bool:
    """Return whether only this machine can reach the address. Inherited sockets count as local."""
    return bind.path is not None or bind.fd is not None or is_loopback(bind.host or "")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # somebody has put None in its place
        return False
