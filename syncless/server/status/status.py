"""StatusServer: serves the page, JSON, events, health and metrics of a whole server with its workers.

Its process calls it in steps: `fileno()` is readable when there is work, `pause()` returns the time until
there is work in any case, and `step()` does the work. All processes are queried at the same time; those that
have not responded after PATIENCE are shown in their last state.

    a reader asks -> every reporter is asked -> all have told, or it is too late -> every reader is answered
"""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from syncless.server.status.endpoint import EVENTS, Answer, Client, Endpoint, Events, Request
from syncless.server.status.options import METRICS_PATH, StatusOptions
from syncless.server.status.overview import Overview, Program
from syncless.server.status.reporter import LENGTH, QUESTION, SEARCH, Reporter
from syncless.server.status.scoreboard import Scoreboard

PATIENCE = 0.5
"""Seconds for a process to answer."""
EVERY = 1.0
"""Seconds between two events, and between two samples of the rates."""
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
HEALTH_PATHS = ("/livez", "/readyz")
SEARCH_PATH = "/stuck"
MAY_SEARCH = "syncless-search"
"""A field of a request that begins a search: a page of another site cannot make a browser send it."""
PATHS = ("/", "/status.json", "/events", SEARCH_PATH, *HEALTH_PATHS)


class Line:
    """The connection with the reporter of another process."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.report: dict[str, Any] | None = None
        self.asked_at = 0.0
        """When the question was asked that has no response yet; 0: none."""
        self._received = bytearray()

    def ask(self, question: bytes = QUESTION) -> None:
        if not self.asked_at or question != QUESTION:
            with contextlib.suppress(OSError):  # it has ended, or stands still for long
                self.sock.send(question)
            self.asked_at = self.asked_at or time.monotonic()

    def on_ready(self, mask: int) -> None:
        try:
            data = self.sock.recv(1 << 20)
        except OSError:
            return
        self._received += data
        if len(self._received) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
            if len(self._received) >= end:
                self.report = json.loads(self._received[LENGTH.size : end])
                del self._received[:end]
                self.asked_at = 0.0


class Own:
    """The reporter of this process, used like a Line."""

    asked_at = 0.0

    def __init__(self, reporter: Reporter):
        self._reporter = reporter
        self.report: dict[str, Any] | None = None

    def ask(self, question: bytes = QUESTION) -> None:
        if question == SEARCH:
            self._reporter.search()
        self.report = self._reporter.report()


class StatusServer:
    """StatusServer(options, scoreboard, program, metrics): ``metrics`` returns the metrics as text, with
    their type, for an Accept field."""

    def __init__(
        self,
        options: StatusOptions,
        scoreboard: Scoreboard,
        program: Program,
        metrics: Callable[[str], tuple[bytes, str]] | None = None,
    ):
        self.scoreboard = scoreboard
        self._program = program
        self._metrics = metrics
        self._selector = DefaultSelector()
        self._overview = Overview(scoreboard, program)
        self._lines: dict[int, Line | Own] = {}
        self._waiting: list[Client] = []
        self._round_ends = 0.0
        """When those that have been asked are waited for no longer; 0: none has been."""
        self._sampled = 0.0
        self._at_status = options.at_status
        self.endpoints: list[Endpoint] = []
        self.status: Endpoint | None = None
        if options.status is not None:
            self.status = Endpoint(self._selector, options.status, self._answer, options.public)
            self.endpoints.append(self.status)
        if options.metrics is not None:
            self.endpoints.append(
                Endpoint(self._selector, options.metrics, self._answer_metrics, options.public)
            )
        if options.health is not None:
            self.endpoints.append(Endpoint(self._selector, options.health, self._answer_health, True))

    def open(self) -> None:
        """Open the sockets. Raise OSError on failure."""
        for endpoint in self.endpoints:
            endpoint.open()

    @property
    def urls(self) -> list[str]:
        return self.status.urls if self.status is not None else []

    def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.close_all()
        for pid in list(self._lines):
            self.forget(pid)
        self._selector.close()

    def leave_to_parent(self) -> None:
        """Close the descriptors in a child after a fork: everything belongs to the parent."""
        for endpoint in self.endpoints:
            endpoint.leave_to_parent()
        for line in self._lines.values():
            if isinstance(line, Line):
                line.sock.close()
        self._selector.close()

    # -- the processes ------------------------------------------------------------------------------------

    def listen_to(self, pid: int, fd: int) -> None:
        """Listen to the reporter of a process, which is at the other end of this socket."""
        sock = _socket.socket(fileno=fd)
        sock.setblocking(False)
        line = Line(sock)  # type: ignore[arg-type]
        self._lines[pid] = line
        self._selector.register(sock, EVENT_READ, line.on_ready)

    def listen_here(self, reporter: Reporter) -> None:
        self._lines[os.getpid()] = Own(reporter)

    def ask(self, pid: int) -> None:
        """Ask a process for its report."""
        if pid in self._lines:
            self._lines[pid].ask()

    def forget(self, pid: int) -> list[dict[str, Any]]:
        """Forget a process that has ended. Return the requests in flight at its last report."""
        line = self._lines.pop(pid, None)
        if isinstance(line, Line):
            line.on_ready(EVENT_READ)  # it may have answered just now
            self._selector.unregister(line.sock)
            line.sock.close()
        return [] if line is None or line.report is None else list(line.report["requests"])

    # -- steps --------------------------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        """Return descriptors of which one is readable when step() has work. Where there is neither epoll nor
        kqueue, a client that can take more bytes waits for the end of pause()."""
        fileno = getattr(self._selector, "fileno", None)
        return [each.fd for each in self._selector.get_map().values()] if fileno is None else [fileno()]

    def pause(self) -> float:
        """Return the seconds until step() has work in any case."""
        due = self._sampled + EVERY
        if self._round_ends:
            due = min(due, self._round_ends)
        return max(0.0, due - time.monotonic())

    def step(self, seconds: float = 0.0) -> None:
        """Do the work, waiting for at most `seconds`."""
        for key, mask in self._selector.select(seconds):
            key.data(mask)
        now = time.monotonic()
        if now >= self._sampled + EVERY:
            self._sampled = now
            self._overview.sample()
            for endpoint in self.endpoints:
                endpoint.close_late_ones()
            if self._followers():
                self._ask_all()
        if self._round_ends and (now >= self._round_ends or not self._unanswered()):
            self._round_ends = 0.0
            self._tell(json.dumps(self.overview()).encode())

    def _followers(self) -> list[Client]:
        return [client for client in self.status.clients if client.follows] if self.status else []

    def _ask_all(self) -> None:
        for line in self._lines.values():
            line.ask()
        self._round_ends = self._round_ends or time.monotonic() + PATIENCE

    def _unanswered(self) -> bool:
        return any(line.asked_at for line in self._lines.values())

    def _tell(self, overview: bytes) -> None:
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            client.answer(Answer(overview + b"\n", "application/json"))
        for client in self._followers():
            client.push(b"data: " + overview + b"\n\n")

    def overview(self) -> dict[str, Any]:
        """Return the overview from the last reports of the processes."""
        now = time.monotonic()
        return self._overview.now(
            {
                pid: (line.report, now - line.asked_at if line.asked_at else 0.0)
                for pid, line in self._lines.items()
            }
        )

    # -- answers ------------------------------------------------------------------------------------------

    def _answer(self, client: Client, request: Request) -> Answer | Events | None:
        if request.path in HEALTH_PATHS:
            return self._answer_health(client, request)
        if request.path == METRICS_PATH and self._at_status:
            return self._answer_metrics(client, request)
        accepted = request.headers.get("accept", "")
        if request.path == "/" and "application/json" not in accepted:
            with open(PAGE, "rb") as file:
                return Answer(file.read(), "text/html; charset=utf-8")
        if request.path in ("/", "/status.json"):
            self._waiting.append(client)
            self._ask_all()
            return None
        if request.path == "/events":
            self._ask_all()
            return EVENTS
        if request.path == SEARCH_PATH:
            return self._search(request)
        paths = (*PATHS, METRICS_PATH) if self._at_status else PATHS
        return Answer(f"The paths here are {' '.join(paths)}\n".encode(), status=404)

    def _search(self, request: Request) -> Answer:
        if MAY_SEARCH not in request.headers:
            text = b"Add the field Syncless-Search: yes. A search blocks the loops for a while.\n"
            return Answer(text, status=403)
        for line in self._lines.values():
            line.ask(SEARCH)
        text = b"The search has begun. Its result is `stuck` of each worker in status.json.\n"
        return Answer(text, status=202)

    def _answer_health(self, client: Client, request: Request) -> Answer:
        if request.path == "/livez":
            return health(self._program.is_live())
        if request.path == "/readyz":
            return health(self._program.is_ready())
        return Answer(f"The paths here are {' '.join(HEALTH_PATHS)}\n".encode(), status=404)

    def _answer_metrics(self, client: Client, request: Request) -> Answer:
        if request.path not in ("/", METRICS_PATH) or self._metrics is None:
            return Answer(f"The path here is {METRICS_PATH}\n".encode(), status=404)
        body, content_type = self._metrics(request.headers.get("accept", ""))
        return Answer(body, content_type)


def health(well: bool) -> Answer:
    return Answer(b"ok\n") if well else Answer(b"no\n", status=503)
