"""Waiting for child processes: subprocess, multiprocessing and os.wait* park until the child's own descriptor (pidfd) says that it ended.

Where there is no descriptor to wait for (any child, a process group), the call runs in an OS thread.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from syncless._core.loop import wait_readable
from syncless._core.threads import run_in_thread
from syncless.patches.registry import Patcher

_waitpid, _wait, _wait3, _wait4, _waitid, _system = os.waitpid, os.wait, os.wait3, os.wait4, os.waitid, os.system


def _until_it_ends(pid: int) -> bool:
    """Parks until the child has ended, without taking its status. False if that cannot be waited for."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError) as error:
        return getattr(error, "errno", errno.ENOSYS) == errno.ESRCH  # it is gone, or no child of ours: the call itself says so
    try:
        wait_readable(fd)
    finally:
        os.close(fd)
    return True


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """os.waitpid, cooperative."""
    if options & os.WNOHANG:
        return _waitpid(pid, options)
    found = _waitpid(pid, options | os.WNOHANG)
    if found[0]:
        return found
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _until_it_ends(pid):
        return _waitpid(pid, options)
    return run_in_thread(_waitpid, pid, options)


def wait() -> tuple[int, int]:
    """os.wait, cooperative."""
    return waitpid(-1, 0)


def wait3(options: int) -> tuple[int, int, Any]:
    """os.wait3, cooperative."""
    return wait4(-1, options)


def wait4(pid: int, options: int) -> tuple[int, int, Any]:
    """os.wait4, cooperative."""
    found = _wait4(pid, options | os.WNOHANG)
    if found[0] or options & os.WNOHANG:
        return found
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _until_it_ends(pid):
        return _wait4(pid, options)
    return run_in_thread(_wait4, pid, options)


def waitid(idtype: int, id: int, options: int, /) -> Any:
    """os.waitid, cooperative."""
    found = _waitid(idtype, id, options | os.WNOHANG)
    if found is not None or options & os.WNOHANG:
        return found
    if idtype == os.P_PID and not options & (os.WSTOPPED | os.WCONTINUED) and _until_it_ends(id):
        return _waitid(idtype, id, options)
    return run_in_thread(_waitid, idtype, id, options)


def system(command: Any) -> int:
    """os.system, cooperative."""
    return run_in_thread(_system, command)


def patch(patcher: Patcher) -> None:
    for function in (waitpid, wait, wait3, wait4, waitid, system):
        patcher.rebind(os, function.__name__, function, "waits for a child process")
