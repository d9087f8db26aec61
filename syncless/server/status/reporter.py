"""Reporter: reports the state of one serving process, from a thread alongside its loop.

The thread updates the process's row of the scoreboard, watches for stalls, and answers the status server with
the requests in flight and the wait of each. It is not a tasklet, so it runs while the application blocks the
loop, unless that keeps the GIL.

The thread sees the loop's objects between two bytecodes of the loop's thread. It only reads them, and calls
no code of the application.
"""

from __future__ import annotations

import _socket
import _thread
import contextlib
import json
import mmap
import os
import struct
import sys
import time
from collections import Counter, deque
from operator import attrgetter
from typing import Any

from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import current_loop
from syncless.http.exchange import Exchange
from syncless.http.listener import Counters
from syncless.server.lanes.lane import add_up
from syncless.server.server import Server
from syncless.server.status.growth import Growth
from syncless.server.status.places import place_of, place_of_task
from syncless.server.status.scoreboard import CAUSES, WAITS, Row, figures_of, write
from syncless.server.status.stuck import Search
from syncless.tools.blockers import stall_of

TICK = 0.1
"""Seconds between two looks at the loop."""
FIGURES_EVERY = 1.0
"""Seconds between two counts of what costs something to count."""
STALL_SECONDS = 0.2
"""For which the loop may stand still before that is told as a stall."""
UTILIZATION_SECONDS = 5.0
"""For which the utilization of the loops is told."""
RECENT_SECONDS = 60.0
"""For which the longest stall counts as a recent one."""
KEPT_STALLS = 20
SHOWN_REQUESTS = 100
"""The oldest; of the others only their number is told."""
QUESTION, SEARCH = b"?", b"!"
"""What a reporter may be sent: for its report; and before that to begin a search for stuck tasklets."""
LENGTH = struct.Struct("!I")
"""The header of a report: its number of bytes."""


