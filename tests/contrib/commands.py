"""Programs of other products, in a process of their own, with all that they say in a file."""

import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.waiting import eventually

RUN = [sys.executable, "-W", "ignore", "-m", "syncless", "run"]
"""The command for an unchanged program."""


def where(library):
    """Return a folder for PYTHONPATH; skip the test if the library is nowhere."""
    folder = os.environ.get("SYNCLESS_TEST_PROGRAMS", "")
    if importlib.util.find_spec(library) is None and not os.path.isdir(os.path.join(folder, library)):
        pytest.skip(f"{library} is neither installed nor in the folder SYNCLESS_TEST_PROGRAMS")
    return folder


def output_of(folder, code, **variables):
    """What the program says under `syncless run` before it ends without an error."""
    (folder / "program.py").write_text(code)
    command = [*RUN, str(folder / "program.py")]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Command:
    """Runs in a folder from its start to its end(); `said()` is what it has written so far."""

    def __init__(self, folder, arguments, variables=None):
        self.folder = folder
        self._output = open(folder / "output", "ab")  # noqa: SIM115  (closed by end())
        self.process = subprocess.Popen(
            list(map(str, arguments)),
            cwd=folder,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(variables or {})},
            start_new_session=True,  # so that its children end with it, whatever happens
        )

    def said(self):
        return (self.folder / "output").read_text(errors="replace")

    def says(self, pattern, times=1):
        """The first match of the pattern, once it has been said so often."""
        found = []

        def look():
            found[:] = re.finditer(pattern, self.said())
            return len(found) >= times or self.process.poll() is not None

        assert eventually(look) and len(found) >= times, f"{pattern!r} is not in\n{self.said()}"
        return found[0]

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(number)
            return self.process.wait(60)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self._output.close()
