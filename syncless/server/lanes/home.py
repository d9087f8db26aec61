"""Home: the lane of the loop that called `serve`. It has a listener for each socket, and accepts on the
sockets that are not left to another lane."""

from __future__ import annotations

from syncless.http.acceptor import Acceptor, begin_stop, close_connections, close_rest, tell_streams
from syncless.http.listener import Listener, Quota
from syncless.server.lanes.lane import Lane, LaneOwner, Served, add_up


class Home(Lane):
    def __init__(self) -> None:
        self._served: list[Served] = []
        self.listeners: list[Listener] = []
        """Those that serve now, one for each socket."""
        self._before: dict[str, int] = {}
        """Counts of listeners that have ended."""
        self._acceptors: list[Acceptor] = []

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        self._served = served
        for each in served:
            each.listener = server.listener_for(each.application, each.sock.getsockname(), each.tls)
            self.listeners.append(each.listener)

    def start(self) -> None:
        for each in self._served:
            if not each.is_left:
                self._acceptors.append(Acceptor(each.listener, each.sock.fileno()))

    @property
    def connections(self) -> int:
        return sum(listener.connections for listener in self.listeners)

    @property
    def requests(self) -> int:
        return sum(listener.requests for listener in self.listeners)

    def limit_requests(self, quota: Quota) -> None:
        for listener in self.listeners:
            listener.quota = quota

    def pause(self) -> None:
        for acceptor in self._acceptors:
            acceptor.pause()

    def resume(self) -> None:
        for acceptor in self._acceptors:
            acceptor.resume()

    def stop(self) -> None:
        for listener in self.listeners:
            listener.stop()

    def begin_stop(self) -> None:
        begin_stop(self.listeners)

    def accept_rest(self) -> None:
        acceptors, self._acceptors = self._acceptors, []
        for acceptor in acceptors:
            acceptor.accept_rest()
            acceptor.close()

    def close_connections(self, all_of_them: bool) -> None:
        for listener in self.listeners:
            close_connections(listener, all_of_them)

    def tell_streams(self, at_last: bool) -> None:
        tell_streams(self.listeners, at_last)

    def close_rest(self) -> None:
        for listener in self.listeners:
            close_rest(listener)

    def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for listener in self.listeners:
            listener.close()
        self._before = self.figures()
        self._acceptors, self.listeners, self._served = [], [], []

    def leave_to_parent(self) -> None:
        self.close()

    def census(self) -> dict[str, int]:
        return add_up(listener.census() for listener in self.listeners)

    def figures(self) -> dict[str, int]:
        return add_up([self._before, *(listener.figures() for listener in self.listeners)])
