"""wsgi.file_wrapper (PEP 3333): a file as a response body. sendfile sends the file if that gives the same
bytes as read(); otherwise it is sent in blocks."""

from __future__ import annotations

from typing import BinaryIO

from syncless.http.content.filepart import region_of


class FileWrapper:
    """Iterates over the rest of a file in blocks of `block_size` bytes; close() closes it."""

    def __init__(self, file: BinaryIO, block_size: int = 65536):
        self.file = file
        self.block_size = block_size
        if hasattr(file, "close"):
            self.close = file.close

    def __iter__(self) -> FileWrapper:
        return self

    def __next__(self) -> bytes:
        block = self.file.read(self.block_size)
        if not block:
            raise StopIteration
        return block

    def region(self) -> tuple[int, int, int] | None:
        """Return (descriptor, offset, number of remaining bytes) if sendfile can send the file, otherwise
        None."""
        return region_of(self.file)
