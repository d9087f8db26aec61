"""serve(): a server as a program, with its patch and its processes."""

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
    from syncless.server.options import ServerOptions

    Patch = bool | Mapping[str, bool]


class Patching:
    """The argument `patch` of serve, as the program around a server applies it and tells of it."""

    def __init__(self, patch: Patch):
        self._patch = patch
        self._choice = {} if isinstance(patch, bool) else patch

    def __call__(self) -> None:
        """Patches this process. TypeError for an area that there is not; CannotPatch, because a server whose
        locks block is worse than none. Without the patch asyncio has a loop for tasklets all the same, once
        it is imported."""
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
    *,
    interface: str = "auto",
    root_path: str = "",
    lifespan: str = "auto",
    patch: Patch = False,
    quiet: bool = False,
    workers: int | Literal["auto"] = 0,
    preload: bool = False,
    chdir: str | os.PathLike[str] | None = None,
    pid_file: str | os.PathLike[str] | None = None,
    logging: Mapping[str, Any] | None = None,
    hooks: Mapping[str, Hook | str] | None = None,
    user: str | int | None = None,
    group: str | int | None = None,
    umask: int | None = None,
    status: str | None = None,
    status_public: bool = False,
    metrics: bool | str | None = None,
    health: str | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serves the application until SIGTERM or SIGINT (or until its tasklet is killed), then stops gracefully.

    - `application`: a WSGI callable, an ASGI 3 application, a web.py application, a CherryPy application,
      root object or class, a BaseHTTPRequestHandler subclass, or "module:attribute". A mapping of paths to
      these serves several: {"/api": asgi_app, "/": wsgi_app}.
    - `interface`: "asgi" or "wsgi" if its signature does not tell ("auto").
    - `root_path`: path of the application for its clients, which a proxy takes away from what it sends on.
    - `lifespan`: of an ASGI application, "auto" if it has one, "on" if it must have one, "off" to leave it
      out.

    Addresses:

    - `host`, `port`: where to listen. With port 0 the system chooses one; host "*" means all addresses of
      both families.
    - `bind`: instead of these, one or more of "host:port", "[ipv6]:port", ":port", "unix:/path",
      "unix:@abstract" and "fd:number" (an inherited socket), preceded by "http://" or "https://" if only
      some of them speak TLS.
    - `unix_mode` (0o660), `unix_owner` ("user:group"): of UNIX sockets.
    - `ipv6_only`: [::] does not accept IPv4 connections. `reuse_port`: SO_REUSEPORT.
    - `defer_accept`: accept a connection only when its first bytes have come (Linux TCP_DEFER_ACCEPT).

    TLS:

    - `certfile`, `keyfile`: PEM files. `certificates`: more of them by the host name that the client asks
      for, {"example.org": (cert, key)}. `key_password`: password of the private keys.
    - `client_ca`: a PEM file of authorities, one of which must have signed each client's certificate.
    - `ciphers`: suites of TLS 1.2 in OpenSSL's notation. `tls_minimum`: "1.2" or "1.3".
    - `ssl_context`: instead of all these, an SSLContext or a callable that makes one.
    - `plain_http`: the port speaks plain HTTP, too.
    - `http2`: "tls" speaks HTTP/2 with clients that ask for it in the TLS handshake (ALPN), "cleartext" also
      with those that begin with it without TLS, "off" never (see docs/howto/http2.md).

    Proxies:

    - `trusted`: trusted proxies, as addresses, networks, "unix" or "*". `trusted_fields`: the header fields
      that they set (see `Forwarding`).
    - `proxy_protocol`: their connections begin with a PROXY header.

    Static files and compression:

    - `static`: directories of files by path prefix, {"/assets": "build/assets"}. `static_max_age`: seconds
      that caches may use such a file without asking again (0).
    - `compress`: True compresses responses of types that gain from it, with gzip, br or zstd; a string or
      list of media types compresses only those. `compress_minimum`: smallest body in bytes (1000).

    Logs:

    - `access_log`: True for stdout, a path, or a text stream; none by default. `access_log_format`:
      "combined", "common", "json", a string with Apache's atoms, or a mapping of JSON keys to atoms.
    - `error_log`: a path or a text stream, stderr by default. `error_log_format`: "text" or "json".
    - `slow_request`: seconds; requests that take as long are logged with what they waited for (0: none).
    - `request_ids`: True gives each request its ID and traceparent, of a trusted proxy or new, in the environ
      or scope, in a context variable and in the logs (see docs/howto/logging.md).
    - `logging`: a dict for `logging.config.dictConfig`. Errors go to the logger `syncless.error` if it has
      a handler.
    - `quiet`: print neither the addresses nor warnings that the application blocks.

    Native handlers (see docs/howto/native.md):

    - `native`: functions of Cython, C, Rust or Numba by their route, {"GET /users/{id}": module.user}; they
      run in threads without the interpreter's lock. A string names one, "module:handler" or
      "library.so:function". `native_threads`: number of these threads (0: one for
      each core).

    Threads that stand by (see docs/howto/slow.md):

    - `standby_threads`: number of threads that wait until the application has held the one that serves for
      `held_seconds`, and then serve in its place (0).

    Values of a thread (see docs/howto/databases.md#a-connection-per-thread):

    - `request_slots`: "keep" (default): under the patch, a request finds the values of `threading.local` that
      another one has left, as in a pool of threads; "fresh": it finds none.

    Clients that leave (see docs/howto/hangups.md):

    - `on_hangup`: what becomes of a WSGI request whose client closes the connection. "continue" (default): it
      goes on; "stop": ClientGone is raised where it waits, if it is a GET or a HEAD; "stop-all": whatever its
      method.

    Limits:

    - `limits`: a `Limits`. Single limits may also be given by name (`head_seconds=10`).

    Processes:

    - `patch`: True makes the standard library cooperative before the application is imported
      (`syncless.patches.patch_all`), in each process that serves. A mapping chooses areas, {"sqlite3":
      False}. The command line does this by default.
    - `workers`: number of worker processes (0: serve from this process), or "auto": one for each processor
      that they may use. `preload`: import the application once, in the master. `pid_file`: a file with the ID
      of this process while it serves.
    - `chdir`: change to this folder, in which modules are found. A symbolic link there is followed anew by
      the workers that SIGHUP starts.
    - `user`, `group`: the user and group of the serving process once its sockets and files are open, if it
      was started by root (with workers, the master stays root). `umask`: of the process.
    - `hooks`: functions, or "module:function", for on_start, post_fork, pre_request, post_request, pre_stop
      and worker_exit (see docs/howto/hooks.md).

    Operating (see docs/howto/operating.md):

    - `status`: an address of this machine for a status page, JSON and health checks. `status_public`: allow
      any address.
    - `metrics`: for Prometheus, True at /metrics of the status address, or an address or a path of their
      own. `health`: an address for the health checks alone, or a path of the main addresses, below which
      they are.

    SIGUSR1 reopens the log files. SIGHUP reloads the certificates, and with workers starts new ones, which
    import the application anew, before the old ones end. The first SIGTERM or SIGINT lets requests in
    flight end (for `stop_seconds`), a second one interrupts them. Raises OSError if it cannot listen, and
    WorkersFailed if no worker can start.
    """
    # with the master and the status page
    program = importlib.import_module("syncless.server.program.serving")
    program.serve_until_stopped(
        Declared.of(application, interface, root_path, lifespan),
        host,
        port,
        patch=Patching(patch),
        quiet=quiet,
        workers=workers,
        preload=preload,
        chdir=chdir,
        pid_file=pid_file,
        logging=logging,
        hooks=hooks,
        user=user,
        group=group,
        umask=umask,
        status=status,
        status_public=status_public,
        metrics=metrics,
        health=health,
        **options,
    )
