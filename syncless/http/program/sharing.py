"""The listening sockets of a master, as its workers share them.

They belong to the master, so connections that wait in a backlog survive every worker. With reuse_port each
slot has sockets of its own, among which the system spreads connections.
"""

from __future__ import annotations

import select

from syncless.http.program.slot import Slot
from syncless.http.sockets import Opened, Sockets


class SharedSockets:
    """SharedSockets(sockets, reuse_port)."""

    def __init__(self, sockets: Sockets, reuse_port: bool):
        self._sockets = sockets
        self._reuse_port = reuse_port
        self.shared: Opened = []
        self._slots: dict[Slot, Opened] = {}

    def open(self) -> None:
        """OSError if it cannot listen."""
        self.shared = self._sockets.open()

    def of(self, slot: Slot) -> Opened:
        """The sockets of a slot, which stay those of its workers. With reuse_port the first slot has those
        that were opened first."""
        if slot not in self._slots:
            shares = not self._reuse_port or not self._slots
            self._slots[slot] = self.shared if shares else self._open_again()
        return self._slots[slot]

    def _open_again(self) -> Opened:
        return [(self._sockets.open_again(sock), tls) for sock, tls in self.shared]

    def all(self) -> Opened:
        """Each once."""
        pairs = [*self.shared, *(pair for opened in self._slots.values() for pair in opened)]
        return list({id(sock): (sock, tls) for sock, tls in pairs}.values())

    def begin_no_more(self) -> None:
        """New clients find nobody, while those that are connected already can still be accepted."""
        self._sockets.begin_no_more(self.all())

    def have_waiting(self) -> bool:
        """Whether a connection waits to be accepted."""
        return bool(select.select([sock for sock, _ in self.all()], [], [], 0)[0])

    def forget(self, slot: Slot) -> None:
        """The slot is no more: nobody new finds its own sockets, and its worker accepts what waits in them
        before it ends."""
        shared = {id(sock) for sock, _ in self.shared}
        own = [(sock, tls) for sock, tls in self._slots.pop(slot, []) if id(sock) not in shared]
        self._sockets.begin_no_more(own)
        for sock, _ in own:
            sock.close()

    def close(self) -> None:
        """New clients are refused."""
        self._sockets.close(self.all())
        self.shared = []
        self._slots.clear()
