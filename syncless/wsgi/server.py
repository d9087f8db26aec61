"""Server: listening sockets, the environment of an application, starting and stopping. The hot path is in _connection.pyx."""

from __future__ import annotations

import errno
import os
import signal
import socket as _stdlib
import stat
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any, TextIO

import syncless
from syncless._core.loop import current_loop
from syncless._core.sync import Event
from syncless._core.tasklet import Tasklet, sleep, spawn
from syncless._core.waiting import Waitable
from syncless.wsgi._acceptor import Acceptor, close_connections
from syncless.wsgi._service import Service
from syncless.wsgi.accesslog import FLUSH_SECONDS, AccessLog
from syncless.wsgi.adapt import as_wsgi
from syncless.wsgi.filewrapper import FileWrapper
from syncless.wsgi.limits import Limits

Address = "tuple[str, int] | str"


def parse_bind(text: str) -> tuple[str, int] | str:
    """The address that "host:port", "[ipv6]:port", ":port", "port" or "unix:/path" names."""
    if text.startswith("unix:"):
        if len(text) == 5:
            raise ValueError("'unix:' wants a path, for example unix:/run/app.sock")
        return text[5:]
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address; write host:port, [ipv6]:port or unix:/path with a port from 0 to 65535")
    return (host.strip("[]") if colon else "127.0.0.1"), int(port)


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
        bind: str | Iterable[str] | None = None,
        access_log: bool | str | os.PathLike[str] | TextIO | None = None,
        error_log: TextIO | None = None,
        limits: Limits | None = None,
        defer_accept: bool = True,
        reuse_port: bool = False,
        **overrides: float,
    ):
        self.application = as_wsgi(application)
        try:
            self.limits = replace(limits or Limits(), **overrides)  # type: ignore[arg-type]
        except TypeError as error:
            unknown = [name for name in overrides if not hasattr(Limits, name)]
            if unknown:
                raise TypeError(f"there is no argument or limit {unknown[0]!r}; the limits are in syncless.wsgi.Limits") from None
            raise error
        binds = [bind] if isinstance(bind, str) else list(bind or ())
        self._wanted: list[tuple[str, int] | str] = [parse_bind(text) for text in binds] or [(host, port)]
        self._defer_accept = defer_accept
        self._reuse_port = reuse_port
        self._error_log = error_log
        self._access_log_to = access_log
        self._log: AccessLog | None = None
        self._log_file: TextIO | None = None
        self._log_tasklet: Tasklet | None = None
        self._listeners: list[_stdlib.socket] = []
        self._acceptors: list[Acceptor] = []
        self._services: list[Service] = []
        self._stopped = Event()

    # -- starting ------------------------------------------------------------------------------------------------------------

    def start(self) -> Server:
        """Binds and begins to accept. OSError, with the address in it, if that is not possible."""
        if self._listeners:
            raise RuntimeError("this server has been started already")
        self._open_log()
        try:
            for address in self._wanted:
                self._listeners.append(self._listen(address))
        except BaseException:
            self._close_listeners()
            self._close_log()
            raise
        for listener in self._listeners:
            service = Service(self.application, self._template(listener), self.limits, self._log, self._error_log or sys.stderr)
            self._services.append(service)
            self._acceptors.append(Acceptor(service, listener.fileno()))
        self._stopped.clear()
        return self

    def _listen(self, address: tuple[str, int] | str) -> _stdlib.socket:
        if isinstance(address, str):
            _remove_stale(address)
            sock = _stdlib.socket(_stdlib.AF_UNIX)
        else:
            sock = _stdlib.socket(_stdlib.AF_INET6 if ":" in address[0] else _stdlib.AF_INET)
        try:
            if sock.family != _stdlib.AF_UNIX:
                sock.setsockopt(_stdlib.SOL_SOCKET, _stdlib.SO_REUSEADDR, 1)
                if self._reuse_port:
                    sock.setsockopt(_stdlib.SOL_SOCKET, _stdlib.SO_REUSEPORT, 1)
                sock.setsockopt(_stdlib.IPPROTO_TCP, _stdlib.TCP_NODELAY, 1)  # accepted connections inherit it
                if self._defer_accept and hasattr(_stdlib, "TCP_DEFER_ACCEPT"):
                    # a connection is accepted with its request: a wake-up and an epoll_ctl less for each
                    sock.setsockopt(_stdlib.IPPROTO_TCP, _stdlib.TCP_DEFER_ACCEPT, max(1, int(self.limits.head_seconds)))
            try:
                sock.bind(address)
                sock.listen(self.limits.backlog)
            except OSError as error:
                raise OSError(error.errno, f"cannot listen on {_show(address)}: {os.strerror(error.errno or 0)}{_advice(error)}") from None
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        return sock

    def _template(self, listener: _stdlib.socket) -> dict[str, Any]:
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
            "wsgi.errors": self._error_log or sys.stderr,
            "wsgi.multithread": True,  # another request may run whenever one waits
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.file_wrapper": FileWrapper,
            "wsgi.input_terminated": True,
        }

    def _open_log(self) -> None:
        to = self._access_log_to
        if not to:
            return
        if to is True:
            stream: TextIO = sys.stdout
        elif isinstance(to, (str, os.PathLike)):
            stream = self._log_file = open(to, "a", encoding="utf-8")  # noqa: SIM115  (closed by _close_log)
        else:
            stream = to
        self._log = AccessLog(stream)
        self._log_tasklet = spawn(self._flush_log)
        self._log_tasklet.name = "access log"

    def _flush_log(self) -> None:
        while self._log is not None:
            sleep(FLUSH_SECONDS)
            self._log.flush()

    def _close_log(self) -> None:
        if self._log_tasklet is not None:
            self._log_tasklet.kill()
            self._log_tasklet = None
        if self._log is not None:
            self._log.flush()
            self._log = None
        if self._log_file is not None:
            try:
                self._log_file.close()
            except OSError:
                pass  # what could not be written has been reported
            self._log_file = None

    # -- where it is ---------------------------------------------------------------------------------------------------------

    @property
    def addresses(self) -> list[Any]:
        """The addresses in use, in the order of `bind`; ephemeral ports as the system chose them."""
        return [
            listener.getsockname()[:2] if listener.family != _stdlib.AF_UNIX else listener.getsockname() for listener in self._listeners
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
        return _show(self.address)

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
        """Stops: accepts no more, closes idle connections, lets requests in flight end for `grace` seconds
        (Limits.stop_seconds), then interrupts them with TaskletExit. Returns when all connections are closed.
        """
        if not self._listeners:
            return
        grace = self.limits.stop_seconds if grace is None else grace
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        self._close_listeners()
        for service in self._services:
            service.stopping = True
        try:
            self._wait_closed(grace, False)
            self._wait_closed(2.0, True)
        finally:
            for service in self._services:
                service.close()
            self._services.clear()
            self._close_log()
            self._stopped.set()

    def _wait_closed(self, seconds: float, all_of_them: bool) -> None:
        waited = 0.0
        pause = 0.001
        while True:
            for service in self._services:
                close_connections(service, all_of_them)
            all_of_them = False  # a request is interrupted once
            if not any(service.connections for service in self._services) or waited >= seconds:
                return
            sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.05)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            path = listener.getsockname() if listener.family == _stdlib.AF_UNIX else None
            listener.close()
            if path:
                try:
                    os.unlink(path)
                except OSError:
                    pass
        self._listeners.clear()

    def wait(self) -> None:
        """Waits until the server has stopped."""
        self._stopped.wait()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _remove_stale(path: str) -> None:
    """A socket file that nobody listens on is what a killed server left."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except OSError:
        return
    with _stdlib.socket(_stdlib.AF_UNIX) as probe:
        try:
            probe.setblocking(False)
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError:
            pass


def _show(address: Any) -> str:
    if isinstance(address, (str, bytes)):
        return f"unix:{address if isinstance(address, str) else os.fsdecode(address)}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"http://{host}:{address[1]}/"


def _advice(error: OSError) -> str:
    return {
        errno.EADDRINUSE: "; another program listens there, choose another port (0 lets the system choose)",
        errno.EACCES: "; ports below 1024 and some paths need privileges",
        errno.EADDRNOTAVAIL: "; this machine has no such address",
    }.get(error.errno or 0, "")


def serve(application: Any, host: str = "127.0.0.1", port: int = 8000, *, quiet: bool = False, **options: Any) -> None:
    """Serves the application until SIGTERM or SIGINT (or the tasklet is killed), then stops gracefully.

    ``application``: a WSGI callable, a web.py application, a CherryPy application, root object or class, a BaseHTTPRequestHandler
    subclass, or "module:attribute".
    ``host``, ``port``: where to listen; port 0 lets the system choose. ``bind``: instead of these one or more of "host:port",
    "[ipv6]:port", "unix:/path".
    ``access_log``: True for stdout, a path, or a text stream; none by default. ``error_log``: a text stream, stderr by default.
    ``limits``: a `Limits`; single limits may be given by name (``head_seconds=10``).
    ``defer_accept``: accept a connection only when its request has come (Linux TCP_DEFER_ACCEPT). ``reuse_port``: SO_REUSEPORT.
    ``quiet``: do not print where it listens.

    The first signal lets requests in flight end (Limits.stop_seconds), a second one interrupts them. OSError if it cannot listen.
    """
    server = Server(application, host, port, **options).start()
    asked = Event()
    hurry = Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        (hurry if asked.is_set() else asked).set()

    previous = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            previous[number] = signal.signal(number, on_signal)
    try:
        if not quiet:
            for address in server.addresses:
                print(
                    f"syncless {syncless.__version__} serves on {_show(address)} (loop: {current_loop().backend}, pid {os.getpid()})",
                    flush=True,
                )
        asked.wait()
        if not quiet:
            print(f"syncless stops: {server.census()['active']} requests in flight", flush=True)
        stopping = spawn(server.stop)
        stopping.name = "graceful stop"
        both: list[Waitable] = [stopping, hurry]
        syncless.wait(both, count=1)
        if not stopping.done():
            stopping.kill()
            server.stop(0)
    except BaseException:
        server.stop(0)
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
