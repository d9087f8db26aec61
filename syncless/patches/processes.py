"""Waiting for child processes: subprocess, multiprocessing and os.wait* park until the child's own descriptor
(pidfd) says that it ended.

Where there is no such descriptor (any child, a process group), the call runs in an OS thread.

Fact: vfork() stops the parent until the child has its program, which the kernel reads from a disk, and
subprocess keeps the GIL meanwhile. Decision: if the program or the working directory is on a file system that
does not answer at once, the child is started with fork(). subprocess then waits at a pipe, and does not use
posix_spawn(), which is vfork(). Price: fork copies the parent's page tables. Guarded by
tests/patches/test_slow_files.py.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import errno
import os
import subprocess
import sys
from typing import Any

from syncless._core.calls import descriptors
from syncless._core.calls.files import DescriptorFunction, FileFunction, OpenFunction, may_use_threads
from syncless._core.calls.threads import run_in_thread
from syncless._core.cpython.functions import original_of
from syncless._core.current import give_way, wait_readable
from syncless.patches.registry import Patcher

_stat, _open, _close = FileFunction(os.stat), OpenFunction(os.open), DescriptorFunction(os.close)
_fork_exec: Any = original_of(_posixsubprocess.fork_exec)
_waitpid, _wait4, _system = original_of(os.waitpid), original_of(os.wait4), original_of(os.system)
_waitid: Any = original_of(getattr(os, "waitid", None))  # macOS has it since Python 3.13


def _until_it_ends(pid: int) -> bool:
    """Parks until the child has ended, without taking its status. False if it has no descriptor."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError) as error:
        # gone, or no child of ours: the call itself reports it
        return getattr(error, "errno", errno.ENOSYS) == errno.ESRCH
    try:
        wait_readable(fd)
    finally:
        os.close(fd)
    return True


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """os.waitpid, cooperative."""
    if options & os.WNOHANG:
        give_way()  # a loop around it may never wait
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
    if options & os.WNOHANG:
        give_way()
    found = _wait4(pid, options | os.WNOHANG)
    if found[0] or options & os.WNOHANG:
        return found
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _until_it_ends(pid):
        return _wait4(pid, options)
    return run_in_thread(_wait4, pid, options)


def waitid(idtype: int, id: int, options: int, /) -> Any:
    """os.waitid, cooperative."""
    if options & os.WNOHANG:
        give_way()
    found = _waitid(idtype, id, options | os.WNOHANG)
    if found is not None or options & os.WNOHANG:
        return found
    if idtype == os.P_PID and not options & (os.WSTOPPED | os.WCONTINUED) and _until_it_ends(id):
        return _waitid(idtype, id, options)
    return run_in_thread(_waitid, idtype, id, options)


def system(command: Any) -> int:
    """os.system, cooperative."""
    return run_in_thread(_system, command)


def _answers_at_once(program: Any) -> bool:
    """Whether exec would answer at once. The program's first bytes are in memory then."""
    with contextlib.suppress(PermissionError):  # it may be executable all the same
        fd = _open(program, os.O_RDONLY | os.O_CLOEXEC)
        try:
            descriptors.pread(fd, 1, 0)
        finally:
            _close(fd)
    return _open.is_quick(program)


def _is_quick(path: Any) -> bool:
    """Whether the file system that was asked for the path answers at once. Where a directory is missing,
    which PATH may name, that is the one above it."""
    while not _stat.is_quick(path):
        above = os.path.dirname(path)
        if above in (b"", path):
            return False
        try:
            _stat(above)
        except OSError:
            path = above
        else:
            return False
    return True


def _may_vfork(programs: Any, directory: Any) -> bool:
    start = os.fsencode(directory) if directory is not None else b""
    if directory is not None:
        with contextlib.suppress(OSError):
            _stat(directory)
        if not _stat.is_quick(directory):
            return False
    for program in programs:
        path = os.path.join(start, os.fsencode(program))
        try:
            _stat(path)
        except OSError:
            if not _is_quick(path):
                return False
            continue
        return _answers_at_once(path)
    return True


def fork_exec(*args: Any) -> int:
    """_posixsubprocess.fork_exec, by fork() where vfork() would wait for a disk."""
    if may_use_threads() and len(args) > 5 and not _may_vfork(args[1], args[4]):
        if (3, 11) <= sys.version_info < (3, 14):
            args = (*args[:-1], False)  # allow_vfork
        elif args[-1] is None and args[3] and args[-5] is None and os.getgid() == os.getegid():
            # A preexec_fn would let multiprocessing close its descriptors in the child before they are passed
            # on. Only fork() allows to set the group, too: to what it is.
            args = (*args[:-5], os.getgid(), *args[-4:])  # behind it: groups, user, umask, preexec_fn
        elif args[-1] is None:
            args = (*args[:-1], _nothing)  # preexec_fn, which only fork() allows
    return _fork_exec(*args)  # type: ignore[no-any-return]


def _nothing() -> None:
    pass


def patch(patcher: Patcher) -> None:
    patcher.member_of_module(subprocess, "_USE_POSIX_SPAWN", False, "waits until a program has been read")
    patcher.rebind(_posixsubprocess, "fork_exec", fork_exec, "waits until a program has been read")
    for function in (waitpid, wait, wait3, wait4, waitid, system):
        patcher.rebind(os, function.__name__, function, "waits for a child process")
