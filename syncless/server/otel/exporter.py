"""Exporter: sends what the server records to a collector (OTLP by HTTP), from an OS thread beside the loop.

Each signal has an Outlet. What waits there is bounded: the oldest is dropped for the newest, and counted. A
message that the collector cannot take now is sent again, later and later, or when the collector says so; one
that it refuses is dropped. One line in the log tells when a trouble begins, and one when it is over.
"""

from __future__ import annotations

import _socket
import random
import time
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless.http.log.errorlog import inform, warn
from syncless.server.otel.posting import Interrupted, Reply, post
from syncless.server.otel.settings import Target

Item = TypeVar("Item")

TICK = 1.0
"""Seconds between two looks at what waits, unless a whole message does."""
AGAIN = (429, 502, 503, 504)
"""Statuses after which a message is sent again, as OTLP has it."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a message is sent again; each pause is twice as long as the one before, and up to a fifth
longer or shorter, so that many servers do not come back together."""
LONGEST_RETRY_AFTER = 600.0
"""Seconds for which a collector may put us off."""


class Backlog(Generic[Item]):
    """Backlog(most, batch, full): records that wait to be sent. put() may be called in any thread; `full` is
    called when there are enough for a message."""

    def __init__(self, most: int, batch: int, full: Callable[[], None]):
        self._items: deque[Item] = deque(maxlen=most)
        self._most = most
        self._batch = batch
        self._full = full
        self.since = 0.0
        """When the first of them came."""
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        number = len(self._items)
        if number == self._most:
            self.dropped += 1  # the oldest
        elif number == 0:
            self.since = time.monotonic()
        self._items.append(item)
        if number + 1 == self._batch:
            self._full()

    def end(self) -> None:
        """The server stops."""

    def take(self) -> list[Item]:
        """Return the oldest, as many as a message has at most."""
        taken: list[Item] = []
        with suppress(IndexError):  # fewer
            while len(taken) < self._batch:
                taken.append(self._items.popleft())
        self.since = time.monotonic()
        return taken


class Clock(Backlog[int]):
    """Clock(interval): has one record each time that so many seconds have passed, the moment (ns since 1970)
    at which figures are to be read; and one when the server stops."""

    def __init__(self, interval: float):
        super().__init__(1, 1, lambda: None)
        self._interval = interval
        self._next = time.monotonic() + interval

    def __len__(self) -> int:
        return int(time.monotonic() >= self._next)

    def take(self) -> list[int]:
        self._next = time.monotonic() + self._interval
        return [time.time_ns()]

    def end(self) -> None:
        self._next, self._interval = 0.0, float("inf")


class Message(NamedTuple):
    body: bytes
    packed: bool
    number: int
    """Of records in it."""


class Outlet(Generic[Item]):
    """Outlet(target, what, backlog, delay, encode): `what` names the records in the log."""

    def __init__(
        self,
        target: Target,
        what: str,
        backlog: Backlog[Item],
        delay: float,
        encode: Callable[[list[Item]], bytes],
    ):
        self._target = target
        self._what = what
        self.backlog = backlog
        self._delay = delay
        self._encode = encode
        self._message: Message | None = None
        """On its way, or to be sent again."""
        self._not_before = 0.0
        self._pause = FIRST_PAUSE
        self._is_failing = False
        self._told = 0
        """Dropped records that have been reported."""
        self.refused = 0
        """Records that the collector has refused."""
        self.sent = 0

    @property
    def dropped(self) -> int:
        """The number of records that will never arrive."""
        return self.backlog.dropped + self.refused

    @property
    def waiting(self) -> int:
        return len(self.backlog) + (self._message.number if self._message is not None else 0)

    def is_due(self, now: float) -> bool:
        if self._message is not None:
            return now >= self._not_before
        full = len(self.backlog) >= self.backlog._batch
        return bool(len(self.backlog)) and (full or now - self.backlog.since >= self._delay)

    def send(self, woken: int, until: float) -> bool:
        """Try to send a message until that time. Return whether it was taken."""
        if self._message is None:
            items = self.backlog.take()
            if not items:
                return True
            try:
                body = self._encode(items)
            except Exception as error:
                self._refuse(len(items), f"they cannot be encoded: {error!r}")
                return True
            self._message = _pack(body, self._target.gzip, len(items))
        message = self._message
        try:
            until = min(until, time.monotonic() + self._target.seconds)
            reply = post(self._target, message.body, message.packed, woken, until)
        except Interrupted:
            return False
        except (OSError, ValueError) as error:  # ssl's errors are of both
            self._wait(str(error) or type(error).__name__, None)
            return False
        if reply.status in AGAIN:
            self._wait(_said(reply), _retry_after(reply))
            return False
        self._message = None
        self._pause = FIRST_PAUSE
        if reply.status >= 300:
            self._refuse(message.number, _said(reply))
        else:
            self._taken(message.number, reply)
        return True

    def _taken(self, number: int, reply: Reply) -> None:
        self.sent += number
        if self._is_failing:
            self._is_failing = False
            inform(f"OpenTelemetry: {self._target.url} takes {self._what} again; {self._lost()}")
        elif self.backlog.dropped > self._told:
            if not self._told:
                warn(f"OpenTelemetry: there are more {self._what} than can be sent; {self._lost()}")
            self._told = max(1, self._told)

    def _lost(self) -> str:
        """Return words for the dropped records that have not been reported."""
        lost, self._told = self.dropped - self._told, self.dropped
        return f"{lost} were dropped" if lost else "none were dropped"

    def tell_end(self) -> None:
        """Report what will not be sent any more."""
        if self.waiting:
            warn(
                f"OpenTelemetry: {self.waiting} {self._what} could not be sent before the end; {self._lost()}"
            )
        elif self.dropped > self._told:
            inform(f"OpenTelemetry: {self.dropped} {self._what} were dropped since the start")

    def _wait(self, why: str, pause: float | None) -> None:
        if pause is None:
            pause = self._pause * random.uniform(0.8, 1.2)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._not_before = time.monotonic() + pause
        if not self._is_failing:
            self._is_failing = True
            warn(
                f"OpenTelemetry: cannot send {self._what} to {self._target.url}: {why}. They are sent later; "
                f"if more than {self.backlog._most} wait, the oldest are dropped"
            )

    def _refuse(self, number: int, why: str) -> None:
        self.refused += number
        if not self._is_failing:
            self._is_failing = True
            warn(f"OpenTelemetry: {self._target.url} refuses {self._what}: {why}. They are dropped")


