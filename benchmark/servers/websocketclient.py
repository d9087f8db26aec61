"""A WebSocket as its client: the handshake, and one message there and back."""

from __future__ import annotations

import base64
import os
import socket

PAYLOAD = bytes(range(64))
MASK = b"\x01\x02\x03\x04"
FRAME = b"\x82\xc0" + MASK + bytes(byte ^ MASK[place % 4] for place, byte in enumerate(PAYLOAD))
ECHO = b"\x82\x40" + PAYLOAD


def connect(port: int) -> socket.socket:
    """A WebSocket that is open."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(4096)
        if not data:
            raise ConnectionError(f"the handshake was not answered: {head!r}")
        head += data
    if not head.startswith(b"HTTP/1.1 101"):
        raise AssertionError(f"wrong answer: {head.splitlines()[0]!r}")
    return client


def verify(port: int) -> None:
    """Two echoes on one connection."""
    with connect(port) as client:
        for _ in range(2):
            client.sendall(FRAME)
            answer = b""
            while len(answer) < len(ECHO) and (data := client.recv(4096)):
                answer += data
            if answer != ECHO:
                raise AssertionError(f"wrong answer: {answer[:100]!r}")
