"""Patches files, pipes and FIFOs: os.read, os.open, os.stat and similar functions, and io.FileIO, the base of
all files.

Cached data is read directly, and a file system that has always responded immediately is called directly. All
other calls are made in threads. syncless/_core/calls/filesystems.pyx explains the rule.
"""

from __future__ import annotations

import io
import mmap
import os
import select
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from syncless._core.calls import descriptors, fileio
from syncless._core.calls.files import (
    ChangeDirectory,
    ClosingFunction,
    DescriptorFunction,
    EntryMethod,
    FileFunction,
    OpenFunction,
    SeekFunction,
    SlowFunction,
    close_under_waiters,
    is_file,
    must_read_first,
)
from syncless._core.cpython.functions import original_of
from syncless._core.current import sleep, wait_readable, wait_writable
from syncless.patches.registry import Patcher
from syncless.patches.types import fileobjects

DESCRIPTORS: dict[str, Callable[..., Any]] = {
    "read": descriptors.read,
    "readinto": descriptors.readinto,
    "write": descriptors.write,
    "readv": descriptors.readv,
    "writev": descriptors.writev,
    "pread": descriptors.pread,
    "pwrite": descriptors.pwrite,
}
PATHS = """
    stat lstat statx access statvfs pathconf readlink getxattr setxattr listxattr removexattr
    chmod lchmod chown lchown utime truncate mkdir rmdir unlink remove mkfifo mknod preadv pwritev
""".split()
ASKING = ("stat", "lstat", "statx", "fstat", "access", "statvfs", "readlink")
"""Those of them that a program may call again and again until something has changed, as os.path.exists."""
TWO_PATHS = ("rename", "replace", "link", "symlink")
SOMETIMES = ("fstat", "fstatvfs", "ftruncate", "fchmod", "fchown", "close", "lseek", "posix_fadvise")
BY_NATURE = ("fsync", "fdatasync", "sync", "posix_fallocate", "copy_file_range")
FILE = {
    "readinto": fileio.file_readinto,
    "read": fileio.file_read,
    "readall": fileio.file_readall,
    "write": fileio.file_write,
    "isatty": fileio.file_isatty,
}
FILE_SOMETIMES = ("close", "seek", "truncate")
ENTRY = ("stat", "is_dir", "is_file", "is_symlink")

EVENT_PAUSE = 0.002
"""Seconds between two tries to write to an eventfd whose counter is nearly full."""

_eventfd_read: Any = original_of(getattr(os, "eventfd_read", None))
_eventfd_write: Any = original_of(getattr(os, "eventfd_write", None))
_scandir, _listdir = original_of(os.scandir), original_of(os.listdir)
_dup2, _closerange = original_of(os.dup2), original_of(os.closerange)
_lseek = original_of(os.lseek)
_poll: Any = getattr(select, "poll", None)
_sendfile: Any = original_of(getattr(os, "sendfile", None))
_splice: Any = original_of(getattr(os, "splice", None))


class Entries:
    """The result of os.scandir on a slow file system: all entries, fetched in a thread."""

    _left: list[Any] | None = None
    """None once it has been closed or used up."""

    def __init__(self) -> None:
        raise TypeError("cannot create 'posix.ScandirIterator' instances")

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._left:
            self._left = None
            raise StopIteration
        return self._left.pop()

    def close(self) -> None:
        self._left = None

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._left is not None:
            warnings.warn(f"unclosed scandir iterator {self!r}", ResourceWarning, stacklevel=2, source=self)


Entries.__name__ = Entries.__qualname__ = "ScandirIterator"
Entries.__module__ = os.name


def _entries_of(path: Any = None) -> Entries:
    entries = Entries.__new__(Entries)
    with _scandir(path) as found:
        entries._left = list(found)[::-1]
    return entries


def dup2(fd: int, fd2: int, inheritable: bool = True) -> int:
    """Call os.dup2, which may close a file, cooperatively."""
    if type(fd2) is not int or fd == fd2:
        return _dup2(fd, fd2, inheritable)
    if 0 <= fd2 < 1 << 31:
        close_under_waiters(fd2)
    return _dup2_to(fd2, fd, inheritable)  # type: ignore[no-any-return]


