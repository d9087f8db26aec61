"""The options of the server, a row for each: from here come the command line, the configuration file, the
environment, the help and the reference. ``python -m scripts.docs.options`` writes the signatures of `serve`
and `Server` from it, their types (arguments.py), and the docstring of `serve`.

Limits have their rows in limits.py. A program that serves by itself does not import this file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from syncless.http.errors import ON_HANGUP
from syncless.http.limits import defaults
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
    """An option; its name is that of the argument, the key in a file, and the variable."""

    name: str
    default: Any
    """False: it takes no value. A tuple: it may be repeated. {}: each gives a row of a table."""
    value: str = ""
    """What stands for its value in the help."""
    where: str = SERVER
    word: str | None = ""
    """In the command line, if that is not its name with dashes. None: it has none, nor has a file."""
    short: str = ""
    read: Callable[[str], Any] = str
    """From text to its value. ValueError."""
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
    """The known name that was probably meant: one or two letters differ. "" if there is none."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.8)), "")


def limit(text: str) -> tuple[str, float]:
    """A --limit argument, NAME=VALUE. An error about the value begins with the limit's name."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"write NAME=VALUE, for example idle_seconds=75, not {text!r}")
    return name, limit_value(name, value)


def limit_value(name: str, value: Any) -> float:
    """The value of a limit, from text, or from the number of a file. ValueError begins with its name."""
    kinds = defaults()
    if name not in kinds:
        near = closest(name, kinds)
        advice = f"did you mean {near}?" if near else "--help-all lists all limits"
        raise ValueError(f"unknown limit {name!r}; {advice}")
    unit = next((unit for end, unit in UNIT_OF.items() if name.endswith(end)), "")
    try:
        return measured(value, unit, whole=isinstance(kinds[name], int))
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


def measured(value: Any, unit: str, *, whole: bool) -> float:
    """A number, or text with or without a unit behind it. A rate may end in /s. ValueError."""
    kind = "a whole number" if whole else "a number"
    refusal = f"write {kind}{' of ' + EXAMPLES[unit] if unit else ''}, not {value!r}"
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
    """A --workers argument. ValueError."""
    if text == "auto":
        return text
    try:
        if (number := int(text)) >= 0:
            return number
    except ValueError:
        pass
    raise ValueError(f"write a number of processes, or auto, not {text!r}")


def octal(text: str) -> int:
    """A --unix-mode or --umask argument."""
    try:
        return int(text, 8)
    except ValueError:
        raise ValueError(f"write an octal number such as 660 or 027, not {text!r}") from None


def hook(text: str) -> tuple[str, str]:
    """A --hook argument, NAME=MODULE:FUNCTION."""
    name, equals, function = text.partition("=")
    if not equals or ":" not in function:
        raise ValueError(f"write NAME=MODULE:FUNCTION, not {text!r}")
    return name, function


def certificate(text: str) -> tuple[str, str | tuple[str, str]]:
    """A --certificate argument, NAME=CERT or NAME=CERT,KEY."""
    name, equals, files = text.partition("=")
    certfile, _, keyfile = files.partition(",")
    if not equals or not certfile:
        raise ValueError(f"write NAME=CERT or NAME=CERT,KEY, not {text!r}")
    return name, (certfile, keyfile) if keyfile else certfile


def static(text: str) -> tuple[str, str]:
    """A --static argument, PREFIX=DIR."""
    prefix, _, directory = text.partition("=")
    if not prefix.startswith("/") or not directory:
        raise ValueError(f"write /PREFIX=DIR, not {text!r}")
    return prefix, directory


def mount(text: str) -> tuple[str, str]:
    """A --mount argument, PREFIX=APPLICATION."""
    prefix, _, application = text.partition("=")
    if not prefix.startswith("/") or not application:
        raise ValueError(f"write /PREFIX=MODULE:ATTRIBUTE, not {text!r}")
    return prefix, application


def native(text: str) -> tuple[str, str]:
    """A --native argument, ROUTE=HANDLER."""
    route, _, handler = text.rpartition("=")
    if "/" not in route or ":" not in handler:
        raise ValueError(f"write /PATH=MODULE:HANDLER or /PATH=LIBRARY.so:FUNCTION, not {text!r}")
    return route, handler


def interface(text: str) -> str:
    """An --interface argument. uvicorn has asgi3, too."""
    return "asgi" if text == "asgi3" else text


def value_of(option: Option, value: Any) -> Any:
    """The value of an option from text, wherever that stands, or from the number of a file. ValueError."""
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
            "the attribute is a function that returns the application"),
        Option("interface", "auto", where=APPLICATION, read=interface, choices=INTERFACES, text=
            "what the application speaks, if its signature does not tell (default auto)", call=
            '"asgi" or "wsgi" if its signature does not tell ("auto")'),
        Option("mounts", {}, "/PATH=APP", COMMAND, word="--mount", read=mount, text=
            "another application, of either kind, for the paths below this one; may be repeated"),
        Option("native", {}, "ROUTE=HANDLER", read=native, text=
            "a native handler, module:handler or library.so:function, that answers a route such as /path "
            "or 'GET /users/{id}' without the interpreter's lock; may be repeated",
            type="Mapping[str, Any] | None = None", call=
            'functions of Cython, C, Rust or Numba by their route, {"GET /users/{id}": module.user}, that '
            'run in threads without the interpreter\'s lock; a string names one, "module:handler" or '
            '"library.so:function" (see docs/howto/native.md)'),
        Option("native_threads", 0, "N", read=int, text="threads of native handlers (default: cores)"),
        Option("standby_threads", 0, "N", word="--standby", read=int, text=
            "threads that take over while the application holds the one that serves (default 0)", call=
            "number of threads that wait until the application has held the one that serves for "
            "`held_seconds`, and then serve in its place (0; see docs/howto/slow.md)"),
        Option("request_slots", KEEP, choices=CHOICES, text=
            "under the patch, whether a request finds the threading.local values that another has left, as "
            "in a pool of threads: keep (default) or fresh", type="str = KEEP", call=
            'under the patch, whether a request finds the values of `threading.local` that another one '
            'has left, as in a pool of threads: "keep" (default), or "fresh" (see '
            'docs/howto/databases.md#a-connection-per-thread)'),
        Option("on_hangup", ON_HANGUP[0], choices=ON_HANGUP, text=
            "a WSGI request whose client closes the connection goes on (continue, the default), or "
            "ClientGone is raised where it waits: stop for GET and HEAD only, stop-all for all methods",
            type="str = ON_HANGUP[0]", call=
            'what becomes of a WSGI request whose client closes the connection. "continue" (default): it '
            'goes on; "stop": ClientGone is raised where it waits, if it is a GET or a HEAD; "stop-all": '
            'whatever its method (see docs/howto/hangups.md)'),
        Option("chdir", None, "DIR", PROGRAM, text=
            "change to the directory before importing the application; a reload resolves symbolic links "
            "again", type="str | os.PathLike[str] | None", call=
            "change to this folder, in which modules are found. A symbolic link there is followed anew by "
            "the workers that SIGHUP starts"),
        Option("app_dir", (), "DIR", COMMAND, text=
            "look for modules in this directory, too; may be repeated"),
        Option("env_file", None, "FILE", COMMAND, text=
            "set the environment variables of this file that are not set yet, before importing the "
            "application (needs syncless[env])"),
        Option("root_path", "", "/PATH", APPLICATION, text=
            "path at which clients see the application, if a proxy strips it: SCRIPT_NAME, root_path", call=
            "path of the application for its clients, which a proxy takes away from what it sends on"),
        Option("lifespan", "auto", where=APPLICATION, choices=LIFESPANS, text=
            "lifespan events of an ASGI application: auto (default), on (it must have them) or off"),
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
            "preceded by http:// or https:// if you need both; with port 0 the system chooses one; may be "
            "repeated (default: the sockets that systemd passes, else 127.0.0.1:8000)",
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
            "accept a connection only when its first bytes have come (Linux TCP_DEFER_ACCEPT)"),
    ),
    "TLS": (
        Option("certfile", None, "FILE", text=
            "serve HTTPS with this PEM certificate chain (and private key, without --keyfile)", call=
            "a PEM file of the certificate chain, and of the private key without `keyfile`"),
        Option("keyfile", None, "FILE", text="private key of the certificate"),
        Option("key_password_file", None, "FILE", COMMAND, text=
            "file whose first line is the password of the private keys"),
        Option("key_password", None, word=None, call="password of the private keys"),
        Option("certificates", {}, "NAME=CERT[,KEY]", word="--certificate", read=certificate, text=
            "another certificate for clients that ask for NAME; may be repeated",
            type="Mapping[str, Files] | None = None", call=
            'more certificates by the host name that the client asks for, {"example.org": (cert, key)}'),
        Option("client_ca", None, "FILE", text=
            "require client certificates signed by one of these PEM authorities"),
        Option("ciphers", None, "LIST", text=
            "cipher suites of TLS 1.2 in OpenSSL's notation (default: Mozilla's intermediate list)"),
        Option("tls_minimum", "1.2", "VERSION", text="oldest version of TLS, 1.2 or 1.3 (default 1.2)"),
        Option("ssl_context", None, word=None,
            type="ssl.SSLContext | Callable[[], ssl.SSLContext] | None", call=
            "instead of all these, an SSLContext or a callable that makes one"),
        Option("reload_certificates", False, where=COMMAND, text=
            "read the certificates again when one of their files changes, as SIGHUP does (needs "
            "syncless[reload])"),
        Option("plain_http", False, text="also answer plain HTTP on the HTTPS port"),
        Option("http2", "tls", choices=PROTOCOLS, text=
            "speak HTTP/2 with clients that ask for it in the TLS handshake (tls, the default), also with "
            "those that begin with it without TLS (cleartext), or never (off)", call=
            '"tls" speaks HTTP/2 with clients that ask for it in the TLS handshake (ALPN), "cleartext" '
            'also with those that begin with it without TLS, "off" never (see docs/howto/http2.md)'),
    ),
    "static files": (
        Option("static", {}, "/PREFIX=DIR", read=static, text=
            "answer requests below this path with files of this directory; may be repeated",
            type="Paths | None = None", call=
            'directories of files by path prefix, {"/assets": "build/assets"}'),
        Option("static_max_age", 0, "SECONDS", read=int, text=
            "time that caches may use such a file without asking again (default 0)", type="float"),
    ),
    "compression": (
        Option("compress", None, "TYPES", bare="", text=
            "compress responses with gzip, and with br and zstd where their libraries are installed; "
            "TYPES are media types, such as text/html,text/css (default: all that gain from it)",
            type="bool | str | Iterable[str] = False", call=
            "True compresses responses of types that gain from it, with gzip, br or zstd; a string or "
            "list of media types compresses only those"),
        Option("compress_minimum", 1000, "BYTES", read=int, text=
            "do not compress smaller bodies (default 1000)"),
    ),
    "proxies": (
        Option("trusted", (), "PEER", text=
            "believe what this proxy says of its clients: address, network, unix or *; may be repeated",
            type="str | Iterable[str]", call=
            'trusted proxies, as addresses, networks, "unix" or "*"'),
        Option("trusted_fields", DEFAULT_FIELDS, "NAME", word="--trusted-field", text=
            "header field that the proxy sets; name all of them (default x-forwarded-for)",
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
            "no access log, whatever the configuration file says"),
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
        Option("slow_request", 0, "SECONDS", read=float, text=
            "log requests that take as long, with what they waited for (default 0: none)", type="float"),
        Option("request_ids", False, text=
            "give the application, its log records and the traces in logs the ID and the traceparent of "
            "each request: those of a trusted proxy, or new ones", call=
            "True gives each request its ID and traceparent, of a trusted proxy or new: for the application, "
            "in a context variable and in the logs (see docs/howto/logging.md)"),
        Option("log_level", None, where=COMMAND, choices=(*NAMED,), text=
            "least severe entries of the error log (default: all); from warning on, print no addresses"),
        Option("logging", None, where=PROGRAM, word=None, type="Mapping[str, Any] | None", call=
            "a dict for `logging.config.dictConfig`. Errors go to the logger `syncless.error` if it has a "
            "handler"),
        Option("quiet", False, where=PROGRAM, short="-q", text=
            "print no addresses, and log no events of the server", call=
            "print no addresses, and log neither events of the server nor warnings that the application "
            "blocks"),
    ),
    "operating": (
        Option("status", None, "ADDRESS", PROGRAM, text=
            "serve a status page, JSON and health checks at this local address: 127.0.0.1:port or "
            "unix:/path", call=
            "an address of this machine for a status page, JSON and health checks (see "
            "docs/howto/operating.md)"),
        Option("status_public", False, where=PROGRAM, text=
            "allow addresses of --status and --metrics that other machines can reach; they see paths, "
            "clients' addresses and stacks", call=
            "allow any address"),
        Option("health", None, "WHERE", PROGRAM, text=
            "serve /livez and /readyz and nothing else: on this address, which other machines may reach, "
            "or below this /path of the main addresses", call=
            "an address for the health checks alone, or a path of the main addresses, below which they "
            "are"),
        Option("metrics", None, "WHERE", PROGRAM, bare="", text=
            "serve metrics for Prometheus: at /metrics of the status address, on another address, or at "
            "this /path of the main addresses (needs syncless[metrics])", type="bool | str | None", call=
            "for Prometheus, True at /metrics of the status address, or an address or a path of their own"),
    ),
    "processes": (
        Option("workers", 0, "N", PROGRAM, short="-w", read=number_of_workers, text=
            "number of worker processes, or auto: one for each processor that they may use (default 0: "
            "serve from this process)", type='int | Literal["auto"]', call=
            'number of worker processes (0: serve from this process), or "auto": one for each processor '
            'that they may use'),
        Option("preload", False, where=PROGRAM, text="import the application once, before the workers start"),
        Option("reload", False, where=COMMAND, text=
            "start new workers when a Python or TOML file below the working directory changes"),
        Option("reload_path", (), "PATH", COMMAND, text=
            "also reload when any file below this path changes; may be repeated"),
        Option("user", None, "USER", PROGRAM, short="-u", text=
            "switch to this user once sockets and files are open (needs root)",
            type="str | int | None", call=
            "user of the serving process once its sockets and files are open, if it was started by root "
            "(with workers, the master stays root)"),
        Option("group", None, "GROUP", PROGRAM, short="-g", text=
            "switch to this group, too (default: the user's)", type="str | int | None"),
        Option("umask", None, "MASK", PROGRAM, short="-m", read=octal, text=
            "umask of the process, octal, for example 027", type="int | None", call=
            "umask of the process, for example 0o027"),
        Option("hooks", {}, "NAME=MODULE:FUNCTION", PROGRAM, word="--hook", read=hook, text=
            "a function to call; NAME is on_start, post_fork, pre_request, post_request, pre_stop or "
            "worker_exit", type="Mapping[str, Hook | str] | None = None", call=
            'functions, or "module:function", for on_start, post_fork, pre_request, post_request, '
            'pre_stop and worker_exit (see docs/howto/hooks.md)'),
        Option("pid_file", None, "FILE", PROGRAM, text="write the process ID to this file",
            type="str | os.PathLike[str] | None"),
        Option("multiprocess", False, word=None),
    ),
    "patch of the standard library": (
        Option("no_patch", False, where=ONCE, text=
            "do not patch the standard library: a call that waits holds up all requests"),
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
