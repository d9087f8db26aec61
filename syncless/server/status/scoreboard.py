"""Scoreboard: the figures of all serving processes, in memory that they share with their master.

A row belongs to one process at a time. The process, and the native code of its server, writes the row; anyone
may read it at any time. When a process has ended, its counts are added to the first row, so totals never
decrease. Rows are identified by number only.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

from syncless.http.listener import CELLS, FREE, totals
from syncless.server.status.exemplars import Exemplars

WAITS = {
    "sleep": "sleep",
    "socket read": "descriptor",
    "socket write": "descriptor",
    "descriptor": "descriptor",
    "descriptor in a C library": "descriptor",
    "request body": "client",
    "client to read": "client",
    "lock": "lock",
    "semaphore": "lock",
    "event": "event",
    "item of a queue": "queue",
    "room in a queue": "queue",
    "end of the work in a queue": "queue",
    "queue": "queue",
    "channel": "queue",
    "sender on a channel": "queue",
    "receiver on a channel": "queue",
    "end of a tasklet": "tasklet",
    "ASGI application": "asgi",
}
"""The words for a wait of a tasklet -> the gauge that counts it. All other words: other."""
CAUSES = (*dict.fromkeys(WAITS.values()), "other")
GAUGES = (
    "pid",
    "connections",
    "greeting",
    "reading",
    "queued",
    "running",
    "lingering",
    "http2",
    "idle",
    "http2_streams",
    "held_streams",
    "requests_limit",
    "exempt",
    "tasklets",
    "growing_tasklets",
    "buffered_bytes",
    "memory_bytes",
    "open_files",
    "longest_stall_ns",
    "recent_stall_ns",
    "utilization_ppm",
    "backlog",
    "backlog_limit",
    *(f"parked_{cause}" for cause in CAUSES),
)
"""Cells whose value is that of now, or the most since the start."""
MOST = ("longest_stall_ns", "recent_stall_ns", "backlog", "backlog_limit")
"""Those of which the largest of all processes counts, not the sum."""
COUNTS = (
    "accepted",
    "http2_requests",
    "held_dropped",
    "hangups",
    "requests_refused",
    "received_bytes",
    "sent_bytes",
    "stalls",
    "stalled_ns",
    "takeovers",
    "held_ns",
    "cpu_ns",
)
"""Cells that only grow."""
MASTER = ("version", "highest", "stopping", "started", "crashed", "recycled")
"""Cells of the first row that only the master writes. ``version`` is odd while counts move there,
``highest`` the last row that has been used, ``stopping`` 1 when the server has been told to stop."""
CELL = {name: number for number, name in enumerate((*GAUGES, *COUNTS, *MASTER))}
PATIENCE = 100_000
"""Looks at counts that move; a master that is killed meanwhile never ends that."""
PHASES = ("greeting", "reading", "queued", "running", "lingering", "http2", "idle")

Row = memoryview
"""Of signed 64-bit numbers."""


class Scoreboard:
    """Scoreboard(processes): has rows 1 to ``processes``, and row 0 for processes that have ended."""

    def __init__(self, processes: int):
        memory = mmap.mmap(-1, (processes + 1) * CELLS * 8)
        self._cells = memoryview(memory).cast("q")
        self.processes = processes
        self.exemplars = Exemplars()
        """Of the requests of all processes."""
        assert len(CELL) <= FREE

    def row(self, number: int) -> Row:
        return self._cells[number * CELLS : (number + 1) * CELLS]

    def begin(self, number: int) -> None:
        """Give the row to a new process."""
        self.row(number)[:] = memoryview(bytes(CELLS * 8)).cast("q")
        self._cells[CELL["highest"]] = max(self._cells[CELL["highest"]], number)

    def end(self, number: int) -> None:
        """Note that the process of the row has ended; its counts stay."""
        ended, row = self.row(0), self.row(number)
        ended[CELL["version"]] += 1
        for name in COUNTS:
            ended[CELL[name]] += row[CELL[name]]
        for cell in range(FREE, CELLS):
            ended[cell] += row[cell]
        longest = CELL["longest_stall_ns"]
        ended[longest] = max(ended[longest], row[longest])
        self.begin(number)
        ended[CELL["version"]] += 1

    def add(self, name: str, number: int = 1) -> None:
        """Add to a count of the master."""
        self.row(0)[CELL[name]] += number

    def is_stopping(self) -> bool:
        return bool(self.row(0)[CELL["stopping"]])

    def live(self) -> list[Row]:
        """Return the rows of serving processes."""
        rows = (self.row(number) for number in range(1, self._cells[CELL["highest"]] + 1))
        return [row for row in rows if row[CELL["pid"]]]

    def sum(self) -> dict[str, Any]:
        """Return the sums of all processes: counts (including those of ended processes), and gauges of live
        processes."""
        for _ in range(PATIENCE):
            version = self.row(0)[CELL["version"]]
            rows = [bytes(row) for row in (self.row(0), *self.live())]
            if version % 2 == 0 and version == self.row(0)[CELL["version"]]:
                break  # else the master moves counts, or has moved some meanwhile
        cells = [memoryview(row).cast("q") for row in rows]
        summed = [sum(column) for column in zip(*cells, strict=True)]
        figures = {name: summed[CELL[name]] for name in (*COUNTS, *MASTER[3:])}
        figures |= {name: sum(row[CELL[name]] for row in cells[1:]) for name in GAUGES}
        figures |= {name: max(row[CELL[name]] for row in cells) for name in MOST}
        figures["processes"] = len(cells) - 1
        figures["utilization_ppm"] //= max(1, figures["processes"])  # the mean
        return figures | totals(summed)


def figures_of(row: Row) -> dict[str, Any]:
    """Return the figures of one process, by name."""
    cells = memoryview(bytes(row)).cast("q")
    return {name: cells[CELL[name]] for name in (*GAUGES, *COUNTS)} | totals(cells)


def write(row: Row, figures: Iterable[tuple[str, int]]) -> None:
    for name, number in figures:
        row[CELL[name]] = number
