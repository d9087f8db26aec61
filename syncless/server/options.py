"""The options of the server, a row for each: the source of the command line, the configuration file, the
environment, the help and the reference. ``python -m scripts.docs.options`` writes the signatures of `serve`
and `Server` from it, their types (arguments.py), and the docstring of `serve`.

Limits have their rows in limits.py. Programs that call `serve` do not import this file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from syncless.http.errors import ON_HANGUP
from syncless.http.limits import MAY_BE_AUTO, defaults
from syncless.http.log.errorlog import FORMATS, NAMED
from syncless.http.trust import DEFAULT_FIELDS
from syncless.server.kinds import INTERFACES, LIFESPANS
from syncless.server.server import PROTOCOLS
from syncless.server.slots import CHOICES, KEEP

SERVER = "an argument of Server"
APPLICATION = "an argument of Server, of its application"
PROGRAM = "an argument of serve"
COMMAND = "no argument: the command, a file or a variable"
ONCE = "no argument: the command only"


class Option(NamedTuple):
    """An option. Its name is also the name of the argument, the key in a file, and the variable."""

    name: str
    default: Any
    """False: it takes no value. A tuple: it may be repeated. {}: each gives a row of a table."""
    value: str = ""
    """The placeholder of its value in the help."""
    where: str = SERVER
    word: str | None = ""
    """In the command line, if that is not its name with dashes. None: it has none, nor has a file."""
    short: str = ""
    read: Callable[[str], Any] = str
    """Converts text to its value. Raises ValueError if it is malformed."""
    choices: Sequence[str] | None = None
    bare: str | None = None
    """Its value where the word stands alone; None: it needs a value."""
    text: str = ""
    """A sentence for the help and the reference."""
    type: str = ""
    """As an argument, if it is not that of the default, or `str | None`; with "= ..." if its default is
    another there."""
    call: str = ""
    """The sentence for the docstring of `serve`, if `text` is none for a caller. Neither: it is not for
    users."""


def closest(name: str, known: Iterable[str]) -> str:
    """Return the most similar known name, which differs by one or two letters, or ""."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.8)), "")


def limit(text: str) -> tuple[str, float]:
    """Parse a --limit argument, NAME=VALUE. An error about the value begins with the limit's name."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"write NAME=VALUE, for example idle_seconds=75, not {text!r}")
    return name, limit_value(name, value)


def limit_value(name: str, value: Any) -> float:
    """Return the value of a limit, from text or from a number in a file. Raise ValueError, with the limit's
    name."""
    kinds = defaults()
    if name not in kinds:
        near = closest(name, kinds)
        advice = f"did you mean {near}?" if near else "--help-all lists all limits"
        raise ValueError(f"unknown limit {name!r}; {advice}")
    unit = next((unit for end, unit in UNIT_OF.items() if name.endswith(end)), "")
    word = "auto" if name in MAY_BE_AUTO else ""
    if word and value == word:
        return value  # type: ignore[no-any-return]
    try:
        return measured(value, unit, whole=isinstance(kinds[name], int), word=word)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


UNITS = {
    "SECONDS": {"": 1.0, "s": 1, "ms": 0.001, "m": 60, "min": 60, "h": 3600, "d": 86400},
    "BYTES": {"": 1.0, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
    | {f"{letter}{end}": 1024.0**power for power, letter in enumerate("kmg", 1) for end in ("", "ib")},
}
"""Unit -> what may stand behind a number, in small letters, and its size."""
UNIT_OF = {"_seconds": "SECONDS", "_bytes": "BYTES", "_rate": "BYTES", "_line": "BYTES"}
"""End of a limit's name -> its unit."""
EXAMPLES = {"SECONDS": "seconds, such as 30, 500ms or 5m", "BYTES": "bytes, such as 8190, 32KiB or 10M"}


def measured(value: Any, unit: str, *, whole: bool, word: str = "") -> float:
    """Return the number in a value: a number, or text with an optional unit. A rate may end in /s. Raise
    ValueError if it is malformed, whose text names the `word` that may be there instead."""
    kind = "a whole number" if whole else "a number"
    unless = f", or {word}" if word else ""
    refusal = f"write {kind}{' of ' + EXAMPLES[unit] if unit else ''}{unless}, not {value!r}"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(refusal)
    if not isinstance(value, str):
        found = float(value)
    else:
        match = NUMBER.fullmatch(value.strip())
        number, letters = match.groups() if match else ("", "")
        size = UNITS.get(unit, {"": 1.0}).get(letters.lower().removesuffix("/s"))
        if not number or size is None:
            raise ValueError(refusal)
        if letters == "" and whole and number.lstrip("+-").isdigit():
            return int(number)
        found = float(number) * size
    if whole and not found.is_integer():
        raise ValueError(refusal)
    return int(found) if whole else found


