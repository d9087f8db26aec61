"""Files for tasklets, without the patch: nothing here stops the loop, and what is in memory costs no thread.

Where a call is made is chosen by what its file system has shown so far; docs/files.md tells how. Everything
else that waits for a disk can be called by `syncless.run_in_thread`.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

from syncless._core.calls import descriptors, filesystems
from syncless._core.calls.files import FileFunction, OpenFunction, SlowFunction

set_mode = filesystems.set_mode
file_systems = filesystems.file_systems

_open = OpenFunction(os.open)
_fsync = SlowFunction(os.fsync)
_replace = FileFunction(os.replace, two=True)
_unlink = FileFunction(os.unlink)
_close = FileFunction(os.close)


class _Raw(io.FileIO):
    """What open() makes its files of."""

    readinto = descriptors.file_readinto  # type: ignore[assignment]
    readall = descriptors.file_readall  # type: ignore[assignment]
    read = descriptors.file_read  # type: ignore[assignment]
    write = descriptors.file_write  # type: ignore[assignment]


def open(
    file: str | bytes | os.PathLike[Any] | int,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """The built-in open(), with the same arguments, errors and kinds of files. Reading and writing park the
    tasklet.

    A FIFO without a peer parks it, too. One file belongs to one tasklet at a time; under the patch tasklets
    may share it.
    """
    letters = set(mode)
    binary = "".join(letter for letter in mode if letter not in "bt")
    if (
        len(letters) != len(mode)
        or not letters <= set("rwxabt+")
        or len(letters & set("rwxa")) != 1
        or {"b", "t"} <= letters
    ):
        raise ValueError(f"invalid mode: {mode!r}")
    if "b" not in mode and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    if "b" in mode and buffering == 1:
        raise ValueError("line buffering (buffering=1) is for text only")
    file = file if isinstance(file, int) else os.fspath(file)
    raw = _Raw(
        file, binary, opener=None if isinstance(file, int) else lambda path, flags: _open(path, flags, 0o666)
    )
    try:
        line_buffered = buffering == 1 and "b" not in mode
        size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
        if size == 0:
            return raw
        kind: Any = (
            io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        )
        buffered: Any = kind(raw, size)
        if "b" in mode:
            return buffered  # type: ignore[no-any-return]
        text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffered or raw.isatty())
        text.mode = mode  # type: ignore[misc]
        return text
    except BaseException:
        raw.close()
        raise


def read_file(path: str | bytes | os.PathLike[Any]) -> bytes:
    """What is in a file. OSError."""
    fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    with _Raw(fd, "rb") as raw:
        return raw.readall() or b""


def write_file(path: str | bytes | os.PathLike[Any], data: Any, *, durable: bool = False) -> int:
    """Puts the file in the place of any other of that name, whole or not at all: it is written beside it
    first. Returns its size in bytes.

    `durable`: the data are on the disk before the name is. OSError leaves what there was.
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


__all__ = ["file_systems", "open", "read_file", "set_mode", "write_file"]
