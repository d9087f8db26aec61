"""``python -m syncless.cli.watching code|certificates PID PATH ...``: the process that ``--reload`` and
``--reload-certificates`` start beside the master.

For code, it watches the Python and TOML files in the working directory, and all files below further paths.
For certificates, it watches the folders of the files, which may be symbolic links that are redirected. A
change sends SIGHUP to the master. This needs watchfiles. No other module imports this program.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from typing import Any

from syncless.http.log.notices import complain
from syncless.io.guardedfiles import Place

ENDINGS = (".py", ".toml")
LOOK_MILLISECONDS = 500
"""How often it looks whether its master is still there."""


class Begun:
    """A stop event whose first check, when the files are watched, prints a line for the master."""

    def __init__(self, paths: list[str]):
        self._paths = paths
        self._told = False

    def is_set(self) -> bool:
        if not self._told:
            self._told = True
            complain(f"watching {', '.join(self._paths)} for changes")
            print(flush=True)
        return False


def forget_bytecode(path: str) -> None:
    """Remove the compiled code of a file. Python compares only a file's size and its time in whole seconds,
    so it may miss the second of two changes within a second."""
    for level in ("", "1", "2"):
        compiled = importlib.util.cache_from_source(path, optimization=level)
        with contextlib.suppress(OSError), Place(compiled) as place:
            place.unlink()


def look(path: str) -> tuple[int, ...]:
    """Return values that change when a file, or the link to it, is replaced or written; () if there is no
    file."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def watch_certificates(master: int, paths: list[str]) -> None:
    """Watch certificates. A certificate and its key are often replaced one after the other, so a signal is
    sent after a second without changes in their folders."""
    from watchfiles import watch

    seen = {path: look(path) for path in paths}
    folders = sorted({os.path.dirname(os.path.abspath(path)) for path in paths})
    options: dict[str, Any] = {"rust_timeout": LOOK_MILLISECONDS, "yield_on_timeout": True, "step": 1000}
    begun = Begun(folders)
    for _ in watch(*folders, raise_interrupt=False, stop_event=begun, watch_filter=None, **options):
        if os.getppid() != master:
            return
        found = {path: look(path) for path in paths}
        changed = [path for path in paths if found[path] != seen[path]]
        if changed and all(found.values()):  # else one is being replaced
            seen = found
            complain(f"{', '.join(changed)} changed: reloading the certificates")
            os.kill(master, signal.SIGHUP)


def main(master: int, paths: list[str]) -> None:
    from watchfiles import watch  # the process is only for this

    here = os.getcwd()
    begun = Begun([here, *paths])
    options: dict[str, Any] = {"rust_timeout": LOOK_MILLISECONDS, "yield_on_timeout": True}
    for changes in watch(here, *paths, raise_interrupt=False, stop_event=begun, **options):
        if os.getppid() != master:
            return
        others = tuple(os.path.abspath(path) + os.sep for path in paths)
        files = sorted(
            {file for _, file in changes if file.endswith(ENDINGS) or f"{file}{os.sep}".startswith(others)}
        )
        for file in files:
            if file.endswith(".py"):
                forget_bytecode(file)
        if files:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            complain(f"{os.path.relpath(files[0])}{more} changed: reloading the application")
            os.kill(master, signal.SIGHUP)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its master ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    (watch_certificates if sys.argv[1] == "certificates" else main)(int(sys.argv[2]), sys.argv[3:])
