"""The sources of options besides the command line: a TOML file and the environment.

The source nearest to the user wins: the command line, then ``SYNCLESS_*`` variables, then the file, then
``PORT`` and ``WEB_CONCURRENCY``, which a platform sets for every program, then the defaults. The keys are the
names of the options, see server/options.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from syncless.http.limits import defaults
from syncless.http.log.notices import complain
from syncless.io.guardedfiles import readable
from syncless.patches import AREAS
from syncless.server.options import ALL, ONCE, Option, closest, limit_value, number_of_workers, value_of

FILES = ("syncless.toml", "pyproject.toml")
"""Looked for in the working directory unless a file is named. The first file with options is used."""
VARIABLES = {
    "SYNCLESS_NAME": "sets the option NAME: `SYNCLESS_WORKERS=4`; lists are separated by commas",
    "SYNCLESS_LIMIT_NAME": "sets the limit NAME: `SYNCLESS_LIMIT_HEAD_SECONDS=5`",
    "SYNCLESS_CONFIG": "path of the configuration file, like `--config`",
    "SYNCLESS_CONSOLE": "`1`, or the path of a socket: `syncless console PID` (or the path) may attach",
    "SYNCLESS_LOOP": "`epoll` (default on Linux), `kqueue`, `poll` or `select`: how the loop waits",
    "SYNCLESS_RESOLVER": "`thread`: look up names with the C library, in OS threads",
    "SYNCLESS_CHUNK_CACHE": "`0`: unmap frame stacks as the interpreter does, instead of keeping them",
    "SYNCLESS_BUILD": "kind of build, read when syncless is built: `release` (default), `debug` or `asan`",
    "PORT": "port on all addresses, if no other source sets `--bind`",
    "WEB_CONCURRENCY": "number of workers, if no other source sets `--workers`",
    "SCRIPT_NAME": "path below which the application is mounted, with gunicorn's worker class only",
    "NO_COLOR": "not empty: no colours on a terminal",
    "TERM": "`dumb`: no colours on a terminal",
    "RES_OPTIONS": "options of the resolver, see resolv.conf(5)",
    "LD_LIBRARY_PATH": "folders in which `patch_native()` looks for libraries, see ld.so(8)",
    "LOCALDOMAIN": "search list of the resolver, see resolv.conf(5)",
    "LISTEN_PID": "set by systemd: the process that inherits the sockets",
    "LISTEN_FDS": "set by systemd: number of inherited sockets, from descriptor 3 on",
    "LISTEN_FDNAMES": "set by systemd: names of these sockets (not used)",
    "NOTIFY_SOCKET": "set by systemd: where the server reports that it is ready, reloads or stops",
    "WATCHDOG_USEC": "set by systemd: microseconds within which the server must report that it is alive",
    "WATCHDOG_PID": "set by systemd: the process that must report it",
    "XDG_RUNTIME_DIR": "directory for the sockets of `syncless console`",
}
"""Every environment variable that syncless reads -> its meaning."""
RESERVED = (
    *(name for name in VARIABLES if name.startswith("SYNCLESS_") and not name.endswith("_NAME")),
    "SYNCLESS_TEST_",
)
"""Prefixes of variables that set no option: they are read elsewhere."""
OF_A_BUILD = re.compile("SYNCLESS_HTTP2=[01]")
"""Says whether HTTP/2 is built, see setup.py; an image may keep it."""
OF_A_SERVICE = re.compile(
    r"_SERVICE_HOST=|_SERVICE_PORT(_\w+)?=|_PORT=\w+://|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?="
)
"""Found in the variables, NAME=VALUE, that Kubernetes and Docker set for a service. One of the name syncless
has variables with our prefix."""
OFFLOAD = "offload"
"""Key of the table [patch] that is no area: import paths."""
IN_FILES_ONLY = ("limits", "certificates", "hooks", "logging")
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
TABLES = {option.name: option.name for option in ALL if option.default == {}} | {
    "mounts": "mount",
    "areas": "patch",
}
"""Option with several items -> the table of a file that has them."""

Values = dict[str, Any]
"""Option -> value, in the form in which argparse gives it."""


MOST_BYTES = 1_000_000
"""Of a configuration file: nobody writes more, and /dev/zero has no end."""


class ConfigError(ValueError):
    """An error in the file or in a variable. The message says where, and what was probably meant."""


class Options:
    """The options that files and variables may set."""

    def __init__(self) -> None:
        self._known = {TABLES.get(each.name, each.name): each for each in ALL if each.where != ONCE}
        self.names = [*self._known, "patch", "logging"]

    def defaults(self) -> Values:
        values = {option.name: option.default for option in self._known.values()}
        lists = {name: [*value] for name, value in values.items() if isinstance(value, (tuple, dict))}
        return {**values, **lists, "areas": [], "patch": True, "logging": None}

    # -- a file --

    def from_file(self, path: str | None) -> tuple[Values, str]:
        """Return the options of that file, or of the first file in FILES that has options, and the file's
        name. Raise ConfigError or OSError on failure."""
        for name in FILES if path is None else (path,):
            try:
                with of_option("--config"):
                    text = text_of(name)
            except FileNotFoundError:
                if path is not None:
                    raise
                continue
            table = _read_toml(name, text)
            if os.path.basename(name) == "pyproject.toml":
                try:
                    table = _table(_table(table.get("tool", {})).get("syncless", {}))
                except ValueError as error:
                    raise ConfigError(f"{name}: tool.syncless: {error}") from None
            if table or path is not None:
                return self._from_table(table, name, text), name
        return {}, ""

    def _from_table(self, table: Mapping[str, Any], where: str, text: str) -> Values:
        values: Values = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            if name not in self.names:
                place = f"{where}{_line(text, key)}"
                raise ConfigError(f"{place}: unknown option {key!r}{nearest(name, self.names)}")
            try:
                values.update(self._convert(name, value))
            except (TypeError, ValueError) as error:
                inner = str(error).partition(":")[0] if isinstance(value, Mapping) else ""
                raise ConfigError(
                    f"{where}{_line(text, inner) or _line(text, key)}: {key}: {error}"
                ) from None
        return values

    def _convert(self, name: str, value: Any) -> Values:
        if name == "logging":
            return {"logging": dict(_table(value))}
        if name == "patch":
            if isinstance(value, bool):
                return {"patch": value}
            areas: list[tuple[str, Any]] = []
            for area, chosen in _table(value).items():
                if area == OFFLOAD:
                    chosen = [_is(str, path) for path in (chosen if isinstance(chosen, list) else [chosen])]
                elif area not in AREAS:
                    raise ValueError(f"unknown area {area!r}{nearest(area, AREAS)}")
                else:
                    _is(bool, chosen)
                areas.append((area, chosen))
            return {"areas": areas}
        if name == "compress" and not isinstance(value, str):
            if isinstance(value, list):
                return {"compress": ",".join(_is(str, kind) for kind in value)}
            return {"compress": "" if _is(bool, value) else None}
        if name == "access_log" and isinstance(value, bool):
            return {"access_log": "-" if value else None}
        option = self._known[name]
        if option.default == {}:
            return {option.name: _items(option, value)}
        if option.default is False:
            return {name: _is(bool, value)}
        if isinstance(option.default, tuple):
            return {name: [_scalar(option, one) for one in (value if isinstance(value, list) else [value])]}
        return {name: _scalar(option, value)}

    # -- the environment --

    def from_variables(self, environ: Mapping[str, str]) -> Values:
        """Return the options from SYNCLESS_* variables: commas separate the items of lists, switches are true
        or false, SYNCLESS_LIMIT_name sets a limit. An unknown name causes a warning: others may use the
        prefix, too. Raise ConfigError on failure."""
        values: Values = {}
        limits: dict[str, Any] = {}
        names = [*self.names, *(f"limit_{name}" for name in defaults())]
        for variable, text in environ.items():
            if not variable.startswith("SYNCLESS_") or variable.startswith(RESERVED):
                continue
            if OF_A_SERVICE.search(f"{variable}={text}") or OF_A_BUILD.fullmatch(f"{variable}={text}"):
                continue
            name = variable.removeprefix("SYNCLESS_").lower()
            try:
                if name in IN_FILES_ONLY:
                    raise ValueError(f"{name} cannot be set by a variable; use the configuration file")
                if name not in names:
                    near = closest(name, names)
                    advice = f"; did you mean SYNCLESS_{near.upper()}?" if near else ""
                    complain(f"the environment variable {variable} is unknown and has no effect{advice}")
                elif name.startswith("limit_"):
                    limits[name.removeprefix("limit_")] = limit_value(name.removeprefix("limit_"), text)
                else:
                    values.update(self._convert(name, self._parsed(name, text)))
            except (TypeError, ValueError) as error:
                why = str(error).removeprefix(f"{name.removeprefix('limit_')}: ")
                raise ConfigError(f"{variable}: {why}") from None
        if limits:
            values["limits"] = list(limits.items())
        return values

    def _parsed(self, name: str, text: str) -> Any:
        option = Option("patch", False) if name == "patch" else self._known[name]
        switch = name in ("access_log", "compress") and text.lower() in TRUE + FALSE
        if option.default is False or switch:
            if text.lower() not in TRUE + FALSE:
                raise ValueError(f"write true or false, not {text!r}")
            return text.lower() in TRUE
        if isinstance(option.default, (tuple, dict)):
            return [part.strip() for part in text.split(",")]
        return text


@contextlib.contextmanager
def of_option(name: str) -> Iterator[None]:
    """Put the option before the file name in errors that the block raises."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name} {error}") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{name} {error.filename}") from None


