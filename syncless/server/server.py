"""Server: listening sockets, their listeners, the logs and certificates, starting and stopping.

An application of any kind is a Host (apps/host.py) here. Next to read: http/acceptor.pyx and
http/connection.pyx, which do the work while it serves; program/, which makes a process of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from socket import AF_UNIX
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from syncless._core.current import sleep
from syncless._core.wait.sync import Event
from syncless.apps.host import Place
from syncless.http import running, timeleft
from syncless.http.errors import ON_HANGUP, require_one_of
from syncless.http.exchange import Application, Sessions
from syncless.http.features import HTTP2_CURE
from syncless.http.limits import Limits
from syncless.http.listener import Counters, Listener, Quota
from syncless.http.log.serverlogs import Logs
from syncless.http.priorities import Priorities
from syncless.http.trust import DEFAULT_FIELDS, Forward, Forwarding, Trust
from syncless.server.addresses import DEFAULT_PORT, Bind, parse_bind, place_of, show
from syncless.server.certificates import Files, TLSSettings, make_certificates
from syncless.server.kinds import Declared, as_host
from syncless.server.lanes.home import Home
from syncless.server.lanes.lane import Lane, Served, add_up, check_together
from syncless.server.slots import KEEP, RequestSlots
from syncless.server.sockets import UNIX_MODE, Opened, SocketOptions, Sockets, backlog_of, owner_ids
from syncless.tools.otherhubs import watch_hubs

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Unpack

    from syncless.http.content.compression import Compression
    from syncless.http.content.static.files import Paths, StaticFiles
    from syncless.http.log.slowrequests import SlowRequests
    from syncless.server.arguments import LimitOptions
    from syncless.server.otel.telemetry import Telemetry
    from syncless.server.program.selfcure import SelfCure
    from syncless.server.status.exemplars import Exemplars
    from syncless.server.status.reporter import Reporter

Self = TypeVar("Self", bound="Server")

PROTOCOLS = ("off", "tls", "cleartext")
NO_HTTP2 = f"http2='cleartext' needs HTTP/2, and this syncless was built without it: {HTTP2_CURE}"


def limits_of(limits: Limits | None, overrides: Mapping[str, object]) -> Limits:
    """Return the limits with the overrides. Raise TypeError for an override that is neither a limit nor an
    argument."""
    for name in overrides:
        if not hasattr(Limits, name):
            options = import_module("syncless.server.options")  # only where a name is wrong
            described = {option.name: option.where for option in options.ROWS}
            if described.get(name) == options.PROGRAM:
                raise TypeError(f"{name!r} is {options.PROGRAM}, not of Server")
            raise TypeError(f"unknown argument or limit {name!r}; the limits are the fields of Limits")
    if limits is None:
        return Limits(**overrides)  # type: ignore[arg-type]
    return type(limits)(**{**vars(limits), **overrides})


class Server:
    """A web server in this thread's loop; several may run in one process.

    ``application`` is what `serve` accepts. ``start()`` binds and begins to serve while other tasklets run,
    ``stop()`` shuts down gracefully, ``with Server(app) as server:`` does both. All arguments are those of
    `serve`.
    """

    def __init__(
        self,
        application: Any,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,  # from options.py, by python -m scripts.docs.options
        interface: str = "auto",
        native: Mapping[str, Any] | None = None,
        native_threads: int = 0,
        standby_threads: int = 0,
        self_cure: bool = False,
        request_slots: str = KEEP,
        on_hangup: str = ON_HANGUP[0],
        pass_deadline: bool = False,
        root_path: str = "",
        lifespan: str = "auto",
        bind: str | Bind | Iterable[str | Bind] | None = None,
        unix_mode: int | None = None,
        unix_owner: str | None = None,
        ipv6_only: bool = False,
        reuse_port: bool = False,
        defer_accept: bool = True,
        certfile: str | None = None,
        keyfile: str | None = None,
        key_password: str | None = None,
        certificates: Mapping[str, Files] | None = None,
        client_ca: str | None = None,
        ciphers: str | None = None,
        tls_minimum: str = "1.2",
        ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None = None,
        plain_http: bool = False,
        http2: str = "tls",
        static: Paths | None = None,
        static_max_age: float = 0,
        compress: bool | str | Iterable[str] = False,
        compress_minimum: int = 1000,
        trusted: str | Iterable[str] = (),
        trusted_fields: str | Iterable[str] = DEFAULT_FIELDS,
        proxy_protocol: bool = False,
        access_log: bool | str | os.PathLike[str] | TextIO | None = None,
        access_log_format: str | Mapping[str, str] = "combined",
        error_log: str | os.PathLike[str] | TextIO | None = None,
        error_log_format: str = "text",
        slow_request: float = 0,
        request_ids: bool = False,
        otel: bool | str | None = None,
        priority: str | Iterable[str] = (),
        multiprocess: bool = False,
        limits: Limits | None = None,
        **overrides: Unpack[LimitOptions],
    ):
        self.application = as_host(Declared.of(application, interface, root_path, lifespan))
        self.limits = limits_of(limits, overrides)
        binds = [bind] if isinstance(bind, (str, Bind)) else list(bind or ())
        try:
            wanted = [parse_bind(text, DEFAULT_PORT) if isinstance(text, str) else text for text in binds]
        except ValueError as error:
            raise ValueError(f"bind: {error}") from None
        wanted = wanted or [Bind(host=host, port=port)]
        require_one_of("http2", http2, PROTOCOLS)
        self.http2 = http2
        can_http2 = http2 != "off" and self._sessions() is not None
        if http2 == "cleartext" and not can_http2:
            raise ValueError(NO_HTTP2)
        settings = TLSSettings(client_ca, ciphers, tls_minimum, key_password, can_http2)
        self.certificates = make_certificates(ssl_context, certfile, keyfile, certificates, settings)
        if self.certificates is None and (plain_http or any(each.tls for each in wanted)):
            raise ValueError("TLS needs a certificate: give certfile, certificates or ssl_context")
        self.plain_http = plain_http
        # imported where they are asked for: few servers need them, as ssl and the console
        self.compression: Compression | None = None
        if compress:
            compression = import_module("syncless.http.content.compression")
            self.compression = compression.Compression(compress, compress_minimum)
        self.static: StaticFiles | None = None
        if static:
            files = import_module("syncless.http.content.static.files")
            self.static = files.StaticFiles(static, static_max_age)
        self.multiprocess = multiprocess
        peers = [trusted] if isinstance(trusted, str) else list(trusted)
        self.trusted = Trust(peers) if peers else None
        if proxy_protocol and self.trusted is None:
            raise ValueError("proxy_protocol needs `trusted`: the addresses of the proxies that speak it")
        self.proxy_protocol = proxy_protocol
        fields = [trusted_fields] if isinstance(trusted_fields, str) else trusted_fields
        self.trusted_fields = [name.lower() for name in fields]
        self.forwarding: Forward | None = None
        if self.trusted:
            self.forwarding = Forwarding(self.trusted, self.trusted_fields)
        if unix_owner is not None:
            owner_ids(unix_owner)  # a wrong name is told now
        options = SocketOptions(
            self.limits.backlog,
            reuse_port,
            max(1, int(self.limits.head_seconds)) if defer_accept else 0,
            ipv6_only,
            UNIX_MODE if unix_mode is None else unix_mode,
            unix_owner,
        )
        self.sockets = Sockets(wanted, options, self.certificates is not None)
        if slow_request < 0:
            raise ValueError("slow_request must not be negative")
        if slow_request and not self.limits.recorded_waits:
            raise ValueError(
                "slow_request reports the recorded waits of a request: the limit recorded_waits must not be 0"
            )
        self.slow_request = slow_request
        self.slow_requests: SlowRequests | None = None
        self.keeps_slowest = False
        """Whether anybody wants to know the slowest requests; set before it starts."""
        self.logs = Logs(access_log, access_log_format, error_log, error_log_format)
        self.standby_threads = standby_threads
        self._home = Home()
        self.lanes: list[Lane] = [self._home]
        """What serves: this thread's loop, and before it what is beside it."""
        if native:
            self.handle_natively(native, native_threads)
        self.request_slots = RequestSlots(request_slots)
        require_one_of("on_hangup", on_hangup, ON_HANGUP)
        self.on_hangup = on_hangup
        self.request_ids = request_ids
        self.priority = [priority] if isinstance(priority, str) else list(priority)
        Priorities(self.priority)  # a wrong one is told now
        self.pass_deadline = pass_deadline
        self._carrying: Callable[[], None] | None = None
        """Ends what requests tell the services that they call."""
        self.otel = otel
        self.telemetry: Telemetry | None = None
        """While it is started, if anybody asks for it."""
        if standby_threads:
            standby = import_module("syncless.server.lanes.standby")
            self.lanes.insert(0, standby.StandBy(standby_threads, self.limits.held_seconds))
        self.self_cure: SelfCure | None = None
        if self_cure:
            self.self_cure = import_module("syncless.server.program.selfcure").SelfCure()
        self.counters: Counters | None = None
        """Where its requests are counted, if anybody wants to know; set before it starts."""
        self.reporter: Reporter | None = None
        """Knows its figures, if anybody wants to; set before it starts."""
        self.exemplars: Exemplars | None = None
        """Where traced requests are noted, if its metrics are shown; set before it starts."""
        self.pages: dict[str, Any] = {}
        """WSGI callables by their path, for paths that are not the application's; set before it starts."""
        self._opened: Opened = []
        """Its listening sockets."""
        self._stopped = Event()
        self._hurried = False
        self._process = os.getpid()

    # -- what it is made of ---------------------------------------------------------------------------------

    def handle_natively(self, native: Mapping[str, Any], threads: int) -> None:
        """Import the native handlers. Call this before the server starts, with ``native`` and
        ``native_threads``."""
        wanted = ["native", f"http2={self.http2!r}", *(["standby_threads"] if self.standby_threads else [])]
        check_together(*wanted)
        try:
            module = import_module("syncless.native.handlerthreads")  # most servers have none
        except ModuleNotFoundError:  # setup.py builds it where the system has epoll
            raise ValueError("native handlers need epoll, and this syncless was built without it") from None
        self.lanes.insert(0, module.NativeHandlers(native, threads, self.limits))

    def _sessions(self) -> Sessions | None:
        """Return the sessions of HTTP/2, or None if this build lacks HTTP/2."""
        try:
            module = import_module("syncless.http.http2.session")  # few servers have it
        except ModuleNotFoundError:  # setup.py builds it where libnghttp2 is
            return None
        maker: Sessions = module.HTTP2(self.limits.streams, self.http2 == "cleartext")
        return maker

    # -- starting -----------------------------------------------------------------------------------------

    def start(self: Self, bound: Callable[[], None] | None = None) -> Self:
        """Bind, call ``bound``, and begin to accept. Raise OSError, with the address in it, on failure."""
        if self._opened or self.listeners:
            raise RuntimeError("this server has already been started")
        watch_hubs()
        self.told_to_stop = Event()  # applications find it
        self.logs.open()
        if self.slow_request or (self.keeps_slowest and self.limits.recorded_waits):
            slow = import_module("syncless.http.log.slowrequests")
            self.slow_requests = slow.SlowRequests(self.slow_request, self.logs.errors, self.keeps_slowest)
        opened: Opened = []
        try:
            opened = self.sockets.open()
            if bound is not None:
                bound()
            if self.otel or any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
                self.telemetry = import_module("syncless.server.otel.telemetry").of_option(self.otel, self)
            self.request_slots.begin()
            self.application.begin(self)
            served = [Served(sock, tls, self.application_at(sock.getsockname())) for sock, tls in opened]
            for lane in self.lanes:
                lane.open(self, served)
            self._opened = opened
            for lane in self.lanes:
                lane.start()
            if self.telemetry is not None:
                self.telemetry.start()
            self._carry_on()
            if self.self_cure is not None:
                self.self_cure.start()
            running.begins(self)
        except BaseException:
            self._close_lanes()
            self._end_others()
            self._opened, self.telemetry = [], None
            self.sockets.begin_no_more(opened)
            self.sockets.close(opened)
            self.logs.close()
            raise
        self._process = os.getpid()
        self._stopped.clear()
        self._hurried = False  # not in stop(), before which a second signal may come
        if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
            blocking = import_module("syncless.server.program.blocking")
            blocking.warn_at_prompt(lambda: self.backlog()[0], lambda: bool(self._opened))
        return self

    def _carry_on(self) -> None:
        """Have requests tell the services that they call of their trace and their deadline."""
        sources = [] if self.telemetry is None else list(self.telemetry.sources())
        if self.pass_deadline:
            sources.append(timeleft.fields)
        patches = sys.modules.get("syncless.patches") if sources else None  # few programs are not patched
        if patches is not None and patches.is_patched("socket"):
            try:
                self._carrying = patches.carry_on(sources)
            except RuntimeError as error:
                self.logs.errors.warning(
                    f"calls of other services carry on no trace and no deadline: {error}"
                )

    def _end_others(self) -> None:
        """End what _carry_on() and `self_cure` have begun."""
        if self.self_cure is not None:
            self.self_cure.stop()
        if self._carrying is not None:
            self._carrying()
            self._carrying = None

    def application_at(self, address: Any) -> Application:
        """Return the application for a listener whose socket has this address (getsockname())."""
        place = Place(self, address, *place_of(address), self.limits.remembered, self.pages)
        return self.application.at(place)

    def listener_for(self, application: Application, address: Any, tls: bool) -> Listener:
        """Return a listener in this thread's loop, for a socket with this address, whose requests the
        application answers."""
        listener = Listener(
            application,
            self.limits,
            self.logs.access,
            self.logs.errors,
            certificates=self.certificates if tls else None,
            plain_http=self.plain_http,
            trusted=self.trusted,
            proxy_protocol=self.proxy_protocol,
            trusted_fields=self.trusted_fields,
            on_hangup=self.on_hangup,
            request_ids=self.request_ids,
            request_slots=self.request_slots.slots,
            pass_deadline=self.pass_deadline,
            priority=Priorities(self.priority, self.pages) or None,
        )
        listener.place = place_of(address)
        listener.counters = self.counters
        if self.slow_requests is not None:
            listener.report_slow(self.slow_requests)
        if self.telemetry is not None:
            self.telemetry.attach(listener)
        if self.http2 == "cleartext" or (self.http2 == "tls" and tls):
            listener.http2 = self._sessions()
        return listener

    def reopen_logs(self) -> None:
        """Reopen the log files by their paths, after they were renamed (logrotate). `serve` does this on
        SIGUSR1."""
        self.logs.reopen()

    def reload_certificates(self) -> None:
        """Reload the certificate files for new connections; open connections are unaffected. `serve` does
        this on SIGHUP. If a file is bad, raise its error and keep the old certificates."""
        if self.certificates is not None:
            self.certificates.reload()

    # -- its state -----------------------------------------------------------------------------------------

    @property
    def addresses(self) -> list[Any]:
        """The addresses in use, in the order of `bind`, with the actual numbers of ephemeral ports."""
        return [
            os.fsdecode(sock.getsockname()) if sock.family == AF_UNIX else sock.getsockname()[:2]
            for sock, _ in self._opened
        ]

    @property
    def address(self) -> Any:
        """The first address in use."""
        return self.addresses[0]

    @property
    def port(self) -> int:
        return int(self.address[1])

    @property
    def url(self) -> str:
        """The URL for a browser."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """All addresses in use as text."""
        return [show(address, tls) for address, (_, tls) in zip(self.addresses, self._opened, strict=True)]

    @property
    def listeners(self) -> list[Listener]:
        """The active listeners of this thread's loop, one for each socket."""
        return self._home.listeners

    @property
    def requests(self) -> int:
        """The number of requests begun since the start."""
        return sum(lane.requests for lane in self.lanes)

    def census(self) -> dict[str, int]:
        """Return counts of the server's connections, running requests, deadlines and buffers."""
        return add_up(lane.census() for lane in self.lanes)

    def limit_requests(self, most: int, reached: Callable[[], None]) -> None:
        """Call ``reached`` when the last of this many requests begins. From then on each response closes its
        connection, and the client must resend any pipelined requests."""

        def used_up() -> None:
            for lane in self.lanes:
                lane.stop()
            reached()

        quota = Quota(most, used_up)
        for lane in self.lanes:
            lane.limit_requests(quota)

    def backlog(self) -> tuple[int, int]:
        """Return the number of connections that wait to be accepted at the fullest listening socket, and its
        maximum."""
        return max((backlog_of(sock) for sock, _ in self._opened), default=(0, 0))

    def pause_accepting(self) -> None:
        """Leave new connections to other processes that have the same sockets."""
        for lane in self.lanes:
            lane.pause()

    def resume_accepting(self) -> None:
        for lane in self.lanes:
            lane.resume()

    # -- stopping -----------------------------------------------------------------------------------------

    def stop(self, grace: float | None = None) -> None:
        """Shut down gracefully: accept only connections that are already made, let requests in flight finish
        for `grace` seconds (default: Limits.stop_seconds), then interrupt them with TaskletExit. Idle
        connections are closed after Limits.stop_idle_seconds, or after their next response. Return when all
        connections are closed."""
        self.stop_after(0.0, grace)

    def stop_after(
        self, last_call: float, grace: float | None = None, ended: Callable[[], None] | None = None
    ) -> None:
        """Stop like stop(), but first accept connections that are on their way for `last_call` seconds. Call
        ``ended`` when the server has stopped and can still log."""
        if not self._opened:
            return
        if self._process != os.getpid():
            self._leave_to_parent()
            return
        seconds = self.limits.stop_seconds if grace is None else grace
        self.told_to_stop.set()
        running.tell_of_stop()
        opened, self._opened = self._opened, []
        for lane in self.lanes:
            lane.stop()
            lane.begin_stop()
        self.sockets.begin_no_more(opened)
        if last_call:
            sleep(last_call)
        for lane in self.lanes:
            lane.accept_rest()
        self.sockets.close(opened)
        try:
            self._wait_closed(seconds, False)
            self._wait_closed(2.0, True)
            for lane in self.lanes:
                lane.close_rest()
            self.application.end(0.0 if self._hurried else seconds)
            self.request_slots.end()
        finally:
            running.has_stopped(self)
            self._close_lanes()
            self._end_others()
            if self.telemetry is not None:
                self.telemetry.stop()
                self.telemetry = None
            if ended is not None:
                ended()
            self.logs.close()
            self._stopped.set()

    def _close_lanes(self) -> None:
        for lane in self.lanes:
            lane.close()

    def hurry(self) -> None:
        """Interrupt all requests that a running stop() still waits for."""
        self._hurried = True

    def _leave_to_parent(self) -> None:
        """Give up the listening sockets, their files and the logs in a child after a fork: they belong to the
        parent."""
        for lane in self.lanes:
            lane.leave_to_parent()
        for sock, _ in self._opened:
            sock.close()
        self._opened = []
        running.has_stopped(self)
        self.logs.leave_to_parent()
        self._stopped.set()

    def _wait_closed(self, seconds: float, interrupt: bool) -> None:
        interrupted, waited, pause = interrupt, 0.0, 0.001
        while True:
            if interrupt or waited >= min(seconds, self.limits.stop_idle_seconds):
                for lane in self.lanes:
                    lane.close_connections(interrupt)
            notice = min(seconds / 2, self.limits.stop_notice_seconds)
            if waited >= notice and not interrupted:
                for lane in self.lanes:
                    lane.tell_streams(waited >= seconds - notice)
            interrupt = False  # a request is interrupted once
            left = any(lane.connections for lane in self.lanes)
            if not left or waited >= seconds or (self._hurried and not interrupted):
                return
            sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.05)

    def wait(self) -> None:
        """Wait until the server has stopped."""
        self._stopped.wait()

    def run(
        self,
        *,
        quiet: bool = False,
        worker: bool = False,
        began: float | None = None,
        delay: float = 0.0,
        status_urls: Sequence[str] = (),
        **moments: Callable[[], None] | None,
    ) -> None:
        """Start, and serve until a signal stops the server, as `serve` does in one process. ``moments`` are
        functions to call when the server has ``bound`` its sockets, has ``started``, is ``told`` to stop, and
        begins ``stopping``, ``delay`` seconds later. ``began`` is the monotonic time at which its start
        began. See program/running.py."""
        program = import_module("syncless.server.program.running")  # with the console and the banner
        program.run(
            self, quiet=quiet, worker=worker, began=began, delay=delay, status_urls=status_urls, **moments
        )

    def __enter__(self: Self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
