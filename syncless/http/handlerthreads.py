"""Threads that answer some of a server's requests, and the default: none. See native/handlerthreads.py."""

from __future__ import annotations

from socket import socket
from typing import Any, NamedTuple, Protocol

from syncless.http.acceptor import Acceptor
from syncless.http.application import Application
from syncless.http.counters import Counters
from syncless.http.listener import Listener, Quota


class AcceptControl(Protocol):
    """Lets the connections of one listening socket in."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def accept_rest(self) -> None: ...
    def close(self) -> None: ...


class ServedSocket(NamedTuple):
    """A socket on which a server listens, and what serves there."""

    sock: socket
    tls: bool
    listener: Listener
    acceptor: AcceptControl

    def close(self) -> None:
        """All but the socket."""
        self.acceptor.close()
        self.listener.close()


class HandlerThreads(Protocol):
    """Threads that answer some of a server's requests, from its start to its stop."""

    @property
    def connections(self) -> int: ...
    @property
    def requests(self) -> int: ...
    def share(self, server: Any, application: Application, tls: bool) -> Application: ...
    def control(self, server: Any, listener: Listener, sock: socket, tls: bool) -> AcceptControl: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def limit_requests(self, quota: Quota) -> None: ...
    def close_connections(self, all_of_them: bool) -> None: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...
    def census(self) -> dict[str, int]: ...
    def figures(self) -> dict[str, int]: ...
    def count(self, counters: Counters) -> None: ...
    def stuck(self, seconds: float) -> list[tuple[float, str]]: ...
    def in_flight(self) -> list[dict[str, Any]]: ...


class NoHandlerThreads:
    """Nothing is beside the server."""

    connections = 0
    requests = 0

    def share(self, server: Any, application: Application, tls: bool) -> Application:
        return application

    def control(self, server: Any, listener: Listener, sock: socket, tls: bool) -> AcceptControl:
        return Acceptor(listener, sock.fileno())

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def limit_requests(self, quota: Quota) -> None: ...
    def close_connections(self, all_of_them: bool) -> None: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...
    def count(self, counters: Counters) -> None: ...

    def census(self) -> dict[str, int]:
        return {}

    def figures(self) -> dict[str, int]:
        return {}

    def stuck(self, seconds: float) -> list[tuple[float, str]]:
        return []

    def in_flight(self) -> list[dict[str, Any]]:
        return []
