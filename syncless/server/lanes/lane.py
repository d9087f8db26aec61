"""Lane: a part of a server that serves connections, such as the loop that called `serve`.

A Server calls the same methods of all its lanes, from its start to its stop. Another kind of lane (a second
loop, another process) would be another class.
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
    """Raise ValueError if two of these features cannot be combined (APART)."""
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
    """A listening socket of a server, with its application."""

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
    """A lane that does nothing. All methods are called in the thread of the server; those that return figures
    also in other threads."""

    @property
    def connections(self) -> int:
        """The number of open connections, for which a stop waits."""
        return 0

    @property
    def requests(self) -> int:
        """The number of requests begun since the start."""
        return 0

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        """Take this lane's share of the sockets. Raise ValueError if the lane cannot serve their
        applications."""

    def start(self) -> None:
        """Begin to accept."""

    def limit_requests(self, quota: Quota) -> None:
        """Count the requests of this lane in `quota`."""

    def pause(self) -> None:
        """Leave new connections to other processes that share the sockets."""

    def resume(self) -> None: ...

    def stop(self) -> None:
        """Close each connection after its next response."""

    def begin_stop(self) -> None:
        """Notify clients that the server stops, if the protocol allows it (HTTP/2)."""

    def accept_rest(self) -> None:
        """Accept the connections that are already made, and then stop accepting."""

    def close_connections(self, all_of_them: bool) -> None:
        """Close the idle connections. With ``all_of_them``, also close the others, and interrupt their
        requests."""

    def tell_streams(self, at_last: bool) -> None:
        """Notify endless requests that the server stops. With ``at_last``, notify all others, too."""

    def close_rest(self) -> None:
        """Close the connections that wait only for their client."""

    def close(self) -> None:
        """End the lane, even if it has not been started."""

    def leave_to_parent(self) -> None:
        """Give up the parent's objects in a child after a fork."""

    def census(self) -> dict[str, int]:
        """Return counts of the lane's objects."""
        return {}

    def figures(self) -> dict[str, int]:
        """Return figures for an operator: those of a Listener and some of the lane's own."""
        return {}

    def count(self, counters: Counters) -> None:
        """Add the counts that the lane has not yet added to `counters`."""

    def stuck(self, seconds: float) -> list[tuple[float, str]]:
        """Return the time and a description of each of the lane's threads that has been blocked for
        `seconds`."""
        return []

    def in_flight(self) -> list[dict[str, Any]]:
        """Return the requests that do not run in tasklets, in the format of Reporter."""
        return []

    def loops(self) -> list[Loop]:
        """Return the loops in which the lane's requests run, except for the server's own loop."""
        return []


def add_up(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of each count."""
    total: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0) + number
    return total
