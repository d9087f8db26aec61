"""Affinity: the requests of a session go to one worker, whichever worker accepts their connection.

The master makes a pair of sockets for each worker before it forks. So every worker can send to every other,
and a request that has been sent to a worker that dies waits for the next one in its place. The rule tells
from a request which worker has its session: by a cookie of ours, by a field that the application has given to
the client before, or by the client's address. A worker is named by its number, from 1, so its successor gets
its sessions.

A request moves only once. A connection of plain HTTP/1 moves with it (http/moved.pyx); a request of another
one is relayed, by a pair of sockets whose other end moves instead (relay.py).
"""

from __future__ import annotations

import _socket
import array
import contextlib
import json
import mmap
import os
import socket
import zlib
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from syncless._core.current import sleep, wait_readable
from syncless._core.tasklet import Tasklet, spawn
from syncless.http.moved import Movable, adopt
from syncless.server.lanes.lane import Lane, LaneOwner, Served
from syncless.server.relay import Agreed, Pairs, Relay, agreed

if TYPE_CHECKING:
    import ssl

COOKIE = "syncless_worker"
MODES = "affinity must be 'cookie', 'client' or 'header:NAME', such as 'header:mcp-session-id'"
LARGEST = 1 << 18
"""Bytes of a request that moves: those that have been read of it."""
NO_SIGNAL: int = getattr(_socket, "MSG_NOSIGNAL", 0)
CLOSED_AT_EXEC: int = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
"""Flags that macOS lacks."""
TAKEN_AT_ONCE = 32
"""Requests of others that are taken before other tasklets run."""
UNTIL_FREE = 0.05
"""Seconds from one look for a free descriptor to the next."""
CELL = 8
OUTCOMES = {
    "moved": "to the worker of its session",
    "relayed": "to the worker of its session, by the one that has its connection, because of TLS or HTTP/2",
    "gone": "the worker of its session is gone",
    "full": "the worker of its session has too many on their way",
}


class Sticky(Protocol):
    """A Server, as this file sees it."""

    lanes: list[Lane]
    application: Any


class Affinity:
    """Affinity(rule, workers): made by a master for all workers. Raises ValueError for an unknown rule."""

    def __init__(self, rule: str, workers: int):
        kind, _, name = rule.partition(":")
        if kind not in ("cookie", "client", "header") or bool(name) != (kind == "header"):
            raise ValueError(f"{MODES}, not {rule!r}")
        self.kind = kind
        self.field = {"cookie": "cookie", "client": "x-forwarded-for"}.get(kind, name.lower())
        self.number = 0
        """Of this worker."""
        self.workers = workers
        self._pids = memoryview(mmap.mmap(-1, (workers + 1) * CELL)).cast("q")
        """Of the processes that receive now, by the numbers of the workers; 0: none does."""
        self._pairs = [_socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET) for _ in range(workers)]
        for pair in self._pairs:
            for each in pair:
                each.setblocking(False)
        self.learned: Any = None
        self._counts: dict[str, Any] = {}

    # -- the rule -----------------------------------------------------------------------------------------

    def worker_of(self, value: bytes | None, address: str) -> int:
        """Return the number of the worker that has the session; 0 if none has."""
        if self.kind == "client":
            return self._worker_of_client(address)
        if value is None:
            return 0
        if self.kind == "cookie":
            return self.named_in(value.decode("latin-1"))
        found = self.learned.get(self._key(value.decode("latin-1")))
        return found if isinstance(found, int) else 0

    def named_in(self, cookies: str) -> int:
        """Return the worker that the Cookie field names; 0 if it names none."""
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and value.isascii() and value.isdecimal() and len(value) < 6:
                return int(value) if 0 < int(value) <= self.workers else 0
        return 0

    def _worker_of_client(self, address: str) -> int:
        """Choose one of those that there are: each keeps its clients when another comes or goes."""
        present = [number for number in range(1, self.workers + 1) if self._pids[number]]
        return max(present, key=lambda number: zlib.crc32(f"{number} {address}".encode()), default=0)

    def fields(self, cookies: str, secure: bool, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Note the session that a response with these headers begins. Return the fields by which it tells the
        client its worker; none if the client has the right cookie."""
        if self.kind == "header":
            for name, value in headers:
                if name.lower() == self.field:
                    self.learned.set(self._key(value), self.number)
        if self.kind != "cookie" or self.named_in(cookies) == self.number:
            return []
        value = f"{COOKIE}={self.number}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"
        return [("Set-Cookie", value)]

    @staticmethod
    def _key(value: str) -> str:
        return value if 0 < len(value.encode()) <= 250 else f"{zlib.crc32(value.encode())} {len(value)}"

    # -- sending ------------------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Return whether a worker of this number takes part: one that was added later does not."""
        return number <= self.workers

    def is_present(self, number: int) -> bool:
        pid = self._pids[number]
        try:
            os.kill(pid or -1, 0) if pid else None
        except OSError:
            return False
        return bool(pid)

    def begin(self, number: int) -> None:
        """In worker ``number``."""
        self.number = number
        self.learned = import_module("syncless.shared.values").Mapping("syncless affinity")
        metrics = import_module("syncless.shared.metrics")
        for outcome in OUTCOMES:
            self._counts[outcome] = metrics.make_value(
                "counter",
                "syncless_affinity_requests",
                "syncless_affinity_requests_total",
                ("outcome",),
                (outcome,),
                "Requests that arrived at another worker than that of their session, by what became of them",
            )

    def join(self, server: Sticky, number: int) -> None:
        """In worker ``number``, before its server starts."""
        self.begin(number)
        server.lanes.insert(0, AffinityLane(self))
        server.application = server.application.with_sessions(self)

    def count(self, outcome: str) -> None:
        self._counts[outcome].inc(1)

    def receive_here(self, receives: bool) -> None:
        if receives:
            self._pids[self.number] = os.getpid()
        elif self._pids[self.number] == os.getpid():
            self._pids[self.number] = 0

    def send(self, number: int, fd: int, message: bytes) -> bool:
        """Send it with the descriptor, which stays the caller's. Return whether it is on its way."""
        rights = array.array("i", [fd])
        try:
            self._pairs[number - 1][1].sendmsg(
                [message],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)],
                _socket.MSG_DONTWAIT | NO_SIGNAL,
            )
        except OSError:
            return False
        return True

    def close(self) -> None:
        for pair in self._pairs:
            for each in pair:
                each.close()

    @property
    def inbox(self) -> _socket.socket:
        return self._pairs[self.number - 1][0]


