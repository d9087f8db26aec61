"""Runs native handlers alongside a Server: their threads accept on its plain sockets, and pass other requests
on to the server.

Only the server accepts on sockets that speak TLS. Next to read: threads.pyx.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from syncless._core.allowance import processors
from syncless._core.current import sleep, wait_readable
from syncless._core.tasklet import Tasklet, spawn
from syncless.http.acceptor import Acceptor
from syncless.http.errors import PHRASES
from syncless.http.exchange import id_of, new_id
from syncless.http.limits import Limits
from syncless.http.listener import Counters, Listener, Quota
from syncless.http.log.errorlog import INFO
from syncless.http.request import HeadRequest
from syncless.http.requestids import trace_of
from syncless.http.trust import REQUEST_START, seconds_since
from syncless.native.routing import parse_routes
from syncless.native.threads import Inbox, Shared, Threads, reclaim
from syncless.server.lanes.lane import Lane, LaneOwner, Served

WATCH_SECONDS = 1.0
"""Between two looks at the threads."""
STUCK_SECONDS = 1.0
"""For which a thread may be in one handler before that is logged."""
BUSY_SECONDS = 0.005
"""For which all threads may be busy before Python accepts connections, too."""
QUIET_SECONDS = 10.0
"""After which a time in which all threads were busy is over, as for limits (http/listener/reached.pxi)."""
END_SECONDS = 2.0
"""For which a stopping server waits for threads that are in a handler."""
MOST_THREADS = 128
LOST = (
    "the threads of native handlers have ended, because the program has closed their descriptors; "
    "start the server after that"
)


class Ended:
    """The data of the access log for a request that a thread has served."""

    queue_seconds: float | None = None

    def __init__(self, closes: int, request: HeadRequest, trusted: bool, has_ids: bool):
        self.ending = "-" if closes else "+"
        self._request, self._trusted, self._has_ids = request, trusted, has_ids

    @cached_property
    def id(self) -> str:
        return id_of(self._request, self._trusted) or new_id()

    @property
    def trace_id(self) -> str | None:
        """The trace id of a trusted proxy, or None: native threads make no trace ids of their own."""
        given = self._request.field("traceparent") if self._has_ids and self._trusted else None
        return trace_of(given)


class NativeHandlers(Lane):
    """NativeHandlers(native, threads, limits): the native handlers of one server, from each start to its
    stop."""

    def __init__(self, native: Mapping[str, Any], threads: int, limits: Limits):
        self.routes = parse_routes(native)
        if not 0 <= threads <= MOST_THREADS:
            raise ValueError(
                f"native_threads must be between 0 (one for each CPU) and {MOST_THREADS}, not {threads}"
            )
        self.thread_count = threads or min(processors(), MOST_THREADS)
        self.limits = limits
        self._threads: Threads | None = None
        self._watching: Tasklet[Any] | None = None
        self._plain: list[Served] = []
        self._gates: list[NativeGate] = []
        self._last: dict[str, int] = {}
        """Figures of threads that have ended."""

    # -- starting and stopping ----------------------------------------------------------------------------

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        """Start threads on the sockets that do not speak TLS."""
        self._server = server
        self._plain = [each for each in served if not each.tls]
        if not self._plain:
            return
        if server.proxy_protocol:
            raise ValueError("native handlers cannot be combined with proxy_protocol")
        log = server.logs.access
        threads = Threads(
            self.routes,
            self.thread_count,
            self.limits,
            logs=log is not None,
            logs_fields=log is not None and log.wants_headers,
            forwarding=server.forwarding,
        )
        self._inbox = Inbox(threads, self._notice, self._fault, self._record)
        self._threads = threads
        self._told: set[tuple[int, str]] = set()
        self._quota: Quota | None = None
        self._charged = self._dropped = 0
        self._full_since = self._full_last = 0.0
        """The first and the last moment at which all threads were busy; 0: they are not."""
        for each in self._plain:
            each.is_left = True
            each.application = Shared(each.application, threads)
            threads.listen(each.sock.fileno())

    def start(self) -> None:
        threads = self._threads
        if threads is None:
            self._server.logs.errors.warning(
                "native handlers get no requests: all addresses of this server speak TLS, and requests "
                "over TLS go to the application"
            )
            return
        for each in self._plain:
            self._inbox.listen(each.listener)
            self._gates.append(NativeGate(self, each.listener, each.sock.fileno(), threads.event))
        if self._server.counters is not None:
            threads.measure_times()
        threads.start()
        self._watching = spawn(self._watch)
        self._watching.name = "watchdog of native handlers"

    @property
    def connections(self) -> int:
        """The connections in the threads and those already sent to Python: a stop waits for both."""
        return self._threads.connections + self._inbox.unread if self._threads is not None else 0

    @property
    def requests(self) -> int:
        """The number of requests answered since the start."""
        return self._threads.requests if self._threads is not None else 0

    def limit_requests(self, quota: Quota) -> None:
        """Count the requests of the threads in `quota`, too, whenever the watchdog runs."""
        self._quota = quota

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.stop()

    def accept_rest(self) -> None:
        threads = self._threads
        if threads is not None:
            threads.drain()
            self._wait(lambda: threads.drained)
            self._inbox.take_rest()
        self._close_gates()

    def _close_gates(self) -> None:
        gates, self._gates, self._plain = self._gates, [], []
        for gate in gates:
            gate.close()

    def close_connections(self, all_of_them: bool) -> None:
        if self._threads is not None:
            self._threads.close_connections(all_of_them)

    def close(self) -> None:
        """End the threads. A thread that is still in a handler is left behind."""
        self._close_gates()
        threads, self._threads = self._threads, None
        if threads is None:
            return
        if self._watching is not None:
            self._watching.kill()
        threads.end()
        self._wait(lambda: threads.ended)
        if not threads.join():
            self._server.logs.errors.warning(
                "a thread of native handlers has not ended: "
                + "; ".join(words for _, words in self._stuck(threads, 0))
            )
        self._tell_dropped(threads)
        self._end_full(float("inf"))
        self._collect(threads)
        self._last = threads.figures()
        self._inbox.close()
        del self._inbox  # with the descriptors of the threads

    def leave_to_parent(self) -> None:
        self._close_gates()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.leave_to_parent()

    @staticmethod
    def _wait(done: Any) -> None:
        waited, pause = 0.0, 0.001
        while not done() and waited < END_SECONDS:
            sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.05)

    # -- figures for an operator --------------------------------------------------------------------------

    def census(self) -> dict[str, int]:
        return {"native connections": self.connections} if self._threads is not None else {}

    def figures(self) -> dict[str, int]:
        return self._threads.figures() if self._threads is not None else dict(self._last)

    def count(self, counters: Counters) -> None:
        if self._threads is not None:
            self._threads.collect(counters)

    def stuck(self, seconds: float = STUCK_SECONDS) -> list[tuple[float, str]]:
        return self._stuck(self._threads, seconds) if self._threads is not None else []

    def all_busy(self) -> bool:
        """Return whether all threads have been too busy to accept for BUSY_SECONDS."""
        threads = self._threads
        return threads is not None and self.thread_count == sum(
            seconds >= BUSY_SECONDS for _, seconds, _ in threads.busy()
        )

    def in_flight(self) -> list[dict[str, Any]]:
        """Return the requests in flight. A thread reports only the route of its request."""
        at_work = self._threads.busy() if self._threads is not None else []
        return [
            self._request(index, seconds, route) for index, seconds, route in at_work if route is not None
        ]

    @staticmethod
    def _request(index: int, seconds: float, route: str) -> dict[str, Any]:
        method, _, path = route.rpartition(" ")
        return {
            "id": f"native-{index}",
            "method": method or "any",
            "path": path,
            "client": "unknown",
            "seconds": seconds,
            "upgraded": False,
            "state": "running",
            "waits_for": None,
            "waits_on": None,
            "waits_seconds": None,
            "where": f"native thread {index}",
        }

    @staticmethod
    def _stuck(threads: Threads, seconds: float) -> list[tuple[float, str]]:
        return [
            (took, f"native thread {index} has been in the handler of {route!r} for {took:.1f} s")
            for index, took, route in threads.busy()
            if took >= seconds and route is not None
        ]

    def _watch(self) -> None:
        while True:
            sleep(WATCH_SECONDS)
            threads = self._threads
            if threads is None:
                return
            if threads.ended:
                self._server.logs.errors.error(LOST)
                return
            reclaim()
            answered = threads.requests
            if self._quota is not None:
                self._quota.take_many(answered - self._charged)
            self._charged = answered
            self._tell_dropped(threads)
            self._end_full(time.monotonic() - QUIET_SECONDS)
            busy = {(i, route): took for i, took, route in threads.busy() if route and took >= STUCK_SECONDS}
            for i, route in busy.keys() - self._told:
                self._server.logs.errors.warning(
                    f"native thread {i} has been in the handler of {route!r} for {busy[i, route]:.1f} s; "
                    "it blocks all other connections of this thread"
                )
            self._told = set(busy)

    def note_full(self) -> None:
        """All threads are busy, so that Python accepts, too. The log tells of it, once until it is over."""
        self._full_last = time.monotonic()
        if not self._full_since:
            self._full_since = self._full_last
            self._tell_full("is reached: Python accepts connections, too; --native-threads changes it", {})

    def _end_full(self, before: float) -> None:
        """Tell that it is over, unless all threads were busy after that moment."""
        if self._full_since and self._full_last <= before:
            seconds = self._full_last - self._full_since
            self._full_since = 0.0
            self._tell_full(f"was reached for {seconds:.1f} s", {"seconds": round(seconds, 3)})

    def _tell_full(self, what: str, more: dict[str, float]) -> None:
        fields = {"limit": "native_threads", "value": self.thread_count, **more}
        message = f"native_threads={self.thread_count} {what}"
        self._server.logs.errors.entry(INFO, message, None, None, (), fields)

    def _tell_dropped(self, threads: Threads) -> None:
        missing = threads.dropped - self._dropped
        if missing:
            self._dropped += missing
            self._server.logs.errors.warning(
                f"the access log was too slow; {missing} lines of native handlers were dropped"
            )

    def _collect(self, threads: Threads) -> None:
        if self._server.counters is not None:
            threads.collect(self._server.counters)

    # -- messages from the threads -------------------------------------------------------------------------

    def _notice(self, error: int) -> None:
        self._server.logs.errors.warning(
            f"native handlers cannot accept connections: {os.strerror(error)}; closing idle ones. "
            "Raise ulimit -n, or set the limit `connections`"
        )

    def _fault(self, sentence: str) -> None:
        self._server.logs.errors.error(sentence)

    def _record(
        self,
        status: int,
        refused: int,
        closes: int,
        address: str,
        port: int,
        place: tuple[str, str],
        body: int,
        ns: int,
        data: bytes,
        fields: bytes,
    ) -> None:
        server = self._server
        log = server.logs.access
        if log is None:
            return
        client = address, str(port) if address else "", place
        if refused:
            request, ended = HeadRequest(data, *client, refused=True), None
        elif server.trusted is not None and server.forwarding is not None and server.trusted(address):
            request = HeadRequest(data, *client, keeps=server.forwarding.keeps)
            ended = Ended(closes, request, True, server.request_ids)
            server.forwarding(request)
            if server.forwarding.keeps(REQUEST_START) and (start := request.field(REQUEST_START)) is not None:
                age = seconds_since(start)
                ended.queue_seconds = None if age is None else max(0.0, age - ns / 1e9)
        else:
            request = HeadRequest(data, *client)
            ended = Ended(closes, request, False, server.request_ids)
        reason = f"{status} {PHRASES.get(status, '')}"
        lines = [line.partition(": ") for line in fields.decode("latin-1").split("\r\n")[:-1]]
        headers = [(name, value) for name, _, value in lines]
        log.log_line(request, reason, body, time.monotonic_ns() - ns, ended, headers)


_lost: list[select.epoll] = []
"""Their numbers are the program's now: as long as they are here, nobody closes them."""


