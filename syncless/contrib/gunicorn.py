"""gunicorn's worker class: ``gunicorn -k syncless.contrib.gunicorn.Worker myproject.web:app``.

gunicorn's master reads the configuration, patches the standard library, listens, forks and supervises. Each
worker imports the application, and serves it with our Server and gunicorn's settings. docs/moving/gunicorn.md
lists the settings that have no effect.
"""

from __future__ import annotations

import logging
import os
import signal
import ssl
import sys
import traceback
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import FrameType
from typing import Any

from gunicorn.config import Config
from gunicorn.http.errors import ConfigurationProblem
from gunicorn.sock import ssl_context
from gunicorn.workers import base

from syncless._core.current import sleep
from syncless._core.handling import interrupted_frame
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.sync import Event
from syncless.apps.wsgi.adapt import request_target
from syncless.apps.wsgi.filewrapper import FileWrapper
from syncless.console import listen_if_asked
from syncless.http.limits import MOST, Limits
from syncless.http.request import Request
from syncless.http.trust import Trust
from syncless.patches import patch_all
from syncless.server.addresses import Bind
from syncless.server.program.running import LAST_CALL
from syncless.wsgi import Server, as_wsgi

MOST_FIELDS = MOST["header_count"]
LARGE_HEAD = MOST["head_bytes"]
WITHOUT_EFFECT = {
    "threads": "leave it out: each request is a tasklet, and thousands of them can wait",
    "limit_request_field_size": f"syncless limits the whole head instead, to {Limits.head_bytes} bytes, or "
    f"to {LARGE_HEAD} if the setting is more than 8190",
    "sendfile": "syncless sends files with sendfile wherever the file system supports it",
    "header_map": "header fields with an underscore never reach the application",
    "forwarder_headers": "header fields with an underscore never reach the application; "
    "set the variable SCRIPT_NAME in the environment of gunicorn",
    "protocol": "let clients and proxies speak HTTP/1.1; in nginx write proxy_pass instead of uwsgi_pass",
    "http_protocols": "this worker speaks HTTP/1.1; let the proxy in front speak HTTP/2 to browsers",
    "http2_cleartext": "this worker speaks HTTP/1.1; let the proxy in front speak HTTP/2 to browsers",
    "permit_obsolete_folding": "such requests get 400, as RFC 9112 requires",
    "strip_header_spaces": "such requests get 400, as RFC 9112 requires",
    "permit_unconventional_http_method": "a method is any token, as in RFC 9110",
    "permit_unconventional_http_version": "this worker speaks HTTP/1.0 and HTTP/1.1",
    "casefold_http_method": "methods reach the application unchanged",
    "root_path": "set the variable SCRIPT_NAME in the environment of gunicorn",
}
"""gunicorn's settings that this worker cannot honour, and what happens or what to do instead."""


class Worker(base.Worker):
    """A worker of gunicorn's master."""

    alive: bool
    wsgi: Any

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._server: Server | None = None
        self._told = Event()
        """Set when a signal has come or `alive` has changed."""

    @classmethod
    def setup(cls) -> None:
        """Patch the standard library: gunicorn's master calls this before it imports an application
        (`preload_app`)."""
        patch_all(strict=True)

    @classmethod
    def check_config(cls, config: Config, log: Any) -> None:
        """Warn about settings without effect: gunicorn's master calls this once, at its start."""
        for name, instead in WITHOUT_EFFECT.items():
            if not is_default(config, name):
                log.warning("syncless ignores the setting %s: %s", name, instead)
        if config.limit_request_fields > MOST_FIELDS:
            log.warning(
                "syncless accepts at most %d header fields, so it reduces limit_request_fields=%d to that",
                MOST_FIELDS,
                config.limit_request_fields,
            )

    # -- its life ------------------------------------------------------------------------------------------

    def init_process(self) -> None:
        signal.signal(signal.SIGTERM, self.handle_exit)  # which would be lost until gunicorn sets it
        entries = logging.getLogger("syncless.error")
        entries.handlers = [Entries(self.log)]
        entries.setLevel(logging.DEBUG)  # gunicorn's own logger has the level that is configured
        entries.propagate = False
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        # an application that cannot be served stops gunicorn, and not only this worker
        self.wsgi = as_wsgi(self.wsgi)

    def run(self) -> None:
        pulse = spawn(self._pulse)
        pulse.name = "heartbeat for gunicorn"
        self._server = make_server(self)
        try:
            console = listen_if_asked(worker=True)  # before the first request, which may want to see it
            self._server.start()
            while self.alive:
                self._told.wait()
                self._told.clear()
            self._server.stop_after(LAST_CALL, self.cfg.graceful_timeout)
            if console is not None:
                console.close()
        finally:
            pulse.kill()

    def _pulse(self) -> None:
        """Tell the master that the loop runs, and check for the master's end and changed files, which cause
        no event."""
        while True:
            self.notify()
            if self.alive and self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                self.alive = False
            if not self.alive:
                self._told.set()
            sleep(min(1.0, self.cfg.timeout / 4 or 1.0))

    def count_request(self) -> None:
        """Count a request. The worker ends after `max_requests` requests."""
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False
            self._told.set()

    # -- signals: steps that may wait run in tasklets ----------------------------------------------------

    def handle_exit(self, number: int, frame: FrameType | None) -> None:
        self.alive = False
        self._told.set()

    def handle_quit(self, number: int, frame: FrameType | None) -> None:
        if self._server is None:  # the application is being imported
            super().handle_quit(number, frame)
            return
        self.alive = False
        self._server.hurry()  # requests in flight are interrupted
        self._told.set()
        self._spawn(self.cfg.worker_int, self)

    def handle_usr1(self, number: int, frame: FrameType | None) -> None:
        self._spawn(self.log.reopen_files)

    def handle_abort(self, number: int, frame: FrameType | None) -> None:
        """End this process, because the master has had no heartbeat for `timeout` seconds. An exception would
        wait for the blocked loop."""
        stack = "".join(traceback.format_stack(interrupted_frame(frame)))
        self.log.critical("The loop of this worker is blocked here:\n%s", stack.rstrip())
        try:
            self.cfg.worker_abort(self)
            self.cfg.worker_exit(self, self)
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(1)

    @staticmethod
    def _spawn(function: Any, *arguments: Any) -> Tasklet[Any]:
        tasklet = spawn(function, *arguments)
        tasklet.name = "signal of gunicorn"
        return tasklet


