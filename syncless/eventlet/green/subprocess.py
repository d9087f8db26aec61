"""The subprocess module whose waits let other green threads run: a second copy of it."""

from __future__ import annotations

import subprocess as _standard
import sys
from typing import Any

from syncless.eventlet import greenio, patcher
from syncless.eventlet.green import fill

_copy: Any = patcher.import_patched(
    "subprocess",
    **{name: patcher.green_module(name) for name in ("os", "select", "selectors", "threading", "time")},
)
for _error in ("SubprocessError", "CalledProcessError", "TimeoutExpired"):
    setattr(_copy, _error, getattr(_standard, _error))  # a program that catches one means either module
fill(sys.modules[__name__], _copy)


class Popen(_copy.Popen):  # type: ignore[misc]
    """subprocess.Popen with green pipes."""

    def __init__(self, args: Any, bufsize: int = -1, *more: Any, **options: Any) -> None:
        super().__init__(args, bufsize, *more, **options)
        for name in ("stdin", "stdout", "stderr"):
            pipe = getattr(self, name)
            if pipe is not None and not hasattr(pipe, "encoding"):
                setattr(self, name, greenio.GreenPipe(pipe, pipe.mode, bufsize))


_copy.Popen = Popen
