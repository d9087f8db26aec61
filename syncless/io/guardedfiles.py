"""Lets root open files safely in directories to which other users may write.

A user who may write to a directory decides what its names mean: a symbolic or hard link there redirects the
log, and the change of its owner, to any file of root; a whole directory can be swapped between two steps. So
root goes from directory to directory by descriptors, follows symbolic links only where no other user can have
put them, and checks the very file that it has opened.

    Place(path)          a name in its directory, whose open descriptor serves for all that root does there
    Place.guarded        others may have made the file of that name

Where only root may write, and in a process of another user, a path has its usual meaning. Takes paths; knows
nothing of logs, pid files and sockets. Tested by tests/cli/test_guardedfiles.py.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import re
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

Owner = tuple[int, int]
"""User and group; -1: as it is."""

LINKS = 40
"""Symbolic links on the way to a file, as in the kernel."""
TRIES = 10
"""Others may make and remove a file while we open it."""
DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)
OURS = re.compile(r"/(?:proc/(?:self|thread-self|\d+)|dev)/fd/(\d+)")
STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}

_gives_up = False


def is_privileged() -> bool:
    return os.geteuid() == 0


def will_give_up() -> None:
    """Note that this process will become another user, who must not get access to more files through it."""
    global _gives_up
    _gives_up = True


def descriptor_of(path: str) -> int | None:
    """Return the number of the descriptor of this process that the path names, such as /dev/stdout. Callers
    duplicate it: opening the path needs a right that a worker may lack, and fails for sockets."""
    found = OURS.fullmatch(path)
    if found is None:
        return STANDARD.get(path)
    number = path.split("/")[2]
    return int(found[1]) if number in ("self", "thread-self", "fd", str(os.getpid())) else None


class _Directory(NamedTuple):
    fd: int
    about: os.stat_result
    swapped: bool
    """Others may have put it where it is."""

    @property
    def open_to_others(self) -> bool:
        return self.about.st_uid not in _roots() or bool(self.about.st_mode & 0o022)

    @property
    def guarded(self) -> bool:
        return self.swapped or self.open_to_others

    def keeps(self, about: os.stat_result) -> bool:
        """Return whether other users can neither have made this entry nor rename it: in /tmp, root's entries
        are safe."""
        if self.swapped or not self.open_to_others:
            return not self.swapped
        sticky = self.about.st_uid in _roots() and self.about.st_mode & stat.S_ISVTX
        return bool(sticky) and about.st_uid in _roots() and (stat.S_ISDIR(about.st_mode) or _is_alone(about))


def _roots() -> tuple[int, int]:
    """Return the numbers of root and of the owner of the root directory, which may differ in a user
    namespace."""
    return 0, os.stat("/").st_uid


def _is_of_proc(directory: _Directory) -> bool:
    """Return whether the directory is in /proc. Its links, such as /proc/1/fd/1, are not paths: the kernel
    follows them to open files."""
    with contextlib.suppress(OSError):
        proc = os.stat("/proc/self/fd").st_dev
        return not directory.guarded and directory.about.st_dev == proc
    return False


def _is_alone(about: os.stat_result) -> bool:
    return about.st_nlink == 1


class Place:
    """Place(path): a name in its directory, for a ``with`` block. If the process is not root's, the place is
    the path itself. Raise OSError on failure, PermissionError for a symbolic link that others may have put
    there."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        self.dir_fd: int | None = None
        """The directory; None: `name` is the whole path."""
        self.name = self.path
        self.guarded = False
        """Others may have put there what has the name."""
        self.descriptor: int | None = None
        """The path leads to this descriptor of ours."""
        self._folder: os.stat_result | None = None
        self._follow = not is_privileged()
        if self._follow:
            self.descriptor = _own(self.path)
        else:
            self._walk()

    def _walk(self) -> None:
        path = os.path.abspath(self.path)
        self.descriptor = descriptor_of(path)
        fd = os.open("/", DIRECTORY)
        way = [_Directory(fd, os.fstat(fd), False)]
        parts = _parts(path)
        links, found = 0, ""
        try:
            while parts and self.descriptor is None:
                name, here = parts.pop(), way[-1]
                if name == "..":
                    if len(way) > 1:
                        os.close(way.pop().fd)
                    continue
                target = _link(name, here.fd)
                if target is not None and not parts and _is_of_proc(here):
                    found, self._follow = name, True
                elif target is not None:
                    known = descriptor_of(target)
                    trusted = here.keeps(os.stat(name, dir_fd=here.fd, follow_symlinks=False))
                    if known is not None and (trusted or known in (1, 2)):
                        self.descriptor = known
                    elif not trusted:
                        raise self.refusal(
                            f"{name} on the way to it is a symbolic link"
                            if parts
                            else "it is a symbolic link"
                        )
                    links += 1
                    if links > LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path)
                    while target.startswith("/") and len(way) > 1:
                        os.close(way.pop().fd)
                    parts += _parts(target)
                elif parts:
                    fd = os.open(name, DIRECTORY, dir_fd=here.fd)
                    about = os.fstat(fd)
                    way.append(_Directory(fd, about, not here.keeps(about)))
                else:
                    found = name
        except OSError as error:
            for each in way:
                os.close(each.fd)
            raise OSError(error.errno, error.strerror, self.path) from None
        last = way.pop()
        for each in way:
            os.close(each.fd)
        self.dir_fd, self._folder, self.guarded = last.fd, last.about, last.guarded
        self.name = found or "."

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.dir_fd is not None:
            os.close(self.dir_fd)
            self.dir_fd = None

    def refusal(self, why: str) -> PermissionError:
        text = (
            f"{why}, and users other than root may write to the directory; choose a directory that only root "
            "may write to"
        )
        return PermissionError(errno.EPERM, text, self.path)

    # -- what is done there --------------------------------------------------------------------------------

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Call os.open(), but do not follow symbolic links or wait for FIFOs that others may have put
        there."""
        flags |= os.O_CLOEXEC | os.O_NOCTTY
        if not self._follow:
            flags |= os.O_NOFOLLOW | (os.O_NONBLOCK if self.guarded else 0)
        try:
            return os.open(self.name, flags, mode, dir_fd=self.dir_fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK) and self.guarded:
                raise self.refusal("it is a symbolic link") from None
            if error.errno == errno.ENXIO and self.guarded:
                raise self.refusal("it is a FIFO without a reader, a socket or a device") from None
            raise OSError(error.errno, error.strerror, self.path) from None

    def check(self, fd: int, owners: tuple[int, ...] | None = None) -> None:
        """Refuse an open file that others may have linked to this name. The file may belong to ``owners``, or
        to the owner of the directory."""
        if not self.guarded or self._folder is None:
            return
        about = os.fstat(fd)
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISFIFO(about.st_mode)):
            raise self.refusal("it is not a regular file")
        if not _is_alone(about):
            raise self.refusal("it has several names (hard links)")
        theirs = self._folder.st_uid
        if owners is not None and about.st_uid not in (
            *owners,
            *((theirs,) if theirs not in _roots() else ()),
        ):
            wanted = " or ".join(map(str, owners))
            raise self.refusal(f"it belongs to user {about.st_uid}, not to user {wanted} (chown it)")
        os.set_blocking(fd, True)

    def append(self, flags: int, owner: Owner | None = None) -> int:
        """Open a file for writing, or create it. A new file is given to the owner, as is an existing file
        that no other user can have put there."""
        if self.descriptor is not None:
            return os.dup(self.descriptor)
        if self._follow:
            return self.open(flags)
        empties, flags = flags & os.O_TRUNC, flags & ~os.O_TRUNC
        for _ in range(TRIES):
            with contextlib.suppress(FileNotFoundError):
                fd, made = self.open(flags & ~os.O_CREAT), False
                break
            with contextlib.suppress(FileExistsError):
                fd, made = self.open(flags | os.O_CREAT | os.O_EXCL), True
                break
        else:
            raise self.refusal("it appeared and disappeared while it was opened")
        try:
            if made:
                os.set_blocking(fd, True)
            else:
                self.check(fd, (owner[0] if owner is not None and owner[0] >= 0 else 0,))
            if owner is not None and (made or not self.guarded):
                give(fd, owner)
            if empties:
                os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def stat(self) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.dir_fd, follow_symlinks=self._follow)

    def beside(self) -> Place:
        """Return the place of an unused name in the same directory, valid as long as this place."""
        other = copy.copy(self)
        other.name = f".{self.name}.{os.getpid()}-{os.urandom(6).hex()}"
        return other

    def rename(self, to: Place) -> None:
        """Rename the file to another name in the same directory."""
        os.rename(self.name, to.name, src_dir_fd=self.dir_fd, dst_dir_fd=to.dir_fd)

    def unlink(self) -> None:
        os.unlink(self.name, dir_fd=self.dir_fd)


def give(fd: int, owner: Owner) -> None:
    """Give an open file to its owner; a terminal and /dev/null keep their owners."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        os.fchown(fd, *owner)


