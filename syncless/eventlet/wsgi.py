"""The web server of programs that were written for eventlet: server(), Server and HttpProtocol.

Its classes are there because programs override them. New programs get more from syncless.wsgi.
"""

from __future__ import annotations

import errno
import http.server
import os
import socket as _socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from ssl import SSLError
from typing import Any
from urllib.parse import unquote_to_bytes

from syncless.eventlet import greenio, greenpool
from syncless.eventlet.corolocal import local
from syncless.eventlet.support import greenlets
from syncless.eventlet.timeout import Timeout
from syncless.eventlet.wsgi_input import ChunkReadError, Input, capitalized, encode_header_line

__all__ = ["ChunkReadError", "HttpProtocol", "Input", "Server", "format_date_time", "server"]

BaseHTTPServer = http.server  # programs reach it by this name

DEFAULT_MAX_SIMULTANEOUS_REQUESTS = 1024
DEFAULT_MAX_HTTP_VERSION = "HTTP/1.1"
MAX_REQUEST_LINE = 8192
MAX_HEADER_LINE = 8192
MAX_TOTAL_HEADER_SIZE = 65536
MINIMUM_CHUNK_SIZE = 4096
DEFAULT_LOG_FORMAT = (
    '%(client_ip)s - - [%(date_time)s] "%(request_line)s" %(status_code)s %(body_length)s %(wall_seconds).6f'
)

BAD_SOCK = {errno.EBADF, errno.ENOTSOCK}
BROKEN_SOCK = {errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.ENOTCONN}
ACCEPT_ERRNO = {errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.ECONNABORTED}

STATE_IDLE, STATE_REQUEST, STATE_CLOSE = "idle", "request", "close"
"""Of a connection: it waits for a request, has one, or is to close after it."""

_encode_header_line = encode_header_line


class _Local(local):
    already_handled = False


WSGI_LOCAL = _Local()
"""An application that has responded by itself sets WSGI_LOCAL.already_handled."""


def format_date_time(timestamp: float) -> str:
    """Return a time as a header field has it."""
    return formatdate(timestamp, usegmt=True)


def addr_to_host_port(addr: Any) -> tuple[str, Any]:
    """Return host and port of an address; those of a UNIX socket are "unix" and nothing."""
    return (addr[0], addr[1]) if isinstance(addr, tuple) else ("unix", "")


class _Refused(Exception):
    """A request that gets a status and no application."""


class _FileLog:
    """A file with the methods of a logger that are used here."""

    def __init__(self, file: Any, debug: bool) -> None:
        self.log, self._debug = file, debug

    def info(self, text: str, *args: Any) -> None:
        self.log.write((text % args if args else text).rstrip("\n") + "\n")

    error = warning = write = info

    def debug(self, text: str, *args: Any) -> None:
        if self._debug:
            self.info(text, *args)


