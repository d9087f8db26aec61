"""An event loop by itself: CPU time of each operation in asyncio's own loop, uvloop and ours.

``python -m benchmark.asyncio LIBRARY time DIVISOR`` prints CPU nanoseconds per operation, client and server
of an echo together. The echo programs have the shape of uvloop's: one connection, 1 KiB there and back.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable

MESSAGE = b"x" * 1024
LIBRARIES = ["asyncio", "uvloop", "syncless"]


def new_event_loop(library: str) -> asyncio.AbstractEventLoop:
    if library == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    if library == "syncless":
        from syncless.asyncio import EventLoop

        return EventLoop()
    return asyncio.SelectorEventLoop()


async def call_soon(count: int) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def again(left: int) -> None:
        if left:
            loop.call_soon(again, left - 1)
        else:
            done.set_result(None)

    again(count)
    await done


async def call_later(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        loop.call_later(60, print).cancel()


async def sleep_0(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def read_exactly(sock: socket.socket) -> None:
    left = len(MESSAGE)
    while left:
        left -= len(await asyncio.get_running_loop().sock_recv(sock, left))


async def by_sock_recv(count: int) -> None:
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)

    async def echo() -> None:
        while data := await loop.sock_recv(far, 65536):
            await loop.sock_sendall(far, data)

    answering = asyncio.ensure_future(echo())
    for _ in range(count):
        await loop.sock_sendall(near, MESSAGE)
        await read_exactly(near)
    near.close()
    await answering
    far.close()


async def ask(port: int, count: int) -> None:
    """Streams as the client of all echo servers: only the server differs."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        writer.write(MESSAGE)
        await reader.readexactly(len(MESSAGE))
    writer.close()
    await writer.wait_closed()


async def by_streams(count: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        await ask(server.sockets[0].getsockname()[1], count)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class BufferedEcho(asyncio.BufferedProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = bytearray(65536)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])  # type: ignore[attr-defined]


def by_protocol(protocol: type[asyncio.BaseProtocol]) -> Callable[[int], Awaitable[None]]:
    async def run(count: int) -> None:
        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        await ask(server.sockets[0].getsockname()[1], count)
        server.close()

    return run


OPERATIONS: dict[str, tuple[Callable[[int], Awaitable[None]], int]] = {
    "call_soon": (call_soon, 200_000),
    "call_later and cancel": (call_later, 100_000),
    "sleep(0)": (sleep_0, 200_000),
    "echo, sock_recv": (by_sock_recv, 20_000),
    "echo, streams": (by_streams, 10_000),
    "echo, protocol": (by_protocol(Echo), 10_000),
    "echo, buffered protocol": (by_protocol(BufferedEcho), 10_000),
}


def main() -> None:
    library, _, divisor = sys.argv[1:]
    found = {}
    for name, (function, whole) in OPERATIONS.items():
        count = max(500, whole // int(divisor))
        best = float("inf")
        for _ in range(3):
            loop = new_event_loop(library)
            started = time.process_time_ns()
            loop.run_until_complete(function(count))
            best = min(best, (time.process_time_ns() - started) / count)
            loop.close()
        found[name] = best
    print(json.dumps(found))


if __name__ == "__main__":
    main()
