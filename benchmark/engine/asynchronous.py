"""asyncio, by itself and on uvloop: the same operations, as coroutines."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmark.engine.measuring import resident


async def nothing(*_: Any) -> None:
    pass


async def alone(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def among(n: int) -> None:
    await asyncio.gather(*(asyncio.create_task(alone(n // 100)) for _ in range(100)))


async def one_at_a_time(n: int) -> None:
    for _ in range(n):
        await asyncio.create_task(nothing())


async def many(n: int) -> None:
    for _ in range(max(1, n // 10_000)):
        for task in [asyncio.create_task(nothing()) for _ in range(10_000)]:
            await task


async def event(n: int) -> None:
    here, there = asyncio.Event(), asyncio.Event()

    async def other() -> None:
        for _ in range(n):
            await there.wait()
            there.clear()
            here.set()

    task = asyncio.create_task(other())
    for _ in range(n):
        there.set()
        await here.wait()
        here.clear()
    await task


async def switch(n: int) -> None:
    lock = asyncio.Lock()

    async def contend() -> None:
        for _ in range(n // 2):
            async with lock:
                await asyncio.sleep(0)

    await asyncio.gather(contend(), contend())


def queue(size: int) -> Callable[[int], Awaitable[None]]:
    async def run(n: int) -> None:
        items: asyncio.Queue[int] = asyncio.Queue(size)

        async def produce() -> None:
            for number in range(n):
                await items.put(number)

        task = asyncio.create_task(produce())
        for number in range(n):
            assert await items.get() == number
        await task

    return run


async def timeout(n: int) -> None:
    for _ in range(n):
        async with asyncio.timeout(10):  # type: ignore[attr-defined]
            pass


async def pool(n: int) -> None:
    room = asyncio.Semaphore(10)

    async def work(number: int) -> None:
        async with room:
            await nothing(number)

    await asyncio.gather(*(work(number) for number in range(n)))


async def select(n: int) -> None:
    here, there, never = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first(*events: asyncio.Event) -> None:
        tasks = [asyncio.create_task(each.wait()) for each in events]
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def other() -> None:
        for _ in range(n):
            await first(there, never)
            there.clear()
            here.set()

    task = asyncio.create_task(other())
    for _ in range(n):
        there.set()
        await first(never, here)
        here.clear()
    await task


async def timers(n: int) -> None:
    await asyncio.gather(*(asyncio.sleep(number % 1000 / 10_000) for number in range(n)))


async def ping_pong(n: int) -> None:
    loop = asyncio.get_running_loop()
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)

    async def echo() -> None:
        for _ in range(n):
            await loop.sock_sendall(b, await loop.sock_recv(b, 10))

    task = asyncio.create_task(echo())
    for _ in range(n):
        await loop.sock_sendall(a, b"x")
        await loop.sock_recv(a, 10)
    await task
    a.close()
    b.close()


OPERATIONS: dict[str, tuple[Callable[[int], Awaitable[None]], int]] = {
    "yield alone": (alone, 200_000),
    "yield": (among, 200_000),
    "spawn": (one_at_a_time, 50_000),
    "spawn many": (many, 50_000),
    "event": (event, 50_000),
    "switch": (switch, 100_000),
    "queue 1": (queue(1), 50_000),
    "queue 100": (queue(100), 100_000),
    "timeout": (timeout, 100_000),
    "pool": (pool, 50_000),
    "select": (select, 20_000),
    "timers": (timers, 100_000),
    "ping-pong": (ping_pong, 30_000),
}
if sys.version_info < (3, 11):
    del OPERATIONS["timeout"]


async def measure(divisor: int) -> dict[str, float]:
    found = {}
    for name, (function, n) in OPERATIONS.items():
        n = max(1000, n // divisor)
        best = float("inf")
        for _ in range(3):
            started = time.process_time_ns()
            await function(n)
            best = min(best, (time.process_time_ns() - started) / n)
        found[name] = best
    return found


async def memory(count: int) -> float:
    async def sleeper() -> None:
        await asyncio.sleep(3600)

    before = resident()
    tasks = [asyncio.create_task(sleeper()) for _ in range(count)]
    await asyncio.sleep(0.1)
    used = (resident() - before) / count
    assert len(tasks) == count
    for task in tasks:
        task.cancel()
    await asyncio.sleep(0)
    return used


def new_event_loop(library: str) -> asyncio.AbstractEventLoop:
    """asyncio's, or uvloop's."""
    if library == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def run(library: str, what: str, divisor: int) -> dict[str, float]:
    loop = new_event_loop(library)
    if what == "time":
        return loop.run_until_complete(measure(divisor))
    if what == "schedule":
        return {}
    return {what: loop.run_until_complete(memory((10_000 if what == "memory 10k" else 100_000) // divisor))}
