"""serve(): runs a server as a program, with its patch and its processes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from syncless.server.kinds import Declared
from syncless.tools.imports import when_executed

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from syncless.apps.host import Hook
    from syncless.server.arguments import ServerOptions

    Patch = bool | Mapping[str, bool]


class Patching:
    """The argument `patch` of serve, which the program around a server applies and describes."""

    def __init__(self, patch: Patch):
        self._patch = patch
        self._choice = {} if isinstance(patch, bool) else patch

    def __call__(self) -> None:
        """Patch this process. Raise TypeError for an unknown area, or CannotPatch, because a server whose
        locks block is worse than none. Even without the patch, asyncio gets a loop for tasklets when it is
        imported."""
        if self._patch is False:
            when_executed("asyncio", self._offer_loop)
        else:
            # imported only here: it imports all of the standard library that it patches
            importlib.import_module("syncless.patches").patch_all(**{"strict": True, **self._choice})

    @staticmethod
    def _offer_loop(asyncio: Any) -> None:
        importlib.import_module("syncless.asyncio.backgroundloop").offer()

    def __str__(self) -> str:
        if self._patch is False:
            return ""
        return str(importlib.import_module("syncless.patches").described(self._choice))


def serve(
    application: Any,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,  # from options.py, by python -m scripts.docs.options
    interface: str = "auto",
    chdir: str | os.PathLike[str] | None = None,
    root_path: str = "",
    lifespan: str = "auto",
    logging: Mapping[str, Any] | None = None,
    quiet: bool = False,
    status: str | None = None,
    status_public: bool = False,
    health: str | None = None,
    metrics: bool | str | None = None,
    shared_metrics: bool = True,
    workers: int | Literal["auto"] = 0,
    affinity: str | None = None,
    shared: str | None = None,
    preload: bool = False,
    user: str | int | None = None,
    group: str | int | None = None,
    umask: int | None = None,
    hooks: Mapping[str, Hook | str] | None = None,
    pid_file: str | os.PathLike[str] | None = None,
    patch: Patch = False,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve the application until SIGTERM or SIGINT (or until its tasklet is killed), then stop gracefully.

    - `application`: a WSGI callable, an ASGI 3 application, a web.py application, a CherryPy application,
      root object or class, a BaseHTTPRequestHandler subclass, or "module:attribute". A mapping of paths
      serves several of these: {"/api": asgi_app, "/": wsgi_app}.
    - `host`, `port`: where to listen. With port 0 the system chooses one; host "*" means all addresses of
      both families.

    Application:

    - `interface`: "asgi", "wsgi", or "auto" to detect the interface from the signature of the application.
    - `native`: functions of Cython, C, Rust or Numba by their route, {"GET /users/{id}": module.user}, that
      run in threads without the interpreter's lock; a string names one, "module:handler" or
      "library.so:function" (see docs/howto/native.md).
    - `native_threads`: number of threads for native handlers (default: the number of cores).
    - `standby_threads`: number of threads that take over when the application has held the serving thread for
      `held_seconds` (0; see docs/howto/slow.md).
    - `self_cure`: True offloads a C function by its name when it has blocked all other requests three times
      (see docs/howto/blocking.md#let-the-server-do-it).
    - `request_slots`: under the patch, `threading.local` values of a request: "keep" those that an earlier
      request left, as a pool of threads does (default), or start "fresh" (see
      docs/howto/databases.md#a-connection-per-thread).
    - `on_hangup`: what happens to a WSGI request when its client closes the connection. "continue" (default):
      the request keeps running; "stop": ClientGone is raised where a GET or HEAD request waits; "stop-all":
      the same for all methods (see docs/howto/hangups.md).
    - `pass_deadline`: under the patch, True tells services that a request calls how many seconds it has left,
      in X-Request-Timeout (see docs/howto/hangups.md#services-that-call-services).
    - `chdir`: change to this folder, and import modules from it. Workers that SIGHUP starts resolve symbolic
      links again.
    - `root_path`: path prefix of the application, if a proxy strips it from the requests that it forwards.
    - `lifespan`: lifespan events of an ASGI application: auto (default), on (the application must support
      them) or off.

    Addresses:

    - `bind`: instead of `host` and `port`, one or more of "host:port", "[ipv6]:port", ":port", "unix:/path",
      "unix:@abstract" and "fd:number" (an inherited socket), preceded by "http://" or "https://" if only some
      of them speak TLS.
    - `unix_mode`: permissions of UNIX sockets (0o660).
    - `unix_owner`: owner of UNIX sockets, "user:group".
    - `ipv6_only`: do not accept IPv4 connections on [::].
    - `reuse_port`: let several processes listen on the same port (SO_REUSEPORT).
    - `defer_accept`: accept a connection only when its first bytes have arrived (Linux TCP_DEFER_ACCEPT).

    TLS:

    - `certfile`: a PEM file of the certificate chain, and of the private key without `keyfile`.
    - `keyfile`: private key of the certificate.
    - `key_password`: password of the private keys.
    - `certificates`: more certificates, by the host name that the client requests, {"example.org": (cert,
      key)}.
    - `client_ca`: require client certificates signed by one of the CA certificates in this PEM file.
    - `ciphers`: cipher suites of TLS 1.2 in OpenSSL's notation (default: Mozilla's intermediate list).
    - `tls_minimum`: oldest version of TLS, 1.2 or 1.3 (default 1.2).
    - `ssl_context`: an SSLContext, or a callable that returns one, instead of all of these.
    - `plain_http`: also serve plain HTTP on the HTTPS port.
    - `http2`: "tls" speaks HTTP/2 with clients that request it in the TLS handshake (ALPN), "cleartext" also
      with clients that start with HTTP/2 without TLS, "off" never (see docs/howto/http2.md).

    Static files:

    - `static`: directories of files by path prefix, {"/assets": "build/assets"}.
    - `static_max_age` (seconds): time for which caches may use such a file without revalidation (default 0).

    Compression:

    - `compress`: True compresses responses of all compressible types with gzip, br or zstd; a string or list
      of media types compresses only those.
    - `compress_minimum` (bytes): do not compress smaller bodies (default 1000).

    Proxies:

    - `trusted`: trusted proxies, as addresses, networks, "unix" or "*".
    - `trusted_fields`: header fields that these proxies set (see `Forwarding`).
    - `proxy_protocol`: trusted peers begin each connection with a PROXY header (version 1 or 2).

    Logs:

    - `access_log`: True for stdout, a path, or a text stream; none by default.
    - `access_log_format`: "combined", "common", "json", a string with Apache's atoms, or a mapping of JSON
      keys to atoms.
    - `error_log`: a path or a text stream, stderr by default.
    - `error_log_format`: text (default) or json, one object per line.
    - `slow_request` (seconds): log requests that take at least this long, and list their waits (default 0:
      none).
    - `request_ids`: True gives each request an ID and a traceparent, from a trusted proxy or new: for the
      application, in a context variable and in the logs (see docs/howto/logging.md).
    - `otel`: True, or the URL of a collector, sends spans, metrics and errors to OpenTelemetry; None does so
      if the variables OTEL_... ask for it, False never (see docs/howto/tracing.md).
    - `logging`: a dict for `logging.config.dictConfig`. Errors go to the logger `syncless.error` if that has
      a handler.
    - `quiet`: print no addresses, and log neither events of the server nor warnings that the application
      blocks.

    Operating:

    - `status`: local address that serves a status page, JSON and health checks (see docs/howto/operating.md).
    - `status_public`: allow `status` and `metrics` on addresses that other machines can reach.
    - `health`: an address that serves only the health checks, or a path of the main addresses that they are
      served below.
    - `metrics`: metrics for Prometheus: True serves them at /metrics of the status address; else an address
      or a path.
    - `priority`: which requests are first where the limit `requests` lets others wait: "/path=always",
      "=high" or "=low", or "header:name", a field of trusted proxies with one of these words (see
      docs/howto/overload.md).
    - `shared_metrics`: with workers, metrics that the application makes with prometheus_client have one value
      for all workers, which `metrics` shows, too (see docs/howto/operating.md).

    Processes:

    - `workers`: number of worker processes (0: serve from this process), or "auto": one for each available
      processor.
    - `affinity`: the worker that serves the requests of a session: "cookie", "header:NAME" or "client" (see
      docs/howto/workers.md#sessions).
    - `shared`: URL of a Redis, through which `syncless.shared` also reaches other machines
      ("redis://host:6379/0"; see docs/howto/shared.md#several-machines-redis). Without it, the workers of
      this server share memory.
    - `preload`: import the application once, before the workers start.
    - `user`: switch the serving process to this user after opening sockets and files, if root started it
      (with workers, the master stays root).
    - `group`: switch to this group, too (default: the user's).
    - `umask`: umask of the process, for example 0o027.
    - `hooks`: functions, or "module:function", for on_start, post_fork, pre_request, post_request, pre_stop
      and worker_exit (see docs/howto/hooks.md).
    - `pid_file`: write the process ID to this file.

    Patch of the standard library:

    - `patch`: True makes the standard library cooperative before the application is imported
      (`syncless.patches.patch_all`), in each process that serves. A mapping chooses areas, {"sqlite3":
      False}. The command line does this by default.

    Limits:

    - `limits`: a `Limits`. Single limits may also be given by name (`head_seconds=10`).

    SIGUSR1 reopens the log files. SIGHUP reloads the certificates, and with workers starts new workers, which
    import the application again, before the old ones end. The first SIGTERM or SIGINT lets requests in flight
    finish (for `stop_seconds`); a second one interrupts them. Raise OSError if it cannot listen,
    WorkersFailed if no worker can start.
    """
    # with the master and the status page
    program = importlib.import_module("syncless.server.program.serving")
    program.serve_until_stopped(
        Declared.of(application, interface, root_path, lifespan),
        host,
        port,
        chdir=chdir,
        logging=logging,
        quiet=quiet,
        status=status,
        status_public=status_public,
        health=health,
        metrics=metrics,
        shared_metrics=shared_metrics,
        workers=workers,
        affinity=affinity,
        shared=shared,
        preload=preload,
        user=user,
        group=group,
        umask=umask,
        hooks=hooks,
        pid_file=pid_file,
        patch=patch,
        **options,
    )
