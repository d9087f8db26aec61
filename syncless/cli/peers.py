"""Options of other servers, and their equivalents here: the rows of the tables in docs/moving/gunicorn.md and
docs/moving/uwsgi.md (``python -m scripts.docs.options`` writes them), and the command's advice. foreign.py
has the options that the command accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LEAVE_OUT = "leave it out"
HTTP2 = "read docs/howto/http2.md; --limit streams=N bounds the requests of a connection"
STRICT = "leave it out: docs/reference/http.md has the requests that are refused"
SYSLOG = "write a logging.handlers.SysLogHandler below [logging] in syncless.toml"
STATSD = "write --metrics, for Prometheus; there is no statsd"
PASTE = "write --factory with a function that calls paste.deploy.loadapp"
HEAVY = "leave it out: multiprocessing and concurrent.futures wait cooperatively"
CONTROL = "leave it out: use syncless status and syncless console PID"
PATCHED = "leave it out: the standard library is patched by default, and each request is a tasklet"
THREADS = "leave it out: each request is a tasklet (docs/moving/gunicorn.md: calls that block in C)"
OWN = "leave it out: syncless has its own"
COLOURS = "leave it out: there are colours on a terminal only, and none with NO_COLOR"
VENV = "leave it out: syncless serves from the environment in which it is installed"
PATTERNS = "write --reload-path PATH: Python and TOML files below the working directory are watched anyway"
INSTEAD = {
    "-k": PATCHED,
    "--worker-class": PATCHED,
    "--threads": THREADS,
    "--blocking-threads": THREADS,
    "--timeout-worker-healthcheck": "write --limit worker_stuck_seconds=N",
    "--log-config": "write [logging] in syncless.toml",
    "-D": "leave it out: the service manager keeps it running",
    "--daemon": "leave it out: the service manager keeps it running",
    "-e": "write NAME=VALUE before the command, or --env-file FILE",
    "--env": "write NAME=VALUE before the command, or --env-file FILE",
    "--ca-certs": "write --client-ca FILE, if clients must show a certificate",
    "--ssl-ca-certs": "write --client-ca FILE, if clients must show a certificate",
    "--cert-reqs": "write --client-ca FILE, if clients must show a certificate",
    "--ssl-cert-reqs": "write --client-ca FILE, if clients must show a certificate",
    "--ssl-version": "write --tls-minimum 1.3, or leave it out for 1.2",
    "--ssl-keyfile-password": "write --key-password-file FILE: other users see a password in a command line",
    "--loop": OWN + " loop, also for asyncio",
    "--http": OWN + " HTTP server",
    "--ws": "leave it out: pip install 'syncless[websocket]' is enough",
    "--ws-max-queue": "leave it out: at most 32 messages or 64 kB are read ahead",
    "--ws-ping-interval": "write --limit ping_seconds=N",
    "--ws-ping-timeout": "write --limit ping_seconds=N",
    "--ws-per-message-deflate": "leave it out: messages are compressed if the client offers that",
    "--use-colors": COLOURS,
    "--no-use-colors": COLOURS,
    "--server-header": "leave it out: responses have it",
    "--no-server-header": "leave it out: a proxy, or the application's own Server field, replaces it",
    "--date-header": "leave it out: responses have it",
    "--no-date-header": "leave it out: RFC 9110 requires it",
    "--header": "leave it out: let the application or a proxy add the field",
    "--reload-include": PATTERNS,
    "--reload-exclude": PATTERNS,
    "--reload-delay": "leave it out: the operating system reports changes",
    "--reset-contextvars": "leave it out: each request has a context of its own",
    "--worker-tmp-dir": "leave it out: the heartbeat is in shared memory",
    "--limit-request-field_size": "write --limit head_bytes=N, for the whole head",
    "--reload-engine": "leave it out: the operating system reports changes",
    "--spew": "leave it out: docs/howto/debugging.md has other ways to look",
    "--no-sendfile": "leave it out: wsgi.file_wrapper uses sendfile where it can",
    "--initgroups": "leave it out: the groups of --user always apply",
    "--access-logformat": "write --access-log-format with Apache's atoms: %h in place of %(h)s",
    "--capture-output": "leave it out: the service manager takes standard output",
    "-R": "leave it out: the service manager takes standard output",
    "--enable-stdio-inheritance": "leave it out: the service manager takes standard output",
    "--logger-class": "write [logging] in syncless.toml",
    "--log-config-json": "write [logging] in syncless.toml",
    "-n": "leave it out: pip install 'syncless[titles]' names the processes",
    "--name": "leave it out: pip install 'syncless[titles]' names the processes",
    "--proxy-allow-from": "write --trusted PEER, with --proxy-protocol",
    "--protocol": "leave it out: let the proxy speak HTTP to the server",
    "--uwsgi-allow-from": "leave it out: let the proxy speak HTTP to the server",
    "--suppress-ragged-eofs": "leave it out: nothing changes",
    "--do-handshake-on-connect": "leave it out: handshakes are made in the loop",
    "--forwarder-headers": "write --trusted-field NAME for each field that your proxy sets",
    "--header-map": "leave it out: field names with an underscore never reach the application",
    "--asgi-loop": OWN + " loop, also for asyncio",
    "--asgi-disconnect-grace-period": "write --limit stop_notice_seconds=N",
    "--http-parser": OWN + " parser",
    **dict.fromkeys(("--paste", "--paster", "--paste-global"), PASTE),
    **dict.fromkeys(
        ("--statsd-host", "--statsd-prefix", "--dogstatsd-tags", "--enable-backlog-metric"), STATSD
    ),
    **dict.fromkeys(
        (
            *("--log-syslog", "--log-syslog-to", "--log-syslog-prefix", "--log-syslog-facility"),
            "--disable-redirect-access-to-syslog",
        ),
        SYSLOG,
    ),
    **dict.fromkeys(
        (
            *("--permit-obsolete-folding", "--strip-header-spaces", "--permit-unconventional-http-method"),
            *("--permit-unconventional-http-version", "--casefold-http-method"),
        ),
        STRICT,
    ),
    **dict.fromkeys(
        (
            *("--http-protocols", "--http2-cleartext", "--http2-max-concurrent-streams"),
            *("--http2-initial-window-size", "--http2-max-frame-size", "--http2-max-header-list-size"),
        ),
        HTTP2,
    ),
    **dict.fromkeys(
        (
            *("--dirty-app", "--dirty-workers", "--dirty-timeout", "--dirty-threads"),
            "--dirty-graceful-timeout",
        ),
        HEAVY,
    ),
    **dict.fromkeys(("--control-socket", "--control-socket-mode", "--no-control-socket"), CONTROL),
    "-v": "write --version, or --log-level LEVEL for daphne's verbosity",
    "--verbosity": "write --log-level LEVEL, and --access-log",
    "--debug": "write --log-level debug",
    "--log-fmt": "write --error-log-format, or [logging] in syncless.toml",
    "--access-log-fmt": "write --access-log-format with Apache's atoms: %h in place of %(addr)s",
    "--log": "leave it out: the error log is on; --error-log names a file",
    "--no-log": "write --log-level critical",
    "-s": "write --bind ADDRESS for uWSGI's socket; daphne's server name is the application's Server field",
    "--server-name": "leave it out: let the application add a Server field, or check the host",
    "--no-server-name": "leave it out: a proxy, or the application's own Server field, replaces it",
    "--ident": "leave it out: let the application add a Server field",
    "--hsts": "leave it out: let the application or a proxy add the field",
    "--endpoint": "write --bind ADDRESS, with --certfile FILE for ssl",
    "--ipv4": "write --bind [ADDRESS]:PORT with --ipv6-only for IPv6 alone",
    "--no-ipv4": "write --bind [ADDRESS]:PORT with --ipv6-only",
    "--ipv6": "write --bind [ADDRESS]:PORT for IPv6",
    "--no-ipv6": "write --bind ADDRESS:PORT with an address of IPv4",
    "--http-timeout": "write --limit request_seconds=N for daphne's, --limit write_seconds=N for uWSGI's",
    "--read-timeout": "write --limit head_seconds=N and --limit body_seconds=N",
    "--request-timeout": "write --limit head_seconds=N and --limit body_seconds=N, in seconds",
    "--http1-header-read-timeout": "write --limit head_seconds=N, in seconds",
    "--http1-keep-alive": "leave it out: connections stay open for --limit idle_seconds=N",
    "--no-http1-keep-alive": "write --limit idle_seconds=N with a small number",
    "--http1-buffer-size": "write --limit head_bytes=N",
    "--http1-pipeline-flush": "leave it out: responses to pipelined requests are always sent together",
    "--no-http1-pipeline-flush": "leave it out: responses to pipelined requests are always sent together",
    "--drain-delay": "write --limit stop_delay_seconds=N, in seconds",
    "--scheme": "write --trusted PROXY and --trusted-field x-forwarded-proto",
    "--url-scheme": "write --trusted PROXY and --trusted-field x-forwarded-proto",
    "--proxy-headers-host": "write --trusted-field NAME for each field that your proxy sets",
    "--proxy-headers-port": "write --trusted-field NAME for each field that your proxy sets",
    "--url-prefix": "write --root-path PATH if a proxy takes the path away, else --mount PATH=APP",
    "--url-path-prefix": "write --root-path PATH if a proxy takes the path away, else --mount PATH=APP",
    "--free-threaded": THREADS,
    "--wsgi-threads": THREADS,
    **dict.fromkeys(
        (
            *("--blocking-threads-idle-timeout", "--runtime-threads", "--runtime-blocking-threads"),
            "--runtime-mode",
        ),
        THREADS,
    ),
    "--no-uvloop": OWN + " loop, also for asyncio",
    "--task-impl": OWN + " loop, also for asyncio",
    "--ssl-protocol-min": "write --tls-minimum 1.3, or leave it out for 1.2",
    "--ssl-ca": "write --client-ca FILE, if clients must show a certificate",
    "--ssl-client-verify": "write --client-ca FILE, if clients must show a certificate",
    "--verify-mode": "write --client-ca FILE, if clients must show a certificate",
    "--ssl-crl": "write serve(ssl_context=...) in a program (docs/howto/tls.md)",
    "--keyfile-password": "write --key-password-file FILE: other users see a password in a command line",
    "--redirect-http": "write --plain-http, and let the application or a proxy redirect",
    "--no-http2": "write --http2 off",
    "--http2-only": "write --http2 cleartext",
    "--no-ws": "leave it out: an application that serves no WebSockets refuses them",
    "--no-websockets": "leave it out: an application that serves no WebSockets refuses them",
    "--ws-compress": "leave it out: messages are compressed if the client offers that",
    "--ws-max-queue-bytes": "leave it out: at most 32 messages or 64 kB are read ahead",
    "--ping-timeout": "write --limit ping_seconds=N",
    "--websocket-max-frame-size": "write --limit websocket_bytes=N, for the whole message",
    "--websocket_timeout": "leave it out: the application closes its WebSockets",
    "--websocket_connect_timeout": "leave it out: the application bounds its handshake",
    "--application-close-timeout": "leave it out: a request is not killed after its client has left",
    "--lifespan-scope": "leave it out: each worker has a lifespan of its own",
    "--reload-ignore-worker-failure": "leave it out: after a failure the old code keeps running",
    "--no-reload-ignore-worker-failure": "leave it out: after a failure the old code keeps running",
    "--reload-tick": "leave it out: the operating system reports changes",
    **dict.fromkeys(("--reload-ignore-dirs", "--reload-ignore-patterns", "--reload-ignore-paths"), PATTERNS),
    "--respawn-failed-workers": "leave it out: workers that died are replaced",
    "--no-respawn-failed-workers": "leave it out: workers that died are replaced",
    "--respawn-interval": "leave it out: workers that died are replaced, with growing pauses",
    "--workers-max-rss": "write --limit worker_memory_bytes=N, in bytes",
    "--rss-samples": "write --limit worker_memory_bytes=N alone",
    "--rss-sample-interval": "write --limit worker_memory_bytes=N alone",
    "--process-name": "leave it out: pip install 'syncless[titles]' names the processes",
    "--metrics-port": "write --metrics ADDRESS:PORT",
    "--metrics-host": "write --metrics ADDRESS:PORT",
    "--metrics-address": "write --metrics ADDRESS:PORT",
    "--metrics-scrape-interval": "leave it out: metrics are computed on request",
    "--static-path-route": "write --static /PREFIX=DIR",
    "--static-path-mount": "write --static /PREFIX=DIR",
    "--static-path-dir-to-file": "leave it out: let the application respond for a directory",
    "--static-path-expires": "write --static-max-age SECONDS",
    "--compress-static": "leave it out: precompressed static files are always served",
    "--health-check-path": "write --health /PATH, below which /livez and /readyz are",
    "--request-id": "write --request-ids",
    "--trace-context": "write --request-ids",
    "--request-start-header": "leave it out: a proxy sends X-Request-Start",
    **dict.fromkeys(
        ("--http2-adaptive-window", "--no-http2-adaptive-window", "--http2-initial-connection-window-size"),
        HTTP2,
    ),
    **dict.fromkeys(
        (
            *("--http2-initial-stream-window-size", "--http2-keep-alive-interval"),
            *("--http2-keep-alive-timeout", "--http2-max-headers-size", "--http2-max-send-buffer-size"),
        ),
        HTTP2,
    ),
    **dict.fromkeys(("--venv", "--python-home", "--no-auto-venv"), VENV),
    **dict.fromkeys(("--virtualenv", "--home", "-H"), VENV),
    **dict.fromkeys(("--http3", "--quic-bind", "--quic-port"), "leave it out: let a proxy speak HTTP/3"),
    **dict.fromkeys(
        ("--master", "-M", "--vacuum", "--die-on-term", "--need-app", "--lazy-apps", "--lazy"),
        "leave it out: it is always so, with --workers",
    ),
    **dict.fromkeys(
        ("--socket", "--uwsgi-socket"), "write --bind ADDRESS: let the proxy speak HTTP to the server"
    ),
    **dict.fromkeys(
        ("--module", "--wsgi-file", "--callable"), "name the application without it: module:attribute"
    ),
    **dict.fromkeys(
        ("--ini", "--yaml", "--xml", "--json"),
        "docs/moving/uwsgi.md explains how to convert it to a syncless.toml",
    ),
    "--https": "write --bind https://ADDRESS:PORT --certfile FILE --keyfile FILE",
    "--log-format": "write --access-log-format with Apache's atoms: %h in place of %(addr)",
    "--disable-logging": "leave it out: there is no access log without --access-log",
    "-L": "leave it out: there is no access log without --access-log",
    "--enable-threads": PATCHED,
    "--gevent": PATCHED,
    "--asyncio": PATCHED,
    "--buffer-size": "write --limit head_bytes=N",
    "--reload-on-rss": "write --limit worker_memory_bytes=N, in bytes",
    "--evil-reload-on-rss": "write --limit worker_memory_bytes=N, in bytes",
    "--py-autoreload": "write --reload",
    "--touch-reload": "send SIGHUP, or write --reload --reload-path PATH while you develop",
    "--static-expires-type": "write --static-max-age SECONDS",
}
"""Option -> what to do, where its row does not say it for this one alone. None of them is one of ours, see
tests/cli/test_moving.py."""


class Row(NamedTuple):
    """A row of the table for gunicorn and others: cells in Markdown."""

    topic: str
    gunicorn: str
    uvicorn: str
    granian: str
    others: str
    """hypercorn, daphne, peregrine and waitress-serve, where their option is none of the first three."""
    ours: str


# fmt: off
TABLE = {  # heading -> rows
    "Application": (
        Row("application", "`wsgi_app`", "`APP`", "`APP`", "",
            "the same: `module:attribute`, or a file: `path/app.py:app`"),
        Row("a factory", "`'mod:make()'`", "`--factory`", "`--factory`, `--no-factory`", "`--call`",
            "`'mod:make()'` or `--factory`"),
        Row("directory", "`--chdir`, `--pythonpath`", "`--app-dir`", "`--working-dir`", "`--python-path`",
            "`--chdir`, `--app-dir`"),
        Row("interface", "`-k`, `--worker-class`", "`--interface`", "`--interface`", "`--protocol`",
            "`--interface`; WSGI, ASGI, web.py and CherryPy are recognised ([asgi.md](../howto/asgi.md))"),
        Row("mounted below a path", "`--root-path`", "`--root-path`", "`--url-path-prefix`",
            "`--url-prefix`",
            "`--root-path /path` if a proxy strips the path; otherwise `--mount /path=module:app`, which "
            "sets root_path or SCRIPT_NAME ([asgi.md](../howto/asgi.md))"),
        Row("native code below a path", "", "", "", "",
            "`--native ROUTE=module:handler`, `--native-threads` ([native.md](../howto/native.md))"),
        Row("Paste", "`--paste`, `--paster`, `--paste-global`", "", "", "",
            "not supported: use `--factory` with a function that calls `paste.deploy.loadapp`"),
        Row("variables", "`-e`, `--env`", "`--env-file`", "`--env-files`", "",
            "`--env-file`, `env NAME=value syncless ...` or the service manager"),
        Row("static files", "", "",
            "`--static-path-route`, `--static-path-mount`, `--static-path-dir-to-file`, "
            "`--static-path-expires`", "`--static-dir`",
            "`--static`, `--static-max-age` ([static.md](../howto/static.md))"),
        Row("compression", "", "", "", "`--compress`, `--compress-min-size`, `--compress-static`",
            "`--compress`, `--compress-minimum` ([compression.md](../howto/compression.md))"),
    ),
    "Configuration": (
        Row("file", "`-c`, `--config`", "", "", "",
            "`--config`, also for a `gunicorn.conf.py`; `syncless.toml`; `[tool.syncless]` in "
            "`pyproject.toml`"),
        Row("check, print", "`--check-config`, `--print-config`", "", "", "",
            "`--check`, `--print-config`"),
    ),
    "Addresses": (
        Row("TCP", "`-b`, `--bind`", "`--host`, `--port`", "`--host`, `--port`",
            "`--listen`, `--endpoint`, `--ipv4`, `--no-ipv4`, `--ipv6`, `--no-ipv6`, `--insecure-bind`",
            "`-b`, `--bind` (repeatable; IPv6 in brackets); `--ipv6-only`, `--no-defer-accept`"),
        Row("UNIX socket", "`-b unix:PATH`", "`--uds`", "`--uds`, `--uds-permissions`",
            "`--unix`, `--unix-socket`, `--unix-socket-perms`",
            "`-b unix:PATH`, `--unix-mode`, `--unix-owner`"),
        Row("inherited", "`-b fd://N`", "`--fd`", "", "",
            "`-b fd:N`, `--fd`; systemd's sockets automatically"),
        Row("backlog", "`--backlog`", "`--backlog`", "`--backlog`", "",
            "`-l backlog=1024`"),
        Row("SO_REUSEPORT", "`--reuse-port`", "", "", "",
            "`--reuse-port`"),
    ),
    "Processes": (
        Row("workers", "`-w`, `--workers`", "`--workers`", "`--workers`", "",
            "`-w`, `--workers`"),
        Row("threads", "`--threads`", "",
            "`--blocking-threads`, `--blocking-threads-idle-timeout`, `--runtime-threads`, "
            "`--runtime-blocking-threads`, `--runtime-mode`",
            "`--threads`, `--wsgi-threads`, `--free-threaded`",
            "not needed: each request is a tasklet. `--standby N` keeps serving while slow code blocks a "
            "thread ([slow.md](../howto/slow.md)); `--self-cure` moves a C function that blocks again and "
            "again into OS threads. `--request-slots` keeps `threading.local` values like a thread pool. "
            "For calls that block in C see [below](#threads)"),
        Row("event loop", "", "`--loop`", "`--loop`, `--task-impl`", "`--no-uvloop`",
            "its own; `SYNCLESS_LOOP` selects the poll backend"),
        Row("connections of a worker", "`--worker-connections`", "`--limit-concurrency`", "`--backpressure`",
            "`--max-connections`, `--connection-limit`",
            "`-l connections=N`; concurrent requests: `-l requests=N`, or `requests=auto`"),
        Row("requests that come first", "", "", "", "",
            "`--priority /PATH=high` ([overload.md](../howto/overload.md))"),
        Row("import before the fork", "`--preload`", "", "", "",
            "`--preload`"),
        Row("replace a worker after a number of requests", "`--max-requests`, `--max-requests-jitter`",
            "`--limit-max-requests`, `--limit-max-requests-jitter`", "", "",
            "`-l worker_requests=N`, `-l worker_requests_jitter=N`"),
        Row("replace a worker at an age or size", "", "",
            "`--workers-lifetime`, `--workers-max-rss`, `--rss-sample-interval`, `--rss-samples`", "",
            "`-l worker_seconds=N`, `-l worker_memory_bytes=N`"),
        Row("end a request whose client has disconnected", "", "", "", "",
            "`--on-hangup` ([hangups.md](../howto/hangups.md))"),
        Row("tell called services the time that is left", "", "", "", "",
            "`--pass-deadline` ([hangups.md](../howto/hangups.md#services-that-call-services))"),
        Row("replace a worker that hangs", "`-t`, `--timeout`", "`--timeout-worker-healthcheck`", "", "",
            "`-l worker_stuck_seconds=30`"),
        Row("replace a worker that died", "always", "always",
            "`--respawn-failed-workers`, `--respawn-interval`, `--no-respawn-failed-workers`", "",
            "always on, with back-off"),
        Row("time to stop", "`--graceful-timeout`", "`--timeout-graceful-shutdown`",
            "`--workers-kill-timeout`", "`--graceful-timeout`, `--drain-delay`",
            "`-l stop_seconds=30`; before it `-l stop_delay_seconds=N`, in which health checks fail "
            "([operating.md](../howto/operating.md#health-checks))"),
        Row("heartbeat file", "`--worker-tmp-dir`", "", "", "",
            "not needed: the heartbeat is in shared memory"),
        Row("reload on changes", "`--reload`, `--reload-engine`, `--reload-extra-file`",
            "`--reload`, `--reload-dir`, `--reload-include`, `--reload-exclude`, `--reload-delay`",
            "`--reload`, `--reload-paths`, `--reload-tick`, `--reload-ignore-dirs`, "
            "`--reload-ignore-patterns`, `--reload-ignore-paths`, `--reload-ignore-worker-failure`, "
            "`--no-reload`, `--no-reload-ignore-worker-failure`", "",
            "`--reload`, `--reload-path`: Python and TOML files below the working directory, and all "
            "files below a given path"),
        Row("daemon", "`-D`, `--daemon`", "", "", "",
            "not supported: use a service manager ([systemd](../howto/addresses.md))"),
        Row("pid file", "`-p`, `--pid`", "", "`--pid-file`", "",
            "`--pid-file`"),
        Row("user, group", "`-u`, `--user`, `-g`, `--group`, `--initgroups`", "", "", "",
            "`-u`, `--user`, `-g`, `--group`; the user's groups are always set "
            "([hooks.md](../howto/hooks.md#another-user))"),
        Row("umask", "`-m`, `--umask`", "", "", "",
            "`-m`, `--umask`"),
        Row("process name", "`-n`, `--name`, `default_proc_name`", "", "`--process-name`", "",
            "`syncless: worker 1 myproject.web:app`, with `pip install 'syncless[titles]'`"),
        Row("control socket", "`--control-socket`, `--control-socket-mode`, `--no-control-socket`", "", "",
            "",
            "signals ([workers.md](../howto/workers.md)); `syncless status` shows the state, and "
            "`syncless console PID` opens a Python prompt in the process "
            "([debugging.md](../howto/debugging.md))"),
        Row("processes for heavy work",
            "`--dirty-app`, `--dirty-workers`, `--dirty-timeout`, `--dirty-threads`, "
            "`--dirty-graceful-timeout`", "", "", "",
            "not needed: `multiprocessing` and `concurrent.futures` wait cooperatively under the patch"),
        Row("Python environment", "", "", "", "`--venv`, `--no-auto-venv`, `--python-home`",
            "not supported: syncless uses the environment in which it is installed; `--app-dir` adds a "
            "directory"),
    ),
    "Logs": (
        Row("access log", "`--access-logfile`", "`--access-log`, `--no-access-log`", "`--access-log`", "",
            "`--access-log [FILE]`, `--no-access-log`"),
        Row("its format", "`--access-logformat`", "", "`--access-log-fmt`", "",
            "`--access-log-format` with Apache's atoms (`%h`, not `%(h)s`), or `json`; `%L` is the "
            "request ID, and `%X` marks truncated responses ([logging.md](../howto/logging.md))"),
        Row("error log", "`--error-logfile`, `--log-file`", "", "`--log`, `--no-log`", "",
            "`--error-log`, `--error-log-format`, `--slow-request`; `--request-ids`; [contents of an "
            "entry](../howto/logging.md#errors)"),
        Row("level", "`--log-level`", "`--log-level`", "`--log-level`", "`--verbosity`, `--debug`",
            "`--log-level`; with `[logging]`, the level of the logger `syncless.error`"),
        Row("logging configuration",
            "`--log-config`, `--log-config-json`, `logconfig_dict`, `--logger-class`", "`--log-config`",
            "`--log-config`", "`--log-fmt`",
            "`[logging]` in the configuration file, in the format of `logging.config.dictConfig` "
            "([logging.md](../howto/logging.md#through-logging)); no separate file"),
        Row("standard output into the log", "`--capture-output`, `-R`, `--enable-stdio-inheritance`", "", "",
            "",
            "not supported: the output of the application goes to standard output"),
        Row("syslog",
            "`--log-syslog`, `--log-syslog-to`, `--log-syslog-prefix`, `--log-syslog-facility`, "
            "`--disable-redirect-access-to-syslog`", "", "", "",
            "a `logging.handlers.SysLogHandler` in `[logging]`; systemd's journal collects stderr"),
        Row("a session stays with its worker", "", "", "", "",
            "`--affinity`: [workers.md](../howto/workers.md#sessions)"),
        Row("values of all workers", "", "", "", "",
            "`syncless.shared`, with several machines `--shared` ([shared.md](../howto/shared.md))"),
        Row("metrics", "`--statsd-host`, `--statsd-prefix`, `--dogstatsd-tags`, `--enable-backlog-metric`",
            "",
            "`--metrics`, `--metrics-scrape-interval`, `--metrics-address`, `--metrics-port`, "
            "`--no-metrics`", "`--metrics-host`",
            "`--metrics`, for Prometheus ([operating.md](../howto/operating.md)); "
            "`--no-shared-metrics`; no statsd"),
        Row("status, health checks", "", "", "", "`--health-check-path`",
            "`--status`, `--status-public`, `--health`, `syncless status` "
            "([operating.md](../howto/operating.md))"),
        Row("no messages at the start", "", "", "", "",
            "`-q`, `--quiet`"),
        Row("colours", "", "`--use-colors`, `--no-use-colors`", "", "",
            "on a terminal only; `NO_COLOR`"),
        Row("trace of executed lines", "`--spew`", "", "", "",
            "not supported: see [debugging.md](../howto/debugging.md)"),
        Row("request IDs", "", "", "", "`--request-id`, `--trace-context`, `--request-start-header`",
            "`--request-ids` ([logging.md](../howto/logging.md)); the proxy sends X-Request-Start"),
        Row("OpenTelemetry", "", "", "", "", "`--otel` ([tracing.md](../howto/tracing.md))"),
    ),
    "HTTP": (
        Row("keep-alive connections", "`--keep-alive`", "`--timeout-keep-alive`",
            "`--http1-keep-alive`, `--no-http1-keep-alive`",
            "`--keep-alive`, `--channel-timeout`, `--cleanup-interval`",
            "`-l idle_seconds=75`"),
        Row("request line", "`--limit-request-line`", "", "", "",
            "`-l request_line=8190`"),
        Row("number of fields", "`--limit-request-fields`", "", "", "",
            "`-l header_count=100`"),
        Row("size of fields", "`--limit-request-field_size`", "`--h11-max-incomplete-event-size`",
            "`--http1-buffer-size`", "`--max-header-size`, `--max-request-header-size`",
            "`-l head_bytes=32768`, the whole head"),
        Row("time for a head", "", "", "`--http1-header-read-timeout`",
            "`--read-timeout`, `--request-timeout`",
            "`-l head_seconds=30`"),
        Row("time for a request", "", "", "", "`--http-timeout`",
            "`-l request_seconds=N`"),
        Row("body", "", "", "", "`--max-body`, `--max-request-body-size`",
            "`-l body_bytes=N`, `-l body_seconds=N`"),
        Row("uploads on disk", "`tmp_upload_dir`", "", "", "",
            "not needed: the application reads a body as it arrives"),
        Row("pipelining", "", "", "`--http1-pipeline-flush`, `--no-http1-pipeline-flush`", "",
            "always on; `-l pipelined=32`"),
        Row("sendfile", "`--no-sendfile`", "", "", "",
            "always on, through `wsgi.file_wrapper`"),
        Row("response fields", "",
            "`--header`, `--server-header`, `--no-server-header`, `--date-header`, `--no-date-header`", "",
            "`--server-name`, `--no-server-name`, `--ident`, `--hsts`",
            "`Server` and `Date`, unless the application sets them"),
        Row("parser", "`--http-parser`", "`--http`, `--h11-max-incomplete-event-size`", "`--http`", "",
            "its own, in C"),
        Row("requests that RFC 9112 forbids",
            "`--permit-obsolete-folding`, `--strip-header-spaces`, `--permit-unconventional-http-method`, "
            "`--permit-unconventional-http-version`, `--casefold-http-method`", "", "", "",
            "not supported: [http.md](../reference/http.md) lists the refused requests"),
        Row("underscores in field names", "`--header-map`", "", "", "",
            "such fields never reach the application"),
        Row("HTTP/2",
            "`--http-protocols`, `--http2-cleartext`, `--http2-max-concurrent-streams`, "
            "`--http2-initial-window-size`, `--http2-max-frame-size`, `--http2-max-header-list-size`",
            "`--http2`",
            "`--http`, `--http2-adaptive-window`, `--http2-initial-connection-window-size`, "
            "`--http2-initial-stream-window-size`, `--http2-keep-alive-interval`, "
            "`--http2-keep-alive-timeout`, `--http2-max-concurrent-streams`, `--http2-max-frame-size`, "
            "`--http2-max-headers-size`, `--http2-max-send-buffer-size`, `--no-http2-adaptive-window`",
            "`--no-http2`, `--http2-only`",
            "`--http2`, `-l streams=100`; requires libnghttp2"),
        Row("uWSGI's protocol", "`--protocol`, `--uwsgi-allow-from`", "", "", "",
            "not supported: use HTTP between proxy and server"),
        Row("WebSockets", "`--websocket-max-message-size`",
            "`--ws`, `--ws-max-size`, `--ws-max-queue`, `--ws-ping-interval`, `--ws-ping-timeout`, "
            "`--ws-per-message-deflate`", "`--ws`, `--no-ws`",
            "`--ws-max-message`, `--ws-max-queue-bytes`, `--ws-compress`, `--no-websockets`, "
            "`--websocket-ping-interval`, `--ping-interval`, `--ping-timeout`, "
            "`--websocket-max-frame-size`, `--websocket_timeout`, `--websocket_connect_timeout`",
            "`-l websocket_bytes=N`, `-l ping_seconds=20` ([websocket.md](../howto/websocket.md))"),
        Row("ASGI", "`--asgi-loop`, `--asgi-lifespan`, `--asgi-disconnect-grace-period`",
            "`--lifespan`, `--reset-contextvars`", "",
            "`--no-lifespan`, `--lifespan-scope`, `--application-close-timeout`",
            "`--interface asgi`, `--lifespan` ([lifespan](../howto/asgi.md#lifespan)). Each request has a "
            "context of its own"),
        Row("HTTP/3", "", "", "", "`--quic-bind`, `--http3`, `--quic-port`",
            "not supported: let a proxy speak HTTP/3"),
        Row("cache, rates", "", "", "",
            "`--cache-size`, `--cache-max-object`, `--cache-ttl-max`, `--rate-limit`, `--rate-limit-burst`",
            "not supported: let a proxy cache responses and limit rates; `-l client_connections=N` limits "
            "the connections of a client"),
        Row("buffers", "", "", "",
            "`--recv-bytes`, `--send-bytes`, `--inbuf-overflow`, `--outbuf-overflow`, "
            "`--outbuf-high-watermark`, `--asyncore-loop-timeout`, `--asyncore-use-poll`, "
            "`--channel-request-lookahead`",
            "not needed; `-l buffered_bytes=N` limits all buffers together"),
        Row("client errors", "", "", "",
            "`--expose-tracebacks`, `--no-expose-tracebacks`, `--log-socket-errors`, "
            "`--no-log-socket-errors`",
            "not supported: tracebacks go to the error log only, and a client that disconnects is not an "
            "error"),
    ),
    "Proxies": (
        Row("trusted proxies", "`--forwarded-allow-ips`",
            "`--forwarded-allow-ips`, `--proxy-headers`, `--no-proxy-headers`", "", "",
            "`--trusted`"),
        Row("trusted fields", "`secure_scheme_headers`, `--forwarder-headers`", "", "",
            "`--proxy-headers-host`, `--proxy-headers-port`, `--scheme`, `--url-scheme`",
            "`--trusted-field`"),
        Row("PROXY protocol", "`--proxy-protocol`, `--proxy-allow-from`", "", "", "",
            "`--proxy-protocol`, from `--trusted` peers"),
    ),
    "TLS": (
        Row("certificate, key", "`--certfile`, `--keyfile`",
            "`--ssl-certfile`, `--ssl-keyfile`, `--ssl-keyfile-password`",
            "`--ssl-certificate`, `--ssl-keyfile`, `--ssl-keyfile-password`",
            "`--tls-cert`, `--tls-key`, `--keyfile-password`",
            "`--certfile`, `--keyfile`, `--key-password-file`; `--certificate` for each host name; "
            "`--reload-certificates`; `--plain-http` on the same port"),
        Row("versions", "`--ssl-version`", "`--ssl-version`", "`--ssl-protocol-min`", "",
            "`--tls-minimum`"),
        Row("ciphers", "`--ciphers`", "`--ssl-ciphers`", "", "`--tls-ciphers`",
            "`--ciphers`"),
        Row("client certificates", "`--ca-certs`, `--cert-reqs`", "`--ssl-ca-certs`, `--ssl-cert-reqs`",
            "`--ssl-ca`, `--ssl-client-verify`, `--ssl-crl`, `--no-ssl-client-verify`", "`--verify-mode`",
            "`--client-ca`; all other settings with `serve(ssl_context=...)` ([tls.md](../howto/tls.md))"),
        Row("handshake", "`--do-handshake-on-connect`, `--suppress-ragged-eofs`", "", "", "",
            "in the loop, without blocking it, for at most `-l greeting_seconds=10`"),
        Row("certificates by ACME", "", "", "",
            "`--acme-domain`, `--acme-email`, `--acme-cache`, `--acme-staging`, `--acme-directory`, "
            "`--acme-ca-bundle`",
            "not supported: certbot or a proxy obtains certificates "
            "([tls.md](../howto/tls.md#new-certificates))"),
        Row("plain HTTP", "", "", "", "`--redirect-http`",
            "`--plain-http` serves it on the same port; the application or a proxy redirects"),
        Row("TLS in the kernel", "", "", "", "`--ktls`",
            "not supported"),
    ),
    "Hooks": (
        Row("start", "`on_starting`, `when_ready`", "", "", "",
            "`on_start`: `--hook`, or `[hooks]` in the file ([hooks.md](../howto/hooks.md))"),
        Row("a worker begins", "`pre_fork`, `post_fork`, `post_worker_init`", "", "", "",
            "`post_fork`, before the application is imported; later code goes into the application's module"),
        Row("a request", "`pre_request`, `post_request`", "", "", "",
            "`pre_request`, `post_request`; their arguments are the environ and the status"),
        Row("a worker ends", "`worker_exit`, `child_exit`, `worker_int`, `worker_abort`", "", "", "",
            "`worker_exit`"),
        Row("stop", "`on_exit`", "", "", "",
            "`pre_stop`, in each process that serves"),
        Row("others",
            "`on_reload`, `pre_exec`, `nworkers_changed`, `ssl_context`, `on_dirty_starting`, "
            "`dirty_post_fork`, `dirty_worker_init`, `dirty_worker_exit`", "", "", "",
            "not supported; `ssl_context` is an argument of `serve`"),
    ),
    "The command": (
        Row("help", "`-h`, `--help`, `-v`, `--version`", "`--help`, `--version`", "`--help`, `--version`",
            "`--verbosity`",
            "`-h`, `--help`, `--help-all`, `--version`"),
    ),
}
UWSGI = (
    ("`ini`, `yaml`, `xml`, `json`",
        "`syncless.toml`, as above"),
    ("`http-socket`, `http11-socket`, `http`",
        "`--bind`; there is no separate router process"),
    ("`https`",
        "`--bind https://:8443`, `--certfile`, `--keyfile`"),
    ("`socket`, `-s`, `uwsgi-socket`, with `uwsgi_pass` of nginx",
        ("`--bind unix:/run/app.sock` with `proxy_pass`: HTTP between proxy and server "
        "([nginx](../howto/proxies.md))")),
    ("`module`, `wsgi-file`, `callable`",
        "the application's name: `module:attribute`, `path/to/site.wsgi`"),
    ("`mount`",
        ("`--mount /path=module:app` ([several "
        "applications](../howto/asgi.md#wsgi-and-asgi-in-one-process))")),
    ("`processes`",
        "`--workers`"),
    ("`cheaper`",
        "none: SIGTTIN and SIGTTOU change the number of workers"),
    ("`threads`, `enable-threads`, `gevent`, `asyncio`",
        "not needed: each request is a tasklet"),
    ("`thunder-lock`",
        "not needed"),
    ("`reuse-port`",
        "`--reuse-port`"),
    ("`master`, `-M`",
        "always on with `--workers`"),
    ("`harakiri`",
        ("`--limit request_seconds=30`, which raises `RequestTimeout` in the request: the client gets a 503. "
        "uWSGI kills the worker with all its requests")),
    ("`max-requests`, `max-worker-lifetime`",
        "`--limit worker_requests=N`, `--limit worker_seconds=N`"),
    ("`reload-on-rss` (MiB), `evil-reload-on-rss`",
        "`--limit worker_memory_bytes=N`"),
    ("`reload-mercy`, `worker-reload-mercy`",
        "`--limit stop_seconds=N`"),
    ("`lazy-apps = false` (the default), `lazy`",
        "`--preload`; without it each worker imports the application, as with `lazy-apps = true`"),
    ("`need-app`",
        "always on"),
    ("`listen` (default 100)",
        "`--limit backlog=1024`"),
    ("`buffer-size` (default 4096)",
        "`--limit head_bytes=32768`; a larger head gets a 431, whereas uWSGI closes the connection"),
    ("`limit-post`",
        "`--limit body_bytes=1073741824`; a larger body gets a 413, whereas uWSGI closes the connection"),
    ("`post-buffering`",
        "not needed: the server receives slow bodies while other requests run"),
    ("`http-timeout`, `socket-timeout`",
        "`--limit body_seconds=60`, `--limit write_seconds=60`"),
    ("`http-keepalive`",
        "always on; `--limit idle_seconds=75`"),
    ("`touch-reload`, `py-autoreload`",
        "SIGHUP; during development, `--reload` and `--reload-path`"),
    ("`uid`, `gid`, `umask`",
        "`--user`, `--group`, `--umask`"),
    ("`chmod-socket`, `chown-socket`",
        "`--unix-mode`, `--unix-owner`"),
    ("`chdir`, `pidfile`",
        "`--chdir`, `--pid-file`"),
    ("`virtualenv`, `home`, `-H`, `pythonpath`",
        "the Python environment in which syncless is installed; `--app-dir`"),
    ("`logto`, `log-format`, `disable-logging`, `-L`",
        ("`--error-log`; `--access-log`, which is off by default, and `--access-log-format` "
        "([logs](../howto/logging.md))")),
    ("`touch-logreopen`",
        "SIGUSR1"),
    ("`stats`",
        "`--status`; [metrics](../howto/operating.md)"),
    ("`static-map`, `static-expires-type`, `offload-threads`",
        "`--static`, `--static-max-age`; `sendfile` sends large files"),
    ("`procname-prefix`, `auto-procname`",
        "`pip install 'syncless[titles]'`"),
    ("`env`",
        "the service manager, or `--env-file`"),
    ("`daemonize`, `attach-daemon`, `emperor`",
        "systemd, one unit for each application"),
    ("`vacuum`",
        "always on"),
    ("`die-on-term`",
        "always on"),
    ("`cron`, `mule`, `spooler`",
        "[Celery](../howto/celery.md), or a tasklet that you spawn"),
)
# fmt: on


def of_gunicorn() -> set[str]:
    """Return the options in gunicorn's column."""
    return {
        name
        for rows in TABLE.values()
        for row in rows
        for name in re.findall(r"`(--?[^`\s]+)`", row.gunicorn)
    }


