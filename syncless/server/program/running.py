"""Runs one serving process, from its start to the signal that stops it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

import syncless
from syncless._core.tasklet import spawn
from syncless._core.wait.sync import Event
from syncless.console import listen_if_asked
from syncless.http.log.errorlog import warn
from syncless.server.program.banner import Events, announce, counted
from syncless.server.program.process import ServiceManager
from syncless.tools.waiting import Waitable

LAST_CALL = 0.1
"""Seconds for which a process that is told to stop accepts what is on its way: a request follows its
connection by a round trip."""
NOTHING_TO_RELOAD = "SIGHUP: no certificates to reload; new code needs --workers, or a restart"


class Serving(Protocol):
    """The part of a Server that this module needs."""

    @property
    def urls(self) -> list[str]: ...
    @property
    def certificates(self) -> Any: ...
    def start(self, bound: Callable[[], None] | None = None) -> Any: ...
    def stop(self, grace: float | None = None) -> None: ...
    def stop_after(
        self, last_call: float, grace: float | None = None, ended: Callable[[], None] | None = None
    ) -> None: ...
    def hurry(self) -> None: ...
    def census(self) -> dict[str, int]: ...
    def reopen_logs(self) -> None: ...
    def reload_certificates(self) -> None: ...


def run(
    server: Serving,
    *,
    quiet: bool,
    worker: bool,
    began: float | None = None,
    delay: float = 0.0,
    status_urls: Sequence[str] = (),
    bound: Callable[[], None] | None = None,
    started: Callable[[], None] | None = None,
    told: Callable[[], None] | None = None,
    stopping: Callable[[], None] | None = None,
) -> None:
    """Start the server and serve until SIGTERM or SIGINT; a second signal hurries the stop. A ``worker``
    leaves SIGINT and the service manager to its master. Call ``bound`` when the sockets are open,
    ``started`` when the server serves, ``told`` at the signal to stop, and ``stopping`` when the stop
    begins, ``delay`` seconds later, while the server still accepts. ``began`` is the monotonic time at
    which the start began."""
    events = Events(quiet, began)
    asked = Event()
    skip = Event()
    hurry = Event()
    manager = ServiceManager({}) if worker else ServiceManager()
    with _obeying(server, events, [asked, skip, hurry] if delay else [asked, hurry], manager, worker):
        try:
            server.start(bound)
            with _beside(manager, worker):
                if started is not None:
                    started()
                if not worker:
                    if not events.quiet:
                        announce(server.urls, status=status_urls)
                    events.end("ready")
                manager.ready("Serving")
                asked.wait()
                manager.stopping()
                if told is not None:
                    told()
                if delay:
                    events.will_stop(delay)
                    skip.wait(delay)
                events.begin(f"stop begins: {counted(server.census()['active'], 'request')} in flight")
                ending = spawn(_stop, server, events, stopping)
                ending.name = "graceful stop"
                both: list[Waitable] = [ending, hurry]
                syncless.wait(both, count=1)
                if hurry.is_set():
                    events("second signal: stops at once")
                    server.hurry()
                ending.join()
        except BaseException:
            server.stop(0)
            raise


def _stop(server: Serving, events: Events, stopping: Callable[[], None] | None) -> None:
    if stopping is not None:
        stopping()
    server.stop_after(LAST_CALL, ended=lambda: events.end("stopped"))


@contextmanager
def _beside(manager: ServiceManager, worker: bool) -> Iterator[None]:
    """Run the console (if requested) and the service manager's watchdog alongside the server."""
    console = listen_if_asked(worker)

    def beat() -> None:
        while True:
            manager.alive()
            syncless.sleep(manager.interval / 2)

    beating = spawn(beat) if manager.interval else None
    if beating is not None:
        beating.name = "watchdog of the service manager"
    try:
        yield
    finally:
        if console is not None:
            console.close()
        if beating is not None:
            beating.kill()


@contextmanager
def _obeying(
    server: Serving, events: Events, asked: Sequence[Event], manager: ServiceManager, worker: bool
) -> Iterator[None]:
    """Obey signals, in the main thread: each SIGTERM or SIGINT sets the next of `asked`. SIGUSR1 and SIGHUP
    reopen files, in separate tasklets, because handlers may interrupt any code and must not wait."""
    process = os.getpid()
    terminal = Terminal()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a child that an application has forked is no server
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            next((event for event in asked if not event.is_set()), asked[-1]).set()

    def open_anew(what: str, action: Callable[[], None], done: str) -> None:
        try:
            action()
        except (OSError, ValueError) as error:
            warn(f"cannot reopen the {what}; still using the old ones: {error}")
        else:
            events(done)

    def reopen(number: int, frame: FrameType | None) -> None:
        spawn(open_anew, "log files", server.reopen_logs, "log files reopened").name = "new log files"

    def reload(number: int, frame: FrameType | None) -> None:
        if not worker and terminal.is_gone():
            stop(number, frame)
            return
        spawn(load_anew).name = "new certificates"

    def load_anew() -> None:
        manager.reloading()
        done = "certificates reloaded" if server.certificates else NOTHING_TO_RELOAD
        open_anew("certificates", server.reload_certificates, done)
        manager.ready("Serving")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Any] = {
        signal.SIGTERM: stop,
        signal.SIGINT: signal.SIG_IGN if worker else stop,  # Ctrl-C reaches all processes of a terminal
        signal.SIGUSR1: reopen,
        signal.SIGHUP: reload,
    }
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with refusing_signals():
            yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


NUMBER = "it changes the number of workers: send it to the master of a server with --workers."
REFUSED: dict[int, str] = {
    signal.SIGUSR2: "SIGUSR2 does nothing here. SIGHUP loads new code of the application (with workers). To "
    "run a new version of syncless, restart the server; with a systemd socket or --reuse-port no connection "
    "is refused.",
    signal.SIGTTIN: f"SIGTTIN does nothing here: {NUMBER}",
    signal.SIGTTOU: f"SIGTTOU does nothing here: {NUMBER}",
}
"""Signals that do nothing, and what is said of them."""


class Terminal:
    """The terminal from which the server was started, if there is one."""

    def __init__(self) -> None:
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
        self._had = not ignored and _is_there()

    def is_gone(self) -> bool:
        """Return, at SIGHUP, whether the terminal has closed. In that case the server ends; otherwise the
        signal means a reload."""
        return self._had and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextmanager
def refusing_signals() -> Iterator[None]:
    """Ignore signals that would end or stop the process, in the main thread, unless the application handles
    them. Each signal is reported once: the terminal of a background process repeats it."""

    def refuse(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        warn(REFUSED[number])

    refused = [number for number in REFUSED if signal.getsignal(number) == signal.SIG_DFL]
    for number in refused:
        signal.signal(number, refuse)
    try:
        yield
    finally:
        for number in refused:
            signal.signal(number, signal.SIG_DFL)
