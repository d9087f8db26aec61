"""Standby threads: while the application holds one thread of a server, another thread takes over.

Each thread has a loop, and a listener for each of the server's sockets. One thread is active: it accepts, and
has the connections. When it has been held for `held_seconds`, Watch (http/acceptor/watch.pxi) wakes the next
thread, which becomes active, and takes the connections that are between two requests. Requests that run on
the held thread stay there; their connections follow when they have ended.

Where ASGI applications are mounted beside WSGI applications, the first thread has their event loop. Other
threads send it the connections on which requests for ASGI arrive, and all HTTP/2 connections, which may carry
such requests. These connections wait until the first thread is no longer held and becomes active again.

The server starts and stops in its own thread, the first one, to which all connections return before it stops.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from syncless._core.calls.threads import start_thread
from syncless._core.cpython.functions import original_of
from syncless._core.current import sleep, wait_readable
from syncless._core.loop import Loop, Watcher
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.threadloop import current_loop
from syncless._core.timeout import Timeout
from syncless._core.wait.sync import Event
from syncless.http.acceptor import Acceptor, Watch, bring, close_connections, join, offer, take, tell_streams
from syncless.http.exchange import Exchange, MountedApplications
from syncless.http.listener import Listener, Quota
from syncless.server.lanes.lane import Lane, LaneOwner, Served, add_up
from syncless.tools.blockers import Stall, stall_of
from syncless.tools.imports import when_executed

_current_frames = original_of(sys._current_frames)

MOST = 15
"""Threads that may stand by: the Watch has room for 16 in all."""
BATCH = 1000
"""Connections that are moved before requests are answered again."""
SWEEP_SECONDS = 0.01, 0.25
"""Between two looks of the active thread for connections whose requests have ended on others: at first, and
at last."""
START_SECONDS = 10.0
END_SECONDS = 2.0
"""For which a stop waits for threads that are held."""
TAKEOVER = "syncless.takeover"
"""The event of the span of a request that held its thread for too long."""
PLACES = 100
"""Places that held a loop of which the error log tells, once each."""


class Side:
    """One of the threads, with its loop and its share of each of the server's sockets."""

    def __init__(self, number: int):
        self.number = number
        self.loop: Loop | None = None
        self.thread = self.native_id = 0
        self.listeners: list[Listener] = []
        self.acceptors: list[Acceptor] = []
        self.ended = False
        self._calls: deque[Callable[[], object]] = deque()
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._ours, False)
        os.set_blocking(self._theirs, False)

    def begin(self) -> None:
        """Note the current thread."""
        self.thread, self.native_id = current_loop().thread_id, _thread.get_native_id()

    def place(self) -> str:
        """Return the line of Python that the thread executes."""
        frame = _current_frames().get(self.thread)
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def stall(self, seconds: float) -> Stall | None:
        """Return the code that holds the thread, as the watchdog reports it."""
        return stall_of(self.thread, self.native_id, seconds)

    @property
    def line(self) -> int:
        """A descriptor; writing a byte to it wakes the thread."""
        return self._theirs

    @property
    def connections(self) -> int:
        return sum(listener.connections for listener in self.listeners)

    def call(self, function: Callable[[], object]) -> None:
        """Call the function in this thread, as soon as the thread is not held."""
        self._calls.append(function)
        self.wake()

    def wake(self) -> None:
        try:
            os.write(self._theirs, b"x")
        except BlockingIOError:
            pass  # it has enough to read

    def listen(self, look: Callable[[Side], None], failed: Callable[[Exception], None]) -> None:
        """Run the calls in the side's own thread until the side has ended. Errors are passed to
        ``failed``."""
        while not self.ended:
            wait_readable(self._ours)
            try:
                os.read(self._ours, 4096)
            except BlockingIOError:
                continue
            try:
                while self._calls:
                    self._calls.popleft()()
                if not self.ended:
                    look(self)
            except Exception as error:  # no descriptors, no memory: it is tried again while a thread is held
                failed(error)

    def close(self) -> None:
        os.close(self._ours)
        os.close(self._theirs)


