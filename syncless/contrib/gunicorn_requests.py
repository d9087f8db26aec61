"""gunicorn's work around an application: counting, its hooks, its access log, SCRIPT_NAME.

Each class is a WSGI application around another one, and used only where a setting of gunicorn asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from gunicorn.http.errors import ConfigurationProblem

from syncless.wsgi.adapt import request_target
from syncless.wsgi.filewrapper import FileWrapper


def is_observed(worker: Any) -> bool:
    """Whether gunicorn wants to see each request: for a hook, a log, or statistics."""
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
    """An application below a path: the variable SCRIPT_NAME in the environment of gunicorn."""

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


class Request:
    """A request, as gunicorn's hooks and its logger know it."""

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
    """A response, as gunicorn's hooks and its logger know it."""

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
        request = Request(environ)
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
    """The body of a response: counts its bytes, and reports its end when the server closes it."""

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
