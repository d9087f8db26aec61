"""input(): at a terminal the line is edited while others run. Elsewhere it reads sys.stdin, which waits cooperatively by itself."""

from __future__ import annotations

import builtins
import sys
from typing import Any

from syncless._core.filecalls import parks_now
from syncless._core.sync import Lock
from syncless._core.terminal import edited
from syncless.patches.registry import Patcher

_input = builtins.input
_one_at_a_time = Lock()


def _terminal() -> int:
    """The descriptor, or -1 if input() does not edit."""
    try:
        fd = sys.stdin.fileno()
        return fd if fd == 0 and sys.stdin.isatty() and sys.stdout.fileno() == 1 and sys.stdout.isatty() else -1
    except (AttributeError, ValueError, OSError):
        return -1


def cooperative_input(prompt: Any = "", /) -> str:
    """input, cooperative. Tasklets that ask at the same time are answered one after the other."""
    if not parks_now():
        return _input(prompt)
    with _one_at_a_time:
        fd = _terminal()
        return _input(prompt) if fd < 0 else edited(_input, prompt, fd)


def patch(patcher: Patcher) -> None:
    patcher.rebind(builtins, "input", cooperative_input, "waits for a key")
