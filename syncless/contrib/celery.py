"""Celery's tasks as tasklets::

    CELERY_CUSTOM_WORKER_POOL=syncless.contrib.celery:TaskPool celery -A app worker --pool custom -c 1000

Celery's worker receives messages, acknowledges and reports; its pool runs each task in a tasklet of this
process, with the standard library patched. A task is interrupted (by a time limit, or by a revoke that
terminates) only where it waits: a task that computes blocks all others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from billiard.einfo import ExceptionInfo
from celery.concurrency.base import BasePool
from celery.exceptions import SoftTimeLimitExceeded

from syncless._core.current import current, sleep
from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.timeout import Timeout
from syncless._core.wait.sync import Event
from syncless.patches import patch_all

END_SECONDS = 5.0
"""For which a cold shutdown waits for tasks that it has interrupted."""


class Job:
    """A task on its way through the pool; Celery holds a weak reference to it."""

    def __init__(self, target: Callable[..., Any], args: Any, kwargs: Any, options: dict[str, Any]):
        self.call = (target, args, kwargs)
        self.options = options
        self.tasklet: Tasklet[Any] | None = None
        self.terminated = False

    def terminate(self, signal: int) -> None:
        """Do nothing: Celery also calls `TaskPool.terminate_job`."""

    def interrupt(self) -> None:
        """End the task where it waits. Celery gets no report."""
        self.terminated = True
        if self.tasklet is not None and self.tasklet is not current():
            self.tasklet.kill(block=False)

    def run(self) -> None:
        """Run the task in its tasklet."""
        get = self.options.get
        try:
            accepted = get("accept_callback")
            if accepted is not None:
                accepted(self.number, time.monotonic())
            if not self.terminated:
                self._run_within_limits(get("timeout"), get("soft_timeout"))
        except TaskletExit:
            if not self.terminated:
                raise

    @property
    def number(self) -> int:
        """The number that Celery uses as the process ID of the task."""
        assert self.tasklet is not None
        return self.tasklet.number

    def _run_within_limits(self, seconds: float | None, soft_seconds: float | None) -> None:
        hard = Timeout(seconds or None)
        soft = spawn(self._warn, soft_seconds) if soft_seconds else None
        try:
            with hard:
                self._run_target(soft)
        except Timeout as over:
            if over is not hard:
                raise
            self.options["timeout_callback"](False, seconds)

    def _warn(self, seconds: float) -> None:
        """Apply the soft limit: the task can still end by itself."""
        sleep(seconds)
        assert self.tasklet is not None
        self.options["timeout_callback"](True, seconds)
        self.tasklet.kill(SoftTimeLimitExceeded(seconds), block=False)

    def _run_target(self, soft: Tasklet[Any] | None) -> None:
        target, args, kwargs = self.call
        failed = False
        try:
            result = target(*args, **kwargs)
        except (Timeout, TaskletExit):
            raise
        except BaseException:  # SystemExit above all: Celery's tracer reports all others by itself
            failed = True
            result = ExceptionInfo()
        finally:
            if soft is not None:
                soft.kill(block=False)
        report = self.options.get("error_callback" if failed else "callback")
        if report is not None:
            report(result)


class TaskPool(BasePool):  # type: ignore[misc]
    """A pool that runs `limit` tasks at a time; further tasks wait until one has ended."""

    body_can_be_buffer = True
    signal_safe = False
    limit: int

    def __init__(self, *arguments: Any, **options: Any):
        patch_all(strict=True)
        super().__init__(*arguments, **options)
        self._waiting: deque[Job] = deque()
        self._running: dict[int, Job] = {}
        self._ended = Event()

    # -- tasks ----------------------------------------------------------------------------------------------

    def on_apply(self, target: Callable[..., Any], args: Any = (), kwargs: Any = None, **options: Any) -> Job:
        for name in ("timeout", "soft_timeout"):
            options[name] = options.get(name) or self.options.get(name)
        job = Job(target, args, kwargs or {}, options)
        self._waiting.append(job)
        self._start_waiting()
        return job

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self.limit:
            job = self._waiting.popleft()
            job.tasklet = spawn(job.run)
            job.tasklet.name = "task of Celery"
            self._running[job.number] = job
            job.tasklet.add_done_callback(self._end)

    def _end(self, tasklet: Tasklet[Any]) -> None:
        del self._running[tasklet.number]
        self._ended.set()
        self._start_waiting()

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        job = self._running.get(pid)
        if job is not None:
            job.interrupt()

    # -- the pool -------------------------------------------------------------------------------------------

    def grow(self, n: int = 1) -> None:
        self.limit += n
        self._start_waiting()

    def shrink(self, n: int = 1) -> None:
        self.limit = max(1, self.limit - n)

    def on_stop(self) -> None:
        """Shut down gracefully (Celery's warm shutdown): let all accepted tasks finish."""
        while self._running or self._waiting:
            self._ended.clear()
            self._ended.wait()

    def on_terminate(self) -> None:
        """Interrupt all tasks (Celery's cold shutdown), and allow a short time for their `finally` blocks."""
        self._waiting.clear()
        for job in list(self._running.values()):
            job.interrupt()
        with Timeout(END_SECONDS, False):
            while self._running:
                self._ended.clear()
                self._ended.wait()

    def _get_info(self) -> dict[str, Any]:
        return {**super()._get_info(), "running": len(self._running), "waiting": len(self._waiting)}
