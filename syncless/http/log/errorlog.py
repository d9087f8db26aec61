"""The error log: entries with their time, process, level and request.

The log accepts messages and exceptions of the server and its requests, and text of applications (as a text
stream). It writes lines to a stream, or records to the logger ``syncless.error`` if that has a handler. Text
from clients is escaped, and only the first line of an entry begins at the margin, so that nobody can forge an
entry. Writing an entry never fails, and never waits for a file, a pipe, a socket or a terminal. Handlers and
streams of the program may wait, so entries of the loop itself are passed to them in a tasklet.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from syncless._core.current import current, directly, sleep
from syncless._core.loop import checked
from syncless._core.nonblockingtext import LAST_SECONDS, NonblockingText, is_plain, standard
from syncless._core.tasklet import where_it_may_wait
from syncless.http.errors import require_one_of
from syncless.http.log.notices import visible
from syncless.io.guardedfiles import Owner, append_to, is_privileged

LOGGER = "syncless.error"
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
LEVELS = {DEBUG: "DEBUG", INFO: "INFO", WARNING: "WARNING", ERROR: "ERROR"}
"""As the module logging has them, which is not imported for that."""
FORMATS = ("text", "json")
CRITICAL = 50  # there are no such entries: with this one none is written
NAMED = {
    "trace": DEBUG,
    "debug": DEBUG,
    "info": INFO,
    "warning": WARNING,
    "error": ERROR,
    "critical": CRITICAL,
}
_least = DEBUG


def write_from(name: str) -> bool:
    """Hide entries less severe than this level of NAMED in this process and its workers. Return whether INFO
    entries are still written."""
    global _least
    _least = NAMED[name]
    return _least <= INFO


class LogFile:
    """A file opened for appending, which can be reopened after it was renamed (logrotate), or a stream of the
    program. ``owner`` becomes the owner of the file if this process runs as root."""

    def __init__(self, to: str | os.PathLike[str] | TextIO, owner: Owner | None = None):
        self._owner = owner
        self.path = os.path.abspath(to) if isinstance(to, (str, os.PathLike)) else None
        self.stream: Any = self._open() if self.path else to

    def _open(self) -> Any:
        return open(
            str(self.path),
            "a",
            encoding="utf-8",
            errors="backslashreplace",
            opener=lambda path, flags: append_to(path, flags, self._owner),
        )

    def write(self, text: str) -> None:
        self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        try:
            return bool(self.stream.isatty())
        except (AttributeError, ValueError):  # no file, or closed
            return False

    def reopen(self) -> None:
        """Continue in the file that has the path now. Raise OSError if the file cannot be opened, and keep
        the old one."""
        if self.path:
            old, self.stream = self.stream, self._open()
            old.close()

    def close(self) -> None:
        if self.path:
            try:
                self.stream.close()
            except OSError:
                pass  # the failed write has been reported


class ErrorLog:
    """Writes entries to a file (by path), to a text stream, or to stderr (None). Writing to a plain file or
    stream never waits.

    The log is also a text stream for applications: their text is written unchanged, or in JSON as one entry
    per line.
    """

    def __init__(
        self,
        to: str | os.PathLike[str] | TextIO | None = None,
        format: str = "text",
        owner: Owner | None = None,
    ):
        self.json = check_format(format) == "json"
        if self.json:
            _json()  # now: an entry must not wait until another tasklet has imported it
        self._file: LogFile | None = None
        """Where it has a path."""
        self.stream: Any = to
        if isinstance(to, (str, os.PathLike)):
            self._file = LogFile(to, owner)
            self.stream = NonblockingText(self._file.stream)
        elif to is None:
            self.stream = standard("stderr") or _Nowhere()
        elif is_plain(to):
            self.stream = NonblockingText(to)
        self._begun = ""
        self._told: set[str] = set()
        self.also: Callable[[int, str, BaseException | None, Any], object] | None = None
        """Called with the level, message, error and request of each entry; it must not wait."""

    # -- entries --------------------------------------------------------------------------------------

    def error(self, message: str, error: BaseException | None = None, request: Any = None) -> None:
        self.entry(ERROR, message, error, request)

    def warning(self, message: str, request: Any = None) -> None:
        self.entry(WARNING, message, None, request)

    def warn_once(self, message: str) -> None:
        """Log a warning once, even if several addresses or applications of a server cause it."""
        if message not in self._told:
            self._told.add(message)
            self.warning(message)

    def info(self, message: str, request: Any = None) -> None:
        self.entry(INFO, message, None, request)

    def entry(
        self,
        level: int,
        message: str,
        error: BaseException | None,
        request: Any,
        rows: Sequence[str] = (),
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an entry. ``request`` is its subject, with an `id`, a `trace_id` and a `client`, or None.
        ``rows`` follow the message; in JSON, ``fields`` do."""
        if level < _least:
            return
        try:
            about = {} if request is None else {"request_id": request.id, "client": request.client}
            if request is not None and request.trace_id is not None:
                about["trace_id"] = request.trace_id
            whole = "\n  ".join([message, *rows])
            if self.also is not None:
                self.also(level, whole, error, request)
            if _is_handled():
                where_it_may_wait(self._log, level, visible(whole, "\n\t"), error, about)
                return
            if self.json:
                text = directly(self._as_json, level, message, error, {**about, **(fields or {})})
            else:
                text = directly(_as_text, level, whole, error, about)
            if isinstance(self.stream, NonblockingText):
                self.stream.write(text)
            else:
                where_it_may_wait(self._write, text)
        except OSError:
            pass  # a full disk must not take the server down
        except Exception:
            if checked:  # nor must a broken handler, or a mistake of ours; but a debug build says so
                raise

    def _log(self, level: int, message: str, error: BaseException | None, about: dict[str, str]) -> None:
        """Log to the handlers of the program, which may wait."""
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        extra = {"request_id": None, "client": None, "trace_id": None, **about}
        logger = sys.modules["logging"].getLogger(LOGGER)
        logger.log(level, "%s", message, exc_info=exc_info, extra=extra)

    def _write(self, text: str) -> None:
        """Write to a stream of the program, which may wait."""
        with suppress(OSError):  # a full disk must not take the server down
            self.stream.write(text)
            self.stream.flush()

    @staticmethod
    def _as_json(level: int, message: str, error: BaseException | None, about: dict[str, Any]) -> str:
        now = time.time()
        record: dict[str, Any] = {
            "time": f"{_date(now, 'T')}.{int(now % 1 * 1000):03}{_zone(now)}",
            "level": LEVELS[level],
            "pid": os.getpid(),
            **about,
            "message": message,
        }
        if error is not None:
            record["traceback"] = stack_of(error)
        return str(_json().dumps(record)) + "\n"

    def reopen(self) -> None:
        """Continue in the file that has the path now. Raise OSError if the file cannot be opened, and keep
        the old one."""
        if self._file is not None:
            self._file.reopen()
            self.stream.stream = self._file.stream

    def close(self, *, hold: bool = False) -> None:
        """Wait until the last lines are written, for at most LAST_SECONDS, and close the file if the log
        opened it. With ``hold``, block the thread meanwhile, because there is no loop."""
        if isinstance(self.stream, NonblockingText):
            ends = time.monotonic() + LAST_SECONDS
            while not hold and self.stream.pending and time.monotonic() < ends:
                sleep(0.005)
            self.stream.drain()
        if self._file is not None:
            self.stream.close()
            self._file.close()

    # -- a text stream --------------------------------------------------------------------------------

    def write(self, text: str) -> int:
        if not self.json and not _is_handled():
            return int(self.stream.write(text) or len(text))
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self.error(line, None, running_request())
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:
        return str(self.stream.encoding)


