"""The rarer watchers of a gevent hub: each calls a function in the hub when its event has come.

Takes events of the thread's background loop; gives the Loop watchers that are due. _calls.pyx has those of
times and descriptors.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from syncless.contrib.gevent._calls import Watcher


class Round(Watcher):
    """A round of the loop."""

    __slots__ = ()

    def begin(self) -> None:
        self.loop.note_round(self, True)

    def end(self) -> None:
        self.loop.note_round(self, False)


class Fork(Watcher):
    """The process is the child of a fork."""

    __slots__ = ()

    def begin(self) -> None:
        self.loop._forks.add(self)

    def end(self) -> None:
        self.loop._forks.discard(self)


class Async(Watcher):
    """Somebody has called send(), in any thread."""

    __slots__ = ()

    def send(self) -> None:
        self.loop.waits.call_soon_threadsafe(self._sent)

    def send_ignoring_arg(self, _: Any) -> None:
        self.send()

    def _sent(self) -> None:
        if self.active:
            self.loop.make_due(self)


class Signals:
    """The active watchers of a signal, and who handled it before."""

    def __init__(self, loop: Any, number: int):
        self.watchers: list[Signal] = []
        self._loop = loop
        self.before = signal.signal(number, self._came)

    def _came(self, number: int, frame: Any) -> None:
        for watcher in self.watchers:
            self._loop.make_due(watcher)


class Signal(Watcher):
    """A signal has come to this process."""

    __slots__ = ("signum",)

    def __init__(self, loop: Any, signum: int, ref: bool, priority: int | None):
        super().__init__(loop, ref, priority)
        if signum < 1 or signum >= signal.NSIG:
            raise ValueError(f"illegal signal number: {signum!r}")
        self.signum = signum

    def begin(self) -> None:
        signals = self.loop.signals
        if self.signum not in signals:
            signals[self.signum] = Signals(self.loop, self.signum)
        signals[self.signum].watchers.append(self)

    def end(self) -> None:
        here = self.loop.signals.get(self.signum)
        if here is not None and self in here.watchers:
            here.watchers.remove(self)
            if not here.watchers:
                del self.loop.signals[self.signum]
                signal.signal(self.signum, here.before)


class Child(Watcher):
    """A child process has ended; 0 means any of those that other watchers watch."""

    __slots__ = ("_fd", "pid", "rpid", "rstatus")

    def __init__(self, loop: Any, pid: int, trace: int, ref: bool):
        super().__init__(loop, ref)
        if not loop.default:
            raise TypeError("child watchers are only available on the default loop")
        self.pid = pid
        self.rpid = 0
        self.rstatus = 0
        self._fd = -1

    def begin(self) -> None:
        if not self.pid:
            self.loop.children.append(self)
            return
        try:
            self._fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._ended()
            return
        self.loop.waits.add_reader(self._fd, self._ended)

    def _ended(self) -> None:
        try:
            self.rpid, self.rstatus = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            self.rpid, self.rstatus = self.pid, 0
        if self.rpid:
            self._forget()
            for watcher in (self, *self.loop.children):
                watcher.rpid, watcher.rstatus = self.rpid, self.rstatus
                self.loop.make_due(watcher)

    def _forget(self) -> None:
        if self in self.loop.children:
            self.loop.children.remove(self)
        if self._fd >= 0:
            self.loop.waits.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    end = _forget


class Stat(Watcher):
    """The result of os.stat() for a path has changed."""

    __slots__ = ("_handle", "_path", "attr", "interval", "prev")

    SECONDS = 5.0

    def __init__(self, loop: Any, path: str, interval: float, ref: bool, priority: int | None):
        super().__init__(loop, ref, priority)
        self._path = path
        self.interval = interval
        self.attr = self.prev = self._stat()
        self._handle: Any = None

    @property
    def path(self) -> str:
        return self._path

    def _stat(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)
        except OSError:
            return None

    def begin(self) -> None:
        self.attr = self.prev = self._stat()
        self._look_later()

    def _look_later(self) -> None:
        self._handle = self.loop.waits.call_later(self.interval or self.SECONDS, self._look)

    def _look(self) -> None:
        now = self._stat()
        if _facts(now) != _facts(self.attr):
            self.prev, self.attr = self.attr, now
            self.loop.make_due(self)
        self._look_later()

    def end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def _facts(stat: os.stat_result | None) -> tuple[object, ...]:
    if stat is None:
        return ()
    return (
        stat.st_dev,
        stat.st_ino,
        stat.st_mode,
        stat.st_nlink,
        stat.st_uid,
        stat.st_gid,
        stat.st_size,
        stat.st_mtime_ns,
        stat.st_ctime_ns,
    )
