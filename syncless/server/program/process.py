"""Announces a process: by its title in `ps`, its PID file, and messages to a service manager."""

from __future__ import annotations

import _socket
import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import directly
from syncless.io.guardedfiles import TRIES, Place, give, is_privileged, of_argument
from syncless.server.program.privileges import Privileges


def set_title(role: str, application: Any) -> None:
    """Set the process title to ``syncless: ROLE NAME``, with the application's name if it was given by
    name."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    name = application if isinstance(application, str) else ""
    setproctitle(f"syncless: {' '.join(word for word in (role, name) if word)}")


class PidFile:
    """A file with the ID of this process, which exists while the block runs. A process that has dropped its
    privileges may only be able to empty the file. Raise FileExistsError if another running process has the
    file, which is locked (flock(2)). A child closes the file after fork(), so that it keeps no lock."""

    def __init__(self, path: str | os.PathLike[str] | None, privileges: Privileges | None = None):
        self.path = None if path is None else os.path.abspath(path)
        self.privileges = privileges
        self._fd = -1

    def check(self) -> None:
        """Raise FileExistsError if another running process has the file. This is checked before an
        application is imported."""
        if self.path is None:
            return
        try:
            with of_argument("pid_file"), Place(self.path) as place:
                fd = place.open(os.O_RDONLY)
                try:
                    self._lock(fd)
                finally:
                    os.close(fd)
        except FileExistsError:
            raise
        except OSError:
            pass  # told when it is opened for good

    @of_argument("pid_file")
    def __enter__(self) -> None:
        if self.path is None:
            return
        with Place(self.path) as place:
            fd = (
                self._begin_in_place_of(place)
                if place.guarded
                else self._write(place.open(os.O_RDWR | os.O_CREAT))
            )
        self._fd = fd
        _open[fd] = os.fstat(fd)

    def _begin_in_place_of(self, place: Place) -> int:
        """Write a new file owned by root if others may put files there, and open the old one only for its
        lock."""
        new = os.O_RDWR | os.O_CREAT | os.O_EXCL
        for _ in range(TRIES):
            try:
                old = place.open(os.O_RDONLY)
            except FileNotFoundError:
                try:
                    made = place.open(new)
                except FileExistsError:
                    continue
                return self._write(made)
            try:
                place.check(old, (0,) if self.privileges is None else (0, self.privileges.ids[0]))
                self._lock(old)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(old), place.stat()):
                        beside = place.beside()
                        fd = self._write(beside.open(new))
                        try:
                            beside.rename(place)
                        except OSError:
                            os.close(fd)
                            beside.unlink()
                            raise
                        return fd
            finally:
                os.close(old)
        raise place.refusal("it appeared and disappeared while it was opened")

    def _write(self, fd: int) -> int:
        try:
            self._lock(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            if self.privileges is not None and is_privileged():
                give(fd, self.privileges.ids)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            number = other if other.isdecimal() else "that has locked it"
            said = f"is the pid file of the running process {number}; stop it first, or choose another file"
            raise FileExistsError(errno.EEXIST, said, os.fspath(self.path or "")) from None
        except OSError:
            pass  # this file system has no locks

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None:
            return
        made = _open.get(self._fd)
        with contextlib.suppress(OSError), Place(self.path) as place:
            if made is not None and os.path.samestat(place.stat(), made):  # else another one's
                try:
                    place.unlink()
                except PermissionError:
                    if os.path.samestat(os.fstat(self._fd), made):
                        os.ftruncate(self._fd, 0)
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


at_fork(in_child=_close_in_child)


class ServiceManager:
    """Notifies the service manager that NOTIFY_SOCKET names, if it is set. This never waits and never fails,
    so that the service continues."""

    def __init__(self, variables: Mapping[str, str] = os.environ):
        self._path = variables.get("NOTIFY_SOCKET", "")
        self.interval = 0.0
        """Seconds after which it wants to hear that the process is alive: half of WatchdogSec. 0: never."""
        if self._path and variables.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with contextlib.suppress(ValueError):
                self.interval = int(variables.get("WATCHDOG_USEC", "0")) / 2e6
        self._told_alive = 0.0

    def tell(self, *lines: str) -> None:
        if not self._path:
            return
        directly(self._send, "\n".join(lines).encode())

    def _send(self, message: bytes) -> None:
        path = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.sendto(message, path)
        except OSError:
            pass  # it has gone, or does not read
        finally:
            sock.close()

    def ready(self, status: str) -> None:
        """Report that the service has started, or has reloaded. systemctl status shows `status`."""
        self.tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=Reloading")

    def stopping(self) -> None:
        self.tell("STOPPING=1", "STATUS=Stopping")

    def alive(self) -> None:
        """Report that the service is alive. Call this at least once per `interval`."""
        now = time.monotonic()
        if self.interval and now - self._told_alive >= self.interval / 2:
            self._told_alive = now
            self.tell("WATCHDOG=1")
