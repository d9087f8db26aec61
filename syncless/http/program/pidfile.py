"""A file that tells others the number of a process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from types import TracebackType

from syncless.http.program.privileges import Privileges


class PidFile:
    """A file with the number of this process, for as long as the block lasts. With privileges that the
    process drops meanwhile, the file is emptied where it cannot be removed. FileExistsError if a process that
    runs has the file: it is locked (flock(2)), and a child closes it after fork(), to keep no lock."""

    def __init__(self, path: str | os.PathLike[str] | None, privileges: Privileges | None = None):
        self.path = None if path is None else os.path.abspath(path)
        self.privileges = privileges
        self._fd = -1

    def __enter__(self) -> None:
        if self.path is None:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._lock(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            if self.privileges is not None:
                self.privileges.own(self.path)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        _open[fd] = os.fstat(fd)

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            said = f"is the pid file of process {other}, which runs; stop it first, or choose another file"
            raise FileExistsError(errno.EEXIST, said, os.fspath(self.path or "")) from None
        except OSError:
            pass  # this file system has no locks

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None:
            return
        made = _open.get(self._fd)
        with contextlib.suppress(OSError):
            if made is not None and os.path.samestat(os.stat(self.path), made):  # else another one's
                try:
                    os.unlink(self.path)
                except PermissionError:
                    os.truncate(self.path, 0)
        _close(self._fd)


_open: dict[int, os.stat_result] = {}
"""Descriptor -> the file there as it was made: the program may close it, and have another there."""


def _close(fd: int) -> None:
    made = _open.pop(fd, None)
    with contextlib.suppress(OSError):
        if made is not None and os.path.samestat(os.fstat(fd), made):
            os.close(fd)


def _close_in_child() -> None:
    for fd in list(_open):
        _close(fd)


os.register_at_fork(after_in_child=_close_in_child)