class Exporter:
    """Exporter(): add() outlets, then start()."""

    def __init__(self) -> None:
        self.outlets: list[Outlet[Any]] = []
        self._thread = SideThread(self._step)
        self._ends = float("inf")
        self._is_over = False
        self._ours, self._theirs = _socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)

    def wake(self) -> None:
        """Have the thread look at once."""
        with suppress(OSError):  # it has been woken often enough
            self._ours.send(b"x")

    def start(self) -> None:
        self._thread.start()

    def begin_stop(self, seconds: float) -> None:
        """From now on send what is left, for at most so many seconds."""
        for outlet in self.outlets:
            outlet.backlog.end()
        self._ends = time.monotonic() + seconds
        self.wake()

    @property
    def _is_ending(self) -> bool:
        return self._ends < float("inf")

    @property
    def is_over(self) -> bool:
        """Whether all is sent, or given up."""
        return self._is_over

    def close(self) -> None:
        """End the thread, and tell what could not be sent."""
        if self._thread.stop():
            self._ours.close()
            self._theirs.close()
        for outlet in self.outlets:
            outlet.tell_end()

    # -- in the thread ------------------------------------------------------------------------------------

    def _step(self, woken: int) -> bool:
        """Send what is due, or wait. Return False when all is over."""
        now = time.monotonic()
        if self._is_ending:
            return self._finish(woken)
        due = [outlet for outlet in self.outlets if outlet.is_due(now)]
        for outlet in due:
            outlet.send(woken, self._ends)
        if not due and self._theirs.fileno() in wait_readable([self._theirs.fileno(), woken], TICK):
            with suppress(OSError):
                self._theirs.recv(4096)
        return True

    def _finish(self, woken: int) -> bool:
        """Each outlet goes on until it fails."""
        for outlet in self.outlets:
            while outlet.waiting and time.monotonic() < self._ends and outlet.send(woken, self._ends):
                pass
        self._is_over = True
        return False


def _pack(body: bytes, gzip: bool, number: int) -> Message:
    if not gzip:
        return Message(body, False, number)
    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return Message(packer.compress(body) + packer.flush(), True, number)


def _said(reply: Reply) -> str:
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = ""
    text = "".join(c if c.isprintable() else " " for c in reply.body[:200].decode("utf-8", "replace"))
    return f"{reply.status} {phrase}{': ' if text.strip() else ''}{text.strip()}"


def _retry_after(reply: Reply) -> float | None:
    """Return for how many seconds the collector puts us off, or None."""
    value = reply.fields.get("retry-after", "")
    if value.isdecimal():
        seconds = float(value)
    else:
        try:
            from email.utils import parsedate_to_datetime  # hardly ever needed

            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError):
            return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)
