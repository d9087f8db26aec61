"""FilePart, a part of an open file as the body of a response, and the test for files that sendfile can
send."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import Any

from syncless._core.calls.descriptors import pread
from syncless._core.calls.files import OpenFile
from syncless.io.files import RawFile

PIECE = 65536
"""Bytes that are read at a time where sendfile cannot be used."""
RAW = (io.FileIO, RawFile)
BUFFERED = (io.BufferedReader, io.BufferedRandom)


class FilePart:
    """`size` bytes of a file from `offset` on, for sendfile (region()) or as an iterator of blocks. Closing
    the part closes the file."""

    def __init__(self, file: OpenFile, offset: int, size: int):
        self.file = file
        self.offset = offset
        self.size = size

    def region(self) -> tuple[int, int, int]:
        """Return (descriptor, offset, bytes)."""
        return self.file.fd, self.offset, self.size

    def __iter__(self) -> Iterator[bytes]:
        return blocks(self.file.fd, self.offset, self.size)

    def fileno(self) -> int:
        return self.file.fd

    def close(self) -> None:
        self.file.close()


def blocks(fd: int, offset: int, size: int) -> Iterator[bytes]:
    """Yield part of a file in blocks. Raise RuntimeError if the file has become shorter."""
    end = offset + size
    while offset < end:
        yield exactly(fd, offset, min(PIECE, end - offset))
        offset += PIECE


def exactly(fd: int, offset: int, size: int) -> bytes:
    """Return exactly `size` bytes of a file. Raise RuntimeError if the file has become shorter."""
    data = pread(fd, size, offset)
    if len(data) < size:
        raise RuntimeError("the file became shorter while it was sent")
    return data


def region_of(file: Any) -> tuple[int, int, int] | None:
    """Return (descriptor, offset, number of bytes from there to the end) of a regular file that is open for
    reading, or None for any other object. Only the standard file types qualify: other objects with a
    descriptor, such as decompressors, read other bytes."""
    kind = type(file)
    if (kind not in RAW and kind not in BUFFERED) or "read" in vars(file):
        return None
    try:
        if kind in BUFFERED and type(file.raw) not in RAW:
            return None
        if kind is io.BufferedRandom:
            file.flush()
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or not file.readable():
            return None
        offset = file.tell()
    except (OSError, ValueError):
        return None
    return file.fileno(), offset, max(0, info.st_size - offset)
