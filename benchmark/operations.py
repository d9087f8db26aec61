"""Calls of the standard library that wait 0.3 s, for the table of blocking.py: from the tests of the patch.

Files lie on a file system whose every operation takes 0.1 s (FUSE); the name server takes as long.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from tests.patches import slowfs

SECONDS = 0.1
"""The time of an operation of the slow file system."""
NAMES = "getaddrinfo, three names"
TARGETS = [
    *(
        "time.sleep",
        "Thread.join",
        "Lock made earlier",
        "RLock made earlier",
        "Condition",
        "Semaphore",
        "Event",
    ),
    *("Barrier", "Queue", "SimpleQueue made earlier", "ThreadPoolExecutor", "recv", "recvfrom", "accept"),
    *(
        "connect, UNIX, backlog full",
        "sendall, 50 MB",
        "sendfile, 50 MB",
        "close, SO_LINGER",
        "select",
        "poll",
    ),
    *(
        "epoll",
        "SelectSelector",
        "asyncio.run",
        "subprocess.run",
        "subprocess, output",
        "Popen.wait, timeout",
    ),
    *("os.popen", "os.system", "os.waitpid", "os.wait", "os.posix_spawn", "multiprocessing.Process"),
    *("multiprocessing.Pool", "multiprocessing.Queue", "multiprocessing.Pipe", "multiprocessing.Pipe, full"),
    *(
        "multiprocessing.Lock",
        "ProcessPoolExecutor",
        "sigwait",
        "sigtimedwait",
        "pause",
        "os.read",
        "os.write",
    ),
    *(
        "file.readline",
        "print, full pipe",
        "a FIFO without a writer",
        "a FIFO, os.open",
        "sys.stdin.readline",
    ),
    *("input", "os.splice", "eventfd", "flock", "lockf", "sqlite3, a locked database"),
    *("sqlite3, a long statement", "hashlib.pbkdf2_hmac", "hashlib.scrypt", "long computations"),
    "long computations, the rest",
]
"""Of tests/patches/targets.py."""
FILES = {
    f"slow files: {name}": name
    for name in (
        *("open, read, close", "write, flush, fsync, close", "a large write", "os.dup2, closerange"),
        *("os.scandir", "os.walk", "dir_fd", "shutil: copy2, copytree, move, rmtree", "tempfile", "logging"),
        *("zipfile", "import", "mmap.flush", "socket.sendfile, os.sendfile", "sqlite3", "os.copy_file_range"),
        *("certificates", "programs and their working directories"),
    )
}
"""Name -> that of tests/patches/file_targets.py."""
COMPUTE = ["long computations", "long computations, the rest"]
"""They need the area `cpu`."""
OPERATIONS = [NAMES, *TARGETS, *FILES]
QUICK = ["Condition", "slow files: open, read, close"]


LABELS = {
    "long computations": "compression, hashing (`cpu=True`)",
    "long computations, the rest": "the other hashes, `hmac`, `crc32` (`cpu=True`)",
    "slow files: certificates": "slow files: certificates of `ssl`",
    "slow files: programs and their working directories": "slow files: programs that `subprocess` runs",
}


def label(name: str) -> str:
    return LABELS.get(name, name.removesuffix(" made earlier"))


@contextlib.contextmanager
def slow_files() -> Iterator[Callable[[], str]]:
    """A function that makes a directory there, with a file `there` and a directory `sub` with a file in it.

    RuntimeError with the reason where it cannot be mounted.
    """
    if why_not := slowfs.why_not():
        raise RuntimeError(why_not)
    lines = importlib.import_module("tests.patches.file_targets").LINES
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as point:

        def fresh() -> str:
            number = str(next(numbers))
            made = pathlib.Path(source, number)
            (made / "sub").mkdir(parents=True)
            (made / "there").write_text(lines)
            (made / "sub" / "file").write_text("x")
            return os.path.join(point, number)

        process = slowfs.mount(source, point, SECONDS)
        try:
            yield fresh
        finally:
            try:
                slowfs.unmount(process, point)
            except subprocess.TimeoutExpired:  # a process that was measured still ends there
                process.kill()


def look_up() -> None:
    for number in range(3):
        assert socket.getaddrinfo(f"slow{number}.example.", 80)


def operation(name: str, directory: str) -> Callable[[], Any]:
    """The call that is measured. The patch is made before."""
    if name == NAMES:
        return look_up
    if name in TARGETS:
        targets: Any = importlib.import_module("tests.patches.targets")
        targets.LEFT, targets.RIGHT = socket.socketpair()
        # before the ticker is made: as a thread it would get the signal that the call waits for
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1] if name == "sigwait" else [])
        call: Callable[[], Any] = targets.TARGETS[name][0]
        return call
    files: Any = importlib.import_module("tests.patches.file_targets")
    os.chdir(directory)
    return files.TARGETS[FILES[name]][0]  # type: ignore[no-any-return]