class NativeGate:
    """An acceptor for a socket on which native threads accept. While all threads are in handlers, an Acceptor
    takes its place.

    Fact: the kernel wakes the first exclusive waiter (EPOLLEXCLUSIVE) of a socket. A thread in a handler does
    not wait. Decision: Python's own epoll is last in that queue, and is appended again after each event, so
    Python learns of a connection only if no thread waits. Guarded by
    tests/native/test_native_operating.py::test_python_accepts_while_all_threads_are_stuck.
    """

    def __init__(self, handlers: NativeHandlers, listener: Listener, fd: int, mark: int):
        self._handlers = handlers
        self._listener = listener
        self._fd = fd
        self._acceptor: Acceptor | None = None
        self._epoll = select.epoll()
        self._mark = mark
        self._epoll.register(mark, 0)
        self._relieving = spawn(self._relieve)
        self._relieving.name = "acceptor beside native threads"

    def _relieve(self) -> None:
        while self._is_ours():
            with contextlib.suppress(OSError):  # no memory for one more descriptor that is waited for
                self._wait()
            sleep(BUSY_SECONDS)
            if self._handlers.all_busy():
                with contextlib.suppress(OSError):
                    self._acceptor = Acceptor(self._listener, self._fd)
                while self._handlers.all_busy():
                    self._handlers.note_full()
                    sleep(BUSY_SECONDS)
                self._stop_accepting()

    def _is_ours(self) -> bool:
        """Return whether the program has left the epoll unchanged: only ours contains the mark."""
        try:
            self._epoll.modify(self._mark, 0)
        except OSError:
            return False
        return True

    def _wait(self) -> None:
        """Wait until a connection arrives and no thread waits for it."""
        self._epoll.register(self._fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        try:
            if not self._epoll.poll(0):
                wait_readable(self._epoll.fileno())
        finally:
            if self._is_ours():
                self._epoll.unregister(self._fd)

    def _stop_accepting(self) -> None:
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()

    def close(self) -> None:
        self._relieving.kill()
        self._stop_accepting()
        if self._is_ours():
            self._epoll.close()
        else:
            _lost.append(self._epoll)
