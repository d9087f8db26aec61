"""Runs a status server: in the loop of a master, or in a thread alongside a single process.

The classes here provide the state of a master or a process (see `Program` in status/overview.py), and run the
status server. They do nothing if no status is configured.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless.apps.wsgi.middleware import page
from syncless.http.limits import Limits
from syncless.http.log.errorlog import process_log, warn
from syncless.http.log.notices import visible
from syncless.server.program.banner import counted
from syncless.server.program.slot import Slot, Worker
from syncless.server.server import Server
from syncless.server.status.metrics import Metrics
from syncless.server.status.options import StatusOptions
from syncless.server.status.overview import Process, Program
from syncless.server.status.reporter import TICK, Reporter
from syncless.server.status.scoreboard import Scoreboard, figures_of
from syncless.server.status.status import HEALTH_PATHS, StatusServer, health


def make_server(options: StatusOptions, scoreboard: Scoreboard, program: Program) -> StatusServer:
    metrics = Metrics(scoreboard) if options.shows_metrics else None
    return StatusServer(options, scoreboard, program, metrics)


def add_pages(
    server: Server, options: StatusOptions, scoreboard: Scoreboard, is_ready: Callable[[], bool]
) -> None:
    """Add the pages for the main addresses of the server: metrics, health."""
    if options.shows_metrics:
        server.exemplars = scoreboard.exemplars
    if options.path is not None:
        metrics = Metrics(scoreboard)
        server.pages[options.path] = page(lambda accept: ("200 OK", *metrics(accept)))
    if options.health_path is not None:
        for path, well in zip(HEALTH_PATHS, (lambda: True, is_ready), strict=True):
            server.pages[options.health_path + path] = page(_health_page(well))


def _health_page(well: Callable[[], bool]) -> Callable[[str], tuple[str, bytes, str]]:
    def answer(accept: str) -> tuple[str, bytes, str]:
        given = health(well())
        return f"{given.status} {HTTPStatus(given.status).phrase}", given.body, given.content_type

    return answer


LAST_REQUESTS = 5
"""Of a worker that has crashed, which the log names."""


class Reporting:
    """A worker's means to report: its row of the scoreboard, and the line on which the master queries it. It
    keeps no objects of its master."""

    def __init__(
        self,
        scoreboard: Scoreboard,
        row: int,
        theirs: socket.socket,
        ours: socket.socket,
        status: StatusServer,
        options: StatusOptions,
    ):
        self.scoreboard = scoreboard
        self.row = row
        self.theirs = theirs
        self.ours = ours
        self.status = status
        self.options = options
        self.reporter: Reporter | None = None

    def leave_to_parent(self) -> None:
        self.status.leave_to_parent()
        self.ours.close()

    def begin(self, server: Server) -> None:
        """Make a server that has not started yet report from now on."""
        add_pages(server, self.options, self.scoreboard, lambda: not self.scoreboard.is_stopping())
        self.reporter = Reporter(server, self.scoreboard.row(self.row))
        self.reporter.start(self.theirs.detach())

    def end(self) -> None:
        """Report the last figures."""
        if self.reporter is not None:
            self.reporter.write_figures()


class OfMaster:
    """The report of a master: OfMaster(options, rows, slots, leaving, limits, urls)."""

    def __init__(
        self,
        options: StatusOptions,
        rows: int,
        slots: list[Slot],
        leaving: list[Worker],
        limits: Limits,
        urls: Callable[[], list[str]],
    ):
        self.master: int | None = os.getpid()
        self.stops = False
        """It has been told to stop: it is not ready for more."""
        self.urls = urls
        self._slots = slots
        self._leaving = leaving
        self._limits = limits
        self._options = options
        self._scoreboard = Scoreboard(rows) if options else None
        self._server = make_server(options, self._scoreboard, self) if self._scoreboard else None

    def open(self) -> None:
        """Open the sockets. Raise OSError on failure."""
        if self._server is not None:
            self._server.open()
            if self._options.warning:
                warn(self._options.warning)

    def told_to_stop(self) -> None:
        """Report that the server is no longer ready."""
        if not self.stops and self._scoreboard is not None:
            self._scoreboard.add("stopping")
        self.stops = True

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def status_urls(self) -> list[str]:
        return self._server.urls if self._server is not None else []

    # -- the master's loop --------------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        """Return descriptors that are readable when step() has work."""
        return self._server.descriptors() if self._server is not None else []

    def pause(self, most: float) -> float:
        return min(most, self._server.pause()) if self._server is not None else most

    def step(self) -> None:
        """Do a step. An error here does not end the master."""
        if self._server is not None:
            try:
                self._server.step()
            except Exception as error:
                process_log().error("the status server failed:", error)

    # -- workers ------------------------------------------------------------------------------------------

    def prepare(self, clock: int) -> Reporting | None:
        """Prepare for a worker that is about to be forked. Raise OSError on failure."""
        if self._server is None or self._scoreboard is None:
            return None
        ours, theirs = socket.socketpair()
        self._scoreboard.begin(clock + 1)
        return Reporting(self._scoreboard, clock + 1, theirs, ours, self._server, self._options)

    def started(self, reporting: Reporting | None, pid: int) -> None:
        """Note that the worker has been forked; ``pid`` is -1 if the fork failed."""
        if reporting is None or self._server is None:
            return
        reporting.theirs.close()
        if pid < 0:
            reporting.ours.close()
            return
        reporting.scoreboard.add("started")
        self._server.listen_to(pid, reporting.ours.detach())

    def ask(self, worker: Worker) -> None:
        """Ask a worker that is going to be killed what it does."""
        if self._server is not None:
            self._server.ask(worker.pid)

    def ended(self, worker: Worker, crashed: bool) -> str:
        """Note that the worker has ended. If it crashed, return the requests in flight then, in words."""
        if self._server is None or self._scoreboard is None:
            return ""
        running = figures_of(self._scoreboard.row(worker.clock + 1))["running"]
        self._scoreboard.end(worker.clock + 1)
        known = self._server.forget(worker.pid)
        if not crashed:
            return ""
        self._scoreboard.add("crashed")
        return last_requests(running, known)

    def recycled(self) -> None:
        """Note that a worker that asked for a successor has one."""
        if self._scoreboard is not None:
            self._scoreboard.add("recycled")

    # -- contents ----------------------------------------------------------------------------------------

    def processes(self) -> Sequence[Process]:
        shown = []
        for number, slot in enumerate(self._slots, 1):
            for worker in slot.workers():
                state = "stopping" if self.stops else "ready" if worker.ready else "starting"
                shown.append(self._shown(worker, number, state))
        return shown + [self._shown(worker, 0, "stopping") for worker in self._leaving]

    @staticmethod
    def _shown(worker: Worker, number: int, state: str) -> Process:
        return Process(worker.pid, number, worker.clock + 1, state, worker.born, worker.last_beat())

    def is_live(self) -> bool:
        """Return True: the master responds, and supervises its workers itself."""
        return True

    def is_ready(self) -> bool:
        since = time.monotonic() - self._limits.worker_stuck_seconds
        workers = [slot.current for slot in self._slots if slot.current is not None]
        return not self.stops and any(worker.ready and worker.last_beat() > since for worker in workers)


def last_requests(running: int, known: list[dict[str, Any]]) -> str:
    """Return how many requests were in flight when a worker ended, and those of its last report, in words."""
    if not running and not known:
        return ""
    shown = "; ".join(
        visible(f"{told['method']} {told['path']} for {told['seconds']:.1f} s, at {told['where']}")
        for told in known[:LAST_REQUESTS]
    )
    number = counted(max(running, len(known)), "request")
    return f" with {number} in flight" + (f" ({shown})" if shown else "")


class OfProcess:
    """The report of a single process: OfProcess(options, server, limits)."""

    def __init__(self, options: StatusOptions, server: Server):
        self.master: int | None = None
        self.state = "starting"
        """Or ready, or stopping."""
        self._server = server
        self._scoreboard = Scoreboard(1)
        self._scoreboard.begin(1)
        self._reporter = Reporter(server, self._scoreboard.row(1))
        add_pages(server, options, self._scoreboard, self.is_ready)
        self._born = time.monotonic()
        self.status = make_server(options, self._scoreboard, self)
        self.status.listen_here(self._reporter)

    def urls(self) -> list[str]:
        return self._server.urls

    def processes(self) -> Sequence[Process]:
        beat = time.monotonic() - self._reporter.held_seconds()
        return [Process(os.getpid(), 0, 1, self.state, self._born, beat)]

    def is_live(self) -> bool:
        """Return whether the loop runs; only the operator's tools check it. The loop may be blocked while the
        application is imported."""
        held = self._reporter.held_seconds()
        return self.state == "starting" or held < self._server.limits.worker_stuck_seconds

    def is_ready(self) -> bool:
        return self.state == "ready" and self.is_live()

    def step(self, woken: int) -> bool:
        """Do a step, in the thread alongside the loop. Return True, to continue."""
        try:
            wait_readable([*self.status.descriptors(), woken], TICK)
            self.status.step()
            if self.state != "starting":
                self._reporter.tick()
        except Exception as error:
            process_log().error("the status server failed:", error)
            wait_readable([woken], 1)
        return True


@contextmanager
def shown(options: StatusOptions, server: Server) -> Iterator[OfProcess | None]:
    """Show the status of a single process while the block runs. Raise OSError if the status server cannot
    listen."""
    if not options:
        yield None
        return
    process = OfProcess(options, server)
    process.status.open()
    beside = SideThread(process.step)
    beside.start()
    try:
        yield process
    finally:
        if beside.stop():
            process.status.close()