class AffinityLane(Lane):
    """AffinityLane(affinity): that of one worker, before the lanes that accept."""

    def __init__(self, affinity: Affinity):
        self._affinity = affinity
        self._served: list[Served] = []
        self.routes: list[Routes] = []
        self._receiver: Tasklet[None] | None = None

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        self._served = served
        field = self._affinity.field.encode()
        for index, each in enumerate(served):
            self.routes.append(Routes(self._affinity, index, each))
            each.application = Movable(each.application, field, self.routes[-1])

    def start(self) -> None:
        self._affinity.receive_here(True)
        self._receiver = spawn(self._receive)
        self._receiver.name = "requests of sessions"

    def stop(self) -> None:
        self._affinity.receive_here(False)

    def accept_rest(self) -> None:
        """From now on a successor has the inbox for itself: what would be taken at the very end would not be
        served."""
        while self._take_some():
            pass
        self._receive_no_more()

    def close(self) -> None:
        self._affinity.receive_here(False)
        self._receive_no_more()

    def _receive_no_more(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.kill()

    # -- requests of others -------------------------------------------------------------------------------

    def _receive(self) -> None:
        while True:
            wait_readable(self._affinity.inbox.fileno())
            self._take_some()
            if not self._has_free_descriptor():
                sleep(UNTIL_FREE)

    def _has_free_descriptor(self) -> bool:
        try:
            os.close(os.dup(self._affinity.inbox.fileno()))
        except OSError:
            return False
        return True

    def _take_some(self) -> bool:
        """Return whether there may be more. Those for which there is no descriptor stay where they are: a
        message that is received without its descriptor would be lost."""
        size = array.array("i").itemsize
        for _ in range(TAKEN_AT_ONCE):
            if not self._has_free_descriptor():
                return False
            try:
                message, rights, _, _ = self._affinity.inbox.recvmsg(
                    LARGEST + 4096, _socket.CMSG_SPACE(size), CLOSED_AT_EXEC
                )
            except BlockingIOError:  # or its predecessor has taken it
                return False
            head, _, data = message.partition(b"\n")
            if not rights:  # another thread has just taken the last one
                continue
            fds = array.array("i", rights[0][2][:size])
            if not CLOSED_AT_EXEC:
                os.set_inheritable(fds[0], False)
            index, address, port, trusted, relayed, tls = json.loads(head)
            tls = None if tls is None else Agreed(*tls)
            adopt(self._served[index].listener, fds[0], data, address, port, trusted, relayed, tls)
        return True


class Routes:
    """Routes(affinity, index, served): by which requests leave the listening socket `served`."""

    def __init__(self, affinity: Affinity, index: int, served: Served):
        self._affinity, self._index, self._served = affinity, index, served
        self._pairs: dict[int, tuple[Any, Pairs]] = {}
        """By the descriptor of the client's connection: whose it is, and those that it keeps."""

    def choose(self, value: bytes | None, address: str, trusted: bool) -> int:
        affinity = self._affinity
        if affinity.kind == "client" and trusted and value is not None:
            address = value.decode("latin-1").rpartition(",")[2].strip()
        number = affinity.worker_of(value, address)
        if number in (0, affinity.number):
            return 0
        if not affinity.is_present(number):
            affinity.count("gone")
            return 0
        return number

    def send(self, number: int, fd: int, data: bytes, address: str, port: int, trusted: bool) -> None:
        head = json.dumps((self._index, address, port, trusted, False, None)).encode()
        if len(data) < LARGEST and self._affinity.send(number, fd, head + b"\n" + data):
            self._affinity.count("moved")
            os.close(fd)
        else:
            self._affinity.count("full")
            adopt(self._served.listener, fd, data, address, port, trusted, False)

    def relay(
        self, number: int, fd: int, tls: ssl.SSLObject | None, address: str, port: int, trusted: bool
    ) -> Relay | None:
        whose = (tls, address, port, trusted)
        found, pairs = self._pairs.get(fd, (None, None))
        if pairs is None or found != whose:
            pairs = Pairs(lambda number: self._connect(number, *whose))
            self._pairs[fd] = whose, pairs
        relay = pairs.relay(number)
        self._affinity.count("full" if relay is None else "relayed")
        return relay

    def let_go(self, fd: int) -> None:
        _, pairs = self._pairs.pop(fd)
        pairs.close()

    def _connect(
        self, number: int, tls: ssl.SSLObject | None, address: str, port: int, trusted: bool
    ) -> socket.socket | None:
        """Return one end of a pair whose other end is on its way to the worker."""
        told = (self._index, address, port, trusted, True, None if tls is None else agreed(tls))
        with contextlib.suppress(OSError):  # there are no descriptors
            ours, theirs = socket.socketpair()
            with theirs:
                if self._affinity.send(number, theirs.fileno(), json.dumps(told).encode() + b"\n"):
                    return ours
            ours.close()
        return None
