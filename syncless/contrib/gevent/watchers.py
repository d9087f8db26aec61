"""The watchers of a gevent hub: each calls a function in the hub when its event has come.

Takes events of the thread's background loop; gives the Loop watchers that are due. An event is reported once
before its function has been called, however long it lasts.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from typing import Any

READ, WRITE = 1, 2


class Watcher:
    """The base of all. It is active from start() to stop()."""

    __slots__ = ("__weakref__", "_args", "_callback", "_priority", "_ref", "active", "due", "loop")

    def __init__(self, loop: Any, ref: bool = True, priority: int | None = None):
        self.loop = loop
        self._ref = ref
        self._priority = priority
        self._callback: Callable[..., object] | None = None
        self._args: Any = None
        self.active = False
        self.due = False

    def start(self, callback: Callable[..., object], *args: Any, **how: Any) -> None:
        """Call callback(*args) in the hub at each event from now on."""
        if not callable(callback):
            raise TypeError(f"a watcher calls a function, not {callback!r}")
        self._callback, self._args = callback, args
        if not self.active:
            self.active = True
            if self._ref:
                self.loop.note(self, True)
            self.begin(**how)

    def stop(self) -> None:
        """Call nothing any more."""
        self._callback = self._args = None
        if self.active:
            self.active = False
            self.end()
            if self._ref:
                self.loop.note(self, False)

    def close(self) -> None:
        """Stop it for good."""
        self.stop()

    def fire(self) -> None:
        """Call the function: in the hub."""
        callback, args = self._callback, self._args
        if callback is not None:
            self.loop.call(callback, args)

    def begin(self) -> None:
        """Called when it becomes active."""

    def end(self) -> None:
        """Called when it is active no more."""

    def feed(self, revents: int, callback: Callable[..., object], *args: Any) -> None:
        """Call callback(*args) in the next round, as if its event had come."""
        self._callback, self._args = callback, args
        if not self.active:
            self.active = True
            if self._ref:
                self.loop.note(self, True)
        self.loop.make_due(self)

    @property
    def pending(self) -> bool:
        return self.due

    @property
    def callback(self) -> Callable[..., object] | None:
        return self._callback

    @callback.setter
    def callback(self, callback: Callable[..., object] | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"a watcher calls a function, not {callback!r}")
        self._callback = callback

    @property
    def args(self) -> Any:
        return self._args

    @args.setter
    def args(self, args: Any) -> None:
        if args is not None and not isinstance(args, tuple):
            raise TypeError("args must be a tuple or None")
        self._args = args

    @property
    def ref(self) -> bool:
        return self._ref

    @ref.setter
    def ref(self, ref: bool) -> None:
        if self.active and bool(ref) != self._ref:
            self.loop.note(self, bool(ref))
        self._ref = bool(ref)

    @property
    def priority(self) -> int:
        return self._priority or 0

    @priority.setter
    def priority(self, priority: int) -> None:
        if self.active:
            raise AttributeError("the priority of an active watcher cannot be changed")
        self._priority = priority

    def _format(self) -> str:
        return ""

    def __repr__(self) -> str:
        text = f"<{type(self).__name__.lower()} at {id(self):#x}{self._format()}"
        if self.active:
            text += " active"
        if self.due:
            text += " pending"
        if self._callback is not None:
            text += f" callback={self._callback!r} args={self._args!r}"
        return text + ">"

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Io(Watcher):
    """A descriptor can be read, written, or either."""

    __slots__ = ("_events", "_fd", "_pass_events", "came")

    def __init__(self, loop: Any, fd: int, events: int, ref: bool, priority: int | None):
        super().__init__(loop, ref, priority)
        if fd < 0:
            raise ValueError(f"fd must be non-negative: {fd!r}")
        if events & ~(READ | WRITE):
            raise ValueError(f"illegal event mask: {events!r}")
        fcntl.fcntl(fd, fcntl.F_GETFD)  # an OSError if it is closed
        self._fd = fd
        self._events = events
        self._pass_events = False
        self.came = 0

    def begin(self, pass_events: bool = False) -> None:
        self._pass_events = pass_events
        self.came = 0
        self.loop.descriptors.add(self)

    def end(self) -> None:
        self.loop.descriptors.remove(self)

    def fire(self) -> None:
        came, self.came = self.came, 0
        self._call(came)
        if self.active:
            try:
                self.loop.descriptors.arm(self._fd)
            except OSError:  # it was closed: who waits for it learns that by a last call
                self._call(READ | WRITE)
                self.stop()

    def _call(self, came: int) -> None:
        callback, args = self._callback, self._args
        if callback is not None:
            self.loop.call(callback, (came, *args) if self._pass_events else args)

    def feed(self, revents: int, callback: Callable[..., object], *args: Any) -> None:
        self.came |= revents
        super().feed(revents, callback, *args)

    @property
    def fd(self) -> int:
        return self._fd

    @fd.setter
    def fd(self, fd: int) -> None:
        if self.active:
            raise AttributeError("the descriptor of an active watcher cannot be changed")
        self._fd = fd

    @property
    def events(self) -> int:
        return self._events

    @events.setter
    def events(self, events: int) -> None:
        if self.active:
            raise AttributeError("the events of an active watcher cannot be changed")
        self._events = events

    @property
    def events_str(self) -> str:
        return "|".join(name for bit, name in ((READ, "READ"), (WRITE, "WRITE")) if self._events & bit)

    def _format(self) -> str:
        return f" fd={self._fd} events={self.events_str}"


class Descriptors:
    """The active Io watchers of each descriptor, and what the background loop watches for them."""

    def __init__(self, loop: Any):
        self._loop = loop
        self._watchers: dict[int, list[Io]] = {}
        self._armed: dict[int, int] = {}

    def add(self, watcher: Io) -> None:
        self._watchers.setdefault(watcher.fd, []).append(watcher)
        try:
            self.arm(watcher.fd)
        except BaseException:
            watcher.stop()
            raise

    def remove(self, watcher: Io) -> None:
        fd = watcher.fd
        here = self._watchers.get(fd, [])
        if watcher in here:
            here.remove(watcher)
        if not here:
            self._watchers.pop(fd, None)
            self._disarm(fd, self._armed.get(fd, 0))

    def arm(self, fd: int) -> None:
        """Watch it for all that is wanted, and has not come."""
        wanted = 0
        for watcher in self._watchers.get(fd, ()):
            if not watcher.came:
                wanted |= watcher.events
        missing = wanted & ~self._armed.get(fd, 0)
        waits = self._loop.waits
        try:
            if missing & READ:
                waits.add_reader(fd, self._came, fd, READ)
            if missing & WRITE:
                waits.add_writer(fd, self._came, fd, WRITE)
        except PermissionError:  # a regular file is always ready
            self._tell(fd, missing)
            return
        if missing:
            self._armed[fd] = self._armed.get(fd, 0) | missing

    def _disarm(self, fd: int, events: int) -> None:
        left = self._armed.pop(fd, 0) & ~events
        if left:
            self._armed[fd] = left
        waits = self._loop.waits
        if waits.is_closed():
            return
        if events & READ:
            waits.remove_reader(fd)
        if events & WRITE:
            waits.remove_writer(fd)

    def _came(self, fd: int, event: int) -> None:
        self._disarm(fd, event)
        self._tell(fd, event)

    def _tell(self, fd: int, events: int) -> None:
        for watcher in self._watchers.get(fd, ()):
            if watcher.events & events:
                watcher.came |= watcher.events & events
                self._loop.make_due(watcher)

    def closing(self, fd: int) -> bool:
        if fd not in self._watchers:
            return False
        self._disarm(fd, self._armed.get(fd, 0))
        self._tell(fd, READ | WRITE)
        return True


class Timer(Watcher):
    """Some seconds have passed, once or again and again."""

    __slots__ = ("_after", "_handle", "_repeat")

    def __init__(self, loop: Any, after: float, repeat: float, ref: bool, priority: int | None):
        super().__init__(loop, ref, priority)
        if repeat < 0.0:
            raise ValueError(f"repeat must be positive or zero: {repeat!r}")
        self._after = after
        self._repeat = repeat
        self._handle: Any = None

    def begin(self, update: bool = True) -> None:
        self._set(self._after)

    def _set(self, seconds: float) -> None:
        self._handle = self.loop.waits.call_later(max(seconds, 0), self.loop.make_due, self)

    def end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def fire(self) -> None:
        callback, args = self._callback, self._args
        self._handle = None
        if callback is not None and self.loop.begins(callback, args, self):
            return
        if self._repeat:
            self._set(self._repeat)
        else:
            self.stop()
        if callback is not None:
            self.loop.call(callback, args)

    def again(self, callback: Callable[..., object], *args: Any, update: bool = True) -> None:
        """Begin anew, with the time of the repetition."""
        if self.active:
            self.end()
            self._callback, self._args = callback, args
            if self._repeat:
                self._set(self._repeat)
            else:
                self.stop()
        elif self._repeat:
            self._after, after = self._repeat, self._after
            try:
                self.start(callback, *args)
            finally:
                self._after = after

    @property
    def at(self) -> float:
        return float(self._handle.when()) if self._handle is not None else 0.0

    @property
    def after(self) -> float:
        return self._after

    @property
    def repeat(self) -> float:
        return self._repeat


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
