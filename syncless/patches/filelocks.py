"""Patches locks on files: flock, lockf, and the commands of fcntl that wait.

The kernel has no descriptor for such locks, so a waiting tasklet keeps retrying: first after 1 ms, finally
every 50 ms.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from syncless._core.calls.files import FileFunction
from syncless._core.current import sleep
from syncless.patches.registry import Patcher

try:
    import fcntl
except ImportError:  # a system without them
    fcntl = None  # type: ignore[assignment]

FIRST_PAUSE, LAST_PAUSE = 0.001, 0.05
"""Seconds between two tries."""


def _patiently(function: Callable[..., Any], *args: Any) -> Any:
    pause = FIRST_PAUSE
    while True:
        try:
            return function(*args)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        sleep(pause)
        pause = min(2 * pause, LAST_PAUSE)


def patch(patcher: Patcher) -> None:
    why = "waits until the lock is released"
    if fcntl is not None:
        whole, part, control = (
            FileFunction(function, asks=True) for function in (fcntl.flock, fcntl.lockf, fcntl.fcntl)
        )
        for name, new in (("flock", _locks(whole)), ("lockf", _locks(part)), ("fcntl", _controls(control))):
            patcher.rebind(fcntl, name, new, why)
    if hasattr(os, "lockf"):
        patcher.rebind(os, "lockf", _os_lockf(FileFunction(os.lockf, asks=True)), why)


def _number(fd: Any) -> Any:
    """Return the descriptor of a file. Return anything else unchanged, for the function itself to accept or
    refuse."""
    return fd if isinstance(fd, int) or not hasattr(fd, "fileno") else fd.fileno()


def _locks(original: FileFunction) -> Callable[..., Any]:
    def lock(fd: Any, operation: int, *section: Any) -> Any:
        if operation & (fcntl.LOCK_NB | fcntl.LOCK_UN):
            return original(_number(fd), operation, *section)
        return _patiently(original, _number(fd), operation | fcntl.LOCK_NB, *section)

    return lock


def _controls(original: FileFunction) -> Callable[..., Any]:
    without_waiting = {
        getattr(fcntl, waiting): getattr(fcntl, trying)
        for waiting, trying in (("F_SETLKW", "F_SETLK"), ("F_OFD_SETLKW", "F_OFD_SETLK"))
        if hasattr(fcntl, waiting)
    }

    trying = frozenset(without_waiting.values())

    def control(fd: Any, cmd: int, arg: Any = 0, /) -> Any:
        if cmd in without_waiting:
            return _patiently(original, _number(fd), without_waiting[cmd], arg)
        return (original if cmd in trying else original.original)(fd, cmd, arg)

    return control


def _os_lockf(original: FileFunction) -> Callable[..., Any]:
    def lockf(fd: int, command: int, length: int, /) -> Any:
        if command == os.F_LOCK:
            return _patiently(original, fd, os.F_TLOCK, length)
        return original(fd, command, length)

    return lockf