def closerange(fd_low: int, fd_high: int, /) -> None:
    """Close descriptors like os.closerange, cooperatively. Files are closed one by one, because a thread that
    closed all would lose the descriptors with which it reports its end."""
    with suppress(OSError):  # no /proc
        for fd in map(int, _listdir("/proc/self/fd")):
            if fd_low <= fd < fd_high:
                close_under_waiters(fd)
                if is_file(fd):
                    with suppress(OSError):
                        _close(fd)
    _closerange(fd_low, fd_high)


def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int, *more: Any, **named: Any) -> int:
    """os.sendfile, cooperative."""
    if more or named or is_file(out_fd) or not os.get_blocking(out_fd):
        direct = not is_file(out_fd) and type(in_fd) is int and not _sends_from_disk(in_fd, offset, count)
        send = _sendfile if direct else _sendfile_of
        return send(out_fd, in_fd, offset, count, *more, **named)  # type: ignore[no-any-return]
    return descriptors.sendfile(out_fd, in_fd, offset, count)


def _sends_from_disk(fd: int, offset: Any, count: Any) -> bool:
    try:
        start = _lseek(fd, 0, os.SEEK_CUR) if offset is None else offset
        return must_read_first(fd, start, count)
    except (TypeError, OverflowError, OSError):
        return False  # the call itself says what is wrong


def _without_waiting(fd: int, call: Callable[..., Any], *args: Any) -> Any:
    """Make the call with the descriptor non-blocking only for that moment, as others may share it. Raise
    BlockingIOError if the call would wait."""
    os.set_blocking(fd, False)
    try:
        return call(*args)
    finally:
        os.set_blocking(fd, True)


def eventfd_read(fd: Any) -> int:
    """os.eventfd_read, cooperative."""
    number = fd.fileno() if hasattr(fd, "fileno") else fd
    if type(number) is not int or number < 0 or not os.get_blocking(number):
        return _eventfd_read(number)  # type: ignore[no-any-return]
    read = descriptors.read(number, 8)
    if len(read) != 8:
        raise OSError(0, "Error")  # as unpatched: this is no eventfd
    return int.from_bytes(read, sys.byteorder)


def eventfd_write(fd: Any, value: int) -> None:
    """Write like os.eventfd_write, cooperatively. No event reports that the counter has enough room, so the
    call keeps retrying."""
    number = fd.fileno() if hasattr(fd, "fileno") else fd
    if type(number) is not int or number < 0 or not os.get_blocking(number):
        _eventfd_write(number, value)
        return
    while True:
        try:
            _without_waiting(number, _eventfd_write, number, value)
            return
        except BlockingIOError:
            if _is_ready(number, select.POLLOUT):
                sleep(EVENT_PAUSE)
            else:
                wait_writable(number)


def _is_ready(fd: int, bits: int) -> bool:
    asked = _poll()
    asked.register(fd, bits)
    return bool(asked.poll(0))


def splice(
    src: int, dst: int, count: int, offset_src: Any = None, offset_dst: Any = None, flags: int = 0
) -> int:
    """Call os.splice without waiting, and retry when both ends are ready.

    The flag that forbids waiting applies to pipes. A socket has its own mode, and accepts all that a pipe
    contains.
    """
    never = os.SPLICE_F_NONBLOCK  # type: ignore[attr-defined,unused-ignore]
    to_socket = not is_file(dst) and stat.S_ISSOCK(os.fstat(dst).st_mode) and os.get_blocking(dst)
    done: int = 0
    while True:
        file = src if is_file(src) else dst
        args = (file, src, dst, count - done, offset_src, offset_dst, flags | never)
        try:
            moved: int = _without_waiting(dst, _splice_of, *args) if to_socket else _splice_of(*args)
        except BlockingIOError:
            empty = not is_file(src) and not _is_ready(src, select.POLLIN)
            if done and empty:
                return done
            if flags & never and (empty or not to_socket):
                raise
        except OSError:
            if done:
                return done  # the next call meets the error
            raise
        else:
            done += moved
            if not moved or done >= count or not to_socket:
                return done
            continue
        if not is_file(src):
            wait_readable(src)
        if not is_file(dst):
            wait_writable(dst)


def _nothing(*_: Any, **__: Any) -> None:
    raise NotImplementedError("this system has no such call")


_close = ClosingFunction(os.close)
_dup2_to = DescriptorFunction(lambda fd2, fd, inheritable: _dup2(fd, fd2, inheritable))
_sendfile_of = SlowFunction(_sendfile or _nothing)
_splice_of = FileFunction(lambda file, *args: (_splice or _nothing)(*args))


def _cooperative(name: str) -> Any:
    original = getattr(os, name)
    if name == "open":
        return OpenFunction(original, asks=True)
    if name == "chdir" or name == "fchdir":
        return ChangeDirectory(original, listed=True)
    if name == "listdir":
        return FileFunction(original, listed=True, asks=True)
    if name == "scandir":
        return FileFunction(original, listed=True, in_thread=_entries_of, asks=True)
    if name in TWO_PATHS:
        return FileFunction(original, two=name != "symlink", last=name == "symlink")
    if name == "close":
        return _close
    if name == "lseek":
        return SeekFunction(original)
    if name in SOMETIMES:
        return DescriptorFunction(original, asks=name in ASKING)
    return SlowFunction(original) if name in BY_NATURE else FileFunction(original, asks=name in ASKING)


def patch(patcher: Patcher) -> None:
    waits = "waits for a file system"
    for name, new in DESCRIPTORS.items():
        patcher.rebind(os, name, new, "waits for the other end of a pipe, or for a disk")
    for name in (*PATHS, *TWO_PATHS, *SOMETIMES, *BY_NATURE, "open", "listdir", "scandir", "chdir", "fchdir"):
        if hasattr(os, name):
            patcher.rebind(os, name, _cooperative(name), waits)
    if _eventfd_read is not None:
        patcher.rebind(os, "eventfd_read", eventfd_read, "waits for a writer")
        patcher.rebind(os, "eventfd_write", eventfd_write, "waits for room in the counter")
    patcher.rebind(os, "isatty", fileio.isatty, waits)
    patcher.rebind(os, "dup2", dup2, waits)
    patcher.rebind(os, "closerange", closerange, waits)
    if _sendfile is not None:
        patcher.rebind(os, "sendfile", sendfile, "waits for the other side, or for a disk")
    if _splice is not None:
        patcher.rebind(os, "splice", splice, "waits for the other end of a pipe, or for a disk")
    for name in ENTRY:
        patcher.member_in_place(os.DirEntry, name, EntryMethod(getattr(os.DirEntry, name)).method(), waits)
    for name, method in FILE.items():
        why = "waits for the other end of a pipe, or for a disk"
        patcher.member_in_place(io.FileIO, name, method, why, kept=True)
    for name in FILE_SOMETIMES:
        patcher.member_in_place(io.FileIO, name, fileobjects.file_method(getattr(io.FileIO, name)), waits)
    for owner in fileobjects.BUFFERED:
        for name in fileobjects.METHODS:
            if name in owner.__dict__:
                new = fileobjects.buffered_method(owner.__dict__[name])
                patcher.member_in_place(owner, name, new, "calls itself reentrant when two tasklets use it")
    fileobjects.set_slots(True)
    patcher.note("_io.FileIO.__init__", fileobjects.run_init, waits, lambda: fileobjects.set_slots(False))
    for name in ("close", "__exit__"):
        new = fileobjects.map_close(mmap.mmap.__dict__[name])
        patcher.member_in_place(mmap.mmap, name, new, "waits for a disk")
    patcher.member_in_place(mmap.mmap, "flush", fileobjects.map_flush, "waits for a disk")
