"""Options of other servers that users type out of habit. An option with an equivalent here is accepted; for
any other a message says what to write instead.

peers.py has the options that are refused, and the tables of the pages.

The same tables translate the settings of a `gunicorn.conf.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from syncless.cli.config import of_option, text_of
from syncless.cli.peers import HEAVY, INSTEAD, LEAVE_OUT, of_gunicorn
from syncless.http.log.notices import complain
from syncless.server.server import PROTOCOLS

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
    "--uds-permissions": "--unix-mode {}",
    "--unix-socket-perms": "--unix-mode {}",
    "--working-dir": "--chdir {}",
    "--env-files": "--env-file {}",
    "--python-path": "--app-dir {}",
    "--workers-lifetime": "--limit worker_seconds={}",
    "--workers-kill-timeout": "--limit stop_seconds={}",
    "--ssl-certificate": "--certfile {}",
    "--reload-paths": "--reload-path {}",
    "--backpressure": "--limit requests={}",
    "--insecure-bind": "--bind http://{}",
    "--websocket-ping-interval": "--limit ping_seconds={}",
    "--ping-interval": "--limit ping_seconds={}",
    "--call": "--factory",
    "--listen": "--bind {}",
    "--unix": "--bind unix:{}",
    "--unix-socket": "--bind unix:{}",
    "--max-connections": "--limit connections={}",
    "--connection-limit": "--limit connections={}",
    "--channel-timeout": "--limit idle_seconds={}",
    "--max-header-size": "--limit head_bytes={}",
    "--max-request-header-size": "--limit head_bytes={}",
    "--max-body": "--limit body_bytes={}",
    "--max-request-body-size": "--limit body_bytes={}",
    "--no-lifespan": "--lifespan off",
    "--tls-cert": "--certfile {}",
    "--tls-key": "--keyfile {}",
    "--tls-ciphers": "--ciphers {}",
    "--ws-max-message": "--limit websocket_bytes={}",
    "--static-dir": "--static {}",
    "--compress-min-size": "--compress-minimum {}",
    "--http-socket": "--bind {}",
    "--http11-socket": "--bind {}",
    "--processes": "--workers {}",
    "--harakiri": "--limit request_seconds={}",
    "--max-worker-lifetime": "--limit worker_seconds={}",
    "--reload-mercy": "--limit stop_seconds={}",
    "--worker-reload-mercy": "--limit stop_seconds={}",
    "--limit-post": "--limit body_bytes={}",
    "--uid": "--user {}",
    "--gid": "--group {}",
    "--chmod-socket": "--unix-mode {}",
    "--chown-socket": "--unix-owner {}",
    "--pidfile": "--pid-file {}",
    "--logto": "--error-log {}",
    "--stats": "--status {}",
    "--static-map": "--static {}",
    **dict.fromkeys(("--no-factory", "--no-reload", "--no-metrics", "--no-ssl-client-verify"), ""),
}
"""Option -> ours, with its value if it has one. "": ours is so without an option."""

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
"""Values that gunicorn accepts for it -> ours, which takes none and understands both versions."""

BY_VALUE = {
    "--listen": (r"\d+", "--limit backlog={}"),
    "--http": (r".*:.*", "--bind {}"),
    "--protocol": ("wsgi|asgi", "--interface {}"),
    "-p": (r"\d+", "for a port write --port {0}, for processes --workers {0}, for a file --pid-file ./{0}"),
    "--keep-alive": (r"\d{4,}", "write {0}s or {0}ms: other servers count milliseconds"),
    "--graceful-timeout": (r"\d{5,}", "write {0}s or {0}ms: other servers count milliseconds"),
    "-u": (".*/.*", "write --bind unix:{0} for a socket; --user is a name"),
    "-w": (r"[A-Za-z_][\w.]*:.*", "name the application without it: {0}"),
    "--access-log-format": ("text", "write combined, which is the default"),
}
"""Option that means something else elsewhere -> the values (a regular expression) with which it does so, and
ours for these, or a sentence."""
BARE = {"--http2": PROTOCOLS}
"""Option that takes no value elsewhere, where it means our default -> the values of ours."""


class Foreign(Exception):
    """An option that is refused; the text says what to write instead."""


def translated(arguments: Sequence[str], spelled: dict[str, str] | None = None) -> list[str]:
    """Return the arguments with the options of other servers replaced by ours. Raise Foreign if there is no
    equivalent. ``spelled`` receives what the user has written for each of our options."""
    spelled = {} if spelled is None else spelled
    rest = list(arguments)
    ours: list[str] = []
    together: dict[str, str] = {}
    trust: bool | None = None
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--":
            ours += [name, *rest]
            break
        if name in BARE and not equals and not (rest and rest[0] in BARE[name]):
            continue
        special = _by_value(name, value if equals else rest[0] if rest else "")
        if special is not None:
            del rest[: 0 if equals else 1]
            ours += special
            continue
        if name not in ACCEPTED and name in INSTEAD:
            raise Foreign(f"there is no {name}; {INSTEAD[name]}")
        if name in (TRUST, TRUST_NOT):
            trust = name == TRUST
            continue
        if name == PROXY and (equals or (rest and rest[0].lower() in MODES)):
            mode = value if equals else rest.pop(0)
            if mode.lower() not in MODES:
                raise Foreign(f"{PROXY} must be auto, v1, v2, off or nothing, not {mode!r}")
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
            made = [word.format(value) for word in ACCEPTED[name].split()]
            ours += made
            if made:
                spelled[f"--limit {made[1].partition('=')[0]}" if made[0] == "--limit" else made[0]] = name
    return [*_made_of(together, trust, ours), *ours]


def _by_value(name: str, value: str) -> list[str] | None:
    """Return our options for a foreign option whose value shows the intention, or None. Raise Foreign if
    there is no equivalent."""
    pattern, instead = BY_VALUE.get(name, ("", ""))
    if not pattern or not re.fullmatch(pattern, value):
        return None
    if not instead.startswith("-"):
        raise Foreign(f"{name} {value}: {instead.format(value)}")
    return [word.format(value) for word in instead.split()]


def _made_of(given: dict[str, str], trust: bool | None, others: list[str]) -> list[str]:
    """Return our options for combinations of foreign options."""
    made = []
    if HOST in given or PORT in given:
        host, port = (given.get(name, TOGETHER[name]) for name in (HOST, PORT))
        if not (port.isascii() and port.isdecimal() and int(port) <= 65535):
            raise Foreign(f"{PORT}: write a number from 0 to 65535, not {port!r}")
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
    "tmp_upload_dir": "leave it out: a body is read as it arrives",
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
    """Return the settings of the file as arguments of a command line. Raise Foreign, which lists the settings
    that are refused."""
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
    known = of_gunicorn()  # other names are the file's own
    for name, value in settings.items():
        option = SPELLED.get(name, f"--{name.replace('_', '-')}")
        answer = SETTINGS.get(name) or (INSTEAD.get(option) if option in known else None)
        if value is None or value is False or value in ([], {}, ""):
            continue
        if name == "wsgi_app":
            application = [str(value)]
        elif answer and answer.startswith(LEAVE_OUT):
            complain(f"{path}: {name} is not used; {answer}")
        elif answer:
            wrong.append(f"there is no {name}; {answer}")
        elif option in known and (option in ACCEPTED or option in TOGETHER or option in SAME):
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
