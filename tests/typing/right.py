"""Uses of the public types that mypy (strict) and pyright must accept; never run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import syncless
from syncless.wsgi import Limits, Server, serve


def length(text: str, extra: int = 0) -> int:
    return len(text) + extra


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b""]


def tasklets() -> None:
    counted: syncless.Tasklet[int] = syncless.spawn(length, "four", extra=1)
    number: int = counted.result()
    anything: syncless.Tasklet[object] = counted
    several: list[syncless.Tasklet[Any]] = [counted, *syncless.tasklets()]
    counted.link(lambda tasklet: print(tasklet.result().bit_length()))
    print(number, anything, several, counted.kill(), syncless.join_all([counted], timeout=1))


def groups() -> None:
    with syncless.TaskGroup() as group:
        child = group.spawn(length, "four")
    number: int = child.result() + syncless.Pool(3).spawn(length, "four").result()
    numbers: list[int] = syncless.Pool(3).map(length, ["a", "b"])
    print(number, numbers, syncless.run_in_thread(length, "four").bit_length())


def queues() -> None:
    queue: syncless.Queue[str] = syncless.Queue(10)
    queue.put("text")
    print(queue.get(timeout=1).upper(), syncless.PriorityQueue[int]().get_nowait() + 1)
    channel = syncless.Channel[int]()
    channel.send(3)
    print(sum(channel), channel.receive() + 1)
    result: syncless.AsyncResult[int] = syncless.AsyncResult()
    result.set(3)
    print(result.get() + 1)
    index, value = syncless.select([queue, syncless.sending(channel, 1), syncless.putting(queue, "a")])
    print(index, value)


def time() -> None:
    with syncless.Timeout(5, False), syncless.deadline(3.5):
        syncless.sleep()


def servers() -> None:
    serve(wsgi, port=8000, head_seconds=5, access_log=True, workers=2, patch={"sqlite3": False})
    serve("module:app", "127.0.0.1", bind=["[::]:80"], limits=Limits(requests=3), trusted=["unix"])
    with Server(wsgi, port=0, requests=100) as server:
        print(server.url)
