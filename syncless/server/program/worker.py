"""A worker's whole life, in its own process: it serves, and reports to its master through a pipe and a clock.
See master.py."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import logging
import math
import mmap
import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from socket import socket
from typing import Any

from syncless._core import allowance
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import sleep
from syncless._core.tasklet import spawn
from syncless._core.threadloop import end_after_parent, end_within
from syncless._core.wait.sync import Event
from syncless.apps.loading import ApplicationFailed, ApplicationNotFound
from syncless.http.limits import Limits
from syncless.http.log.errorlog import process_log
from syncless.http.log.notices import flush
from syncless.server.addresses import Bind
from syncless.server.affinity import Affinity
from syncless.server.program.blocking import Patch, StallWarning, warn_of_blocking_modules
from syncless.server.program.hooks import HookFailed
from syncless.server.program.preparing import Preparation
from syncless.server.program.process import set_title
from syncless.server.program.reporting import Reporting
from syncless.server.program.slot import (
    BEAT,
    CANNOT_START,
    LONGEST_REASON,
    READY,
    REPLACE_ME,
    number_of_workers,
)
from syncless.server.program.telemetry import send_the_rest
from syncless.server.program.unwritten import write_the_rest
from syncless.server.server import Server
from syncless.server.status.metrics import share_application_metrics
from syncless.server.status.reporter import memory
from syncless.tools.records import record

ASIDE = 2.0
"""Seconds for which a worker that has had its number of requests leaves new connections to others. If no
successor has come by then it goes on: there may be none that can start."""

ORPHAN_SECONDS = 2
"""For which a worker may go on without a turn of its loop after its master has been killed."""


@record(frozen=True)
class Work:
    """The orders of a master to one worker."""

    application: Any
    options: Mapping[str, Any]
    """For its Server."""
    patch: Patch
    preparation: Preparation
    number: int
    """Its place among the workers, from 1."""
    quiet: bool
    """Whether it tells nothing of its events."""
    speaks: bool
    """Whether it tells that the application blocks: one of them does, for all."""
    limits: Limits
    listeners: list[tuple[socket, bool]]
    """Sockets to accept from, and whether they speak TLS."""
    unused: list[socket]
    """The sockets of all workers; those that are not among the first are closed, because nobody would accept
    from them here."""
    clocks: mmap.mmap
    clock: int
    """Its place among the clocks."""
    others: bool
    """Whether other workers accept from the same sockets."""
    master: int
    """Process number."""
    affinity: Affinity | None = None
    """How requests of a session find their worker, if they do."""
    shares_metrics: bool = False
    """Whether those of the application are in shared memory."""
    reporting: Reporting | None = None
    """Where its status is shown, if anybody wants to see it."""

    def run(self, pipe: int) -> int:
        """Serve until SIGTERM, or until the master has ended. Report to the master through the pipe. Return
        the exit status."""
        BEAT.pack_into(self.clocks, self.clock * BEAT.size, time.monotonic())
        set_title(f"worker {self.number}", self.application)
        faulthandler.enable()
        if self.reporting is not None:
            self.reporting.leave_to_parent()
        random.seed()
        binds = [Bind(secure, fd=listener.detach()) for listener, secure in self.listeners]
        for listener in self.unused:
            listener.close()  # one of the first has been detached
        try:
            self.patch()
            if self.shares_metrics:
                share_application_metrics(self.clock + 1)
            options = {**self.options, "bind": binds, "multiprocess": True}
            if self.affinity is not None:
                options["remembered"] = 0  # a remembered head has no fields that tell its session
            server = self.preparation.make_server(**options)
            self.preparation.take(server, self.application, "post_fork")
            if self.affinity is not None:
                self.affinity.join(server, self.number)
            if self.reporting is not None:
                self.reporting.begin(server)
        except (ApplicationNotFound, ApplicationFailed, HookFailed, OSError, TypeError, ValueError) as error:
            os.write(pipe, CANNOT_START + _reason(self.application, error))
            return 2
        try:
            if self.speaks:
                warn_of_blocking_modules()
            told = self.speaks and not server.standby_threads
            with StallWarning(server) if told else contextlib.nullcontext():
                server.run(
                    quiet=self.quiet,
                    worker=True,
                    started=lambda: self._begin(server, pipe),
                    stopping=lambda: self.preparation.hooks.call_at_end("pre_stop"),
                )
        except ApplicationFailed as error:  # its lifespan did not begin
            os.write(pipe, CANNOT_START + _reason(self.application, error))
            return 2
        finally:
            if self.reporting is not None:
                self.reporting.end()
            self.preparation.hooks.call_at_end("worker_exit")
            # as at the interpreter's end, for threads that are no daemons
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            send_the_rest()
            write_the_rest()
        return 0

    def _begin(self, server: Server, pipe: int) -> None:
        full = Event()
        most = most_requests(self.limits)
        if most:
            server.limit_requests(most, lambda: self._leave_to_others(server, full))
        end_after_parent(ORPHAN_SECONDS, self.master)  # forgotten if the user has changed since the fork
        tending = spawn(self._live, server, pipe, full)
        tending.name = "worker's pulse"
        os.write(pipe, READY)

    def _leave_to_others(self, server: Server, full: Event) -> None:
        """Leave new connections to other workers, after the last request before the replacement has begun."""
        if self.others:
            server.pause_accepting()
        full.set()

    def _live(self, server: Server, pipe: int, full: Event) -> None:
        """Tell the master that the loop runs, ask it for a replacement in time, and end with the master."""
        limits = self.limits
        born = time.monotonic()
        asked = False
        resumes_at = math.inf
        while True:
            BEAT.pack_into(self.clocks, self.clock * BEAT.size, time.monotonic())
            if os.getppid() != self.master:
                end_within(math.ceil(limits.stop_seconds) + 5)  # this loop runs: it has longer
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if not asked and (reached := self._reached(full, time.monotonic() - born)):
                asked = True
                with contextlib.suppress(BrokenPipeError):  # the master ends this very moment
                    os.write(pipe, REPLACE_ME[reached])
            if full.is_set():
                resumes_at = min(resumes_at, time.monotonic() + ASIDE)
            if time.monotonic() > resumes_at:
                server.resume_accepting()
            pause = min(0.25, limits.worker_stuck_seconds / 4)
            if asked:
                sleep(pause)
            else:
                full.wait(pause)

    def _reached(self, full: Event, age: float) -> str:
        """Return the limit that this worker has reached, or an empty string."""
        if full.is_set():
            return "worker_requests"
        if age > (self.limits.worker_seconds or math.inf):
            return "worker_seconds"
        used = memory()
        if used > (self.limits.worker_memory_bytes or math.inf):
            return "worker_memory_bytes"
        return "worker_memory_percent" if used > self._share_of_memory() else ""

    def _share_of_memory(self) -> float:
        """Return this worker's share of the memory, in bytes. The limit of the container and the number of
        workers may change at run time."""
        if not self.limits.worker_memory_percent:
            return math.inf
        each = allowance.memory() // number_of_workers(self.clocks)
        return each * self.limits.worker_memory_percent / 100


def _register_again() -> None:
    """Register the exit functions of the standard library again, for the child's own objects."""
    finalize: Any = weakref.finalize
    for each in list(finalize._registry):
        each.atexit = False  # the parent's own
    finalize._registered_with_atexit = False
    atexit.register(logging.shutdown)
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        sys.modules["multiprocessing.process"]._children.clear()
        atexit.register(util._exit_function)


