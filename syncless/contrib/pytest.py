"""Parts of the pytest plugin, pytest_syncless.py beside this package: servers for tests, tests in tasklets,
and tests under many schedules."""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from syncless._core.tasklet import spawn
from syncless._core.wait.sync import Event
from syncless.patches import patch_all
from syncless.testing import advance, network, virtual_time
from syncless.testing.search import Run, Search, schedules
from syncless.testing.virtualtime import clocks_replaced
from syncless.wsgi import Server

__all__ = [
    "Served",
    "Servers",
    "advance",
    "in_a_tasklet",
    "network",
    "patch_all",
    "run_schedules",
    "virtual_time",
]


class Served:
    """An application that is served in its own thread, with its own loop, so that the test may block. Under
    the patch that thread is a tasklet."""

    def __init__(self, application: Any, **options: Any):
        self.expects_errors = False
        """Whether the application may raise: the test looks at `errors` then."""
        self._log = io.StringIO()
        self._begun = threading.Event()
        self._stop = Event()
        self._failure: BaseException | None = None
        self._left = 0
        options = {"host": "127.0.0.1", "port": 0, "error_log": self._log, **options}
        self._thread = threading.Thread(target=self._run, args=(application, options), name="syncless_server")
        self._thread.start()
        self._begun.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def _run(self, application: Any, options: dict[str, Any]) -> None:
        try:
            server = Server(application, **options).start()
        except BaseException as error:
            self._failure = error
            self._begun.set()
            return
        self.url: str = server.url
        self.port: int = server.port
        self._begun.set()
        self._stop.wait()
        self._left = server.census()["active"]
        server.stop(0)

    @property
    def errors(self) -> str:
        """The error log so far."""
        return self._log.getvalue()

    def stop(self) -> None:
        """Interrupt requests that are still running. Raise AssertionError if there were any, or if one has
        failed."""
        self._stop.set()
        self._thread.join()
        assert not self._left, f"requests were still running when the test ended: {self._left}"
        assert self.expects_errors or not self.errors, f"the application failed:\n{self.errors}"


class Servers:
    """The servers of a test, which stop at its end."""

    def __init__(self) -> None:
        self._served: list[Served] = []

    def serve(self, application: Any, **options: Any) -> Served:
        self._served.append(Served(application, **options))
        return self._served[-1]

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *error: object) -> None:
        failures = []
        for served in reversed(self._served):
            try:
                served.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, "\n".join(failures)


@contextmanager
def in_a_tasklet(item: Any) -> Iterator[None]:
    """Make pytest run the test in its own tasklet inside the block."""
    original = item.runtest

    def run() -> None:
        __tracebackhide__ = True
        raised: list[BaseException] = []

        def body() -> None:
            try:
                original()
            except BaseException as error:  # also pytest's own, by which a test is skipped
                raised.append(error)

        tasklet = spawn(body)
        tasklet.name = item.name
        try:
            tasklet.join()
        except BaseException:  # Ctrl-C
            tasklet.kill()
            raise
        if raised:
            raise raised[0]

    item.runtest = run
    try:
        yield
    finally:
        del item.runtest


class _Attempts:
    """Runs of a test, each with its fixtures made anew."""

    def __init__(self, item: Any):
        self._item = item
        self.reports: list[Any] = []
        """Of the last run."""

    def __call__(self, run: Run) -> bool:
        """Return whether the test itself failed."""
        original = self._item.runtest
        self._item.runtest = lambda: _run(run, original)
        try:
            # its collector is what all runs have in common, so its fixtures of wider scope stay
            self.reports = runtestprotocol(self._item, nextitem=self._item.parent, log=False)
        finally:
            del self._item.runtest
        return any(report.when == "call" and report.failed for report in self.reports)


def _run(run: Run, test: Any) -> None:
    __tracebackhide__ = True
    run.call(test)


def run_schedules(item: Any, nextitem: Any, count: int, seed: str | None) -> None:
    """Run the test under `count` schedules until it fails, or only under that of the seed, and report one
    run."""
    patch_all()
    if hasattr(getattr(item, "obj", None), "hypothesis"):
        _run_examples(item, nextitem, count, seed)
    else:
        _run_schedules(item, nextitem, count, seed)


def _run_examples(item: Any, nextitem: Any, count: int, seed: str | None) -> None:
    """Run a test of Hypothesis, which draws one of `count` seeds with each example, and shrinks it, too."""
    from hypothesis import strategies
    from hypothesis.control import current_build_context

    test = item.obj.hypothesis
    original, seeds = test.inner_test, strategies.integers(0, count - 1)

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        drawn = current_build_context().data.draw(seeds) if seed is None else seed
        schedules(1, seed=drawn)(original)(*args, **kwargs)

    test.inner_test = run
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        runtestprotocol(item, nextitem=nextitem)
    finally:
        test.inner_test = original
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _run_schedules(item: Any, nextitem: Any, count: int, seed: str | None) -> None:
    attempts = _Attempts(item)
    search = Search(attempts, count, seed)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with clocks_replaced():
        failed = search.find(shortens=not item.config.getoption("usepdb", False))
    ended = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")
    if ended.excinfo is not None:
        attempts.reports.append(item.ihook.pytest_runtest_makereport(item=item, call=ended))
    for report in attempts.reports:
        if failed and report.when == "call":
            report.sections.append(("schedule", search.report()))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