def check_format(format: str) -> str:
    """Return the format. Raise ValueError if it is unknown."""
    require_one_of("error_log_format", format, FORMATS)
    return format


def _as_text(level: int, message: str, error: BaseException | None, about: dict[str, str]) -> str:
    now = time.time()
    told = message if error is None else f"{message}\n{stack_of(error)}"
    ids = f"[{visible(' '.join(about.values()))}] " if about else ""
    lines = visible(told, "\n\t").rstrip("\n").split("\n")
    head = f"[{_date(now, ' ')} {_zone(now)}] [{os.getpid()}] [{LEVELS[level]}] {ids}"
    return "\n  ".join([head + lines[0], *lines[1:]]) + "\n"


def _json() -> Any:
    import json  # not everybody needs it

    return json


def stack_of(error: BaseException) -> str:
    """Return the traceback as text."""
    try:
        import traceback  # not everybody needs it
    except RuntimeError:  # another tasklet is just importing it, and this one must not wait
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))


def _date(now: float, between: str) -> str:
    return time.strftime(f"%Y-%m-%d{between}%H:%M:%S", time.localtime(now))


def _zone(now: float) -> str:
    return time.strftime("%z", time.localtime(now))


def running_request() -> Any:
    """Return the request in whose tasklet this is called, or None."""
    tasklet = current()
    return tasklet if hasattr(tasklet, "client_gone") else None


# -- logging ------------------------------------------------------------------------------------------


def configure(settings: Mapping[str, Any] | None, owner: Owner | None = None) -> None:
    """Configure the module `logging` with the arguments of `logging.config.dictConfig`; ``version`` defaults
    to 1, and other loggers stay enabled. Its files are opened as ours are, for the same owner. Raise
    ValueError on failure."""
    if settings is None:
        return
    import logging  # not everybody needs it
    from logging.config import dictConfig

    def guarded(file: str, mode: str, **named: Any) -> Any:
        return open(file, mode, **named, opener=lambda path, flags: append_to(path, flags, owner))

    if is_privileged():
        logging.open = guarded  # type: ignore[attr-defined]  # what a FileHandler keeps when it is made
    try:
        dictConfig({"version": 1, "disable_existing_loggers": False, **settings})
    except (ValueError, TypeError, AttributeError, ImportError, OSError) as error:
        why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise ValueError(f"cannot configure logging: {why}") from None
    finally:
        vars(logging).pop("open", None)


def _is_handled() -> bool:
    """Return whether our logger or its parent has a handler from the program. Handlers of the root logger do
    not count: they are meant for other entries."""
    logging = sys.modules.get("logging")
    return logging is not None and any(logging.getLogger(name).handlers for name in ("syncless", LOGGER))


# -- this process -------------------------------------------------------------------------------------

_open: list[ErrorLog] = []


def use(log: ErrorLog) -> None:
    """From now on, send entries that belong to no server of this process to `log`."""
    _open.append(log)


def forget(log: ErrorLog) -> None:
    """Stop sending such entries to `log`."""
    if log in _open:
        _open.remove(log)


def process_log() -> ErrorLog:
    """Return the log of this process: that of the most recently started server that still runs, or stderr."""
    return _open[-1] if _open else ErrorLog()


def warn(message: str) -> None:
    """Log an entry about the process, not about a request."""
    process_log().warning(message)


def inform(message: str) -> None:
    """Log an event in the life of the process."""
    process_log().info(message)


class _Nowhere:
    """A substitute for a missing stderr."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass
