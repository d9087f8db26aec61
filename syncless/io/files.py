"""Files for tasklets, without the patch: no call here blocks the loop, and data in memory needs no thread.

A call is made directly or in a thread, depending on how quickly its file system has answered so far;
docs/howto/files.md explains the rule. For any other call that waits for a disk, use `syncless.run_in_thread`.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

from syncless._core.calls import descriptors, fileio, filesystems
from syncless._core.calls.files import FileFunction, OpenFunction, SlowFunction

set_mode = filesystems.set_mode
file_systems = filesystems.file_systems

_open = OpenFunction(os.open)
_fsync = SlowFunction(os.fsync)
_replace = FileFunction(os.replace, two=True)
_unlink = FileFunction(os.unlink)
_close = FileFunction(os.close)


class RawFile(io.FileIO):
    """The raw file below each file that open() makes."""

    readinto = fileio.file_readinto  # type: ignore[assignment]
    readall = fileio.file_readall  # type: ignore[assignment]
    read = fileio.file_read  # type: ignore[assignment]
    write = fileio.file_write  # type: ignore[assignment]


def open(
    file: str | bytes | os.PathLike[Any] | int,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """Open a file like the built-in open(), with the same arguments, errors and kinds of files. Reading,
    writing, and opening a FIFO without a peer park the tasklet.

    Only one tasklet at a time may use a file. Under the patch, several tasklets may share it.
    """
    letters = set(mode)
    binary = "".join(letter for letter in mode if letter not in "bt")
    known = letters <= set("rwxabt+") and len(letters) == len(mode)
    if not known or len(letters & set("rwxa")) != 1 or {"b", "t"} <= letters:
        raise ValueError(f"invalid mode: {mode!r}")
    if "b" not in mode and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    if "b" in mode and buffering == 1:
        raise ValueError("line buffering (buffering=1) works only in text mode")
    file = file if isinstance(file, int) else os.fspath(file)
    opener = None if isinstance(file, int) else lambda path, flags: _open(path, flags, 0o666)
    raw = RawFile(file, binary, opener=opener)
    try:
        line_buffered = buffering == 1 and "b" not in mode
        size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
        if size == 0:
            return raw
        kind: Any = io.BufferedReader if "r" in mode else io.BufferedWriter
        buffered: Any = (io.BufferedRandom if "+" in mode else kind)(raw, size)
        if "b" in mode:
            return buffered  # type: ignore[no-any-return]
        text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffered or raw.isatty())
        text.mode = mode  # type: ignore[misc]
        return text
    except BaseException:
        raw.close()
        raise


def read_file(path: str | bytes | os.PathLike[Any]) -> bytes:
    """Return the contents of a file as bytes. Raise OSError on failure."""
    fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    with RawFile(fd, "rb") as raw:
        return raw.readall() or b""


def write_file(path: str | bytes | os.PathLike[Any], data: Any, *, durable: bool = False) -> int:
    """Write a file under a temporary name beside it, then rename it, so that the file is never half written.
    Return its size in bytes.

    With `durable`, the data is on the disk before the rename. An OSError leaves the old file unchanged.
    """
    beside = os.fsdecode(path) + f".{os.getpid()}.new"
    fd = _open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            rest = memoryview(data).cast("B")
            size = len(rest)
            while rest:
                rest = rest[descriptors.write(fd, rest) :]
            if durable:
                _fsync(fd)
        finally:
            _close(fd)
        _replace(beside, path)
    except BaseException:
        _unlink(beside)
        raise
    return size


__all__ = ["RawFile", "file_systems", "open", "read_file", "set_mode", "write_file"]
