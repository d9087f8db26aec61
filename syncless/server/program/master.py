"""Master: a process that supervises worker processes, which serve. It opens the sockets, and starts and
replaces the workers.

The sockets belong to the master, so connections that wait in a backlog survive every worker. A worker reports
through a pipe that it is ready, or must be replaced, and through a clock in shared memory that its loop runs.
The master does not need the event loop, because it must survive any failure of a loop. (A master that imports
the application for its workers is patched, and waits in its own loop.)
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from types import FrameType
from typing import Any

import syncless
from syncless._core.allowance import processors
from syncless.apps.loading import admitted
from syncless.http.limits import Limits
from syncless.http.log.errorlog import process_log, warn
from syncless.server.addresses import show
from syncless.server.affinity import Affinity
from syncless.server.kinds import as_host
from syncless.server.program.banner import Events, announce, counted
from syncless.server.program.blocking import Patch
from syncless.server.program.hooks import Hooks
from syncless.server.program.preparing import Preparation
from syncless.server.program.process import ServiceManager
from syncless.server.program.reporting import OfMaster
from syncless.server.program.running import LAST_CALL, Terminal, refusing_signals
from syncless.server.program.slot import (
    BEAT,
    CLOCKS,
    LAPSE,
    MOST_WORKERS,
    Failures,
    SharedSockets,
    Slot,
    Worker,
    new_clocks,
    set_number_of_workers,
)
from syncless.server.program.unwritten import flush_before_fork
from syncless.server.program.worker import Work, fork
from syncless.server.status.metrics import share_application_metrics
from syncless.server.status.options import StatusOptions

LONGEST_LAST_CALL = 3.0
"""Seconds for which a master that stops waits for busy workers to accept what is connected already."""
HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCHLD,
)
"""Signals that the master obeys."""
AUTO = "auto"
"""In place of a number of workers: one for each processor that they may use."""


class Master:
    """Supervises ``workers`` processes until SIGTERM or SIGINT. The arguments are those of `serve`.

    SIGHUP replaces all workers: new ones start, and when they are ready the old ones shut down gracefully.
    SIGUSR1 is forwarded to all workers. SIGTTIN adds a worker, and SIGTTOU removes one. A worker that dies is
    replaced, with back-off. A worker whose loop is blocked for Limits.worker_stuck_seconds is killed, and its
    stack is written to stderr. Limits.worker_requests, worker_seconds and worker_memory_bytes cause regular
    replacements.
    """

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        *,
        workers: int | str,
        preload: bool,
        events: Events,
        patch: Patch,
        preparation: Preparation | None = None,
        status: StatusOptions | None = None,
        shared_metrics: bool = True,
        affinity: str | None = None,
        **options: Any,
    ):
        self.processors = processors() if workers == AUTO else 0
        """That there were at the last look, and the number of workers follows; 0: it does not."""
        wanted = min(self.processors, MOST_WORKERS) if workers == AUTO else workers
        if not isinstance(wanted, int) or wanted < 1 or wanted > MOST_WORKERS:
            raise ValueError(f"workers must be {AUTO!r} or from 1 to {MOST_WORKERS}, not {workers}")
        self.affinity = None if affinity is None else Affinity(affinity, wanted)
        import_module("syncless.shared.area").begin()  # before the application, which may use it
        self.shared_metrics = shared_metrics
        if shared_metrics:
            share_application_metrics()
        if preload:
            patch()
            with admitted():
                application = as_host(application)
        self.application = application
        self.events = events
        self.patch = patch
        self.preparation = preparation or Preparation(Hooks())
        self.options = options
        # made only to check the arguments, and for the sockets: it never starts
        if callable(application):
            as_host(application)  # whose mistake is told now
        pattern = self.preparation.make_server(host, port, **options)
        self.sockets = SharedSockets(pattern.sockets, bool(options.get("reuse_port")))
        self.logs = pattern.logs
        self.limits: Limits = pattern.limits
        self.slots = [Slot() for _ in range(wanted)]
        self.leaving: list[Worker] = []
        self.status = OfMaster(
            status or StatusOptions(), CLOCKS, self.slots, self.leaving, self.limits, self._urls
        )
        self.stopping = False
        self.stops_at = 0.0
        """When a master that has been told to stop does so; 0: it has not been told."""
        self.manager = ServiceManager({})
        self.reloading: Events | None = None
        """Until all workers have been replaced."""
        self.refuses_at = 0.0
        """When a master that stops closes its sockets."""
        self.failures = Failures(self.slots)
        self.signals: list[int] = []
        self.terminal = Terminal()
        self.clocks = new_clocks()
        set_number_of_workers(self.clocks, wanted)
        self.pid = os.getpid()
        self.looked_at = time.monotonic()

    # -- running --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Supervise until a signal stops the master. Raise OSError if it cannot listen, or WorkersFailed."""
        self.logs.open_errors()
        try:
            self.sockets.open()
            self.status.open()
            flush_before_fork()
            python = sys.version.split()[0]
            self.events(f"syncless {syncless.__version__} starts {self._status()} of Python {python}")
            self._supervise()
            self.events.end("stopped")
        finally:
            self.status.close()
            if self.affinity is not None:
                self.affinity.close()
            self.logs.close_errors(hold=True)

    def _supervise(self) -> None:
        self.manager = ServiceManager()
        self._wakers = wake, _ = os.pipe()
        for fd in self._wakers:
            os.set_blocking(fd, False)
        previous = {number: signal.signal(number, self._note) for number in HANDLED}
        try:
            self._make_files()
            with admitted():
                self.preparation.hooks.call("on_start")
            with refusing_signals():
                while self._step(wake):
                    pass
        finally:
            for worker in self._all():
                worker.signal(signal.SIGKILL)
            for number, old in previous.items():
                signal.signal(number, old)
            for fd in self._wakers:
                os.close(fd)
            if not self.stopping:
                self.sockets.begin_no_more()
            self.sockets.close()

    def _announce_if_first(self, worker: Worker) -> None:
        """Announce the addresses, when the first worker is ready."""
        if self.failures.ever_ready or not worker.ready:
            return
        self.failures.ever_ready = True
        self.manager.ready(self._status())
        if not self.events.quiet:
            announce(self._urls(), len(self.slots), self.patch, self.status.status_urls)
        self.events.end("ready")

    def _urls(self) -> list[str]:
        return [show(sock.getsockname(), tls) for sock, tls in self.sockets.shared]

    def _status(self) -> str:
        return counted(len(self.slots), "worker")

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        with contextlib.suppress(BlockingIOError):  # full of reasons to wake up already
            os.write(self._wakers[1], b"s")

    def _step(self, wake: int) -> bool:
        """Wait for the next event and handle it. Return whether there is anything left to supervise."""
        pipes = {worker.pipe: worker for worker in self._all() if worker.pipe >= 0}
        hurried = self.stopping or self.stops_at or self._starting()
        pause = self.status.pause(0.1 if hurried else min(1.0, self.manager.interval / 2 or 1.0))
        readable, _, _ = select.select([wake, *pipes, *self.status.descriptors()], [], [], pause)
        last, self.looked_at = self.looked_at, time.monotonic()
        if self.looked_at - last > pause + LAPSE:
            for worker in self._all():
                worker.excuse(self.looked_at - last, self.looked_at)
        self.manager.alive()
        if wake in readable:
            os.read(wake, 4096)
        for fd in readable:
            if fd in pipes:
                pipes[fd].read_messages()
                self._announce_if_first(pipes[fd])
        while self.signals:
            self._obey(self.signals.pop(0))
        self._reap()
        self.status.step()
        if self.stops_at and time.monotonic() >= self.stops_at and not self.stopping:
            self._stop()
        if self.stopping:
            self._refuse_when_taken()
            self._kill_late_ones()
            return any(True for _ in self._all())
        if self.processors:
            self._follow_processors()
        for slot in self.slots:
            self._tend(slot)
        self._kill_late_ones()
        if self.reloading and all(
            slot.next is None and slot.current and not slot.current.retiring for slot in self.slots
        ):
            self._end_reload(self.reloading)
        return True

    def _end_reload(self, reload: Events) -> None:
        self.reloading = None
        new = sum(slot.current is not None and slot.current.born >= reload.began for slot in self.slots)
        reload.end(f"reload done: {new} of {self._status()} replaced")
        self.manager.ready(self._status())

    def _all(self) -> Iterable[Worker]:
        for slot in self.slots:
            yield from slot.workers()
        yield from list(self.leaving)

    def _starting(self) -> bool:
        return any(slot.current is None or slot.next is not None for slot in self.slots)

    def _make_files(self) -> None:
        """Make the log files of the workers, if the workers run as another user."""
        if self.preparation.privileges is not None:
            self.logs.make_files()

    def _reopen_files(self) -> None:
        try:
            process_log().reopen()
            self._make_files()
        except OSError as error:
            warn(f"cannot reopen the log files; still using the old ones: {error}")
        else:
            self.events("log files reopened")

    def _obey(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self.status.told_to_stop()
            if self.limits.stop_delay_seconds and not self.stops_at:
                self.stops_at = time.monotonic() + self.limits.stop_delay_seconds
                self.events.will_stop(self.limits.stop_delay_seconds)
            else:
                self._stop()
        elif number == signal.SIGHUP and self.terminal.is_gone():
            self._stop()
        elif number == signal.SIGHUP and not self.stopping:
            if self.failures.ever_ready:
                self.reloading = Events(self.events.quiet)
                self.reloading(f"reload begins: {self._status()} to be replaced")
                self.manager.reloading()
            self.failures.forget()
            self.preparation.enter_again()
            for worker in self._all():  # those that are not ready, too: they may have imported the old code
                worker.retiring = "reload"
        elif number == signal.SIGUSR1:
            self._reopen_files()
            for worker in self._all():
                if worker.ready:
                    worker.signal(signal.SIGUSR1)
                worker.reopen = not worker.ready
        elif number in (signal.SIGTTIN, signal.SIGTTOU):
            self.processors = 0  # from now on the operator decides
            was = len(self.slots)
            self._resize(was + (1 if number == signal.SIGTTIN else -1))
            self.events(f"{signal.Signals(number).name}: {self._status()} instead of {was}")

    def _follow_processors(self) -> None:
        """Adjust the number of workers when the container gets more or fewer processors."""
        before, self.processors = self.processors, processors()
        if before != self.processors:
            was = len(self.slots)
            self._resize(self.processors)
            if was != len(self.slots):
                warn(f"{self._status()} instead of {was}, because the number of available processors changed")

    def _resize(self, number: int) -> None:
        number = max(1, min(number, MOST_WORKERS))
        while len(self.slots) < number:
            self.slots.append(Slot())
        while len(self.slots) > number:
            slot = self.slots.pop()
            for worker in slot.workers():
                self._retire(worker)
            self.sockets.forget(slot)
        set_number_of_workers(self.clocks, number)

    def _stop(self) -> None:
        """Shut all workers down gracefully; a second call stops them immediately."""
        if self.stopping:
            self.events("second signal: stops at once")
        else:
            self.events.begin(f"stop begins: {self._status()}")
        for worker in self._all():
            # once more means now to a worker, too, and one that is retired has had its first
            if self.stopping or not worker.killed_at:
                worker.signal(signal.SIGTERM if worker.has_begun() else signal.SIGKILL)
            worker.killed_at = worker.killed_at or time.monotonic() + self.limits.stop_seconds + 5
        if self.stopping:
            self.refuses_at = 0.0
        else:
            self.sockets.begin_no_more()
            self.refuses_at = time.monotonic() + LAST_CALL
        self.stopping = True
        self.manager.stopping()

    # -- workers --------------------------------------------------------------------------------------

    def _tend(self, slot: Slot) -> None:
        """Make sure that the slot has a live worker, if one is needed."""
        now = time.monotonic()
        if slot.next is not None:
            if slot.next.ready:
                if slot.current is not None:
                    self._retire(slot.current)
                    new, old = slot.next, slot.current
                    self.events(f"worker {new.pid} replaces worker {old.pid} ({old.retiring})")
                slot.current, slot.next = slot.next, None
                slot.failures = 0
            elif now - slot.next.born > self.limits.worker_boot_seconds and not slot.next.killed_at:
                warn(
                    f"killing worker {slot.next.pid}, which was not ready after "
                    f"{self.limits.worker_boot_seconds:g} s"
                )
                slot.next.killed_at = now
        elif (slot.current is None or slot.current.retiring) and now >= slot.not_before:
            try:
                slot.next = self._start(slot)
            except OSError as error:  # too many processes or descriptors: those that run go on
                self.failures.failed(slot, f"cannot start a worker: {error}")
        worker, longest = slot.current, self.limits.worker_stuck_seconds
        if worker and self.looked_at - worker.last_beat() > longest / 2:
            self.status.ask(worker)  # it may have to be killed
        if worker and not worker.killed_at and self.looked_at - worker.last_beat() > longest:
            warn(
                f"the loop of worker {worker.pid} has been blocked for {longest:g} s; its stack is on stderr"
            )
            worker.signal(signal.SIGABRT)  # faulthandler writes the stack
            worker.killed_at = now + 2

    def _refuse_when_taken(self) -> None:
        """Close the sockets of a stopping master, once its workers have accepted the waiting connections, or
        after LONGEST_LAST_CALL."""
        now = time.monotonic()
        if now < self.refuses_at or not self.sockets.shared:
            return
        if not self.sockets.have_waiting() or now > self.refuses_at + LONGEST_LAST_CALL:
            self.sockets.close()

    def _retire(self, worker: Worker) -> None:
        if worker.asked_to_go:
            self.status.recycled()
        worker.signal(signal.SIGTERM)
        worker.killed_at = time.monotonic() + self.limits.stop_seconds + 5
        self.leaving.append(worker)

    def _kill_late_ones(self) -> None:
        now = time.monotonic()
        for worker in self._all():
            if worker.killed_at and now > worker.killed_at:
                if self.stopping or worker in self.leaving:
                    warn(f"worker {worker.pid} has not ended in time and is killed")
                worker.signal(signal.SIGKILL)
                worker.killed_at = math.inf

    def _reap(self) -> None:
        for worker in list(self._all()):  # and for no child of the application's
            try:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
            except ChildProcessError:  # the application has waited for all
                pid, status = worker.pid, 0
            if pid:
                self._ended(worker, status)

    def _ended(self, worker: Worker, status: int) -> None:
        worker.drain_messages()
        self._announce_if_first(worker)
        crashed = not self.stopping and (status != 0 or worker not in self.leaving)
        requests = self.status.ended(worker, crashed)
        if worker in self.leaving:
            self.leaving.remove(worker)
            return
        slot = next(slot for slot in self.slots if worker in (slot.current, slot.next))
        failed_to_start = worker is slot.next
        if failed_to_start:
            slot.next = None
        else:
            slot.current = None
        if self.stopping:
            return
        if worker.reason is not None:
            self.failures.explain(worker.reason.decode(errors="backslashreplace"))
        number = os.waitstatus_to_exitcode(status)
        how = f"was killed by {signal.Signals(-number).name}" if number < 0 else f"ended with status {number}"
        how += requests
        if failed_to_start and slot.current is not None:
            why = f"the new worker {worker.pid} {how} before it was ready; the old one keeps serving"
            if slot.current.asked_to_go or worker.retiring:
                self.failures.failed(slot, why)
            else:
                slot.current.retiring = ""
                warn(why)
            return
        if failed_to_start or time.monotonic() - worker.born < 1:
            self.failures.failed(slot, f"worker {worker.pid} {how}")
        else:
            self.failures.again(slot, f"worker {worker.pid} {how}")

    def _start(self, slot: Slot) -> Worker:
        opened = self.sockets.of(slot)
        taken = {worker.clock for worker in self._all()}
        clock = next(number for number in range(CLOCKS) if number not in taken)
        BEAT.pack_into(self.clocks, clock * BEAT.size, 0.0)
        slot_number = self.slots.index(slot) + 1
        work = Work(
            application=self.application,
            options=self.options,
            patch=self.patch,
            preparation=self.preparation,
            number=slot_number,
            quiet=self.events.quiet,
            speaks=not self.events.quiet and slot is self.slots[0],
            limits=self.limits,
            listeners=opened,
            unused=[sock for sock, _ in self.sockets.all()],
            clocks=self.clocks,
            clock=clock,
            others=len(self.slots) > 1 and not self.options.get("reuse_port"),
            master=self.pid,
            shares_metrics=self.shared_metrics,
            affinity=self.affinity if self.affinity and self.affinity.has(slot_number) else None,
            reporting=self.status.prepare(clock),
        )
        pipes = [worker.pipe for worker in self._all() if worker.pipe >= 0]
        pid = -1
        try:
            pid, pipe = fork(work.run, HANDLED, [*self._wakers, *pipes])
        finally:
            self.status.started(work.reporting, pid)
        return Worker(pid, pipe, self.clocks, clock)
