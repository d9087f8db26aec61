"""The transport of datagrams: the standard library's, without two of its faults.

Takes a socket and a protocol. Next to read: eventloop.py, which makes it.
"""

from __future__ import annotations

from asyncio import selector_events
from typing import Any

from syncless.asyncio.reports import logger

_SelectorDatagramTransport: Any = selector_events._SelectorDatagramTransport  # type: ignore[attr-defined]


class _NoName(str):
    """The name of a connected peer that has none, such as the other end of a socketpair. The base takes an
    empty one for a peer that is missing, and then sends to the address None."""

    def __bool__(self) -> bool:
        return True


class DatagramTransport(_SelectorDatagramTransport):  # type: ignore[misc]
    """Made by create_datagram_endpoint()."""

    def __init__(self, loop: Any, sock: Any, *args: Any, **settings: Any) -> None:
        super().__init__(loop, sock, *args, **settings)
        if self._extra["peername"] == "":
            self._extra["peername"] = _NoName()

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Sends the datagram to the address, or to the peer of a connected endpoint. Never waits."""
        if self._sock is None:  # connection_lost() was called; the base looks for that in connected ones only
            logger.warning("socket.send() raised exception.")
        else:
            super().sendto(data, addr)