def reason_of(error: OSError) -> str:
    """Return the text of the error that users see."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def text_of(path: str) -> str:
    """Return the text of a file that the user has named: UTF-8, with or without a byte order mark. Raise
    ConfigError or OSError on failure."""
    with readable(path) as found, open(found, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: it has more than {MOST_BYTES:,} bytes; is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def from_platform(environ: Mapping[str, str]) -> Values:
    """Return the options from PORT and WEB_CONCURRENCY, which platforms such as Heroku set."""
    values: Values = {}
    port, workers = environ.get("PORT"), environ.get("WEB_CONCURRENCY")
    if port:
        if not (port.isascii() and port.isdecimal() and int(port) <= 65535):
            raise ConfigError(f"PORT: write a number from 0 to 65535, not {port!r}")
        values["bind"] = [f"0.0.0.0:{port}"]
    if workers:
        try:
            values["workers"] = number_of_workers(workers)
        except ValueError as error:
            raise ConfigError(f"WEB_CONCURRENCY: {error}") from None
    return values


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name."""
    found = closest(name, known := list(known))
    return f"; did you mean {found!r}?" if found else f"; choose from {', '.join(sorted(known))}"


def _limits(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: limit_value(name, value) for name, value in table.items()}


def _line(text: str, key: str) -> str:
    """Return ":" and the line number of the key in a TOML file, or "" if it is not found."""
    found = key and re.search(
        rf"^[ \t]*(?:\[[\w.]*)?[\"']?{re.escape(key)}[\"']?[ \t]*[=\].]", text, re.MULTILINE
    )
    return f":{text.count(chr(10), 0, found.start()) + 1}" if found else ""


