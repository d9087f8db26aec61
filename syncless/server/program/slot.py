"""Workers and their slots as seen by the master, with the delays after failed starts, and the point at which
the master gives up. master.py uses these classes.

The listening sockets belong to the master, so connections that wait in a backlog survive every worker. With
reuse_port each slot has its own sockets, among which the system distributes connections.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import time

from syncless.http.log.errorlog import warn
from syncless.server.sockets import Opened, Sockets

READY, CANNOT_START = b"r", b"!"
"""A worker's messages through its pipe; the reason why it cannot start comes behind the last."""
REPLACE_ME = {
    "worker_requests": b"q",
    "worker_seconds": b"s",
    "worker_memory_bytes": b"b",
    "worker_memory_percent": b"p",
}
"""Its message that it has reached this limit, and wants to be replaced."""
LONGEST_REASON = 60_000
"""Bytes of it that are told: a pipe takes them at once."""
BEAT = struct.Struct("d")
"""When the worker's loop has last been seen running, by the system's monotonic clock, in seconds."""

CLOCKS = 1024
"""Places for clocks. The one behind them has the number of workers."""
MOST_WORKERS = CLOCKS // 4

LAPSE = 0.5
"""Seconds by which a master may be late. One that is later has not run, and its workers have not either: the
machine was suspended, or all of them were stopped."""


def new_clocks() -> mmap.mmap:
    """Return memory that a master shares with its workers."""
    return mmap.mmap(-1, (CLOCKS + 1) * BEAT.size)


def set_number_of_workers(clocks: mmap.mmap, number: int) -> None:
    BEAT.pack_into(clocks, CLOCKS * BEAT.size, number)


def number_of_workers(clocks: mmap.mmap) -> int:
    return int(BEAT.unpack_from(clocks, CLOCKS * BEAT.size)[0])


