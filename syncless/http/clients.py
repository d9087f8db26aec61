"""Counts the connections of each client of a listener, for Limits.client_connections.

A client is an IPv4 address or a /64 IPv6 network, because one client usually owns all addresses of such a
network.
"""

from __future__ import annotations

from ipaddress import IPv6Address


class Clients:
    """Clients(client_connections): counts connections as they come and go."""

    def __init__(self, client_connections: int):
        self.client_connections = client_connections
        self._connections: dict[str | int, int] = {}

    def enter(self, address: str) -> bool:
        """Count another connection of that client, unless the limit is reached. Return whether the connection
        may stay."""
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
        """Return the number of clients that have connections."""
        return len(self._connections)


def _client(address: str) -> str | int:
    return int(IPv6Address(address.partition("%")[0])) >> 64 if ":" in address else address