class StandBy(Lane):
    """StandBy(threads, held): the standby threads of one server, from its start to its stop. ``held`` is in
    seconds."""

    def __init__(self, threads: int, held: float):
        if not 0 < threads <= MOST:
            raise ValueError(f"standby_threads must be between 0 and {MOST}, not {threads}")
        self.threads = threads
        self.held = held
        self.takeovers = 0
        """Since the start."""
        self.held_seconds = 0.0
        """For which the threads had been held until they were relieved, together."""
        self._sides: list[Side] = []
        self._served: list[Served] = []

    # -- starting and stopping ----------------------------------------------------------------------------

    def open(self, server: LaneOwner, served: list[Served]) -> None:
        applications = [each.application for each in served]
        if any(application.stays for application in applications):
            raise ValueError(
                "standby_threads work for WSGI applications only: an ASGI application stays on its event loop"
            )
        if current_loop().backend != "epoll":
            raise ValueError(
                "standby_threads need epoll: the other backends keep a list that only their own thread "
                "may change"
            )
        patches = sys.modules.get("syncless.patches")
        if patches is None or not patches.is_patched("thread"):
            raise ValueError(
                "standby_threads need the patch, which makes locks and threading.local work in several "
                "threads: give serve(..., patch=True), or use the command `syncless`"
            )
        self._some_stay = any(
            isinstance(application, MountedApplications) and application.some_stay
            for application in applications
        )
        self._server = server
        self._served = served
        self._active = home = Side(0)
        self._sides = [home]
        self._paused = False
        """Whether new connections are left to other processes."""
        self._coming_home = False
        self._told: set[str] = set()
        self._watch = Watch(self.held)
        self._listening: Tasklet[None] | None = None
        self._unwatch_asyncio: Callable[[], None] | None = None
        self._over = Event()
        """Nobody looks any more."""
        self._over.set()
        if "sqlite3" in sys.modules and not patches.is_patched("sqlite3"):
            server.logs.errors.warning(
                "the area sqlite3 is not patched: a connection made in one thread fails in standby "
                "threads. Patch it, or call sqlite3.connect(..., check_same_thread=False)"
            )
        home.begin()
        home.loop = current_loop()
        for each in served:
            each.is_left = True

    def start(self) -> None:
        home = self._sides[0]
        for each in self._served:
            home.listeners.append(each.listener)
            home.acceptors.append(Acceptor(each.listener, each.sock.fileno()))
        started = Event()
        self._failure: BaseException | None = None
        for number in range(1, self.threads + 1):
            side = Side(number)
            self._sides.append(side)
            start_thread(lambda side=side: self._serve(side, started))  # type: ignore[misc]
        with Timeout(START_SECONDS, False):
            while any(side.loop is None for side in self._sides) and self._failure is None:
                started.wait()
                started.clear()
        if self._failure is not None:
            raise self._failure
        for side in self._sides:
            if side.loop is None:
                raise RuntimeError(f"a standby thread has not started within {START_SECONDS:g} s")
            self._watch.add(side.loop, side.listeners, side.line)
        self._unwatch_asyncio = when_executed("syncless.asyncio.backgroundloop", self._watch_asyncio)
        self._over.clear()
        start_thread(self._look_on)
        self._listening = spawn(home.listen, self._look, self._failed)
        self._listening.name = "connections of threads that are held"

    def _serve(self, side: Side, started: Event) -> None:
        """Serve in the thread."""
        side.begin()
        loop = current_loop()
        try:
            for each in self._served:
                first, address = each.listener, each.sock.getsockname()
                application = self._server.application_at(address)
                listener = self._server.listener_for(application, address, each.tls)
                if self._some_stay and isinstance(application, MountedApplications):
                    application.away = True
                    listener.send_away = lambda connection, first=first: self._send_home(connection, first)
                join(first, listener)
                side.listeners.append(listener)
                acceptor = Acceptor(listener, each.sock.fileno())
                acceptor.rest()
                side.acceptors.append(acceptor)
        except BaseException as error:
            self._failure = error
            started.set()
            return
        side.loop = loop
        started.set()
        side.listen(self._look, self._failed)
        for acceptor in side.acceptors:
            acceptor.close()
        for listener in side.listeners:
            listener.close()
        side.loop = None

    def _watch_asyncio(self, backgroundloop: Any) -> None:
        for side in self._others():
            backgroundloop.told_of[side.loop] = self._warn_of_asyncio

    def _warn_of_asyncio(self) -> None:
        if "asyncio" not in self._told:
            self._told.add("asyncio")
            self._server.logs.errors.warning(
                "the application uses asyncio in a standby thread, which has its own loop: asyncio "
                "objects made in another thread, such as locks, futures and clients, fail there. Make "
                "them for each request, or keep one for each loop. This message appears once"
            )

    def _failed(self, error: Exception) -> None:
        self._server.logs.errors.error("A connection cannot change its thread:", error)

    def _look_on(self) -> None:
        self._watch.run()
        self._over.set()

    def stop(self) -> None:
        """Close each connection after its next response; the first thread takes the other connections."""
        self._coming_home = True
        for side in self._others():
            for listener in side.listeners:
                listener.stop()
        self._come_home()

    def _come_home(self) -> None:
        home = self._sides[0]
        if self._active is not home:
            self._active, self._watch.active = home, 0
            for acceptor in self._others_acceptors():
                acceptor.rest()
            self._accept(home)
        for side in self._others():
            self._take(side, home)

    def close(self) -> None:
        """End the threads. A thread that is still held is left behind."""
        if not self._sides:
            return
        self._close_acceptors()
        self._watch.end()
        if self._unwatch_asyncio is not None:
            self._unwatch_asyncio()
            self._unwatch_asyncio = None
        for side in self._sides:
            side.ended = True
            side.wake()
        waited, pause = 0.0, 0.001
        while any(side.loop is not None for side in self._others()) and waited < END_SECONDS:
            sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.05)
        self._over.wait()
        if self._listening is not None:
            self._listening.join()
        for side in self._others():
            if side.loop is not None:
                stall = side.stall(side.loop.held_for())
                where = stall.blocker if stall is not None else "unknown code"
                self._server.logs.errors.warning(f"a standby thread has not ended: it is in {where}")
        for side in self._sides:
            if side.loop is None or side.number == 0:
                side.close()
        self._sides, self._served = [], []

    def leave_to_parent(self) -> None:
        self._close_acceptors()
        for side in self._sides:
            side.close()
        self._sides, self._served = [], []

    def _close_acceptors(self) -> None:
        for side in self._sides[:1]:  # the others close their own
            for acceptor in side.acceptors:
                acceptor.close()

    # -- taking over ----------------------------------------------------------------------------------------

    def _look(self, side: Side) -> None:
        """Become active or take connections, if necessary. This runs in the side's thread."""
        if self._coming_home:
            return
        active = self._active
        if side is active:
            for other in self._sides:
                if other is not side and other.connections:
                    self._take(other, side, BATCH)
            return
        assert active.loop is not None
        seconds = active.loop.held_for()
        if seconds < self.held or self._take(active, side, BATCH) < 0:
            return
        if isinstance(holder := active.loop.current, Exchange):
            holder.add_event(TAKEOVER, {"syncless.held_seconds": seconds, "syncless.held_at": active.place()})
        self._become_active(side)
        self.takeovers += 1
        self.held_seconds += seconds
        self._tell(active, seconds)

    def _become_active(self, side: Side) -> None:
        before, self._active, self._watch.active = self._active, side, side.number
        for acceptor in before.acceptors:
            acceptor.rest()
        self._accept(side)
        sweeping = spawn(self._sweep, side)
        sweeping.name = "connections of threads that were held"

    def _accept(self, side: Side) -> None:
        if not self._paused:
            for acceptor in side.acceptors:
                acceptor.resume()

    def _take(self, source: Side, target: Side, most: int = 0) -> int:
        """Move connections, and return their number, or -1 if that is impossible now."""
        moved = 0
        for one, other in zip(source.listeners, target.listeners, strict=True):
            found = take(one, other, most)
            if found < 0:
                return found
            moved += found
        return moved

    def _sweep(self, side: Side) -> None:
        """Take the connections whose requests have ended on other sides, until there are none left."""
        first, last = SWEEP_SECONDS
        pause = first
        home = self._sides[0]
        replaces_home = self._some_stay and side is not home
        while side is self._active and (
            replaces_home or any(other.connections for other in self._sides if other is not side)
        ):
            sleep(pause)
            if side is not self._active or self._coming_home:
                return
            if replaces_home and home.loop is not None and home.loop.held_for() < self.held:
                home.call(self._return_home)
            moved = 0
            for other in self._sides:
                if other is not side and other.connections:
                    moved += max(0, self._take(other, side, BATCH))
            pause = first if moved >= BATCH else min(pause * 1.5, last)
            for listener in side.listeners:
                offer(listener)

    def _return_home(self) -> None:
        """Make the first thread active again, when it is no longer held."""
        home, active = self._sides[0], self._active
        if active is not home and not self._coming_home and self._take(active, home, BATCH) >= 0:
            self._become_active(home)

    def _send_home(self, connection: Watcher, listener: Listener) -> None:
        """Send home a connection whose request only the first thread can answer."""
        self._sides[0].call(lambda: spawn(self._bring, connection, listener))

    def _bring(self, connection: Watcher, listener: Listener) -> None:
        """Take the connection, in the first thread."""
        pause, last = 0.001, SWEEP_SECONDS[1]
        while self._sides:
            try:
                if bring(connection, listener):
                    return
            except Exception as error:
                self._failed(error)
                pause = last
            sleep(pause)
            pause = min(pause * 2, last)

    def _tell(self, side: Side, seconds: float) -> None:
        place = side.place()
        if place in self._told or len(self._told) == PLACES:
            return
        stall = side.stall(seconds)
        assert side.loop is not None
        if stall is not None and side.loop.held_for() >= seconds:  # it is in that still
            self._told.add(place)
            self._server.logs.errors.warning(
                f"a thread was held for {seconds * 1000:.0f} ms by {stall.blocker}; another thread took "
                f"over. Fix: {stall.cure}. This message appears once for each place"
            )

    # -- in all threads --------------------------------------------------------------------------------------

    def _others(self) -> list[Side]:
        """Return all sides except the first."""
        return self._sides[1:]

    def _others_acceptors(self) -> list[Acceptor]:
        return [acceptor for side in self._others() for acceptor in side.acceptors]

    def pause(self) -> None:
        self._paused = True
        self._accepting(Acceptor.pause)

    def resume(self) -> None:
        self._paused = False
        self._accepting(Acceptor.resume)

    def accept_rest(self) -> None:
        self._accepting(Acceptor.accept_rest)
        self._accepting(Acceptor.close)

    def _accepting(self, action: Callable[[Acceptor], None]) -> None:
        """Call the action for each acceptor of the active side, in its thread."""
        side = self._active
        for acceptor in side.acceptors:
            if side.number == 0:
                action(acceptor)
            else:
                side.call(lambda acceptor=acceptor: action(acceptor))  # type: ignore[misc]

    @property
    def connections(self) -> int:
        """The number of connections on threads other than the server's own."""
        return sum(side.connections for side in self._others())

    @property
    def requests(self) -> int:
        return sum(listener.requests for side in self._others() for listener in side.listeners)

    def limit_requests(self, quota: Quota) -> None:
        used_up = quota.used_up
        quota.used_up = lambda: self._at_home(used_up)
        for side in self._others():
            for listener in side.listeners:
                listener.quota = quota

    def _at_home(self, function: Callable[[], object]) -> None:
        home = self._sides[0]
        if current_loop() is home.loop:
            function()
        else:
            home.call(function)

    def close_connections(self, all_of_them: bool) -> None:
        for side in self._others():
            self._take(side, self._sides[0])
            if all_of_them:
                for listener in side.listeners:
                    side.call(lambda listener=listener: close_connections(listener, True))  # type: ignore[misc]

    def tell_streams(self, at_last: bool) -> None:
        for side in self._others():
            side.call(lambda side=side: tell_streams(side.listeners, at_last))  # type: ignore[misc]

    def census(self) -> dict[str, int]:
        return add_up(listener.census() for side in self._others() for listener in side.listeners)

    def figures(self) -> dict[str, int]:
        own = {"takeovers": self.takeovers, "held_ns": int(self.held_seconds * 1e9)}
        others = [listener.figures() for side in self._others() for listener in side.listeners]
        return add_up([own, *others])

    def stuck(self, seconds: float) -> list[tuple[float, str]]:
        """Return the held threads except the server's own, which is watched separately."""
        found = []
        for side in self._others():
            held = 0.0 if side.loop is None else side.loop.held_for()
            if held >= seconds and (stall := side.stall(held)) is not None:
                found.append((held, stall.text))
        return found

    def loops(self) -> list[Loop]:
        return [side.loop for side in self._others() if side.loop is not None]
