"""Marks for tests that need more of the kernel than an old or emulated one (qemu-user) has.

Such tests are skipped, with the reason.
"""

import ctypes
import errno
import os
import pathlib
import re
import tempfile

import pytest

OPENAT2, EPOLL_PWAIT2 = 437, 441
"""The numbers of system calls, the same on all processors."""


def _has(number: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(number, -1, None, None, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS


def _reads_at_once() -> bool:
    with tempfile.TemporaryFile() as file:
        file.write(b"a")
        file.flush()
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except (AttributeError, OSError):
            return False


def _tells_where_threads_are() -> bool:
    """Whether the stack pointer in /proc is that of the program, not of its emulator."""
    try:
        pointer = int(pathlib.Path("/proc/thread-self/syscall").read_text().split()[-2], 16)
        maps = pathlib.Path("/proc/self/maps").read_text()
    except (OSError, IndexError):
        return False
    ranges = re.findall(r"^(\w+)-(\w+) ", maps, re.MULTILINE)
    return any(int(first, 16) <= pointer < int(end, 16) for first, end in ranges)


needs_openat2 = pytest.mark.skipif(not _has(OPENAT2), reason="the kernel has no openat2()")
needs_short_waits = pytest.mark.skipif(
    not _has(EPOLL_PWAIT2), reason="the kernel waits for whole milliseconds: it has no epoll_pwait2()"
)
needs_reads_at_once = pytest.mark.skipif(
    not _reads_at_once(), reason="the kernel does not tell whether a file is in memory: RWF_NOWAIT"
)
needs_no_emulator = pytest.mark.skipif(
    not _tells_where_threads_are(), reason="an emulator of the kernel has threads of its own"
)
needs_stacks = pytest.mark.skipif(
    not _tells_where_threads_are(), reason="the kernel does not tell where other threads are: /proc/*/syscall"
)