class HttpProtocol(BaseHTTPRequestHandler):
    """A connection, from the first request to the last. `conn_state` is its address, socket and state."""

    protocol_version = "HTTP/1.1"
    minimum_chunk_size = MINIMUM_CHUNK_SIZE
    capitalize_response_headers = True
    reject_bad_requests = True
    wbufsize = 16 << 10
    disable_nagle_algorithm = True

    def __init__(self, conn_state: list[Any], server: Server) -> None:
        self.request = self.connection = conn_state[1]
        self.client_address = conn_state[0]
        self.conn_state = conn_state
        self.server: Any = server
        self.server_version = "syncless"
        self.setup()
        try:
            self.handle()
        finally:
            self.finish()

    def setup(self) -> None:
        if self.disable_nagle_algorithm and self.connection.family != getattr(_socket, "AF_UNIX", None):
            try:
                self.connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, True)
            except OSError:
                pass
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = self.connection.makefile("wb", self.wbufsize)

    def handle(self) -> None:
        """Handle requests until the connection is to close."""
        self.close_connection = True
        first = True
        while True:
            self._wait_seconds(first)
            self.handle_one_request()
            first = False
            if self.conn_state[2] is STATE_CLOSE:
                self.close_connection = True
            if self.close_connection:
                return

    def _wait_seconds(self, first: bool) -> None:
        """How long to wait for the next request."""
        seconds = self.server.keepalive
        if not first and not isinstance(seconds, bool):
            self.connection.settimeout(seconds)

    def finish(self) -> None:
        try:
            self.wfile.close()
        except OSError as error:
            if error.errno not in BROKEN_SOCK and not isinstance(error, (TimeoutError, SSLError)):
                raise
        except ValueError:
            pass
        finally:
            self.rfile.close()
            try:
                greenio.shutdown_safe(self.connection)
            except OSError:
                pass
            self.connection.close()

    # -- a request

    def handle_one_request(self) -> None:
        """Read a request and respond to it."""
        self.close_connection = True
        try:
            if self.conn_state[2] is not STATE_CLOSE:
                self.conn_state[2] = STATE_IDLE
            self.raw_requestline = self._read_request_line()
            if not self.raw_requestline:
                return
            if self.conn_state[2] is not STATE_CLOSE:
                self.conn_state[2] = STATE_REQUEST
            self.connection.settimeout(self.server.socket_timeout)
            if self.parse_request():
                self._respond()
        except _Refused as error:
            self.close_connection = True
            self.wfile.write(f"HTTP/1.0 {error}\r\nConnection: close\r\nContent-length: 0\r\n\r\n".encode())
            self.wfile.flush()

    def _read_request_line(self) -> bytes:
        limit = self.server.url_length_limit
        try:
            line: bytes = self.rfile.readline(limit)
        except TimeoutError:
            raise
        except OSError as error:
            if error.errno not in BAD_SOCK | BROKEN_SOCK and not isinstance(error, SSLError):
                raise
            return b""
        if len(line) >= limit:
            raise _Refused("414 Request URI Too Long")
        return line

    def parse_request(self) -> bool:
        """Parse the request line, and read and parse the header fields."""
        self.command = ""
        self.requestline = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        words = self.requestline.split()
        if len(words) == 2 and words[0] == "GET":
            words.append("HTTP/0.9")
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            raise _Refused("400 Bad Request")
        self.command, self.path, self.request_version = words
        self._read_headers()
        connection = self.headers.get("Connection", "").lower()
        if self.request_version >= "HTTP/1.1" and self.server.max_http_version >= "HTTP/1.1":
            self.close_connection = connection == "close"
        else:
            self.close_connection = connection != "keep-alive"
        if not self.server.keepalive:
            self.close_connection = True
        self._check_length()
        return True

    def _read_headers(self) -> None:
        self.headers = HTTPMessage()
        self._raw_headers: list[tuple[str, str]] = []
        total = 0
        while True:
            line = self.rfile.readline(MAX_HEADER_LINE + 1)
            total += len(line)
            if len(line) > MAX_HEADER_LINE:
                raise _Refused("400 Header Line Too Long")
            if total > MAX_TOTAL_HEADER_SIZE:
                raise _Refused("400 Headers Too Large")
            if not line.strip(b"\r\n"):
                return
            name, colon, value = line.decode("latin-1").rstrip("\r\n").partition(":")
            if not colon or name != name.strip():
                raise _Refused("400 Bad Request")
            self._raw_headers.append((name, value.strip(" \t")))
            self.headers[name] = value.strip(" \t")

    def _check_length(self) -> None:
        length = self.headers.get("Content-Length")
        self._chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        if length is not None and not (length.isascii() and length.isdigit()):
            raise _Refused("400 Bad Request")
        if length is not None and self._chunked and self.reject_bad_requests:
            raise _Refused("400 Bad Request")

    def _respond(self) -> None:
        self.environ = self.get_environ()
        self.application = self.server.app
        try:
            self.server.outstanding_requests += 1
            self.handle_one_response()
        except OSError as error:
            if error.errno not in BROKEN_SOCK or isinstance(error, TimeoutError):
                raise
            self.close_connection = True
        finally:
            self.server.outstanding_requests -= 1

    # -- its environment

    def get_environ(self) -> dict[str, Any]:
        env: dict[str, Any] = self.server.get_environ()
        path, _, query = self.path.partition("?")
        host, port = self.connection.getsockname()[:2] if self._is_inet() else ("unix", "")
        env.update(
            REQUEST_METHOD=self.command,
            SCRIPT_NAME="",
            RAW_PATH_INFO=path,
            PATH_INFO=unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
            QUERY_STRING=query,
            SERVER_PROTOCOL=self.request_version,
            SERVER_NAME=host,
            SERVER_PORT=str(port),
            GATEWAY_INTERFACE="CGI/1.1",
            REQUEST_URI=self.path,
            headers_raw=tuple(self._raw_headers),
        )
        env["REMOTE_ADDR"], remote_port = self.get_client_address()
        env["REMOTE_PORT"] = str(remote_port)
        content_type = self.headers.get("Content-Type")
        if content_type is not None:
            env["CONTENT_TYPE"] = content_type
        length = self.headers.get("Content-Length")
        if length is not None:
            env["CONTENT_LENGTH"] = length
        for name, value in self._raw_headers:
            key = "HTTP_" + name.replace("-", "_").upper()
            if "_" in name or key in ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"):
                continue  # "X_Y" is not "X-Y"
            env[key] = f"{env[key]},{value}" if key in env else value
        expects = self.headers.get("Expect", "").lower() == "100-continue"
        env["wsgi.input"] = env["eventlet.input"] = Input(
            self.rfile,
            0 if length is None else int(length),
            self.connection,
            self.wfile if expects else None,
            self._chunked,
        )
        env["eventlet.posthooks"] = []

        def set_idle() -> None:
            self.conn_state[2] = STATE_IDLE

        env["eventlet.set_idle"] = set_idle
        return env

    def _is_inet(self) -> bool:
        return self.connection.family in (_socket.AF_INET, _socket.AF_INET6)

    def get_client_address(self) -> tuple[str, Any]:
        return addr_to_host_port(self.client_address)

    def get_client_ip(self) -> str:
        ip = self.get_client_address()[0]
        if self.server.log_x_forwarded_for:
            forwarded = self.headers.get("X-Forwarded-For", "").replace(" ", "")
            if forwarded:
                return f"{forwarded},{ip}"
        return ip

    def log_message(self, format: str, *args: Any) -> None:
        self.server.log.debug(format % args)

    def log_exception(self, error: BaseException) -> None:
        self.server.log.error("".join(traceback.format_exception(error)))

    # -- its response

    def handle_one_response(self) -> None:
        """Call the application and send what it returns."""
        began = time.time()
        body = self.environ["eventlet.input"]
        hooks_of = self.environ
        response = _Response(self, body)
        result: Any = None
        try:
            WSGI_LOCAL.already_handled = False
            result = self.application(self.environ, response.start)
            if not response.was_handled():
                response.send(result)
        except (Exception, Timeout) as error:
            self.close_connection = True
            self.log_exception(error)
            response.fail(error)
        finally:
            if hasattr(result, "close"):
                result.close()
            self._leave_body(body)
            for hook, args, kwargs in hooks_of["eventlet.posthooks"] or ():
                hook(hooks_of, *args, **kwargs)
            if self.server.log_output:
                self.server.log.info(
                    self.server.log_format
                    % {
                        "client_ip": self.get_client_ip(),
                        "client_port": self.get_client_address()[1],
                        "date_time": self.log_date_time_string(),
                        "request_line": self.requestline,
                        "status_code": response.code,
                        "body_length": response.length,
                        "wall_seconds": time.time() - began,
                    }
                )

    def _leave_body(self, body: Input) -> None:
        """Read what the application has not read of the request."""
        if self.close_connection and not WSGI_LOCAL.already_handled and not body.is_chunked():
            self._discard(body, 1 << 20)
        elif not WSGI_LOCAL.already_handled and body.is_awaited():
            self.close_connection = True  # it may come, or not: the client waits for a 100
        elif not WSGI_LOCAL.already_handled:
            self._discard(body, None)

    def _discard(self, body: Input, limit: int | None) -> None:
        try:
            if not body.is_awaited() and not self.close_connection:
                body.discard()
        except (OSError, ValueError):
            self.close_connection = True