def _reason(application: Any, error: Exception) -> bytes:
    """Return the reason why the worker cannot start, for its master."""
    told = f"{application} raised an error:\n" if isinstance(error, ApplicationFailed) else ""
    return f"{told}{error}".encode(errors="backslashreplace")[:LONGEST_REASON]


def most_requests(limits: Limits) -> int:
    """Return the number of requests after which a worker asks for its replacement, with jitter, or 0 for no
    limit."""
    return (
        limits.worker_requests + random.randint(0, limits.worker_requests_jitter)
        if limits.worker_requests
        else 0
    )


CRASHED = 70
"""Exit status after an exception that is our own fault (EX_SOFTWARE of sysexits.h)."""


_master = 0
"""Its process number, while it forks a worker."""


def _end_with_master() -> None:
    """End a forked child after its master, because code of other libraries may block it."""
    if _master:
        end_after_parent(ORPHAN_SECONDS, _master)


at_fork(in_child=_end_with_master)


def fork(work: Callable[[int], int], signals: Iterable[int], descriptors: Iterable[int]) -> tuple[int, int]:
    """Fork a child that does the work and exits with its result. Return its process ID, and our end of a
    pipe; `work` gets the other end. The child has neither our handlers of the signals nor the descriptors.
    Raise OSError on failure."""
    global _master
    flush()  # or the child would write it, too
    ours, theirs = os.pipe()
    # a signal that reached the child before it has left our handlers behind would be lost
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    pid = -1
    _master = os.getpid()
    try:
        pid = os.fork()
    finally:
        _master = 0
        if pid:  # here, or there is no child
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            os.close(theirs)
        if pid < 0:
            os.close(ours)
    if pid:
        return pid, ours
    code = CRASHED
    try:
        for fd in (ours, *descriptors):
            os.close(fd)
        _leave_behind(signals, unblocked)
        code = work(theirs)
    except BaseException as error:
        process_log().error("a process failed:", error)
    finally:
        flush()
        os._exit(code)


def _leave_behind(signals: Iterable[int], unblocked: Iterable[int]) -> None:
    """Drop the parent's exit functions and signal handlers. Signals since the fork are delivered now."""
    atexit._clear()
    _register_again()
    for number in signals:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