class Entries(logging.Handler):
    """A handler that passes the entries of our error log to gunicorn's."""

    def __init__(self, log: Any):
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)


# -- from gunicorn's settings to ours ------------------------------------------------------------------------


def is_default(config: Config, name: str) -> bool:
    """Return whether a setting has gunicorn's default, or does not exist in this gunicorn."""
    setting = config.settings.get(name)
    return setting is None or setting.get() == type(setting)().get()


def make_server(worker: Worker) -> Server:
    """Return a Server on the worker's sockets, with the settings of gunicorn. It accepts connections after
    start()."""
    config = worker.cfg
    proxied = config.proxy_protocol not in (False, "off")
    server = Server(
        application_of(worker),
        bind=[Bind(fd=listener.sock.detach()) for listener in worker.sockets],
        limits=limits_of(config),
        ssl_context=(lambda: tls_context(config)) if config.is_ssl else None,
        # all are: gunicorn's applications see X-Forwarded-For of everybody, and REMOTE_ADDR is the peer
        trusted=[*config.proxy_allow_ips, "unix"] if proxied else "*",
        proxy_protocol=proxied,
        multiprocess=config.workers > 1,
    )
    server.forwarding = SecureScheme(config)
    return server


def application_of(worker: Worker) -> Any:
    """Return the application, wrapped as gunicorn's settings require."""
    config = worker.cfg
    application = worker.wsgi
    script_name = os.environ.get("SCRIPT_NAME", "")
    if script_name:
        application = Mounted(application, script_name)
    if not config.keepalive:
        application = Closed(application)
    if is_observed(worker):
        return Observed(application, worker)
    return Counted(application, worker) if config.max_requests else application


def limits_of(config: Config) -> Limits:
    field_size = config.limit_request_field_size
    return Limits(
        connections=config.worker_connections,
        idle_seconds=config.keepalive or 1.0,
        request_line=config.limit_request_line or 8190,
        header_count=min(config.limit_request_fields, MOST_FIELDS) or MOST_FIELDS,
        head_bytes=Limits.head_bytes if 0 < field_size <= 8190 else LARGE_HEAD,
        stop_seconds=config.graceful_timeout,
        stop_idle_seconds=min(config.keepalive, Limits.stop_idle_seconds),
    )


def tls_context(config: Config) -> ssl.SSLContext:
    """Return the context that gunicorn makes from its settings and its hook ssl_context; the context offers
    only HTTP/1.1."""
    context: ssl.SSLContext = ssl_context(config)
    context.set_alpn_protocols(["http/1.1"])
    return context


class SecureScheme:
    """Sets the scheme of each request: a peer among `forwarded_allow_ips` states with `secure_scheme_headers`
    whether its client speaks HTTPS. If two of these headers differ, the scheme is http."""

    def __init__(self, config: Config):
        self._trust = Trust([*config.forwarded_allow_ips, "unix"])
        self._secure = {name.lower(): value for name, value in config.secure_scheme_headers.items()}

    def keeps(self, name: str) -> bool:
        return True

    def __call__(self, request: Request) -> None:
        fields = [(request.field(name), value) for name, value in self._secure.items()]
        said = [field == value for field, value in fields if field is not None]
        if said and self._trust(request.client):
            request.scheme = "https" if all(said) else "http"


