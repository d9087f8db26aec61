"""The memory, CPU time and descriptors that this process uses."""

from __future__ import annotations

import mmap
import os
import sys


def memory() -> int:
    """Bytes of memory that this process has in use (resident set)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        import resource  # the most that it has ever had is the best that others than Linux tell

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def open_files() -> int:
    """Open descriptors of this process; 0 where the system does not tell."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # size: Linux 6.2
    except OSError:
        return len(os.listdir("/dev/fd")) if sys.platform == "darwin" else 0