class _Response:
    """A response: start() is the application's start_response()."""

    def __init__(self, protocol: HttpProtocol, body: Input) -> None:
        self.protocol, self.body = protocol, body
        self.status = ""
        self.code: Any = 0
        self.length = 0
        self.headers: list[tuple[str, Any]] | None = None
        self.sent = False
        self.chunked = False
        self.pending: list[bytes] = []

    def start(self, status: str, headers: Any, exc_info: Any = None) -> Callable[[Any], None]:
        self.code = status.split()[0]
        if exc_info:
            try:
                if self.sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        self.status = status
        self.headers = list(headers.items() if isinstance(headers, dict) else headers)
        return self.write

    def was_handled(self) -> bool:
        """Whether the application has responded by itself."""
        if WSGI_LOCAL.already_handled and not self.sent:
            self.protocol.close_connection = True
            return True
        return False

    def send(self, result: Iterable[Any]) -> None:
        if (
            self.headers is not None
            and not self.sent
            and hasattr(result, "__len__")
            and not self._has("content-length")
            and self._may_have_body()
        ):
            self.headers.append(("Content-Length", str(sum(len(part) for part in result))))
        least, size = self._least(), 0
        waiting: list[bytes] = []
        for part in result:
            if not part:
                continue
            data = part.encode("ascii") if isinstance(part, str) else part
            waiting.append(data)
            size += len(data)
            if size >= least:
                self.write(b"".join(waiting))
                waiting, size = [], 0
            least = self._least()
        if waiting:
            self.write(b"".join(waiting))
        if not self.sent and self.was_handled():
            return
        if not self.sent or self.chunked:
            self.write(b"")

    def _least(self) -> int:
        least = self.protocol.environ.get(
            "eventlet.minimum_write_chunk_size", self.protocol.minimum_chunk_size
        )
        return int(least)

    def _has(self, name: str) -> bool:
        assert self.headers is not None
        return any(key.lower() == name for key, _ in self.headers)

    def _may_have_body(self) -> bool:
        return not self.status.startswith(("1", "204", "304"))

    def write(self, data: Any) -> None:
        """Send a part of the body; nothing is its end."""
        out = self.protocol.wfile
        parts = []
        if not self.sent:
            if self.headers is None:
                raise AssertionError("write() before start_response()")
            parts.append(self._head())
            self.sent = True
        elif not data and not self.chunked:
            return
        if isinstance(data, str):
            data = data.encode("ascii")
        if self.chunked:
            parts += [b"%x\r\n" % len(data), data, b"\r\n"]
        else:
            parts.append(data)
        out.writelines(parts)
        out.flush()
        self.length += sum(map(len, parts))

    def _head(self) -> bytes:
        protocol = self.protocol
        assert self.headers is not None
        capitalize = protocol.capitalize_response_headers
        lines = []
        for name, value in self.headers:
            lines.append(encode_header_line((capitalized(name) if capitalize else name, value)))
        self.body.headers_sent = True
        if not self._has("date"):
            lines.append(b"Date: " + format_date_time(time.time()).encode() + b"\r\n")
        if not self._has("content-length") and self._may_have_body():
            if protocol.request_version >= "HTTP/1.1" and protocol.server.max_http_version >= "HTTP/1.1":
                self.chunked = True
                if not self._has("transfer-encoding"):
                    lines.append(b"Transfer-Encoding: chunked\r\n")
            else:
                protocol.close_connection = True
        if self.body.is_awaited() or protocol.conn_state[2] is STATE_CLOSE:
            protocol.close_connection = True
        if not self._has("connection"):
            lines += self._connection()
        return b"".join([f"{protocol.protocol_version} {self.status}\r\n".encode("latin-1"), *lines, b"\r\n"])

    def _connection(self) -> list[bytes]:
        protocol = self.protocol
        if protocol.close_connection:
            return [b"Connection: close\r\n"]
        if protocol.headers.get("Connection", "").lower() != "keep-alive":
            return []
        seconds = protocol.server.keepalive
        more = [] if isinstance(seconds, bool) else [b"Keep-Alive: timeout=%d\r\n" % int(seconds)]
        return [b"Connection: keep-alive\r\n", *more]

    def fail(self, error: BaseException) -> None:
        """Tell the client, if it can be told."""
        if self.sent:
            return
        text = "".join(traceback.format_exception(error)) if self.protocol.server.debug else ""
        data = text.encode("utf-8", "replace")
        self.start(
            "500 Internal Server Error", [("Content-type", "text/plain"), ("Content-length", str(len(data)))]
        )
        try:
            self.write(data)
        except OSError as broken:
            if broken.errno not in BROKEN_SOCK:
                raise


