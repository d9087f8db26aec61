"""The access log: formats, and a writer that never holds up the loop.

Lines are put together by loglines.pyx and written in blocks by an OS thread, half a second later at most. A
log that cannot be written (full disk, closed stream, a pipe that nobody reads) never disturbs a request: its
lines are dropped and counted, and that is said once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from syncless._core.calls.threads import run_in_thread
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.timeout import Timeout
from syncless.http.log.errorlog import ErrorLog, LogFile
from syncless.http.log.loglines import AccessLog

FLUSH_SECONDS = 0.5
"""For which a line is held back at most, unless it goes to a terminal."""
LAST_SECONDS = 2.0
"""For which a stopping server waits for its last lines to be written."""

COMBINED = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"'
FORMATS: dict[str, str | dict[str, str]] = {
    "combined": COMBINED,
    "common": '%h %l %u %t "%r" %>s %b',
    "json": {
        "time": "%t",
        "remote_addr": "%h",
        "user": "%u",
        "method": "%m",
        "path": "%U",
        "query": "%q",
        "protocol": "%H",
        "status": "%>s",
        "bytes": "%B",
        "duration_us": "%D",
        "ending": "%X",
        "host": "%{Host}i",
        "referer": "%{Referer}i",
        "user_agent": "%{User-Agent}i",
    },
}
"""Names that can be given instead of a format."""

ATOM = re.compile(r"%(?:%|[<>]?(?:\{([^}]*)\})?([a-zA-Z]))")
PLAIN: dict[str, tuple[str, Any]] = {
    "h": ("client", None),
    "a": ("client", None),
    "l": ("ident", None),
    "u": ("user", None),
    "t": ("stamp", None),
    "r": ("request line", None),
    "s": ("status", None),
    "b": ("body bytes", None),
    "B": ("body bytes, a number", None),
    "m": ("method", None),
    "U": ("path", None),
    "q": ("query", None),
    "H": ("version", None),
    "v": ("server name", None),
    "V": ("host", None),
    "p": ("server port", None),
    "L": ("request id", None),
    "X": ("ending", None),
    "Q": ("queue time", None),
    "D": ("duration", 1000),
    "T": ("duration", 1000000000),
}
"""Apache's letters (mod_log_config), and their meaning to loglines.pyx."""
ATOMS = {
    "%h": "the client's address",
    "%a": "the same",
    "%l": "REMOTE_IDENT",
    "%u": "REMOTE_USER",
    "%t": "the time of the response",
    "%{format}t": "the same, in strftime's format",
    "%r": "the request line: method, percent-encoded path, query, version",
    "%m": "method",
    "%U": "path",
    "%q": "query, with its question mark",
    "%H": "version of the protocol",
    "%s": "status, also as `%>s`",
    "%b": "bytes of the body, `-` for none",
    "%B": "bytes of the body, `0` for none",
    "%D": "microseconds from the arrival of the head to the end of the response",
    "%T": "the same in seconds; also `%{ms}T` and `%{us}T`",
    "%Q": "microseconds from the `X-Request-Start` of a trusted proxy to the request's begin, `-` without",
    "%v": "SERVER_NAME",
    "%V": "the Host field",
    "%p": "SERVER_PORT",
    "%P": "the process ID",
    "%L": "the request ID, which is also in the error log",
    "%{trace}L": "the trace ID of its traceparent, with `request_ids`",
    "%X": "the end of the response: `X` if it was cut off (by an error, or because the client left), `+` if "
    "the connection is kept, `-` if it is closed; `ending` in `json`",
    "%{Name}i": "a header field of the request",
    "%{Name}o": "a header field of the response",
    "%{NAME}e": "a variable of the request, as a CGI program would get it",
}
"""Each atom -> its meaning, for people."""


def _atom(argument: str | None, letter: str) -> tuple[str, Any]:
    if argument is None:
        if letter == "P":
            return "literal", str(os.getpid()).encode()
        if letter in PLAIN:
            return PLAIN[letter]
    elif letter == "i":
        return "field", argument.lower()
    elif letter == "o":
        return "response field", argument.lower()
    elif letter == "e":
        return "variable", argument
    elif letter == "t":
        return "strftime", argument
    elif letter == "L" and argument == "trace":
        return "trace id", None
    elif letter == "T" and argument in ("s", "ms", "us"):
        return "duration", {"s": 1000000000, "ms": 1000000, "us": 1000}[argument]
    raise ValueError(
        f"%{'' if argument is None else '{' + argument + '}'}{letter} is not an atom; choose from "
        f"{' '.join('%' + known for known in PLAIN)} %P and "
        "%{Name}i, %{Name}o, %{NAME}e, %{format}t, %{ms}T, %{trace}L"
    )


