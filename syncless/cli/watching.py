"""``python -m syncless.cli.watching PID PATH ...``: the process that ``--reload`` starts beside the master.

It watches the working directory for Python and TOML files, and further paths for any file, and sends SIGHUP
to the master when one changes. Needs watchfiles. It is a program, which nothing imports.
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


def main(master: int, paths: list[str]) -> None:
    from watchfiles import watch  # the process is only for this

    here = os.getcwd()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its master ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
    main(int(sys.argv[1]), sys.argv[2:])
