"""FilePart: a part of an open file as the body of a response."""

from __future__ import annotations

from collections.abc import Iterator

from syncless._core.calls.beneath import OpenFile
from syncless._core.calls.descriptors import pread

PIECE = 65536
"""Bytes that are read at a time where sendfile cannot be used."""


class FilePart:
    """`size` bytes of a file from `offset` on: region() for sendfile, or an iterator of blocks. It closes the
    file."""

    def __init__(self, file: OpenFile, offset: int, size: int):
        self.file = file
        self.offset = offset
        self.size = size

    def region(self) -> tuple[int, int, int]:
        """(descriptor, offset, bytes)."""
        return self.file.fd, self.offset, self.size

    def __iter__(self) -> Iterator[bytes]:
        return blocks(self.file.fd, self.offset, self.size)

    def fileno(self) -> int:
        return self.file.fd

    def close(self) -> None:
        self.file.close()


def blocks(fd: int, offset: int, size: int) -> Iterator[bytes]:
    """The bytes of a part of a file, in blocks. RuntimeError if the file has become shorter."""
    end = offset + size
    while offset < end:
        yield exactly(fd, offset, min(PIECE, end - offset))
        offset += PIECE


def exactly(fd: int, offset: int, size: int) -> bytes:
    """That many bytes of a file. RuntimeError if it has become shorter."""
    data = pread(fd, size, offset)
    if len(data) < size:
        raise RuntimeError("the file became shorter while it was sent")
    return data