class Server:
    """The settings and counters that the connections of a server share."""

    def __init__(
        self,
        socket: Any,
        address: Any,
        app: Any,
        log: Any = None,
        environ: dict[str, Any] | None = None,
        max_http_version: str | None = None,
        protocol: type[HttpProtocol] = HttpProtocol,
        minimum_chunk_size: int | None = None,
        log_x_forwarded_for: bool = True,
        keepalive: Any = True,
        log_output: bool = True,
        log_format: str = DEFAULT_LOG_FORMAT,
        url_length_limit: int = MAX_REQUEST_LINE,
        debug: bool = True,
        socket_timeout: float | None = None,
        capitalize_response_headers: bool = True,
    ) -> None:
        self.outstanding_requests = 0
        self.socket, self.address, self.app = socket, address, app
        is_logger = callable(getattr(log, "info", None)) and callable(getattr(log, "debug", None))
        self.log = log if is_logger else _FileLog(sys.stderr if log is None else log, debug)
        self.environ = environ
        self.max_http_version = max_http_version or DEFAULT_MAX_HTTP_VERSION
        changed: dict[str, Any] = {}
        if minimum_chunk_size is not None:
            changed["minimum_chunk_size"] = minimum_chunk_size
        if not capitalize_response_headers:
            changed["capitalize_response_headers"] = False
        self.protocol = type(protocol.__name__, (protocol,), changed) if changed else protocol
        self.log_x_forwarded_for = log_x_forwarded_for
        self.keepalive = keepalive
        self.log_output, self.log_format = log_output, log_format
        self.url_length_limit = url_length_limit
        self.debug = debug
        self.socket_timeout = socket_timeout
        self.capitalize_response_headers = capitalize_response_headers

    def get_environ(self) -> dict[str, Any]:
        """Return what the environments of all requests have."""
        env = {
            "wsgi.errors": sys.stderr,
            "wsgi.version": (1, 0),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.url_scheme": "https" if hasattr(self.socket, "do_handshake") else "http",
        }
        env.update(self.environ or {})
        return env

    def process_request(self, conn_state: list[Any]) -> None:
        """Handle the requests of a connection."""
        try:
            self.protocol(conn_state, self)
        except TimeoutError:
            self.log.debug("timed out")
        except SSLError as error:
            self.log.debug(f"({os.getpid()}) {error}")
        except OSError as error:
            if error.errno not in BAD_SOCK | BROKEN_SOCK:
                raise
        finally:
            conn_state[1].close()

    def log_message(self, message: str) -> None:
        self.log.info(message)