def answer(name: str) -> str:
    """Return what to do instead of the option, as the end of a sentence; "" if no other server has it."""
    if name in INSTEAD:
        return INSTEAD[name]
    for names, ours in _cells():
        if name in names:
            return _sentence(_plain(ours))
    return ""


def _sentence(cell: str) -> str:
    """Return the text of a cell as advice."""
    word, colon, rest = cell.partition(": ")
    if word in ("not supported", "none"):
        return f"leave it out{colon}{rest}"
    if word.startswith(("not needed", "always")):
        return f"leave it out: it is {cell}"
    return f"write {cell}" if cell.startswith("-") else f"use {cell}"


def _cells() -> Iterator[tuple[list[str], str]]:
    """Yield the foreign options of each row, with our cell."""
    for rows in TABLE.values():
        for row in rows:
            yield re.findall(r"`(--?[^`\s]+)`", " ".join(row[1:5])), row.ours
    for theirs, ours in UWSGI:
        yield (
            [name if name.startswith("-") else f"--{name}" for name in re.findall(r"`([\w-]+)", theirs)],
            ours,
        )


def _plain(cell: str) -> str:
    """Return Markdown as plain text for a terminal: a link becomes the name of its file."""

    def link(found: re.Match[str]) -> str:
        page = re.sub(r"^(\.\./)+|#.*", "", found[2])
        page = f"docs/{page if '/' in page else 'moving/' + (page or 'gunicorn.md')}"
        return page if found[1].endswith(".md") or found[1] == "below" else f"{found[1]}: {page}"

    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", link, cell).replace("`", "")


def table(peers: str) -> str:
    """Return the rows of a page, in Markdown."""
    if peers == "uwsgi":
        return "".join(f"| {theirs} | {ours} |\n" for theirs, ours in UWSGI)
    text = ""
    for heading, rows in TABLE.items():
        text += f"| **{heading}** | | | | | |\n"
        text += "".join(f"| {' | '.join(cell or '-' for cell in row)} |\n" for row in rows)
    return text
