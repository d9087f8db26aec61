"""The access log: formats, and a writer that never blocks the loop.

loglines.pyx formats the lines, and an OS thread writes them in blocks, at most half a second later. A log
that cannot be written (full disk, closed stream, a pipe that nobody reads) never disturbs a request: its
lines are dropped and counted, which is reported once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

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


class Atom(NamedTuple):
    """An atom of a format, and what replaces it in a log line."""

    text: str
    """For people."""
    kind: str
    """To loglines.pyx. "variable" and "field": of the request. "exchange": an attribute of its Exchange."""
    key: Any = None
    """Which one. A function: it makes the key of what stands in the braces."""


ATOMS = {
    "%h": Atom("the client's address", "variable", "REMOTE_ADDR"),
    "%a": Atom("the same", "variable", "REMOTE_ADDR"),
    "%l": Atom("REMOTE_IDENT", "variable", "REMOTE_IDENT"),
    "%u": Atom("REMOTE_USER", "variable", "REMOTE_USER"),
    "%t": Atom("the time of the response", "stamp"),
    "%{format}t": Atom("the same, in strftime's format", "strftime", str),
    "%r": Atom("the request line: method, percent-encoded path, query, version", "request line"),
    "%m": Atom("method", "variable", "REQUEST_METHOD"),
    "%U": Atom("path", "path"),
    "%q": Atom("query, with its question mark", "query"),
    "%H": Atom("version of the protocol", "variable", "SERVER_PROTOCOL"),
    "%s": Atom("status, also as `%>s`", "status"),
    "%b": Atom("bytes of the body, `-` for none", "body bytes"),
    "%B": Atom("bytes of the body, `0` for none", "body bytes, a number"),
    "%D": Atom("microseconds from the arrival of the head to the end of the response", "duration", 1000),
    "%T": Atom("the same in seconds", "duration", 1000000000),
    "%{s}T": Atom("the same", "duration", 1000000000),
    "%{ms}T": Atom("the same in milliseconds", "duration", 1000000),
    "%{us}T": Atom("the same in microseconds", "duration", 1000),
    "%Q": Atom(
        "microseconds from the `X-Request-Start` of a trusted proxy to the start of the request, `-` without",
        "exchange",
        "queue_seconds",
    ),
    "%v": Atom("SERVER_NAME", "variable", "SERVER_NAME"),
    "%V": Atom("the Host field", "field", "host"),
    "%p": Atom("SERVER_PORT", "variable", "SERVER_PORT"),
    "%P": Atom("the process ID", "process"),
    "%L": Atom("the request ID, which is also in the error log", "exchange", "id"),
    "%{trace}L": Atom("the trace ID of its traceparent, with `request_ids`", "exchange", "trace_id"),
    "%X": Atom(
        "the end of the response: `X` if it was cut off (by an error, or because the client left), `+` if "
        "the connection stays open, `-` if it is closed; `ending` in `json`",
        "exchange",
        "ending",
    ),
    "%{Name}i": Atom("a header field of the request", "field", str.lower),
    "%{Name}o": Atom("a header field of the response", "response field", str.lower),
    "%{NAME}e": Atom("a variable of the request, as a CGI program would get it", "variable", str),
}
"""Apache's atoms (mod_log_config), and some of our own."""
TAKING = {name[-1]: atom for name, atom in ATOMS.items() if callable(atom.key)}
"""Those whose braces may have anything, by their letter."""


def _atom(argument: str | None, letter: str) -> tuple[str, Any]:
    name = f"%{letter}" if argument is None else f"%{{{argument}}}{letter}"
    atom = ATOMS.get(name) or (None if argument is None else TAKING.get(letter))
    if atom is None:
        plain = " ".join(name for name in ATOMS if "{" not in name)
        others = ", ".join(name for name in ATOMS if "{" in name)
        raise ValueError(f"unknown atom {name}; choose from {plain} and {others}")
    if atom.kind == "process":
        return "literal", str(os.getpid()).encode()
    return atom.kind, atom.key(argument) if callable(atom.key) else atom.key


def make_log(format: str | Mapping[str, str] = "combined") -> AccessLog:
    """Return the log of a format: a name of FORMATS, a string with Apache's atoms, or a mapping of JSON keys
    to one atom each.

    Raise ValueError if an atom is unknown; the message names it.
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
    """Writes the buffered lines of an AccessLog in an OS thread, so that a slow disk or a full pipe does not
    block requests. ``errors`` is the error log of the same server."""

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
                self._errors.warning(f"cannot write the access log ({error}); its lines are dropped")
        if self.log.dropped != self._dropped:
            missing = self.log.dropped - self._dropped
            self._errors.warning(f"the access log was too slow; {missing} lines were dropped")
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
        """Write the buffered lines to the old file, then open the path again."""
        self._reopen = True
        self.log.something.set()
        self.log.full.set()

    def flush(self) -> None:
        """Make the thread write the buffered lines soon."""
        self.log.something.set()
        self.log.full.set()

    def close(self) -> None:
        """Write the remaining lines, for at most LAST_SECONDS."""
        self._closing = True
        self.flush()
        with Timeout(LAST_SECONDS, False):
            self._tasklet.join()
        if not self._tasklet.done():
            self._tasklet.kill()
        self.file.close()
