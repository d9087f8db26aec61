"""Libraries whose calls wait by themselves: syncless, gevent, eventlet, and OS threads."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmark.engine import THREADS
from benchmark.engine.measuring import cpu_per_operation, resident


def nothing(*_: Any) -> None:
    pass


class Syncless:
    sleepers = 100_000

    def __init__(self) -> None:
        import syncless
        from syncless.io import socket

        self.sleep, self.spawn, self.socketpair = syncless.sleep, syncless.spawn, socket.socketpair
        self.join = syncless.Tasklet.join
        self.Event, self.Queue, self.Lock, self.Channel = (
            syncless.Event,
            syncless.Queue,
            syncless.Lock,
            syncless.Channel,
        )
        self.Timeout, self.select = syncless.Timeout, syncless.select

    def pool_map(self, items: range) -> None:
        import syncless

        syncless.Pool(10).map(nothing, items)

    def pool_spawn(self, items: range) -> None:
        import syncless

        pool = syncless.Pool(100)
        for item in items:
            pool.spawn(nothing, item)
        pool.join()

    def schedule(self, n: int) -> None:
        from syncless import stackless

        def turn() -> None:
            for _ in range(n // 2):
                stackless.schedule()

        for _ in range(2):
            stackless.tasklet(turn)()
        stackless.run()


class Gevent:
    sleepers = 100_000

    def __init__(self) -> None:
        gevent = importlib.import_module("gevent")
        for part in ("event", "lock", "queue", "socket", "pool"):
            importlib.import_module(f"gevent.{part}")
        self.sleep, self.spawn, self.socketpair = gevent.sleep, gevent.spawn, gevent.socket.socketpair
        self.join = gevent.Greenlet.join
        self.Event, self.Queue, self.Lock = (
            gevent.event.Event,
            gevent.queue.Queue,
            gevent.lock.BoundedSemaphore,
        )
        self.Timeout, self.wait, self.Pool = gevent.Timeout, gevent.wait, gevent.pool.Pool
        queue = gevent.queue.Channel

        class Channel(queue):  # type: ignore[misc, valid-type]
            send, receive = queue.put, queue.get

        self.Channel = Channel

    def select(self, events: list[Any]) -> None:
        self.wait(events, count=1)

    def pool_map(self, items: range) -> None:
        self.Pool(10).map(nothing, items)

    def pool_spawn(self, items: range) -> None:
        pool = self.Pool(100)
        for item in items:
            pool.spawn(nothing, item)
        pool.join()


class GeventOnOurLoop(Gevent):
    def __init__(self) -> None:
        importlib.import_module("syncless.contrib.gevent").install()
        super().__init__()


class Eventlet:
    sleepers = 100_000
    package = "eventlet"

    def __init__(self) -> None:
        eventlet = importlib.import_module(self.package)
        for part in ("queue", "semaphore", "green.socket"):
            importlib.import_module(f"{self.package}.{part}")
        self.sleep, self.socketpair = eventlet.sleep, eventlet.green.socket.socketpair
        self.spawn, self.join = eventlet.spawn, eventlet.greenthread.GreenThread.wait
        self.Queue, self.Lock, self.Timeout, self.GreenPool = (
            eventlet.queue.Queue,
            eventlet.semaphore.Semaphore,
            eventlet.Timeout,
            eventlet.GreenPool,
        )

    def pool_map(self, items: range) -> None:
        for _ in self.GreenPool(10).imap(nothing, items):
            pass

    def pool_spawn(self, items: range) -> None:
        pool = self.GreenPool(100)
        for item in items:
            pool.spawn(nothing, item)
        pool.waitall()


class OurEventlet(Eventlet):
    package = "syncless.eventlet"


class Threads:
    sleepers = THREADS

    def __init__(self) -> None:
        import multiprocessing.pool
        import queue
        import socket
        import threading
        import time

        self.sleep, self.socketpair = time.sleep, socket.socketpair
        self.Event, self.Queue, self.Lock = threading.Event, queue.Queue, threading.Lock
        self.ThreadPool, self.join = multiprocessing.pool.ThreadPool, threading.Thread.join

        def spawn(function: Callable[..., Any], *args: Any) -> threading.Thread:
            thread = threading.Thread(target=function, args=args, daemon=True)
            thread.start()
            return thread

        self.spawn = spawn

    def pool_map(self, items: range) -> None:
        with self.ThreadPool(10) as pool:
            pool.map(nothing, items, 1)


def operations(library: Any) -> dict[str, tuple[Callable[[int], object], int]]:
    """Name -> (what does n of them, how many); those that the library has."""
    sleep, spawn, join = library.sleep, library.spawn, library.join

    def alone(n: int) -> None:
        for _ in range(n):
            sleep(0)

    def among(n: int) -> None:
        for tasklet in [spawn(alone, n // 100) for _ in range(100)]:
            join(tasklet)

    def one_at_a_time(n: int) -> None:
        for _ in range(n):
            join(spawn(nothing))

    def many(n: int) -> None:
        for _ in range(max(1, n // 10_000)):
            for tasklet in [spawn(nothing) for _ in range(10_000)]:
                join(tasklet)

    def event(n: int) -> None:
        here, there = library.Event(), library.Event()

        def other() -> None:
            for _ in range(n):
                there.wait()
                there.clear()
                here.set()

        tasklet = spawn(other)
        for _ in range(n):
            there.set()
            here.wait()
            here.clear()
        join(tasklet)

    def ping_pong(n: int) -> None:
        a, b = library.socketpair()

        def echo() -> None:
            for _ in range(n):
                b.sendall(b.recv(10))

        tasklet = spawn(echo)
        for _ in range(n):
            a.sendall(b"x")
            a.recv(10)
        join(tasklet)
        a.close()
        b.close()

    def switch(n: int) -> None:
        lock = library.Lock()

        def contend() -> None:
            for _ in range(n // 2):
                lock.acquire()
                sleep(0)
                lock.release()

        for tasklet in [spawn(contend), spawn(contend)]:
            join(tasklet)

    def queue(size: int) -> Callable[[int], None]:
        def run(n: int) -> None:
            items = library.Queue(size)

            def produce() -> None:
                for number in range(n):
                    items.put(number)

            tasklet = spawn(produce)
            for number in range(n):
                assert items.get() == number
            join(tasklet)

        return run

    def channel(n: int) -> None:
        line = library.Channel()

        def produce() -> None:
            for number in range(n):
                line.send(number)

        tasklet = spawn(produce)
        for number in range(n):
            assert line.receive() == number
        join(tasklet)

    def timeout(n: int) -> None:
        for _ in range(n):
            with library.Timeout(10):
                pass

    def select(n: int) -> None:
        here, there, never = library.Event(), library.Event(), library.Event()

        def other() -> None:
            for _ in range(n):
                library.select([there, never])
                there.clear()
                here.set()

        tasklet = spawn(other)
        for _ in range(n):
            there.set()
            library.select([never, here])
            here.clear()
        join(tasklet)

    def timers(n: int) -> None:
        for tasklet in [spawn(sleep, number % 1000 / 10_000) for number in range(n)]:
            join(tasklet)

    found: dict[str, tuple[Callable[[int], object], int]] = {
        "yield alone": (alone, 200_000),
        "yield": (among, 200_000),
        "spawn": (one_at_a_time, 50_000),
        "spawn many": (many, 50_000),
        "switch": (switch, 100_000),
        "queue 1": (queue(1), 50_000),
        "queue 100": (queue(100), 100_000),
        "pool": (lambda n: library.pool_map(range(n)), 50_000),
        "timers": (timers, library.sleepers),
        "ping-pong": (ping_pong, 30_000),
    }
    if hasattr(library, "pool_spawn"):
        found["pool spawn"] = lambda n: library.pool_spawn(range(n)), 50_000
    if hasattr(library, "Event"):
        found["event"] = event, 50_000
    if hasattr(library, "Channel"):
        found["channel"] = channel, 100_000
    if hasattr(library, "Timeout"):
        found["timeout"] = timeout, 100_000
    if hasattr(library, "select"):
        found["select"] = select, 30_000
    if isinstance(library, Threads):
        del found["spawn many"]
    return found


def memory(library: Any, count: int) -> float:
    """Bytes of resident memory per tasklet that sleeps in a Python function."""

    def sleeper() -> None:
        library.sleep(3600)

    before = resident()
    tasklets = [library.spawn(sleeper) for _ in range(count)]
    library.join(library.spawn(nothing))  # they start in the order of their spawning: now all of them sleep
    library.sleep(0.1)
    used = (resident() - before) / count
    assert len(tasklets) == count
    return used


def run(library: Any, what: str, divisor: int) -> dict[str, float]:
    if what == "time":
        return {
            name: cpu_per_operation(function, max(1000, n // divisor))
            for name, (function, n) in operations(library).items()
        }
    if what == "schedule":  # in a process of its own, as what it is held against
        return (
            {what: cpu_per_operation(library.schedule, 400_000 // divisor)} if hasattr(library, what) else {}
        )
    most = library.sleepers
    count = min(most, 10_000) if what == "memory 10k" else most
    return {what: memory(library, count // divisor)} if what == "memory 10k" or most > 10_000 else {}