def _read_toml(name: str, text: str) -> Mapping[str, Any]:
    """Return the parsed file. Raise ConfigError if the file is malformed."""
    try:
        import tomllib  # type: ignore[import-not-found]  # takes long to load
    except ImportError:  # it is there since Python 3.11
        import tomli as tomllib
    try:
        return tomllib.loads(text)  # type: ignore[no-any-return]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None


def _table(value: Any) -> Mapping[str, Any]:
    return _is(dict, value)  # type: ignore[no-any-return]


def _is(kind: type, value: Any) -> Any:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"write {words.get(kind, 'a table')}, not {value!r}")
    return value


def _scalar(option: Option, value: Any) -> Any:
    if option.name in ("user", "group", "workers") and type(value) in (int, bool):
        value = str(value)
    return value_of(option, value if option.read in (int, float) else _is(str, value))


def _items(option: Option, value: Any) -> list[tuple[str, Any]]:
    """Return the items of a table in a file, or of the list in a variable."""
    if isinstance(value, list):
        return [option.read(_is(str, one)) for one in value]
    rows = _limits(_table(value)) if option.name == "limits" else _table(value)
    if option.name in ("static", "native", "mounts"):
        return [(key, _is(str, one)) for key, one in rows.items()]
    return [(key, tuple(one) if isinstance(one, list) else one) for key, one in rows.items()]


def _leaves(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and of nested tables, with dotted keys."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{before}{json.dumps(key)}.")
        else:
            yield f"{before}{json.dumps(key)}", value


def show(values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """Return the options as the text of a syncless.toml, each with its source."""
    lines, tables = [], []
    for dest, value in values.items():
        name, source = TABLES.get(dest, dest), sources.get(dest, "default")
        if dest in TABLES:
            if value:
                rows = [f"{json.dumps(key)} = {json.dumps(one)}" for key, one in dict(value).items()]
                tables.append("\n".join([f"\n[{name}]  # {source}", *rows]))
        elif dest == "logging" and value:
            rows = [f"{key} = {json.dumps(one)}" for key, one in _leaves(value)]
            tables.append("\n".join([f"\n[{name}]  # {source}", *rows]))
        elif dest == "patch" and values.get("areas"):
            continue  # the table [patch] says it
        elif dest in ("unix_mode", "umask") and value is not None:
            lines.append(f'{name} = "{value:03o}"  # {source}')
        elif value is None:
            lines.append(f"# {name} is not set")
        else:
            lines.append(f"{name} = {json.dumps(value)}  # {source}")
    return "\n".join([*lines, *tables]) + "\n"
