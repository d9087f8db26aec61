"""A file that tells others the number of a process."""

from __future__ import annotations

import os
from types import TracebackType


class PidFile:
    """A file with the number of this process, for as long as the block lasts."""

    def __init__(self, path: str | os.PathLike[str] | None):
        self.path = path

    def __enter__(self) -> None:
        if self.path is not None:
            with open(self.path, "w", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            try:
                os.unlink(self.path)
            except OSError:
                pass
