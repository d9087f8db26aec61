"""Parts of the pytest plugin, pytest_syncless.py beside this package: servers for tests, and tests in
tasklets."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from syncless._core.tasklet import spawn
from syncless._core.wait.sync import Event
from syncless.patches import patch_all
from syncless.wsgi import Server

__all__ = ["Served", "Servers", "in_a_tasklet", "patch_all"]


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
