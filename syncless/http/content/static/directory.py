"""A directory whose files are served. Nothing outside of it can be opened."""

from __future__ import annotations

import errno
import os
import stat
import time

from syncless._core.calls.files import FileFunction, OpenFile, open_beneath, open_directory

_open = FileFunction(open_beneath)
_open_directory = FileFunction(open_directory)
_stat = FileFunction(os.stat)

ABSENT = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EXDEV,
    errno.ENAMETOOLONG,
    errno.ENXIO,
    errno.EINVAL,
}
"""Errors that say no more than that there is no such file for a client."""
LOOK_AGAIN = 1.0
"""Seconds after which it is looked whether the directory is still the one at its path."""


class Directory:
    """Directory(path): the path is relative to the current working directory. Raise ValueError if there is no
    such directory."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.abspath(path)
        if not os.path.isdir(self.path):
            raise ValueError(f"static: {self.path} is not a directory of static files")
        self._root: OpenFile | None = None
        self._identity: tuple[int, int] | None = None
        self._looked = 0.0

    def open(self, names: tuple[bytes, ...], most: int = 0) -> OpenFile | None:
        """Return the file or directory of the first name that exists, or None if none may be served. Names
        are relative and have no empty part. A file of up to `most` bytes may be read as it is opened. Raise
        OSError for any other failure, such as too many open files."""
        root = self._current()
        if root is None:
            return None
        file: OpenFile | int = _open(names, dir_fd=root.fd, most=most)
        if isinstance(file, int):
            if file in ABSENT:
                return None
            raise OSError(file, os.strerror(file), os.path.join(os.fsencode(self.path), names[-1]))
        if stat.S_ISREG(file.mode) or stat.S_ISDIR(file.mode):
            return file
        file.close()  # a FIFO, a device, a socket
        return None

    def _current(self) -> OpenFile | None:
        """Return the directory itself, or None while it is missing. It may be replaced during serving, for
        example by a link to a new release."""
        now = time.monotonic()
        if self._root is None or now - self._looked > LOOK_AGAIN:
            try:
                about = _stat(self.path)
                identity = about.st_dev, about.st_ino
                if self._root is None or identity != self._identity:
                    self._root = _open_directory(os.fsencode(self.path))
            except OSError as error:
                self._root = None
                if error.errno in ABSENT:
                    return None
                raise
            self._identity, self._looked = identity, now
        return self._root


def is_safe(name: str) -> bool:
    """Return whether a path below a prefix may name a file: it has no part that is empty or begins with a dot
    (`..`, `.git`), no NUL and no backslash. The last part may be empty (a directory)."""
    return not ("/." in name or "//" in name or "\0" in name or "\\" in name or name.startswith((".", "/")))
