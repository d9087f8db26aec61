"""``--reload`` and ``--reload-certificates``: a process beside the master watches files and sends the master
SIGHUP when a file changes, so that new workers replace the old ones, or the certificates are reloaded.

That process, watching.py, is separate because the master forks, which a process with threads should not do.
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
from typing import TypeVar

from syncless.http.log.notices import complain
from syncless.wsgi import WorkersFailed

T = TypeVar("T")
PAUSE_SECONDS = 0.05


@contextlib.contextmanager
def watched(paths: list[str], what: str = "code") -> Iterator[None]:
    """Watch files from before the block until its end, so that no change after an import is missed. A change
    sends SIGHUP. ``what`` is "code" (the paths are watched in addition), or "certificates" (the paths are the
    files). Raise OSError if a path does not exist."""
    for path in paths:
        os.stat(path)
    command = [sys.executable, "-m", "syncless.cli.watching", what, str(os.getpid()), *paths]
    previous = signal.signal(signal.SIGHUP, lambda number, frame: None)  # nothing has been imported yet
    watcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    try:
        watcher.stdout.readline()
        yield
    finally:
        watcher.terminate()
        watcher.wait()
        watcher.stdout.close()
        signal.signal(signal.SIGHUP, previous)


def until_it_starts(serve: Callable[[], T]) -> T | None:
    """Call serve(), and call it again after each change of a file while no worker can start. Return None if
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
