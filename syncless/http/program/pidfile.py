"""A file that tells others the number of a process."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType

from syncless.http.program.privileges import Privileges


class PidFile:
    """A file with the number of this process, for as long as the block lasts. With privileges that the
    process drops meanwhile, the file is emptied where it cannot be removed."""

    def __init__(self, path: str | os.PathLike[str] | None, privileges: Privileges | None = None):
        self.path = path
        self.privileges = privileges

    def __enter__(self) -> None:
        if self.path is not None:
            with open(self.path, "w", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")
            if self.privileges is not None:
                self.privileges.own(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            with contextlib.suppress(OSError):
                try:
                    os.unlink(self.path)
                except PermissionError:
                    os.truncate(self.path, 0)
