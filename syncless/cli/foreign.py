"""Options of gunicorn, uvicorn and granian that are typed out of habit. Where one of ours means the same they
are taken, else the answer is what to write instead.

docs/moving/gunicorn.md has all of them; here are those that people type.

The settings of a `gunicorn.conf.py` become options by the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncless.cli.config import of_option, text_of
from syncless.http.log.notices import complain

ACCEPTED = {
    "--uds": "--bind unix:{}",
    "--pythonpath": "--app-dir {}",
    "--ssl-certfile": "--certfile {}",
    "--ssl-keyfile": "--keyfile {}",
    "--ssl-ciphers": "--ciphers {}",
    "--access-logfile": "--access-log {}",
    "--error-logfile": "--error-log {}",
    "--log-file": "--error-log {}",
    "--pid": "--pid-file {}",
    "-p": "--pid-file {}",
    "--reload-dir": "--reload-path {}",
    "--reload-extra-file": "--reload-path {}",
    "--backlog": "--limit backlog={}",
    "--keep-alive": "--limit idle_seconds={}",
    "--timeout-keep-alive": "--limit idle_seconds={}",
    "--graceful-timeout": "--limit stop_seconds={}",
    "--timeout-graceful-shutdown": "--limit stop_seconds={}",
    "--max-requests": "--limit worker_requests={}",
    "--max-requests-jitter": "--limit worker_requests_jitter={}",
    "--limit-max-requests": "--limit worker_requests={}",
    "--limit-max-requests-jitter": "--limit worker_requests_jitter={}",
    "--limit-concurrency": "--limit requests={}",
    "--limit-request-line": "--limit request_line={}",
    "--limit-request-fields": "--limit header_count={}",
    "--h11-max-incomplete-event-size": "--limit head_bytes={}",
    "--worker-connections": "--limit connections={}",
    "--ws-max-size": "--limit websocket_bytes={}",
    "--check-config": "--check",
    "-c": "--config {}",
    "-t": "--limit worker_stuck_seconds={}",
    "--timeout": "--limit worker_stuck_seconds={}",
    "--websocket-max-message-size": "--limit websocket_bytes={}",
    "--asgi-lifespan": "--lifespan {}",
}
"""Option -> ours, with its value if it has one."""

SAME = (
    *(
        "--bind",
        "--workers",
        "--reload",
        "--preload",
        "--reuse-port",
        "--chdir",
        "--user",
        "--group",
        "--umask",
    ),
    *("--log-level", "--keyfile", "--certfile", "--ciphers", "--proxy-protocol", "--root-path"),
)
"""Options of gunicorn that are ours, too."""

HOST, PORT, PROXIES = "--host", "--port", "--forwarded-allow-ips"
TOGETHER = {HOST: "127.0.0.1", PORT: "8000", PROXIES: "127.0.0.1,::1"}
"""Options of which one of ours is made, and the values that uvicorn has without them."""
TRUST, TRUST_NOT = "--proxy-headers", "--no-proxy-headers"
PROXY = "--proxy-protocol"
MODES = {
    **dict.fromkeys(("auto", "v1", "v2", "true", "1"), (PROXY,)),
    **dict.fromkeys(("off", "false", "none", "0"), ()),
}
"""What gunicorn takes as a value of it -> ours, which takes none and understands both versions."""

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
    "--initgroups": "leave it out: the groups of --user are always taken",
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
}
"""Option -> what to do. None of them is one of ours, see tests/cli/test_moving.py."""


class Foreign(Exception):
    """An option that is not taken; the text says what to write."""


def translated(arguments: Sequence[str]) -> list[str]:
    """The arguments with our options in the place of others'. Foreign."""
    rest = list(arguments)
    ours: list[str] = []
    together: dict[str, str] = {}
    trust: bool | None = None
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--":
            ours += [name, *rest]
            break
        if name in INSTEAD:
            raise Foreign(f"there is no {name}; {INSTEAD[name]}")
        if name in (TRUST, TRUST_NOT):
            trust = name == TRUST
            continue
        if name == PROXY and (equals or (rest and rest[0].lower() in MODES)):
            mode = value if equals else rest.pop(0)
            if mode.lower() not in MODES:
                raise Foreign(f"{PROXY} takes auto, v1, v2, off or nothing, not {mode!r}")
            ours += MODES[mode.lower()]
            continue
        if name not in ACCEPTED and name not in TOGETHER:
            ours.append(name + equals + value)
            continue
        if not equals and (name in TOGETHER or "{}" in ACCEPTED[name]):
            if not rest:
                raise Foreign(f"{name} needs a value")
            value = rest.pop(0)
        if name in TOGETHER:
            together[name] = value
        else:
            ours += [word.format(value) for word in ACCEPTED[name].split()]
    return [*_made_of(together, trust, ours), *ours]