def is_observed(worker: Any) -> bool:
    """Return whether gunicorn must see each request, for a hook, a log, or statistics."""
    config = worker.cfg
    hooks = (config.settings[name] for name in ("pre_request", "post_request"))
    logs = (
        config.accesslog,
        config.logconfig,
        config.logconfig_dict,
        config.logconfig_json,
        config.syslog and not config.disable_redirect_access_to_syslog,
        config.statsd_host,
    )
    # as a string: gunicorn imports the class when it is asked for
    own_logger = str(config.settings["logger_class"].get()) != "gunicorn.glogging.Logger"
    return any(hook.get() is not hook.default for hook in hooks) or any(logs) or own_logger


class Counted:
    """Lets the worker count its requests."""

    def __init__(self, application: Any, worker: Any):
        self._application = application
        self._worker = worker

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self._worker.count_request()
        return self._application(environ, start_response)  # type: ignore[no-any-return]


class Closed:
    """Closes each connection after its response (`keepalive = 0`)."""

    def __init__(self, application: Any):
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, [*headers, ("Connection", "close")], *rest)

        return self._application(environ, start)  # type: ignore[no-any-return]


class Mounted:
    """An application below the path in the variable SCRIPT_NAME of gunicorn's environment."""

    def __init__(self, application: Any, script_name: str):
        self._application = application
        self._script_name = script_name

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not path.startswith(self._script_name):
            raise ConfigurationProblem(
                f"the path {path!r} does not begin with SCRIPT_NAME {self._script_name!r}"
            )
        environ["SCRIPT_NAME"] = self._script_name
        environ["PATH_INFO"] = path[len(self._script_name) :]
        return self._application(environ, start_response)  # type: ignore[no-any-return]


class ObservedRequest:
    """A request with the attributes that gunicorn's hooks and its logger use."""

    def __init__(self, environ: dict[str, Any]):
        self.method: str = environ["REQUEST_METHOD"]
        self.uri = request_target(environ)
        self.path, _, self.query = self.uri.partition("?")
        self.fragment = ""
        self.version = (1, 0 if environ["SERVER_PROTOCOL"] == "HTTP/1.0" else 1)
        self.scheme: str = environ["wsgi.url_scheme"]
        self.body = environ["wsgi.input"]
        self.remote_addr = self.peer_addr = (environ["REMOTE_ADDR"], int(environ["REMOTE_PORT"] or 0))
        self.headers = [
            (key.removeprefix("HTTP_").replace("_", "-"), value)
            for key, value in environ.items()
            if key.startswith("HTTP_") or key in ("CONTENT_TYPE", "CONTENT_LENGTH")
        ]


class Response:
    """A response with the attributes that gunicorn's hooks and its logger use."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.headers: list[tuple[str, str]] = []
        self.sent = 0
        """Bytes of the body."""

    @property
    def status_code(self) -> int | None:
        return None if self.status is None else int(self.status.split()[0])

    def begin(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.headers = headers


class Observed:
    """Calls gunicorn's hooks and its access log, and counts the bytes of each body for them."""

    def __init__(self, application: Any, worker: Any):
        self._application = application
        self._worker = worker

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        worker = self._worker
        began = datetime.now()
        request = ObservedRequest(environ)
        response = Response()
        silent = request.method == "HEAD"
        environ["RAW_URI"] = request.uri

        def count(data: bytes) -> None:
            if not silent and response.status_code not in (204, 304):
                response.sent += len(data)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            write = start_response(status, headers, *rest)
            response.begin(status, headers)

            def write_counted(data: bytes) -> None:
                count(data)
                write(data)

            return write_counted

        def done(failed: bool = False) -> None:
            if failed and response.status is None:
                response.status = "500 Internal Server Error"
            worker.log.access(response, request, environ, datetime.now() - began)
            try:
                worker.cfg.post_request(worker, request, environ, response)
            except Exception:
                worker.log.exception("Exception in post_request hook")

        try:
            worker.cfg.pre_request(worker, request)
            worker.count_request()
            body: Any = self._application(environ, start)
        except BaseException:
            done(True)
            raise
        if isinstance(body, (list, tuple)):
            for part in body:
                count(part)
            done()
            return body
        region = body.region() if type(body) is FileWrapper else None
        if region is None:
            return Body(body, count, done)
        if not silent:
            response.sent = region[2]
        body.close = Body(body, count, done).close
        return body  # type: ignore[no-any-return]


class Body:
    """A response body that counts its bytes, and reports its end when the server closes it."""

    def __init__(self, body: Any, count: Any, done: Any):
        self._body = body
        self._close = getattr(body, "close", None)
        self._count = count
        self._done = done

    def __iter__(self) -> Iterator[bytes]:
        for part in self._body:
            self._count(part)
            yield part

    def close(self) -> None:
        try:
            if self._close is not None:
                self._close()
        finally:
            self._done()