def server(
    sock: Any,
    site: Any,
    log: Any = None,
    environ: dict[str, Any] | None = None,
    max_size: int | None = None,
    max_http_version: str | None = DEFAULT_MAX_HTTP_VERSION,
    protocol: type[HttpProtocol] = HttpProtocol,
    server_event: Any = None,
    minimum_chunk_size: int | None = None,
    log_x_forwarded_for: bool = True,
    custom_pool: Any = None,
    keepalive: Any = True,
    log_output: bool = True,
    log_format: str = DEFAULT_LOG_FORMAT,
    url_length_limit: int = MAX_REQUEST_LINE,
    debug: bool = True,
    socket_timeout: float | None = None,
    capitalize_response_headers: bool = True,
) -> None:
    """Serve a WSGI application to the clients of a listening socket, until that is closed or the green thread
    is killed; close the socket."""
    serv = Server(
        sock,
        sock.getsockname(),
        site,
        log,
        environ=environ,
        max_http_version=max_http_version,
        protocol=protocol,
        minimum_chunk_size=minimum_chunk_size,
        log_x_forwarded_for=log_x_forwarded_for,
        keepalive=keepalive,
        log_output=log_output,
        log_format=log_format,
        url_length_limit=url_length_limit,
        debug=debug,
        socket_timeout=socket_timeout,
        capitalize_response_headers=capitalize_response_headers,
    )
    if server_event is not None:
        server_event.send(serv)
    pool = (
        greenpool.GreenPool(max_size or DEFAULT_MAX_SIMULTANEOUS_REQUESTS)
        if custom_pool is None
        else custom_pool
    )
    connections: dict[int, list[Any]] = {}
    if serv.log_output:
        serv.log.info(f"({os.getpid()}) wsgi starting up on {_url(sock)}")
    try:
        _accept(serv, sock, pool, connections)
    finally:
        for state in connections.values():
            before, state[2] = state[2], STATE_CLOSE
            if before is STATE_IDLE:
                greenio.shutdown_safe(state[1])
        if serv.log_output:
            serv.log.info(f"({os.getpid()}) wsgi exited, is_accepting=True")
        try:
            sock.close()
        except OSError as error:
            if error.errno not in BROKEN_SOCK:
                traceback.print_exc()


def _url(sock: Any) -> str:
    scheme = "https" if hasattr(sock, "do_handshake") else "http"
    name = sock.getsockname()
    if isinstance(name, tuple):
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"{scheme}://{host}:{name[1]}"
    return f"{scheme}:{name}"


def _accept(serv: Server, sock: Any, pool: Any, connections: dict[int, list[Any]]) -> None:
    while True:
        try:
            connection, address = sock.accept()
        except OSError as error:
            if error.errno in BAD_SOCK:
                return
            if error.errno not in ACCEPT_ERRNO and not isinstance(error, SSLError):
                raise
            continue
        except (KeyboardInterrupt, SystemExit):
            serv.log.info("wsgi exiting")
            return
        connection.settimeout(serv.socket_timeout)
        if serv.log_output:
            serv.log.debug(f"({os.getpid()}) accepted {address!r}")
        state = [address, connection, STATE_IDLE]
        connections[id(state)] = state
        try:
            thread = pool.spawn(serv.process_request, state)
        except BaseException:
            connection.close()
            raise
        thread.link(_forget, connections, state)
        connection = None


def _forget(thread: Any, connections: dict[int, list[Any]], state: list[Any]) -> None:
    connections.pop(id(state), None)
    try:
        thread.wait()
    except (Exception, greenlets.GreenletExit):
        pass
