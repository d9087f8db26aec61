"""Lane: a part of a server that serves its connections: the loop that called `serve`, and what is beside it.

A Server asks all its lanes the same, from its start to its stop. Another kind of lane (a second loop, another
process) is one more class.
"""

from __future__ import annotations

from collections.abc import Iterable
from socket import socket
from typing import Any, Protocol

from syncless._core.loop import Loop
from syncless.http.exchange import Application
from syncless.http.listener import Counters, Listener, Quota
from syncless.http.log.serverlogs import Logs
from syncless.http.trust import Forward, Trust

APART = {
    ("native", "http2='cleartext'"): (
        "http2='cleartext' cannot be combined with native handlers: they speak HTTP/1.1"
    ),
    ("native", "standby_threads"): (
        "standby_threads cannot be combined with native handlers, which hold no loop"
    ),
}
"""Combinations that a server does not support, and why."""


def check_together(*wanted: str) -> None:
    """Raise ValueError if two of these are in APART."""
    for both, why in APART.items():
        if all(each in wanted for each in both):
            raise ValueError(why)


class LaneOwner(Protocol):
    """The part of its Server that a lane uses."""

    logs: Logs
    counters: Counters | None
    trusted: Trust | None
    forwarding: Forward | None
    """None if there is nobody `trusted`."""
    proxy_protocol: bool
    request_ids: bool

    def application_at(self, address: Any) -> Application: ...
    def listener_for(self, application: Application, address: Any, tls: bool) -> Listener: ...


class Served:
    """A listening socket of a server, and what serves there."""

    listener: Listener
    """Of the loop that called `serve`, which opens last: known to start()."""

    def __init__(self, sock: socket, tls: bool, application: Application):
        self.sock = sock
        self.tls = tls
        self.application = application
        """A lane may put one of its own around it."""
        self.is_left = False
        """Whether another lane than that loop's accepts on it."""


class Lane:
    """The lane that has nothing to do. All is called in the thread of the server, except for what tells
    figures: the threads of an operator's view ask for them, too."""

    @property
    def connections(self) -> int:
        """Those that it has now, which a stop waits for."""
        return 0

    @property
    def requests(self) -> int:
        """Begun since the start."""
        return 0

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        """Take its part of these sockets. Raise ValueError if it cannot serve what they have."""

    def start(self) -> None:
        """Begin to accept."""

    def limit_requests(self, quota: Quota) -> None:
        """Its requests count there."""

    def pause(self) -> None:
        """Leave new connections to other processes that have the same sockets."""

    def resume(self) -> None: ...

    def stop(self) -> None:
        """From now on every response closes its connection."""

    def begin_stop(self) -> None:
        """Tell clients that the server stops, where the protocol has words for that (HTTP/2)."""

    def accept_rest(self) -> None:
        """Accept what is connected already, and then no more."""

    def close_connections(self, all_of_them: bool) -> None:
        """Close those that are idle. ``all_of_them``: all others, too, whose requests are interrupted."""

    def tell_streams(self, at_last: bool) -> None:
        """Tell requests that go on for ever that the server stops. ``at_last``: all others, too."""

    def close_rest(self) -> None:
        """Close connections that wait for nothing but their client."""

    def close(self) -> None:
        """End, also if it has not been started."""

    def leave_to_parent(self) -> None:
        """In a child after fork: gives up what is the parent's."""

    def census(self) -> dict[str, int]:
        """Counts of what it owns now."""
        return {}

    def figures(self) -> dict[str, int]:
        """Count for an operator, those of a Listener and some of its own."""
        return {}

    def count(self, counters: Counters) -> None:
        """Add what it has not counted there by itself."""

    def stuck(self, seconds: float) -> list[tuple[float, str]]:
        """Its threads that have stood still for so long: the seconds, and a sentence."""
        return []

    def in_flight(self) -> list[dict[str, Any]]:
        """Requests that no tasklet answers, as a Reporter tells of requests."""
        return []

    def loops(self) -> list[Loop]:
        """Return those in which its requests run, except for that of the server."""
        return []


def add_up(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of each count."""
    total: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0) + number
    return total