class Reporter:
    """Reporter(server, row): reports on the server of this thread's loop, which has not started yet."""

    def __init__(self, server: Server, row: Row):
        self._server = server
        self._row = row
        self._loop = current_loop()
        # get_ident() is that of the tasklet, under the patch
        self._thread, self._number = self._loop.thread_id, _thread.get_native_id()
        self._stalls: list[dict[str, Any]] = []
        self._stalling: dict[str, Any] | None = None
        self._counted = (0, 0, 0)
        """Stalls, their ns together, and those of the longest."""
        self._looked = 0.0
        self._utilization = Utilization(UTILIZATION_SECONDS)
        self._growth = Growth()
        self._search = Search(self._loop)
        self._lock = _thread.allocate_lock()
        self._counters = Counters(row)
        server.counters = self._counters
        server.keeps_slowest = True
        server.reporter = self
        self.write_figures()
        write(row, [("pid", os.getpid())])

    # -- in the thread ------------------------------------------------------------------------------------

    def start(self, line: int) -> None:
        """Answer what arrives on the socket ``line`` with a report, in a thread that ends with the
        process."""
        asking = _socket.socket(fileno=line)
        SideThread(lambda woken: self._answer(asking, woken)).start()

    def _answer(self, line: _socket.socket, woken: int) -> bool:
        """Wait for a query or for TICK, and answer the query. Return False after the last query."""
        asked = None
        if line.fileno() in wait_readable([line.fileno(), woken], TICK):
            try:
                asked = line.recv(64)
            except OSError:
                asked = b""
        self.tick()
        if asked and SEARCH in asked:
            self.search()
        if asked:
            told = json.dumps(self.report()).encode()
            with contextlib.suppress(OSError):
                line.sendall(LENGTH.pack(len(told)) + told)
        return asked != b""

    def tick(self) -> None:
        """Do the regular work. This must be called every TICK, in a thread other than the loop's."""
        self._watch()
        now = time.monotonic()
        if now - self._looked >= FIGURES_EVERY:
            self._looked = now
            self.write_figures()

    def _watch(self) -> None:
        """Check whether the loop is blocked."""
        held = self._loop.held_for()
        stall = self._stalling
        if stall is not None and held < stall["seconds"]:
            stall["over"] = True
            self._stalling = stall = None
        if held < STALL_SECONDS:
            return
        number, total, longest = self._counted
        if stall is None:
            seen = stall_of(self._thread, self._number, held)
            text = "" if seen is None else seen.text
            stall = {"at": time.time() - held, "seconds": 0.0, "stack": text, "over": False}
            self._stalling = stall
            self._stalls = [*self._stalls[1 - KEPT_STALLS :], stall]
            number += 1
        grown = int((held - stall["seconds"]) * 1e9)
        stall["seconds"] = held
        self._counted = number, total + grown, max(longest, int(held * 1e9))
        write(self._row, zip(("stalls", "stalled_ns", "longest_stall_ns"), self._counted, strict=True))

    def search(self) -> None:
        """Begin a search for tasklets that nothing can wake, in the loop's thread."""
        self._search.begin()

    def held_seconds(self) -> float:
        """Return for how long the loop has been blocked."""
        return self._loop.held_for()

    # -- in any thread ------------------------------------------------------------------------------------

    def write_figures(self) -> None:
        """Update the row, except for the figures that native code writes there."""
        with self._lock:
            for lane in self._server.lanes:
                lane.count(self._counters)
            figures = add_up(lane.figures() for lane in self._server.lanes)
            tasklets = self._tasklets()
            figures["tasklets"] = len(tasklets)
            figures |= parked(tasklets)
            self._growth.look(tasklets)
            figures["growing_tasklets"] = sum(place["tasklets"] for place in self._growth.growing)
            figures["memory_bytes"] = memory()
            figures["open_files"] = open_files()
            figures["backlog"], figures["backlog_limit"] = self._server.backlog()
            figures["recent_stall_ns"] = self._recent_stall_ns()
            figures["utilization_ppm"] = int(self._utilization.of(self._loops()) * 1e6)
            figures["cpu_ns"] = time.process_time_ns()
            write(self._row, figures.items())

    def _recent_stall_ns(self) -> int:
        since = time.time() - RECENT_SECONDS
        recent = (one["seconds"] for one in self._stalls if one["at"] + one["seconds"] > since)
        return int(max(recent, default=0.0) * 1e9)

    def figures(self) -> dict[str, Any]:
        """Return the figures of this process, as of now."""
        self.write_figures()
        return figures_of(self._row)

    def report(self) -> dict[str, Any]:
        """Return the requests in flight, the oldest first, and the stalls."""
        self.write_figures()
        slow = self._server.slow_requests
        requests = []
        others: dict[str, int] = {}
        parked = {}
        for tasklet in self._tasklets():
            if isinstance(tasklet, Exchange):
                requests.append(tasklet)
            else:
                if (task := getattr(tasklet, "task", None)) is not None:
                    parked[task] = tasklet
                waits = tasklet.waiting_for or tasklet.status
                others[waits] = others.get(waits, 0) + 1
        shown = [told for one in requests if (told := self._request(one, parked)) is not None]
        shown += [told for lane in self._server.lanes for told in lane.in_flight()]
        shown.sort(key=lambda told: -float(told["seconds"]))
        return {
            "held_seconds": self._loop.held_for(),
            "requests": shown[:SHOWN_REQUESTS],
            "more_requests": len(shown[SHOWN_REQUESTS:]),
            "other_tasklets": others,
            "growing": self._growth.growing,
            "stuck": self._search.found,
            "slowest_requests": slow.slowest() if slow is not None else [],
            "self_cures": self._server.self_cure.cures if self._server.self_cure is not None else [],
            "recent_stalls": self._stuck() + self._stalls[::-1],
        }

    def _stuck(self) -> list[dict[str, Any]]:
        """Return blocked threads other than the loop's, as stalls."""
        return [
            {"at": time.time() - seconds, "seconds": seconds, "stack": words, "over": False}
            for lane in self._server.lanes
            for seconds, words in lane.stuck(STALL_SECONDS)
        ]

    def _tasklets(self) -> list[Tasklet[Any]]:
        """Return the tasklets of all serving loops."""
        return [tasklet for loop in self._loops() for tasklet in loop.tasklets()]

    def _loops(self) -> list[Loop]:
        return [self._loop, *(loop for lane in self._server.lanes for loop in lane.loops())]

    def _request(self, exchange: Exchange, parked: dict[Any, Tasklet[Any]]) -> dict[str, Any] | None:
        """Return the report of a request, or None if it has ended. `parked` maps each asyncio task to the
        tasklet in which it waits."""
        try:
            told = exchange.summary()
            task = getattr(exchange, "task", None)  # of an ASGI application
            waiter = parked.get(task, exchange)
            told["state"] = waiter.status
            waits, on = waiter.waiting_for, waiter.waiting_object
            told["waits_for"] = waits
            told["waits_on"] = None if on is None else type(on).__name__
            told["waits_seconds"] = waiter.waiting_seconds
            if task is None or waiter is not exchange:
                told["where"] = place_of(waiter.frame)
            else:
                awaited, told["where"] = place_of_task(task)
                told["waits_for"] = awaited or waits
        except Exception:
            return None
        return told


class Utilization:
    """Utilization(seconds): the share of the last seconds in which the busiest of some loops ran code."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._looks: deque[tuple[float, dict[Loop, float]]] = deque()

    def of(self, loops: list[Loop]) -> float:
        now = time.monotonic()
        idle = {loop: loop.idle_seconds() for loop in loops}
        if not self._looks or now - self._looks[-1][0] >= self.seconds / 10:
            self._looks.append((now, idle))
        while len(self._looks) > 1 and self._looks[1][0] <= now - self.seconds:
            self._looks.popleft()
        since, before = self._looks[0]
        shares = [
            (idle[loop] - before[loop]) / (now - since) for loop in loops if loop in before and now > since
        ]
        return min(1.0, max(0.0, 1 - min(shares, default=1.0)))


def parked(tasklets: list[Tasklet[Any]]) -> dict[str, int]:
    """Return the number of waiting tasklets by cause (CAUSES)."""
    figures = dict.fromkeys((f"parked_{cause}" for cause in CAUSES), 0)
    words: Counter[str | None] = Counter(map(attrgetter("waiting_for"), tasklets))
    for word, count in words.items():
        if word is not None:
            figures[f"parked_{WAITS.get(word, 'other')}"] += count
    return figures


def memory() -> int:
    """Return the memory that this process uses (resident set), in bytes."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        import resource  # the most that it has ever had is the best that others than Linux tell

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def open_files() -> int:
    """Return the number of open descriptors of this process, or 0 if unknown."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # size: Linux 6.2
    except OSError:
        return len(os.listdir("/dev/fd")) if sys.platform == "darwin" else 0
