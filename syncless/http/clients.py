"""Clients: how many connections each client of a listener has, where Limits.client_connections bounds them.

A client is an IPv4 address, or an IPv6 network of 64 bits, because it has all addresses of that.
"""

from __future__ import annotations

from ipaddress import IPv6Address


class Clients:
    """Clients(client_connections): counts connections as they come and go."""

    def __init__(self, client_connections: int):
        self.client_connections = client_connections
        self._connections: dict[str | int, int] = {}

    def enter(self, address: str) -> bool:
        """Count another connection of that client, unless the limit refuses it. Whether it may stay."""
        client = _client(address)
        number = self._connections.get(client, 0)
        if number >= self.client_connections:
            return False
        self._connections[client] = number + 1
        return True

    def leave(self, address: str) -> None:
        client = _client(address)
        number = self._connections.get(client, 1) - 1
        if number:
            self._connections[client] = number
        else:
            self._connections.pop(client, None)

    def __len__(self) -> int:
        """Return the number of clients that have a connection."""
        return len(self._connections)


def _client(address: str) -> str | int:
    return int(IPv6Address(address.partition("%")[0])) >> 64 if ":" in address else address