class Worker:
    """A worker process, as seen by its master. ``pipe`` carries its messages; ``clock`` is its place among
    the ``clocks``."""

    def __init__(self, pid: int, pipe: int, clocks: mmap.mmap, clock: int):
        self.pid = pid
        self.pipe = pipe
        self.clock = clock
        self._clocks = clocks
        self.born = self._excused_at = time.monotonic()
        self.ready = False
        self.reason: bytes | None = None
        """Why it cannot start, if it has said so."""
        self.retiring = ""
        """Why it is to be replaced by another one; empty: it is not."""
        self.asked_to_go = False
        """It has asked for that itself."""
        self.reopen = False
        """Log files have been renamed since it was born, and it was not ready to be told."""
        self.killed_at = 0.0
        """When it is killed unless it has ended by then; 0: not yet decided."""

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def has_begun(self) -> bool:
        """Return whether the worker already obeys signals, after other libraries have run their code after
        the fork."""
        return self._beat() > 0

    def last_beat(self) -> float:
        """Return the monotonic time at which the worker's loop was last seen running."""
        return max(self._beat(), self._excused_at)

    def _beat(self) -> float:
        return float(BEAT.unpack_from(self._clocks, self.clock * BEAT.size)[0])

    def excuse(self, seconds: float, now: float) -> None:
        """Do not count the time for which the master did not run."""
        self.born += seconds
        self._excused_at = now
        if self.killed_at:
            self.killed_at += seconds

    def read_messages(self) -> None:
        """Read the worker's messages. Wait for one, unless the pipe is non-blocking."""
        said = os.read(self.pipe, LONGEST_REASON + 1)
        if not said:
            self._hang_up()  # it ends
        elif said.startswith(CANNOT_START):
            self.reason = said[1:]
            return
        if READY in said:
            self.ready = True
            if self.reopen:
                self.signal(signal.SIGUSR1)
        for limit, message in REPLACE_ME.items():
            if message in said:
                self.retiring, self.asked_to_go = limit, True

    def drain_messages(self) -> None:
        """Read the last messages of a worker that has ended. This never waits, because a process forked by
        the worker may still have its end of the pipe."""
        if self.pipe >= 0:
            os.set_blocking(self.pipe, False)
            with contextlib.suppress(BlockingIOError):
                while self.pipe >= 0:
                    self.read_messages()
        self._hang_up()

    def _hang_up(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


class Slot:
    """The slot of one worker."""

    def __init__(self) -> None:
        self.current: Worker | None = None
        self.next: Worker | None = None
        self.failures = 0
        self.not_before = 0.0

    def workers(self) -> list[Worker]:
        return [worker for worker in (self.current, self.next) if worker is not None]


GIVE_UP_AFTER = 3
"""Workers that die before any has been ready."""
LONGEST_BACK_OFF = 10.0
"""Seconds between two attempts to start a worker."""


class WorkersFailed(Exception):
    """No worker could start; the message or stderr has the reason."""


class Failures:
    """Failures(slots): counts the failures of the workers of these slots."""

    def __init__(self, slots: list[Slot]):
        self._slots = slots
        self.ever_ready = False
        """A worker has been ready: from then on the master never gives up."""
        self._explained = ""
        """Why the last worker that could not start could not."""

    def forget(self) -> None:
        """Forget failures, because there may be new code: each slot retries immediately."""
        self._explained = ""
        for slot in self._slots:
            slot.not_before = 0.0

    def explain(self, reason: str) -> None:
        """Log once why workers cannot start, even if several have the same reason. Raise WorkersFailed if no
        worker has been ready."""
        if not self.ever_ready:
            raise WorkersFailed(f"no worker can start: {reason}")
        if reason != self._explained:
            self._explained = reason
            warn(f"a new worker cannot start: {reason}")

    def failed(self, slot: Slot, why: str) -> None:
        """Count a worker that could not start, or died immediately. Raise WorkersFailed after several
        failures without a ready worker."""
        slot.failures += 1
        if not self.ever_ready and sum(slot.failures for slot in self._slots) >= GIVE_UP_AFTER:
            raise WorkersFailed(f"{why}, like the workers before it; none has become ready")
        self.again(slot, why)

    def again(self, slot: Slot, why: str) -> None:
        """Schedule another worker, with a delay that grows with the failures of this slot."""
        pause = min(LONGEST_BACK_OFF, 0.1 * 2**slot.failures) if slot.failures else 0.0
        slot.not_before = time.monotonic() + pause
        warn(f"{why}; a new one starts{f' in {pause:.1f} s' if pause else ''}")


class SharedSockets:
    """SharedSockets(sockets, reuse_port): the listening sockets that a master shares with its workers."""

    def __init__(self, sockets: Sockets, reuse_port: bool):
        self._sockets = sockets
        self._reuse_port = reuse_port
        self.shared: Opened = []
        self._slots: dict[Slot, Opened] = {}

    def open(self) -> None:
        """Open the sockets. Raise OSError on failure."""
        self.shared = self._sockets.open()

    def of(self, slot: Slot) -> Opened:
        """Return the sockets of a slot, which all its workers use in turn. With reuse_port the first slot has
        the sockets that were opened first."""
        if slot not in self._slots:
            shares = not self._reuse_port or not self._slots
            self._slots[slot] = self.shared if shares else self._open_again()
        return self._slots[slot]

    def _open_again(self) -> Opened:
        return [(self._sockets.open_again(sock), tls) for sock, tls in self.shared]

    def all(self) -> Opened:
        """Return each socket once."""
        pairs = [*self.shared, *(pair for opened in self._slots.values() for pair in opened)]
        return list({id(sock): (sock, tls) for sock, tls in pairs}.values())

    def begin_no_more(self) -> None:
        """Let no new clients connect, while those already connected can still be accepted."""
        self._sockets.begin_no_more(self.all())

    def have_waiting(self) -> bool:
        """Return whether a connection waits to be accepted."""
        return bool(select.select([sock for sock, _ in self.all()], [], [], 0)[0])

    def forget(self, slot: Slot) -> None:
        """Remove the slot: its own sockets refuse new clients, and its worker accepts the waiting connections
        before it ends."""
        shared = {id(sock) for sock, _ in self.shared}
        own = [(sock, tls) for sock, tls in self._slots.pop(slot, []) if id(sock) not in shared]
        self._sockets.begin_no_more(own)
        for sock, _ in own:
            sock.close()

    def close(self) -> None:
        """Close all sockets; new clients are refused."""
        self._sockets.close(self.all())
        self.shared = []
        self._slots.clear()
