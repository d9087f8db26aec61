"""gunicorn's worker class: ``gunicorn -k syncless.contrib.gunicorn.Worker myproject.web:app``.

gunicorn's master reads the configuration, listens, forks and supervises. Each of its workers patches the
standard library, imports the application, and serves by a Server of ours, with gunicorn's settings.
docs/moving/gunicorn.md lists those that have no effect. Next to read: gunicorn_requests.py, for gunicorn's
hooks and its access log.
"""

from __future__ import annotations

import logging
import os
import signal
import ssl
import sys
import traceback
from types import FrameType
from typing import Any

from gunicorn.config import Config
from gunicorn.sock import ssl_context
from gunicorn.workers import base

from syncless._core.current import sleep
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.sync import Event
from syncless.console import listen_if_asked
from syncless.contrib.gunicorn_requests import Closed, Counted, Mounted, Observed, is_observed
from syncless.http.addresses import Bind
from syncless.http.limits import Limits
from syncless.http.program.running import LAST_CALL
from syncless.http.request import Request
from syncless.http.trust import Trust
from syncless.patches import patch_all
from syncless.wsgi import Server, as_wsgi

MOST_FIELDS = 128
"""Header fields of a request that Limits.header_count allows."""
LARGE_HEAD = 60_000
"""The largest Limits.head_bytes."""
WITHOUT_EFFECT = {
    "threads": "each request is a tasklet, of which thousands can wait: leave it out",
    "limit_request_field_size": f"the whole head is limited instead, to {Limits.head_bytes} bytes; "
    f"if it is more than 8190, to {LARGE_HEAD}",
    "sendfile": "files go out by sendfile wherever the file system can do that",
    "header_map": "header fields with an underscore never reach the application",
    "forwarder_headers": "header fields with an underscore never reach the application; "
    "set the variable SCRIPT_NAME in the environment of gunicorn",
    "protocol": "let clients and proxies speak HTTP/1.1; in nginx write proxy_pass for uwsgi_pass",
    "http_protocols": "HTTP/1.1 is spoken; let the proxy in front speak HTTP/2 to browsers",
    "http2_cleartext": "HTTP/1.1 is spoken; let the proxy in front speak HTTP/2 to browsers",
    "permit_obsolete_folding": "such requests get 400, as RFC 9112 requires",
    "strip_header_spaces": "such requests get 400, as RFC 9112 requires",
    "permit_unconventional_http_method": "a method is any token, as in RFC 9110",
    "permit_unconventional_http_version": "HTTP/1.0 and HTTP/1.1 are spoken",
    "casefold_http_method": "methods reach the application as they were sent",
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
    def check_config(cls, config: Config, log: Any) -> None:
        """gunicorn's master calls it once, when it starts."""
        for name, instead in WITHOUT_EFFECT.items():
            if not is_default(config, name):
                log.warning("syncless does not honour the setting %s: %s", name, instead)
        if config.limit_request_fields > MOST_FIELDS:
            log.warning(
                "syncless takes %d header fields at most, so limit_request_fields=%d counts as that",
                MOST_FIELDS,
                config.limit_request_fields,
            )

    # -- its life ------------------------------------------------------------------------------------------

    def init_process(self) -> None:
        signal.signal(signal.SIGTERM, self.handle_exit)  # which would be lost while this patches
        patch_all()
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
            console = listen_if_asked()  # before the first request, which may want to see it
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
        """Tells the master that the loop runs, and checks for the master's end and for changed files, which
        send no event."""
        while True:
            self.notify()
            if self.alive and self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                self.alive = False
            if not self.alive:
                self._told.set()
            sleep(min(1.0, self.cfg.timeout / 4 or 1.0))

    def count_request(self) -> None:
        """Counts a request. After `max_requests` of them the worker ends."""
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
        """The master has not heard from this worker for `timeout` seconds. An exception would wait for the
        loop, which stands still, so the process ends here."""
        stack = "".join(traceback.format_stack(frame))
        self.log.critical("The loop of this worker has been blocked, here:\n%s", stack.rstrip())
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
    """The entries of our error log, as entries of gunicorn's."""

    def __init__(self, log: Any):
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)


# -- from gunicorn's settings to ours ------------------------------------------------------------------------


def is_default(config: Config, name: str) -> bool:
    """Whether a setting is as gunicorn has it; also if this gunicorn does not have it."""
    setting = config.settings.get(name)
    return setting is None or setting.get() == type(setting)().get()


def make_server(worker: Worker) -> Server:
    """A Server on the worker's sockets, with the settings of gunicorn. It accepts when it is started."""
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
    """The application, with what gunicorn does around it where a setting asks for it."""
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
    """As gunicorn makes it of its settings and of its hook ssl_context; only HTTP/1.1 is offered."""
    context: ssl.SSLContext = ssl_context(config)
    context.set_alpn_protocols(["http/1.1"])
    return context


class SecureScheme:
    """Called with each request: a peer among `forwarded_allow_ips` says by one of
    `secure_scheme_headers` whether its client speaks HTTPS. If two of them differ, it does not."""

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
