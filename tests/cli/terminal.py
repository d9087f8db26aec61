"""A command in a terminal of its own, as somebody who types sees it."""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

ESCAPE = re.compile(r"\033\[\d*m")


class Terminal:
    """Runs the command; `text` is what it has written. The terminal controls it: Ctrl-C is
    `press("\\x03")`."""

    def __init__(self, arguments, env, cwd=None):
        self._ours, theirs = pty.openpty()
        try:
            self.process = subprocess.Popen(
                arguments,
                env={**env, "COLUMNS": "80"},
                cwd=cwd,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        finally:
            os.close(theirs)
        self._came = b""

    @property
    def text(self):
        return self._came.decode(errors="replace").replace("\r\n", "\n")

    def read(self, until=None, seconds=60):
        """Reads until that has come, or the process has closed the terminal; returns all that has come so
        far."""
        end = time.monotonic() + seconds
        while until is None or until not in self.text:
            if not select.select([self._ours], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{until!r} has not come: {self.text}")
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # EIO: the last process has closed it
                data = b""
            if not data and until is not None:
                raise EOFError(f"{until!r} has not come: {self.text}")
            if not data:
                break
            self._came += data
        return self.text

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
