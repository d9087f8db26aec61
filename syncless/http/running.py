"""The servers that run in this process, for those who do not belong to one request: their limits, and when
they stop. syncless.shared asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from syncless._core.wait.sync import Event
from syncless.http.limits import Limits


class Running(Protocol):
    """A Server, as this file sees it."""

    told_to_stop: Event


_servers: list[Running] = []
_limits = Limits()
_callbacks: list[Callable[[], None]] = []


def expect(limits: Limits) -> None:
    """The program is going to serve with these limits."""
    global _limits
    _limits = limits


def limits() -> Limits:
    """Those of the program that serves, or the defaults."""
    return _limits


def begins(server: Running) -> None:
    _servers.append(server)


def tell_of_stop() -> None:
    """A server has been told to stop: calls back if it was the last that serves."""
    if is_stopping():
        for callback in _callbacks:
            callback()


def has_stopped(server: Running) -> None:
    if server in _servers:
        _servers.remove(server)


def is_stopping() -> bool:
    """Whether there are servers, and all of them have been told to stop."""
    return bool(_servers) and all(server.told_to_stop.is_set() for server in _servers)


def at_stop(callback: Callable[[], None]) -> None:
    """From now on it is called when the last server of the process is told to stop. It must not wait."""
    _callbacks.append(callback)
