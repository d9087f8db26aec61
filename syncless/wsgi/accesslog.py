"""The access log: a line per request in Apache's combined format, written in blocks.

A log that cannot be written (full disk, closed stream) never disturbs a request: its lines are dropped and counted, and that is said
once on stderr.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

FLUSH_LINES = 256
"""Lines that are held back at most."""
FLUSH_SECONDS = 0.5
"""For which a line is held back at most."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class AccessLog:
    """Called by the server for each response; `flush()` writes what is held back."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.dropped = 0
        self._lines: list[str] = []
        self._second = 0
        self._stamp = ""

    def __call__(self, environ: dict[str, Any], status: str | None, sent: int, started: int) -> None:
        now = int(time.time())
        if now != self._second:
            self._second = now
            t = time.localtime(now)
            zone = time.strftime("%z", t)
            self._stamp = f"[{t.tm_mday:02}/{MONTHS[t.tm_mon - 1]}/{t.tm_year}:{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02} {zone}]"
        get = environ.get
        if "REQUEST_METHOD" in environ:
            query = environ["QUERY_STRING"]
            request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{'?' + query if query else ''} {environ['SERVER_PROTOCOL']}"
        else:
            request = "-"
        line = (
            f'{get("REMOTE_ADDR") or "-"} - - {self._stamp} "{request}" {(status or "-")[:3]} {sent or "-"} '
            f'"{get("HTTP_REFERER", "-")}" "{get("HTTP_USER_AGENT", "-")}"'
        )
        if not line.isprintable() or '"' in request or "\\" in line or line.count('"') != 6:
            line = self._escaped(environ, status, sent, request)
        self._lines.append(line)
        if len(self._lines) >= FLUSH_LINES:
            self.flush()

    def _escaped(self, environ: dict[str, Any], status: str | None, sent: int, request: str) -> str:
        """The line with everything that a client could forge lines or fields with written as \\xHH."""

        def safe(text: str) -> str:
            return "".join(c if c.isprintable() and c not in '"\\' else f"\\x{ord(c):02x}" for c in text)

        return (
            f'{environ.get("REMOTE_ADDR") or "-"} - - {self._stamp} "{safe(request)}" {(status or "-")[:3]} {sent or "-"} '
            f'"{safe(environ.get("HTTP_REFERER", "-"))}" "{safe(environ.get("HTTP_USER_AGENT", "-"))}"'
        )

    def flush(self) -> None:
        """Writes the lines that are held back."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self.stream.write("\n".join(lines) + "\n")
            self.stream.flush()
        except (OSError, ValueError) as error:
            if not self.dropped:
                print(f"syncless: the access log cannot be written ({error}); its lines are dropped", file=sys.stderr)
            self.dropped += len(lines)