NUMBER = re.compile(r"([-+]?(?:[0-9_]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)\s*([A-Za-z]*(?:/s)?)", re.ASCII)


def number_of_workers(text: str) -> int | str:
    """Parse a --workers argument. Raise ValueError if it is malformed."""
    if text == "auto":
        return text
    try:
        if (number := int(text)) >= 0:
            return number
    except ValueError:
        pass
    raise ValueError(f"write a number of processes, or auto, not {text!r}")


def octal(text: str) -> int:
    """Parse a --unix-mode or --umask argument."""
    try:
        return int(text, 8)
    except ValueError:
        raise ValueError(f"write an octal number such as 660 or 027, not {text!r}") from None


def hook(text: str) -> tuple[str, str]:
    """Parse a --hook argument, NAME=MODULE:FUNCTION."""
    name, equals, function = text.partition("=")
    if not equals or ":" not in function:
        raise ValueError(f"write NAME=MODULE:FUNCTION, not {text!r}")
    return name, function


def certificate(text: str) -> tuple[str, str | tuple[str, str]]:
    """Parse a --certificate argument, NAME=CERT or NAME=CERT,KEY."""
    name, equals, files = text.partition("=")
    certfile, _, keyfile = files.partition(",")
    if not equals or not certfile:
        raise ValueError(f"write NAME=CERT or NAME=CERT,KEY, not {text!r}")
    return name, (certfile, keyfile) if keyfile else certfile


def static(text: str) -> tuple[str, str]:
    """Parse a --static argument, PREFIX=DIR."""
    prefix, _, directory = text.partition("=")
    if not prefix.startswith("/") or not directory:
        raise ValueError(f"write /PREFIX=DIR, not {text!r}")
    return prefix, directory


def mount(text: str) -> tuple[str, str]:
    """Parse a --mount argument, PREFIX=APPLICATION."""
    prefix, _, application = text.partition("=")
    if not prefix.startswith("/") or not application:
        raise ValueError(f"write /PREFIX=MODULE:ATTRIBUTE, not {text!r}")
    return prefix, application


def native(text: str) -> tuple[str, str]:
    """Parse a --native argument, ROUTE=HANDLER."""
    route, _, handler = text.rpartition("=")
    if "/" not in route or ":" not in handler:
        raise ValueError(f"write /PATH=MODULE:HANDLER or /PATH=LIBRARY.so:FUNCTION, not {text!r}")
    return route, handler


def interface(text: str) -> str:
    """Parse an --interface argument. Accept uvicorn's asgi3, too."""
    return "asgi" if text == "asgi3" else text


def value_of(option: Option, value: Any) -> Any:
    """Return the value of an option from text, or from a number in a file. Raise ValueError if it is
    malformed."""
    if option.read in (int, float):
        return measured(value, option.value if option.value in UNITS else "", whole=option.read is int)
    read = option.read(value)
    if option.choices and read not in option.choices:
        raise ValueError(f"write {' or '.join(option.choices)}, not {value!r}")
    return read


