"""Opens, reopens and closes the logs of a server: its error log, and its access log if it has one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from syncless.http.log.accesslog import LogWriter, make_log
from syncless.http.log.errorlog import ErrorLog, LogFile, check_format, forget, use
from syncless.http.log.loglines import AccessLog
from syncless.io.guardedfiles import Owner, append_to, of_argument


class Logs:
    """Logs(access_log, access_log_format, error_log, error_log_format): the arguments are the options of
    these names. Raise ValueError if a format is unknown or has an unknown atom."""

    def __init__(
        self,
        access_log: bool | str | os.PathLike[str] | TextIO | None,
        access_log_format: str | Mapping[str, str],
        error_log: str | os.PathLike[str] | TextIO | None,
        error_log_format: str = "text",
    ):
        self._access_log = access_log
        self._access_log_format = access_log_format
        self._error_log = error_log
        self._error_log_format = check_format(error_log_format)
        if access_log:
            make_log(access_log_format)  # a wrong atom is told now
        self._writer: LogWriter | None = None
        self.owner: Owner | None = None
        """Whose the files are to be; set before they are opened."""
        self.errors: Any = None
        """The ErrorLog, while it is open."""

    @property
    def access(self) -> AccessLog | None:
        return self._writer.log if self._writer else None

    def make_files(self) -> None:
        """Make the files, so that their owner can open them. Raise OSError on failure."""
        for name, to in (("access_log", self._access_log), ("error_log", self._error_log)):
            if isinstance(to, (str, os.PathLike)):
                with of_argument(name):
                    os.close(append_to(to, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self.owner))

    def open(self) -> None:
        """Open the logs. Raise OSError if a file cannot be opened."""
        self.open_errors()
        if self._access_log:
            with of_argument("access_log"):
                file = LogFile(sys.stdout if self._access_log is True else self._access_log, self.owner)
            self._writer = LogWriter(make_log(self._access_log_format), file, self.errors)

    def open_errors(self) -> None:
        """Open only the error log, and make it the log of the process. Raise OSError if its file cannot be
        opened."""
        with of_argument("error_log"):
            self.errors = ErrorLog(self._error_log, self._error_log_format, self.owner)
        use(self.errors)

    def close_errors(self, *, hold: bool = False) -> None:
        """Close the error log (see `ErrorLog.close`)."""
        if self.errors is not None:
            forget(self.errors)
            self.errors.close(hold=hold)
            self.errors = None

    def reopen(self) -> None:
        """Reopen the log files by their paths. Raise OSError if a file cannot be opened, and keep the old
        one."""
        if self._writer is not None:
            self._writer.reopen()
        if self.errors is not None:
            self.errors.reopen()

    def close(self) -> None:
        """Write the remaining lines, for at most LAST_SECONDS."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self.close_errors()

    def leave_to_parent(self) -> None:
        """Forget the access log in a child after a fork: its tasklet and its buffered lines belong to the
        parent."""
        self._writer = None
