"""``--reload``: a process beside the master watches files and sends it SIGHUP when one changes, so that new
workers replace the old ones.

``python -m syncless.cli.reloading PID PATH ...`` is that process. It is separate because the master forks,
which a process with threads should not do. It watches the working directory for Python and TOML files, and
further paths for any file. Needs watchfiles.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

from syncless.http.notices import complain
from syncless.wsgi import WorkersFailed

T = TypeVar("T")
ENDINGS = (".py", ".toml")
LOOK_MILLISECONDS = 500
"""How often the watching process checks that its master is alive."""
PAUSE_SECONDS = 0.05


@contextlib.contextmanager
def watched(paths: list[str]) -> Iterator[None]:
    """Watches as long as the block lasts. A change sends SIGHUP. OSError if a path does not exist."""
    for path in paths:
        os.stat(path)
    command = [sys.executable, "-m", "syncless.cli.reloading", str(os.getpid()), *paths]
    watcher = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        watcher.terminate()
        watcher.wait()


def until_it_starts(serve: Callable[[], T]) -> T | None:
    """Calls serve(), and while no worker can start, again after each change of a file. Returns None if
    SIGTERM or SIGINT ends the wait."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    awaited = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    previous = {number: signal.signal(number, note) for number in awaited}
    try:
        while True:
            came.clear()
            try:
                return serve()
            except WorkersFailed as error:
                complain(f"{str(error).rstrip()}\nsyncless: waiting for a file to change")
            while not came:
                time.sleep(PAUSE_SECONDS)
            if came != [signal.SIGHUP] * len(came):
                return None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def main(master: int, paths: list[str]) -> None:
    from watchfiles import watch  # the process is only for this

    here = os.getcwd()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its master ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    watching = False
    options: dict[str, Any] = {"rust_timeout": LOOK_MILLISECONDS, "yield_on_timeout": True}
    for changes in watch(here, *paths, raise_interrupt=False, **options):
        if os.getppid() != master:
            return
        if not watching:  # from the first timeout or change on
            watching = True
            complain(f"watching {', '.join([here, *paths])} for changes")
        others = tuple(os.path.abspath(path) for path in paths)
        files = sorted({file for _, file in changes if file.endswith(ENDINGS) or file.startswith(others)})
        if files:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            complain(f"{os.path.relpath(files[0])}{more} changed: reloading the application")
            os.kill(master, signal.SIGHUP)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
