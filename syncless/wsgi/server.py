"""Server: listening sockets, the environment of an application, starting and stopping. The hot path is in
connection.pyx."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from socket import AF_UNIX, socket
from types import FrameType, TracebackType
from typing import Any, TextIO
from weakref import WeakSet

import syncless
from syncless._core.outlet import Outlet, is_plain, standard
from syncless._core.tasklet import Tasklet, sleep, spawn
from syncless._core.wait.sync import Event
from syncless.console import Console, listen_if_asked
from syncless.http.acceptor import Acceptor, close_connections
from syncless.http.accesslog import LAST_SECONDS, LogFile, LogWriter, make_log
from syncless.http.addresses import Bind, Listening, begin_no_more, owner_ids, parse_bind, show, shut
from syncless.http.certificates import Certificates, Files, TLSSettings, make_certificates
from syncless.http.filewrapper import FileWrapper
from syncless.http.limits import Limits
from syncless.http.listener import Listener
from syncless.http.notices import complain, tell
from syncless.http.systemd import ServiceManager
from syncless.http.trust import DEFAULT_FIELDS, Forwarding, Trust
from syncless.http.wsgiapp import WSGIApplication
from syncless.tools.otherhubs import watch_hubs
from syncless.tools.waiting import Waitable
from syncless.wsgi.adapt import as_wsgi
from syncless.wsgi.banner import announce
from syncless.wsgi.client import client_gone
from syncless.wsgi.websocket import websocket_maker

LAST_CALL = 0.1
"""Seconds for which a process that is told to stop accepts what is on its way: a request follows its connection by a round trip."""


class Server:
    """A web server in this thread's loop; several may run in one process.

    ``application`` is what `as_wsgi` accepts. ``start()`` binds and begins to serve while other tasklets go on, ``stop()`` ends
    gracefully, ``with Server(app) as server:`` does both. All arguments are those of `serve`.
    """

    def __init__(
        self,
        application: Any,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        bind: str | Bind | Iterable[str | Bind] | None = None,
        access_log: bool | str | os.PathLike[str] | TextIO | None = None,
        access_log_format: str | Mapping[str, str] = "combined",
        error_log: str | os.PathLike[str] | TextIO | None = None,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None = None,
        certfile: str | None = None,
        keyfile: str | None = None,
        certificates: Mapping[str, Files] | None = None,
        client_ca: str | None = None,
        ciphers: str | None = None,
        tls_minimum: str = "1.2",
        key_password: str | None = None,
        plain_http: bool = False,
        trusted: str | Iterable[str] = (),
        trusted_fields: Iterable[str] = DEFAULT_FIELDS,
        proxy_protocol: bool = False,
        unix_mode: int | None = None,
        unix_owner: str | None = None,
        ipv6_only: bool = False,
        defer_accept: bool = True,
        reuse_port: bool = False,
        multiprocess: bool = False,
        **overrides: float,
    ):
        self.application = as_wsgi(application)
        try:
            self.limits = replace(limits or Limits(), **overrides)  # type: ignore[arg-type]
        except TypeError as error:
            unknown = [name for name in overrides if not hasattr(Limits, name)]
            if unknown:
                raise TypeError(
                    f"there is no argument or limit {unknown[0]!r}; the limits are in syncless.wsgi.Limits"
                ) from None
            raise error
        binds = [bind] if isinstance(bind, (str, Bind)) else list(bind or ())
        self._wanted = [parse_bind(text) if isinstance(text, str) else text for text in binds] or [
            Bind(host=host, port=port)
        ]
        self.certificates: Certificates | None = make_certificates(
            ssl_context,
            certfile,
            keyfile,
            certificates,
            TLSSettings(client_ca, ciphers, tls_minimum, key_password),
        )
        if self.certificates is None and (plain_http or any(wanted.tls for wanted in self._wanted)):
            raise ValueError(
                "TLS is asked for, but there is no certificate: give certfile, certificates or ssl_context"
            )
        self._plain_http = plain_http
        self._multiprocess = multiprocess
        peers = [trusted] if isinstance(trusted, str) else list(trusted)
        self._trust = Trust(peers) if peers else None
        if proxy_protocol and self._trust is None:
            raise ValueError("proxy_protocol needs `trusted`, the addresses of the proxies that speak it")
        self._proxy_protocol = proxy_protocol
        self._forwarding = Forwarding(self._trust, trusted_fields) if self._trust else None
        if unix_owner is not None:
            owner_ids(unix_owner)  # a wrong name is told now
        self._listening = Listening(
            self.limits.backlog,
            reuse_port,
            max(1, int(self.limits.head_seconds)) if defer_accept else 0,
            ipv6_only,
            unix_mode,
            unix_owner,
        )
        self._error_log_to = error_log
        self._error_log: Any = sys.stderr
        self._error_file: LogFile | None = None
        """Where the error log is a path."""
        self._access_log_to = access_log
        self._access_log_format = access_log_format
        if access_log:
            make_log(access_log_format)  # a wrong atom is told now
        self._log: LogWriter | None = None
        self._listeners: list[socket] = []
        self._inherited: WeakSet[socket] = WeakSet()
        self._secure: list[bool] = []
        self._acceptors: list[Acceptor] = []
        self._services: list[Listener] = []
        self._stopped = Event()
        self._hurried = False
        self._process = os.getpid()

    # -- starting ------------------------------------------------------------------------------------------------------------

    def start(self) -> Server:
        """Binds and begins to accept. OSError, with the address in it, if that is not possible."""
        if self._listeners:
            raise RuntimeError("this server has been started already")
        watch_hubs()
        self._open_logs()
        try:
            for listener, secure in self.listen():
                self._listeners.append(listener)
                self._secure.append(secure)
        except BaseException:
            self._close_logs()
            raise
        for listener, secure in zip(self._listeners, self._secure, strict=True):
            service = Listener(
                WSGIApplication(
                    self.application,
                    self._template(listener),
                    self.limits.remembered,
                    forward=self._forwarding,
                    websocket=websocket_maker(self.limits, self._error_log),
                ),
                self.limits,
                self._log.log if self._log else None,
                self._error_log,
                certificates=self.certificates if secure else None,
                plain_http=self._plain_http,
                trusted=self._trust,
                proxy_protocol=self._proxy_protocol,
            )
            self._services.append(service)
            self._acceptors.append(Acceptor(service, listener.fileno()))
        self._process = os.getpid()
        self._stopped.clear()
        self._hurried = False  # not in stop(), before which a second signal may come
        return self

    def listen(self) -> list[tuple[socket, bool]]:
        """The listening sockets, and whether they speak TLS. OSError, with the address in it, if one cannot
        be had."""
        opened: list[tuple[socket, bool]] = []
        try:
            for wanted in self._wanted:
                secure = self.certificates is not None and (
                    wanted.tls if wanted.tls is not None else wanted.path is None
                )
                found = self._listening.open(wanted)
                opened += [(listener, secure) for listener in found]
                if wanted.fd is not None:
                    self._inherited.update(found)
        except BaseException:
            self.begin_no_more(opened)
            self.close_listeners(opened)
            raise
        return opened

    def listen_again(self, listener: socket) -> socket:
        """Another socket on the address of one that `listen` has opened with reuse_port; the same one where
        there can be only one."""
        return listener if listener.family == AF_UNIX else self._listening.open_again(listener)

    def begin_no_more(self, listeners: Iterable[tuple[socket, bool]]) -> None:
        """New clients find nobody at these addresses, while those that are connected already can still be
        accepted. Sockets that are inherited stay as they are: others may have them, too."""
        for listener, _ in listeners:
            address = listener.getsockname()
            if isinstance(address, str) and any(wanted.path == address for wanted in self._wanted):
                with contextlib.suppress(OSError):
                    os.unlink(address)
            if listener not in self._inherited:
                begin_no_more(listener)

    def close_listeners(self, listeners: Iterable[tuple[socket, bool]]) -> None:
        """Closes what `listen` has opened; new clients are refused then, unless a socket is inherited."""
        for listener, _ in listeners:
            if listener in self._inherited:
                listener.close()
            else:
                shut(listener)

    def _template(self, listener: socket) -> dict[str, Any]:
        """What every environ of this listener begins with (PEP 3333, "environ Variables")."""
        address = listener.getsockname()
        name, port = (address[0], str(address[1])) if isinstance(address, tuple) else ("localhost", "")
        return {
            "SERVER_NAME": name,
            "SERVER_PORT": port,
            "SERVER_SOFTWARE": f"syncless/{syncless.__version__}",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SCRIPT_NAME": "",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": self._error_log,
            "wsgi.multithread": True,  # another request may run whenever one waits
            "wsgi.multiprocess": self._multiprocess,
            "wsgi.run_once": False,
            "wsgi.file_wrapper": FileWrapper,
            "wsgi.input_terminated": True,
            "syncless.client_gone": client_gone,
        }

    def _open_logs(self) -> None:
        to = self._error_log_to
        if isinstance(to, (str, os.PathLike)):
            self._error_file = LogFile(to)
            self._error_log = Outlet(self._error_file.stream)
        else:
            self._error_log = standard("stderr") if to is None else Outlet(to) if is_plain(to) else to
        access = self._access_log_to
        if access:
            self._log = LogWriter(
                make_log(self._access_log_format), LogFile(sys.stdout if access is True else access)
            )

    def _close_logs(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if isinstance(self._error_log, Outlet):
            ends = time.monotonic() + LAST_SECONDS
            while self._error_log.pending and time.monotonic() < ends:
                sleep(0.005)
        if self._error_file is not None:
            self._error_log.close()
            self._error_file.close()
            self._error_file = None

    def reopen_logs(self) -> None:
        """Opens log files anew, by their paths: after they were renamed (logrotate). `serve` does it on
        SIGUSR1."""
        if self._log is not None:
            self._log.reopen()
        if self._error_file is not None:
            self._error_file.reopen()
            self._error_log.stream = self._error_file.stream

    def reload_certificates(self) -> None:
        """Reads the certificate files again, for new connections; open ones go on. `serve` does it on SIGHUP.
        If a file is bad its error is raised and the old certificates stay."""
        if self.certificates is not None:
            self.certificates.reload()

    # -- where it is ---------------------------------------------------------------------------------------------------------

    @property
    def addresses(self) -> list[Any]:
        """The addresses in use, in the order of `bind`; ephemeral ports as the system chose them."""
        return [
            listener.getsockname()[:2] if listener.family != AF_UNIX else os.fsdecode(listener.getsockname())
            for listener in self._listeners
        ]

    @property
    def address(self) -> Any:
        """The first address in use."""
        return self.addresses[0]

    @property
    def port(self) -> int:
        """The port of the first address."""
        return int(self.address[1])

    @property
    def url(self) -> str:
        """Where to point a browser."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """All addresses in use as text."""
        return [show(address, secure) for address, secure in zip(self.addresses, self._secure, strict=True)]

    @property
    def requests(self) -> int:
        """Requests begun since the start."""
        return sum(service.requests for service in self._services)

    def census(self) -> dict[str, int]:
        """What the server owns now: connections, running requests, deadlines, buffers."""
        total: dict[str, int] = {}
        for service in self._services:
            for key, value in service.census().items():
                total[key] = total.get(key, 0) + value
        return total

    # -- stopping ------------------------------------------------------------------------------------------------------------

    def stop(self, grace: float | None = None) -> None:
        """Stops: accepts what is connected already and no more, lets requests in flight end for `grace`
        seconds (Limits.stop_seconds), then interrupts them with TaskletExit. Idle connections are closed
        after Limits.stop_idle_seconds, or their next answer. Returns when all connections are closed.
        """
        self._stop(self.limits.stop_seconds if grace is None else grace, 0.0)

    def _stop(self, grace: float, last_call: float) -> None:
        """`last_call`: seconds for connections that are on their way."""
        if not self._listeners:
            return
        if self._process != os.getpid():
            self._leave_to_parent()
            return
        for service in self._services:
            service.stopping = True
        listeners = list(zip(self._listeners, self._secure, strict=True))
        self._listeners.clear()
        self._secure.clear()
        self.begin_no_more(listeners)
        if last_call:
            sleep(last_call)
        for acceptor in self._acceptors:
            acceptor.accept_rest()
            acceptor.close()
        self._acceptors.clear()
        self.close_listeners(listeners)
        try:
            self._wait_closed(grace, False)
            self._wait_closed(2.0, True)
        finally:
            for service in self._services:
                service.close()
            self._services.clear()
            self._close_logs()
            self._stopped.set()

    def _leave_to_parent(self) -> None:
        """In a child after fork, whose connections are closed already: listening sockets, their files and the
        logs are the parent's."""
        for acceptor in self._acceptors:
            acceptor.close()
        for listener in self._listeners:
            listener.close()
        for service in self._services:
            service.close()
        for owned in (self._acceptors, self._listeners, self._secure, self._services):
            owned.clear()
        self._log = None
        self._stopped.set()

    def _wait_closed(self, seconds: float, interrupt: bool) -> None:
        interrupted = interrupt
        waited = 0.0
        pause = 0.001
        while True:
            if interrupt or waited >= min(seconds, self.limits.stop_idle_seconds):
                for service in self._services:
                    close_connections(service, interrupt)
            interrupt = False  # a request is interrupted once
            if (
                not any(service.connections for service in self._services)
                or waited >= seconds
                or (self._hurried and not interrupted)
            ):
                return
            sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.05)

    def wait(self) -> None:
        """Waits until the server has stopped."""
        self._stopped.wait()

    def run(
        self, *, quiet: bool = False, started: Callable[[], None] | None = None, worker: bool = False
    ) -> None:
        """Starts, and serves until a signal says stop: what `serve` does in one process. A worker leaves
        SIGINT to its master."""
        asked = Event()
        hurry = Event()
        manager = ServiceManager({}) if worker else ServiceManager()  # a worker's master speaks for it

        def beat() -> None:
            while True:
                manager.alive()
                sleep(manager.interval / 2)

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self._process != os.getpid():  # a child that an application has forked is no server
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            else:
                (hurry if asked.is_set() else asked).set()

        def reopen(number: int, frame: FrameType | None) -> None:
            what, action = (
                ("log files", self.reopen_logs)
                if number == signal.SIGUSR1
                else ("certificates", self.reload_certificates)
            )
            if number == signal.SIGHUP:
                manager.reloading()
            try:
                action()
            except (OSError, ValueError) as error:
                complain(f"cannot open the {what} again, the old ones stay: {error}")
            if number == signal.SIGHUP:
                manager.ready("Serving")

        console: Console | None = None
        beating: Tasklet | None = None
        previous = {}
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.SIG_IGN if worker else on_signal  # Ctrl-C reaches all processes of a terminal
            for number, handler in (
                (signal.SIGTERM, on_signal),
                (signal.SIGINT, interrupt),
                (signal.SIGUSR1, reopen),
                (signal.SIGHUP, reopen),
            ):
                previous[number] = signal.signal(number, handler)
        try:
            self.start()
            console = listen_if_asked()
            if started is not None:
                started()
            if not quiet:
                announce(self.urls)
            manager.ready("Serving")
            if manager.interval:
                beating = spawn(beat)
                beating.name = "watchdog of the service manager"
            asked.wait()
            manager.stopping()
            if not quiet:
                active = self.census()["active"]
                tell(f"syncless stops: {active} request{'' if active == 1 else 's'} in flight")
            stopping = spawn(self._stop, self.limits.stop_seconds, LAST_CALL)
            stopping.name = "graceful stop"
            both: list[Waitable] = [stopping, hurry]
            syncless.wait(both, count=1)
            self._hurried = hurry.is_set()
            stopping.join()
        except BaseException:
            self.stop(0)
            raise
        finally:
            if console is not None:
                console.close()
            if beating is not None:
                beating.kill()
            for number, old in previous.items():
                signal.signal(number, old)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