def append_to(path: str | os.PathLike[str], flags: int, owner: Owner | None = None) -> int:
    """Open a file for appending, and return its descriptor, see Place.append()."""
    with Place(path) as place:
        return place.append(flags, owner)


@contextlib.contextmanager
def of_argument(name: str) -> Iterator[None]:
    """Put the argument before the file name in an OSError that the block raises."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise OSError(error.errno, error.strerror, f"{name} {os.fsdecode(error.filename)}") from None


@contextlib.contextmanager
def readable(path: str) -> Iterator[str]:
    """Yield a path by which others may open the file at `path`. In a process of root that will switch to
    another user, refuse a file that another user may have linked there. Raise OSError on failure."""
    if not (is_privileged() and _gives_up):
        yield path
        return
    with Place(path) as place:
        if place.descriptor is not None:
            yield path
            return
        fd = place.open(os.O_RDONLY)
    try:
        place.check(fd)
        own = f"/proc/self/fd/{fd}"
        yield own if os.path.exists(own) else path
    finally:
        os.close(fd)


def only_roots(path: str) -> bool:
    """Return whether only root can change the file, or what its path means."""
    with Place(path) as place:
        if place.descriptor is not None:
            return True
        about = place.stat()
        return not place.guarded and about.st_uid in _roots() and not about.st_mode & 0o022


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _link(name: str, dir_fd: int | None = None) -> str | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:  # no link, or nothing
        return None


def _own(path: str) -> int | None:
    """Return the descriptor of this process to which the path leads through symbolic links, or None."""
    for _ in range(LINKS):
        found = descriptor_of(os.path.abspath(path))
        if found is not None:
            return found
        target = _link(path)
        if target is None:
            break
        path = os.path.join(os.path.dirname(path), target)
    return None