def _made_of(given: dict[str, str], trust: bool | None, others: list[str]) -> list[str]:
    """The options that several of theirs make together."""
    made = []
    if HOST in given or PORT in given:
        host, port = (given.get(name, TOGETHER[name]) for name in (HOST, PORT))
        made += ["--bind", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    if trust or (trust is None and PROXIES in given):
        for peer in given.get(PROXIES, TOGETHER[PROXIES]).split(","):
            made += ["--trusted", peer.strip()]
        if not any(word.partition("=")[0] == "--trusted-field" for word in others):
            made += ["--trusted-field", "x-forwarded-for", "--trusted-field", "x-forwarded-proto"]
    return made


SPELLED = {
    "accesslog": "--access-logfile",
    "access_log_format": "--access-logformat",
    "control_socket_disable": "--no-control-socket",
    "dirty_apps": "--dirty-app",
    "errorlog": "--error-logfile",
    "keepalive": "--keep-alive",
    "loglevel": "--log-level",
    "limit_request_field_size": "--limit-request-field_size",
    "logconfig": "--log-config",
    "logconfig_json": "--log-config-json",
    "pidfile": "--pid",
    "preload_app": "--preload",
    "proc_name": "--name",
    "proxy_allow_ips": "--proxy-allow-from",
    "raw_env": "--env",
    "raw_paste_global_conf": "--paste-global",
    "reload_extra_files": "--reload-extra-file",
    "sendfile": "--no-sendfile",
    "syslog": "--log-syslog",
    "syslog_addr": "--log-syslog-to",
    "syslog_facility": "--log-syslog-facility",
    "syslog_prefix": "--log-syslog-prefix",
    "uwsgi_allow_ips": "--uwsgi-allow-from",
}
"""Setting -> option, where they differ in more than dashes."""
FIELDS = "write trusted-field in syncless.toml, or --trusted-field NAME, for each field that your proxy sets"
HOOK = "write a function for --hook {}=module:function; docs/howto/hooks.md has its arguments"
SETTINGS = {
    "logconfig_dict": "write [logging] in syncless.toml",
    "secure_scheme_headers": FIELDS,
    "tmp_upload_dir": "leave it out: a body is read as it comes",
    "default_proc_name": "leave it out: pip install 'syncless[titles]' names the processes",
    "ssl_context": "write serve(ssl_context=...) in a program",
    **dict.fromkeys(("on_starting", "when_ready"), HOOK.format("on_start")),
    **dict.fromkeys(("pre_fork", "post_fork", "post_worker_init"), HOOK.format("post_fork")),
    **dict.fromkeys(("worker_exit", "child_exit", "worker_int", "worker_abort"), HOOK.format("worker_exit")),
    **dict.fromkeys(
        ("on_dirty_starting", "dirty_post_fork", "dirty_worker_init", "dirty_worker_exit"), HEAVY
    ),
    "pre_request": HOOK.format("pre_request"),
    "post_request": HOOK.format("post_request"),
    "on_exit": HOOK.format("pre_stop"),
    **dict.fromkeys(("on_reload", "pre_exec", "nworkers_changed"), "leave it out: there is no such hook"),
}
"""Setting that no option sets -> what to do."""


def options_of(path: str) -> list[str]:
    """The settings of the file as arguments of a command line. Foreign names those that need an answer."""
    with of_option("--config"):
        text = text_of(path)
    settings: dict[str, Any] = {"__file__": path, "__name__": "__config__"}
    try:
        exec(compile(text, path, "exec"), settings)
    except Exception as error:
        raise Foreign(f"{path}: {type(error).__name__}: {error}") from None
    arguments: list[str] = []
    application: list[str] = []
    wrong = []
    for name, value in settings.items():
        option = SPELLED.get(name, f"--{name.replace('_', '-')}")
        answer = SETTINGS.get(name) or INSTEAD.get(option)
        if value is None or value is False or value in ([], {}, ""):
            continue
        if name == "wsgi_app":
            application = [str(value)]
        elif answer and answer.startswith(LEAVE_OUT):
            complain(f"{path}: {name} is not used; {answer}")
        elif answer:
            wrong.append(f"there is no {name}; {answer}")
        elif option in ACCEPTED or option in TOGETHER or option in SAME:
            arguments += _written(option, value)
    if wrong:
        raise Foreign(f"{path}: " + f"\nsyncless: {path}: ".join(wrong))
    return [*arguments, *application]


def _written(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    if option == "--umask" and isinstance(value, int):
        return [option, f"{value:o}"]
    if option == "--bind" and isinstance(value, str):
        value = value.split(",")
    if option == "--forwarded-allow-ips" and not isinstance(value, str):
        value = ",".join(value)
    return [f"{option}={one}" for one in (value if isinstance(value, (list, tuple)) else [value])]