def make_log(format: str | Mapping[str, str] = "combined") -> AccessLog:
    """The log of a format: a name of FORMATS, a string with Apache's atoms, or a mapping of JSON keys to one
    atom each.

    ValueError says which atom is unknown.
    """
    chosen = FORMATS.get(format, format) if isinstance(format, str) else format
    atoms: list[tuple[str, Any]] = []
    if isinstance(chosen, str):
        done = 0
        for match in ATOM.finditer(chosen):
            atoms.append(("literal", chosen[done : match.start()].encode()))
            atoms.append(("literal", b"%") if match[0] == "%%" else _atom(match[1], match[2]))
            done = match.end()
        atoms.append(("literal", (chosen[done:] + "\n").encode()))
        if "%" in ATOM.sub("", chosen):
            raise ValueError(
                f"a single % in the access log's format {chosen!r}; write %% for the sign itself"
            )
        return AccessLog([atom for atom in atoms if atom[1] != b""], False)
    before = "{"
    for key, text in chosen.items():
        found = ATOM.fullmatch(text)
        if not found or text == "%%":
            raise ValueError(
                f"the value of {key!r} in the access log's format must be one atom, not {text!r}"
            )
        escaped = key.replace("\\", "\\\\").replace('"', '\\"')
        kind, value = _atom(found[1], found[2])
        if kind == "literal":  # the process number
            atoms.append(("literal", f'{before}"{escaped}":'.encode() + value))
        else:
            atoms += [("literal", f'{before}"{escaped}":'.encode()), (kind, value)]
        before = ","
    atoms.append(("literal", b"}\n"))
    return AccessLog(atoms, True)


class LogWriter:
    """Writes what an AccessLog holds back, in an OS thread, so that a slow disk or a full pipe stops no
    request. ``errors``: of the same server."""

    def __init__(self, log: AccessLog, file: LogFile, errors: ErrorLog):
        self.log = log
        self.file = file
        self._errors = errors
        self._watched = file.isatty()
        self._failed = False
        self._dropped = 0
        self._closing = False
        self._reopen = False
        self._tasklet: Tasklet[Any] = spawn(self._run)
        self._tasklet.name = "access log"

    def _run(self) -> None:
        closing = False
        while not closing:
            self.log.something.wait()
            if not self._closing and not self._reopen and not self._watched:
                self.log.full.wait(FLUSH_SECONDS)
            closing = self._closing  # lines that came while the last block was written are still to be taken
            self._write()

    def _write(self) -> None:
        block = self.log.take()
        reopen, self._reopen = self._reopen, False
        if not block and not reopen:
            return
        try:
            run_in_thread(self._write_block, block, reopen)
        except (OSError, ValueError) as error:
            if not self._failed:
                self._failed = True
                self._errors.warning(f"the access log cannot be written ({error}); its lines are dropped")
        if self.log.dropped != self._dropped:
            missing = self.log.dropped - self._dropped
            self._errors.warning(f"the access log was too slow; {missing} lines are dropped")
            self._dropped = self.log.dropped

    def _write_block(self, block: bytes, reopen: bool) -> None:
        try:
            if block:
                self.file.write(block.decode("utf-8", "backslashreplace"))
                self.file.flush()
        finally:
            if reopen:
                self.file.reopen()

    def reopen(self) -> None:
        """Writes the lines that are held back to the old file, then opens the path anew."""
        self._reopen = True
        self.log.something.set()
        self.log.full.set()

    def flush(self) -> None:
        """Writes what is held back now, soon."""
        self.log.something.set()
        self.log.full.set()

    def close(self) -> None:
        """Writes the rest, waiting for LAST_SECONDS at most."""
        self._closing = True
        self.flush()
        with Timeout(LAST_SECONDS, False):
            self._tasklet.join()
        if not self._tasklet.done():
            self._tasklet.kill()
        self.file.close()
