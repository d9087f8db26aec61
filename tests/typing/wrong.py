"""Mistakes that mypy (strict) and pyright must find: on each line with the comment, and nowhere else."""

from __future__ import annotations

import syncless
from syncless.wsgi import Server, serve


def length(text: str) -> int:
    return len(text)


def tasklets() -> None:
    syncless.spawn(length, 4)  # mistake
    syncless.spawn(length)  # mistake
    syncless.spawn(length, "a", more=1)  # mistake
    text: str = syncless.spawn(length, "a").result()  # mistake
    syncless.spawn(length("a"))  # mistake
    print(text, syncless.current().name)  # mistake


def groups() -> None:
    with syncless.TaskGroup() as group:
        group.spawn(length, 4)  # mistake
    syncless.run_in_thread(length, 4)  # mistake
    text: str = syncless.Pool(3).apply(length, "a")  # mistake
    print(text)


def queues() -> None:
    queue: syncless.Queue[str] = syncless.Queue(10)
    queue.put(4)  # mistake
    queue.get() + 1  # mistake
    channel: syncless.Channel[int] = syncless.Channel()
    channel.send("a")  # mistake
    result: syncless.AsyncResult[int] = syncless.AsyncResult()
    result.set("a")  # mistake
    syncless.putting(queue, 3).more  # mistake
    syncless.sleep("1")  # mistake
    syncless.Lock().acquire(timeout="1")  # mistake


def servers() -> None:
    serve("module:app", prot=8000)  # mistake
    serve("module:app", head_seconds="5")  # mistake
    serve("module:app", hed_seconds=5)  # mistake
    serve("module:app", workers="2")  # mistake
    Server("module:app", head_secs=3)  # mistake
