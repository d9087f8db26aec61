"""A file that a log is appended to. accesslog.py and errorlog.py say what they write, and when."""

from __future__ import annotations

import os
from typing import Any, TextIO


class LogFile:
    """A file that is appended to and can be opened anew after it was renamed (logrotate), or a stream of
    somebody else's."""

    def __init__(self, to: str | os.PathLike[str] | TextIO):
        self.path = os.path.abspath(to) if isinstance(to, (str, os.PathLike)) else None
        self.stream: Any = self._open() if self.path else to

    def _open(self) -> Any:
        return open(str(self.path), "a", encoding="utf-8", errors="backslashreplace")

    def write(self, text: str) -> None:
        self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        """Whether somebody may be looking at it."""
        try:
            return bool(self.stream.isatty())
        except (AttributeError, ValueError):  # no file, or closed
            return False

    def reopen(self) -> None:
        """Goes on in the file that has the path now. OSError if it cannot be opened; the old one is kept
        then."""
        if self.path:
            old, self.stream = self.stream, self._open()
            old.close()

    def close(self) -> None:
        if self.path:
            try:
                self.stream.close()
            except OSError:
                pass  # the failed write has been reported
