"""The servers that run in this process, their limits, and the moment at which they stop. It is meant for code
outside of requests, such as syncless.shared."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from syncless._core.wait.sync import Event
from syncless.http.limits import Limits


class Running(Protocol):
    """The part of a Server that this module needs."""

    told_to_stop: Event


_servers: weakref.WeakSet[Running] = weakref.WeakSet()
"""A server that a thread has left behind ends with its last reference."""
_limits = Limits()
_callbacks: list[Callable[[], None]] = []


def expect(limits: Limits) -> None:
    """Set the limits with which the program will serve."""
    global _limits
    _limits = limits


def limits() -> Limits:
    """Return the limits of the serving program, or the defaults."""
    return _limits


def begins(server: Running) -> None:
    _servers.add(server)


def tell_of_stop() -> None:
    """Call the callbacks if all servers have been told to stop. A server calls this after it has been told to
    stop."""
    if is_stopping():
        for callback in _callbacks:
            callback()


def has_stopped(server: Running) -> None:
    _servers.discard(server)


def is_stopping() -> bool:
    """Return whether there are servers and all have been told to stop."""
    servers = list(_servers)
    return bool(servers) and all(server.told_to_stop.is_set() for server in servers)


def at_stop(callback: Callable[[], None]) -> None:
    """Call `callback` whenever the last server of the process is told to stop. The callback must not wait."""
    _callbacks.append(callback)