# fmt: off
OPTIONS = {  # heading -> options
    "application": (
        Option("application", None, where=COMMAND, word="application", text=
            "module:attribute or path/to/file.py:attribute, for example myproject.web:app; the attribute "
            "may be left out if it is application or app, and may be a call of a factory: "
            "'web:create_app()'"),
        Option("factory", False, where=COMMAND, text=
            "call the attribute, a function that returns the application"),
        Option("interface", "auto", where=APPLICATION, read=interface, choices=INTERFACES, text=
            "interface of the application (default auto: detect it from the signature)", call=
            '"asgi", "wsgi", or "auto" to detect the interface from the signature of the application'),
        Option("mounts", {}, "/PATH=APP", COMMAND, word="--mount", read=mount, text=
            "another application, of either kind, for the paths below this one; may be repeated"),
        Option("native", {}, "ROUTE=HANDLER", read=native, text=
            "a native handler, module:handler or library.so:function, that serves a route such as /path or "
            "'GET /users/{id}' without the interpreter's lock; may be repeated",
            type="Mapping[str, Any] | None = None", call=
            'functions of Cython, C, Rust or Numba by their route, {"GET /users/{id}": module.user}, that '
            'run in threads without the interpreter\'s lock; a string names one, "module:handler" or '
            '"library.so:function" (see docs/howto/native.md)'),
        Option("native_threads", 0, "N", read=int, text=
            "number of threads for native handlers (default: the number of cores)"),
        Option("standby_threads", 0, "N", word="--standby", read=int, text=
            "number of threads that take over while the application holds the serving thread (default 0)",
            call=
            "number of threads that take over when the application has held the serving thread for "
            "`held_seconds` (0; see docs/howto/slow.md)"),
        Option("self_cure", False, text=
            "offload a C function, by its name, when it has blocked all other requests three times", call=
            "True offloads a C function by its name when it has blocked all other requests three times (see "
            "docs/howto/blocking.md#let-the-server-do-it)"),
        Option("request_slots", KEEP, choices=CHOICES, text=
            "under the patch, threading.local values of a request: keep those that an earlier request "
            "left, as a pool of threads does (default), or start fresh", type="str = KEEP", call=
            'under the patch, `threading.local` values of a request: "keep" those that an earlier request '
            'left, as a pool of threads does (default), or start "fresh" (see '
            'docs/howto/databases.md#a-connection-per-thread)'),
        Option("on_hangup", ON_HANGUP[0], choices=ON_HANGUP, text=
            "when the client of a WSGI request closes the connection, let the request continue (default), "
            "or raise ClientGone where it waits: stop for GET and HEAD only, stop-all for all methods",
            type="str = ON_HANGUP[0]", call=
            'what happens to a WSGI request when its client closes the connection. "continue" (default): '
            'the request keeps running; "stop": ClientGone is raised where a GET or HEAD request waits; '
            '"stop-all": the same for all methods (see docs/howto/hangups.md)'),
        Option("pass_deadline", False, text=
            "under the patch, tell services that a request calls how many seconds it has left, in "
            "X-Request-Timeout", call=
            "under the patch, True tells services that a request calls how many seconds it has left, in "
            "X-Request-Timeout (see docs/howto/hangups.md#services-that-call-services)"),
        Option("chdir", None, "DIR", PROGRAM, text=
            "change to the directory before importing the application; a reload resolves symbolic links "
            "again", type="str | os.PathLike[str] | None", call=
            "change to this folder, and import modules from it. Workers that SIGHUP starts resolve "
            "symbolic links again"),
        Option("app_dir", (), "DIR", COMMAND, text=
            "import modules from this directory, too; may be repeated"),
        Option("env_file", None, "FILE", COMMAND, text=
            "read environment variables from this file before importing the application; variables that "
            "are already set keep their values (needs syncless[env])"),
        Option("root_path", "", "/PATH", APPLICATION, text=
            "path prefix of the application that a proxy strips: SCRIPT_NAME, root_path", call=
            "path prefix of the application, if a proxy strips it from the requests that it forwards"),
        Option("lifespan", "auto", where=APPLICATION, choices=LIFESPANS, text=
            "lifespan events of an ASGI application: auto (default), on (the application must support "
            "them) or off"),
        Option("check", False, where=ONCE, text="import the application, check the options, and exit"),
        Option("config", None, "FILE", ONCE, text=
            "read options from this TOML file, or a gunicorn.conf.py (default: syncless.toml, or "
            "[tool.syncless] in pyproject.toml)"),
        Option("print_config", False, where=ONCE, text=
            "print the options and where each comes from, and exit"),
    ),
    "addresses": (
        Option("bind", (), "ADDRESS", short="-b", text=
            "host:port, host, [ipv6]:port, :port (all addresses), unix:/path, unix:@abstract or fd:number, "
            "preceded by http:// or https:// if you need both; with port 0 the system chooses a free port; "
            "may be repeated (default: the sockets that systemd passes, else 127.0.0.1:8000)",
            type="str | Bind | Iterable[str | Bind] | None = None", call=
            'instead of `host` and `port`, one or more of "host:port", "[ipv6]:port", ":port", '
            '"unix:/path", "unix:@abstract" and "fd:number" (an inherited socket), preceded by "http://" '
            'or "https://" if only some of them speak TLS'),
        Option("fd", (), "N", COMMAND, read=int, text="also serve on this inherited listening socket"),
        Option("unix_mode", None, "MODE", read=octal, text=
            "permissions of UNIX sockets, octal (default 660)", type="int | None", call=
            "permissions of UNIX sockets (0o660)"),
        Option("unix_owner", None, "USER:GROUP", text="owner of UNIX sockets", call=
            'owner of UNIX sockets, "user:group"'),
        Option("ipv6_only", False, text="do not accept IPv4 connections on [::]"),
        Option("reuse_port", False, text="let several processes listen on the same port (SO_REUSEPORT)"),
        Option("no_defer_accept", False, where=COMMAND, text=
            "accept connections before their first request arrives"),
        Option("defer_accept", True, word=None, call=
            "accept a connection only when its first bytes have arrived (Linux TCP_DEFER_ACCEPT)"),
    ),
    "TLS": (
        Option("certfile", None, "FILE", text=
            "serve HTTPS with this PEM certificate chain (and private key, without --keyfile)", call=
            "a PEM file of the certificate chain, and of the private key without `keyfile`"),
        Option("keyfile", None, "FILE", text="private key of the certificate"),
        Option("key_password_file", None, "FILE", COMMAND, text=
            "file with the password of the private keys in its first line"),
        Option("key_password", None, word=None, call="password of the private keys"),
        Option("certificates", {}, "NAME=CERT[,KEY]", word="--certificate", read=certificate, text=
            "another certificate, for clients that request the host NAME; may be repeated",
            type="Mapping[str, Files] | None = None", call=
            'more certificates, by the host name that the client requests, {"example.org": (cert, key)}'),
        Option("client_ca", None, "FILE", text=
            "require client certificates signed by one of the CA certificates in this PEM file"),
        Option("ciphers", None, "LIST", text=
            "cipher suites of TLS 1.2 in OpenSSL's notation (default: Mozilla's intermediate list)"),
        Option("tls_minimum", "1.2", "VERSION", text="oldest version of TLS, 1.2 or 1.3 (default 1.2)"),
        Option("ssl_context", None, word=None,
            type="ssl.SSLContext | Callable[[], ssl.SSLContext] | None", call=
            "an SSLContext, or a callable that returns one, instead of all of these"),
        Option("reload_certificates", False, where=COMMAND, text=
            "reload the certificates when one of their files changes, as SIGHUP does (needs "
            "syncless[reload])"),
        Option("plain_http", False, text="also serve plain HTTP on the HTTPS port"),
        Option("http2", "tls", choices=PROTOCOLS, text=
            "speak HTTP/2 with clients that request it in the TLS handshake (tls, the default), also with "
            "clients that start with HTTP/2 without TLS (cleartext), or never (off)", call=
            '"tls" speaks HTTP/2 with clients that request it in the TLS handshake (ALPN), "cleartext" '
            'also with clients that start with HTTP/2 without TLS, "off" never (see docs/howto/http2.md)'),
    ),
    "static files": (
        Option("static", {}, "/PREFIX=DIR", read=static, text=
            "serve files of this directory below this path; may be repeated",
            type="Paths | None = None", call=
            'directories of files by path prefix, {"/assets": "build/assets"}'),
        Option("static_max_age", 0, "SECONDS", read=int, text=
            "time for which caches may use such a file without revalidation (default 0)", type="float"),
    ),
    "compression": (
        Option("compress", None, "TYPES", bare="", text=
            "compress responses with gzip, and with br and zstd where their libraries are installed; TYPES "
            "are media types, such as text/html,text/css (default: all compressible types)",
            type="bool | str | Iterable[str] = False", call=
            "True compresses responses of all compressible types with gzip, br or zstd; a string or list "
            "of media types compresses only those"),
        Option("compress_minimum", 1000, "BYTES", read=int, text=
            "do not compress smaller bodies (default 1000)"),
    ),
    "proxies": (
        Option("trusted", (), "PEER", text=
            "trust what this proxy reports about its clients: address, network, unix or *; may "
            "be repeated",
            type="str | Iterable[str]", call=
            'trusted proxies, as addresses, networks, "unix" or "*"'),
        Option("trusted_fields", DEFAULT_FIELDS, "NAME", word="--trusted-field", text=
            "header field that the proxy sets; list all of them (default x-forwarded-for)",
            type="str | Iterable[str] = DEFAULT_FIELDS", call=
            "header fields that these proxies set (see `Forwarding`)"),
        Option("proxy_protocol", False, text=
            "trusted peers begin each connection with a PROXY header (version 1 or 2)"),
    ),
    "logs": (
        Option("access_log", None, "FILE", bare="-", text=
            "log each request in Apache's combined format; to stdout if FILE is - or missing",
            type="bool | str | os.PathLike[str] | TextIO | None", call=
            "True for stdout, a path, or a text stream; none by default"),
        Option("no_access_log", False, where=ONCE, text=
            "write no access log, even if the configuration file asks for one"),
        Option("access_log_format", "combined", "FORMAT", text=
            "combined (default), common, json or Apache's atoms", type="str | Mapping[str, str]", call=
            '"combined", "common", "json", a string with Apache\'s atoms, or a mapping of JSON keys to '
            'atoms'),
        Option("error_log", None, "FILE", text=
            "write errors to this file instead of stderr (SIGUSR1 reopens log files)",
            type="str | os.PathLike[str] | TextIO | None", call=
            "a path or a text stream, stderr by default"),
        Option("error_log_format", "text", "FORMAT", choices=FORMATS, text=
            "text (default) or json, one object per line"),
        Option("slow_request", 0, "SECONDS", read=float, type="float", text=
            "log requests that take at least this long, and list their waits (default 0: none)"),
        Option("request_ids", False, text=
            "give each request an ID and a traceparent, from a trusted proxy or new, and show them to the "
            "application, in log records and in logged tracebacks", call=
            "True gives each request an ID and a traceparent, from a trusted proxy or new: for the "
            "application, in a context variable and in the logs (see docs/howto/logging.md)"),
        Option("otel", None, "URL", bare="", text=
            "send a span of each traced request, with its waits, metrics and errors to this OpenTelemetry "
            "collector (default: what the variables OTEL_... say; needs syncless[otel])",
            type="bool | str | None", call=
            "True, or the URL of a collector, sends spans, metrics and errors to OpenTelemetry; None "
            "does so if the variables OTEL_... ask for it, False never (see docs/howto/tracing.md)"),
        Option("log_level", None, where=COMMAND, choices=(*NAMED,), text=
            "lowest level that the error log records (default: all levels); warning and above also hide "
            "the addresses"),
        Option("logging", None, where=PROGRAM, word=None, type="Mapping[str, Any] | None", call=
            "a dict for `logging.config.dictConfig`. Errors go to the logger `syncless.error` if that has "
            "a handler"),
        Option("quiet", False, where=PROGRAM, short="-q", text=
            "print no addresses, and log no events of the server", call=
            "print no addresses, and log neither events of the server nor warnings that the application "
            "blocks"),
    ),
    "operating": (
        Option("status", None, "ADDRESS", PROGRAM, text=
            "serve a status page, JSON and health checks at this local address: 127.0.0.1:port or "
            "unix:/path", call=
            "local address that serves a status page, JSON and health checks (see docs/howto/operating.md)"),
        Option("status_public", False, where=PROGRAM, text=
            "allow --status and --metrics on addresses that other machines can reach; these pages show "
            "paths, client addresses and stacks", call=
            "allow `status` and `metrics` on addresses that other machines can reach"),
        Option("health", None, "WHERE", PROGRAM, text=
            "serve only /livez and /readyz, on this address, which other machines may reach, or below this "
            "/path of the main addresses", call=
            "an address that serves only the health checks, or a path of the main addresses that they are "
            "served below"),
        Option("metrics", None, "WHERE", PROGRAM, bare="", text=
            "serve metrics for Prometheus: at /metrics of the status address, on another address, or at "
            "this /path of the main addresses (needs syncless[metrics])", type="bool | str | None", call=
            "metrics for Prometheus: True serves them at /metrics of the status address; else an address "
            "or a path"),
        Option("priority", (), "RULE", text=
            "which requests are first if --limit requests lets others wait: /PATH=always, high, normal or "
            "low, or header:NAME, a field with one of these words from a trusted proxy; may be repeated",
            type="str | Iterable[str] = ()", call=
            'which requests are first where the limit `requests` lets others wait: "/path=always", "=high" '
            'or "=low", or "header:name", a field of trusted proxies with one of these words (see '
            'docs/howto/overload.md)'),
        Option("no_shared_metrics", False, where=COMMAND, text=
            "leave each worker its own metrics of prometheus_client, instead of one value for all"),
        Option("shared_metrics", True, where=PROGRAM, word=None, call=
            "with workers, metrics that the application makes with prometheus_client have one value for all "
            "workers, which `metrics` shows, too (see docs/howto/operating.md)"),
    ),
    "processes": (
        Option("workers", 0, "N", PROGRAM, short="-w", read=number_of_workers, text=
            "number of worker processes, or auto: one for each available processor (default 0: serve from "
            "this process)", type='int | Literal["auto"]', call=
            'number of worker processes (0: serve from this process), or "auto": one for each available '
            'processor'),
        Option("affinity", None, "RULE", PROGRAM, text=
            "serve all requests of a session in the same worker: cookie (one of the server's own), "
            "header:NAME (as the application's responses set it) or client (its address)", call=
            'the worker that serves the requests of a session: "cookie", "header:NAME" or "client" (see '
            'docs/howto/workers.md#sessions)'),
        Option("shared", None, "URL", PROGRAM, text=
            "share messages and values (syncless.shared) with other machines through this Redis: "
            "redis://host:6379/0, rediss://... or unix:///path (default: in memory; needs syncless[redis])",
            call=
            "URL of a Redis, through which `syncless.shared` also reaches other machines "
            '("redis://host:6379/0"; see docs/howto/shared.md#several-machines-redis). Without it, the '
            "workers of this server share memory"),
        Option("preload", False, where=PROGRAM, text="import the application once, before the workers start"),
        Option("reload", False, where=COMMAND, text=
            "start new workers when a Python or TOML file below the working directory changes"),
        Option("reload_path", (), "PATH", COMMAND, text=
            "also reload when any file below this path changes; may be repeated"),
        Option("user", None, "USER", PROGRAM, short="-u", text=
            "switch to this user after opening sockets and files (needs root)",
            type="str | int | None", call=
            "switch the serving process to this user after opening sockets and files, if root started it "
            "(with workers, the master stays root)"),
        Option("group", None, "GROUP", PROGRAM, short="-g", text=
            "switch to this group, too (default: the user's)", type="str | int | None"),
        Option("umask", None, "MASK", PROGRAM, short="-m", read=octal, text=
            "umask of the process, octal, for example 027", type="int | None", call=
            "umask of the process, for example 0o027"),
        Option("hooks", {}, "NAME=MODULE:FUNCTION", PROGRAM, word="--hook", read=hook, text=
            "function to call; NAME is on_start, post_fork, pre_request, post_request, pre_stop or "
            "worker_exit", type="Mapping[str, Hook | str] | None = None", call=
            'functions, or "module:function", for on_start, post_fork, pre_request, post_request, '
            'pre_stop and worker_exit (see docs/howto/hooks.md)'),
        Option("pid_file", None, "FILE", PROGRAM, text="write the process ID to this file",
            type="str | os.PathLike[str] | None"),
        Option("multiprocess", False, word=None),
    ),
    "patch of the standard library": (
        Option("no_patch", False, where=ONCE, text=
            "do not patch the standard library: a call that waits blocks all requests"),
        Option("patch", False, where=PROGRAM, word=None, type="Patch", call=
            "True makes the standard library cooperative before the application is imported "
            "(`syncless.patches.patch_all`), in each process that serves. A mapping chooses areas, "
            '{"sqlite3": False}. The command line does this by default'),
    ),
    "limits": (
        Option("limits", {}, "NAME=VALUE", word="--limit", short="-l", read=limit, text=
            "set a limit, in bytes or seconds; may be repeated. --help-all shows all, with their defaults",
            type="Limits | None = None", call=
            "a `Limits`. Single limits may also be given by name (`head_seconds=10`)"),
    ),
}
# fmt: on
ROWS = [option for group in OPTIONS.values() for option in group]
ALL = [option for option in ROWS if option.word is not None]
"""Without the arguments that the command line has in another form, or not at all."""
