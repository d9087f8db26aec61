"""Pool: a bounded number of tasklets at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from syncless._core.current import current
from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.queues import Queue
from syncless._core.wait.sync import Lock, Semaphore
from syncless.tools.waiting import join_all

P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    """Runs functions in at most `size` tasklets at a time. spawn() and the other methods wait while the pool
    is full."""

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        self.size = size
        self._room = Semaphore(size)
        self._tasklets: dict[Tasklet[Any], None] = {}

    def spawn(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Tasklet[T]:
        """Call function(*args, **kwargs) in a tasklet of the pool. Wait while the pool is full."""
        self._room.acquire()
        try:
            tasklet = spawn(function, *args, **kwargs)
        except BaseException:
            self._room.release()
            raise
        self._tasklets[tasklet] = None
        tasklet.add_done_callback(self._ended)
        return tasklet

    apply_async = spawn

    def _ended(self, tasklet: Tasklet[Any]) -> None:
        self._tasklets.pop(tasklet, None)
        self._room.release()

    def apply(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call function(*args, **kwargs) in a tasklet of the pool, and return its result or raise its
        exception."""
        return self.spawn(function, *args, **kwargs).result()  # type: ignore[no-any-return]

    def map(self, function: Callable[..., T], *iterables: Iterable[Any]) -> list[T]:
        """Return [function(item), ...] in the order of the items. The first exception ends the other calls
        and is raised."""
        return self.starmap(function, zip(*iterables, strict=False))

    def starmap(self, function: Callable[..., T], arguments: Iterable[Iterable[Any]]) -> list[T]:
        """Return [function(*each), ...] in the order of the arguments. The first exception ends the other
        calls and is raised."""
        todo = list(arguments)
        results: list[Any] = [None] * len(todo)
        numbered = iter(enumerate(todo))

        def work() -> None:
            for number, each in numbered:
                results[number] = function(*each)

        self._work(work, len(todo))
        return results

    def _work(self, work: Callable[[], None], items: int) -> None:
        """Call work() in as many tasklets as the pool and the items allow, until all have ended."""
        failed: list[BaseException] = []

        def quietly() -> None:
            try:
                work()
            except TaskletExit:
                raise
            except BaseException as error:
                failed.append(error)
                stop()

        def stop() -> None:
            while workers:  # each is told once: it may be cleaning up
                worker = workers.pop()
                told.append(worker)
                if worker is not current():
                    worker.kill(block=False)

        workers: list[Tasklet[Any]] = []
        told: list[Tasklet[Any]] = []
        try:
            while len(workers) < min(items, self.size) and not failed:
                workers.append(self.spawn(quietly))
            if not failed:
                join_all(list(workers))
        finally:
            stop()
            join_all(told)
        if failed:
            raise failed[0]

    def imap(self, function: Callable[..., T], *iterables: Iterable[Any]) -> Iterator[T]:
        """Yield the results of map() one by one, in order, while later results are computed."""
        waiting: dict[int, T] = {}
        wanted = 0
        for number, value in self._each(function, iterables):
            waiting[number] = value
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted += 1

    def imap_unordered(self, function: Callable[..., T], *iterables: Iterable[Any]) -> Iterator[T]:
        """Yield the results of imap() as soon as each is ready, in any order."""
        for _, value in self._each(function, iterables):
            yield value

    def _each(
        self, function: Callable[..., T], iterables: tuple[Iterable[Any], ...]
    ) -> Iterator[tuple[int, T]]:
        made: Queue[Any] = Queue(self.size)
        arguments = zip(*iterables, strict=False)

        def feed() -> None:
            numbered = enumerate(arguments)
            turn = Lock()  # an iterator that waits for its next item must not be asked by another worker

            def work() -> None:
                while True:
                    with turn:
                        try:
                            number, each = next(numbered)
                        except StopIteration:
                            return
                    made.put((number, function(*each), None))

            try:
                self._work(work, self.size)
                made.put(None)
            except TaskletExit:
                raise
            except BaseException as error:
                made.put((0, None, error))

        feeder = spawn(feed)
        try:
            while (item := made.get()) is not None:
                number, value, error = item
                if error is not None:
                    raise error
                yield number, value
        finally:
            feeder.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all running tasklets have ended, for at most `timeout` seconds. Return whether they
        have."""
        running = list(self._tasklets)
        return len(join_all(running, timeout)) == len(running)

    def kill(self) -> None:
        """Kill all running tasklets."""
        for tasklet in list(self._tasklets):
            tasklet.kill()

    def free_count(self) -> int:
        """Return how many more tasklets fit into the pool."""
        return self._room.value

    def __len__(self) -> int:
        return len(self._tasklets)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Pool size={self.size} running={len(self)}>"
