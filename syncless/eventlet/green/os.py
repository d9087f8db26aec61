"""The os module whose reads, writes and waits let other green threads run."""

from __future__ import annotations

import os as _standard
from typing import Any

from syncless._core.calls import descriptors
from syncless.eventlet import greenio
from syncless.patches import processes

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})

__patched__ = ["fdopen", "read", "write", "wait", "waitpid", "open"]

read = descriptors.read
write = descriptors.write
wait = processes.wait
waitpid = processes.waitpid


def fdopen(fd: int, *args: Any, **kwargs: Any) -> Any:
    """Open a descriptor as a file that lets others run."""
    if not isinstance(fd, int):
        raise TypeError(f"fd should be int, not {fd!r}")
    return greenio.GreenPipe(fd, *args, **kwargs)
