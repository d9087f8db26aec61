"""``python -m syncless.cli.watching code|certificates PID PATH ...``: the process that ``--reload`` and
``--reload-certificates`` start beside the master.

For code it watches the working directory for Python and TOML files, and further paths for any file. Of
certificates it watches the folders of the files, whose names may be symbolic links that are put elsewhere. It
sends SIGHUP to the master when one changes. Needs watchfiles. It is a program, which nothing imports.
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
    """Is asked whether to stop as soon as the files are watched, and tells the master so by a line."""

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
    """Python tells by a file's size and its time in whole seconds whether it has compiled it: one that is
    saved twice within a second may be taken for the one before."""
    for level in ("", "1", "2"):
        compiled = importlib.util.cache_from_source(path, optimization=level)
        with contextlib.suppress(OSError), Place(compiled) as place:
            place.unlink()


def look(path: str) -> tuple[int, ...]:
    """Return values that differ once a file, or the link to it, has been replaced or written; () if there is
    no file."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def watch_certificates(master: int, paths: list[str]) -> None:
    """A certificate and its key are often replaced one after the other: it waits for a second in which no
    file of their folders changes."""
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
