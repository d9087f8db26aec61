"""wsgi.file_wrapper (PEP 3333): a file as a response body. Sent by sendfile where the file has a descriptor,
else in blocks."""

from __future__ import annotations

import os
import stat
from typing import Any, BinaryIO


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
        """(descriptor, offset, bytes from there to the end) of a regular file; None for anything else."""
        try:
            fd = self.file.fileno()
            info: Any = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return None
            offset = self.file.tell()
        except (AttributeError, OSError, ValueError):
            return None
        return fd, offset, max(0, info.st_size - offset)
