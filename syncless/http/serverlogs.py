"""The logs of a server: its access log, if it has one, and its error log; opened, opened anew, closed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from syncless._core.outlet import Outlet, is_plain, standard
from syncless._core.tasklet import sleep
from syncless.http.accesslog import LAST_SECONDS, LogFile, LogWriter, make_log
from syncless.http.loglines import AccessLog


class Logs:
    """Logs(access_log, access_log_format, error_log): the options of these names. ValueError for a format
    with an unknown atom."""

    def __init__(
        self,
        access_log: bool | str | os.PathLike[str] | TextIO | None,
        access_log_format: str | Mapping[str, str],
        error_log: str | os.PathLike[str] | TextIO | None,
    ):
        self._access_log = access_log
        self._access_log_format = access_log_format
        self._error_log = error_log
        if access_log:
            make_log(access_log_format)  # a wrong atom is told now
        self._writer: LogWriter | None = None
        self._error_file: LogFile | None = None
        """Where the error log is a path."""
        self.errors: Any = sys.stderr
        """The stream of the error log."""

    @property
    def access(self) -> AccessLog | None:
        return self._writer.log if self._writer else None

    def open(self) -> None:
        """OSError if a file cannot be opened."""
        to = self._error_log
        if isinstance(to, (str, os.PathLike)):
            self._error_file = LogFile(to)
            self.errors = Outlet(self._error_file.stream)
        else:
            self.errors = standard("stderr") if to is None else Outlet(to) if is_plain(to) else to
        if self._access_log:
            file = LogFile(sys.stdout if self._access_log is True else self._access_log)
            self._writer = LogWriter(make_log(self._access_log_format), file)

    def reopen(self) -> None:
        """Opens log files anew, by their paths. OSError if one cannot be opened; the old one stays then."""
        if self._writer is not None:
            self._writer.reopen()
        if self._error_file is not None:
            self._error_file.reopen()
            self.errors.stream = self._error_file.stream

    def close(self) -> None:
        """Writes the rest, waiting for LAST_SECONDS at most."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if isinstance(self.errors, Outlet):
            ends = time.monotonic() + LAST_SECONDS
            while self.errors.pending and time.monotonic() < ends:
                sleep(0.005)
        if self._error_file is not None:
            self.errors.close()
            self._error_file.close()
            self._error_file = None

    def leave_to_parent(self) -> None:
        """In a child after fork: the access log's tasklet and what it holds back are the parent's."""
        self._writer = None
