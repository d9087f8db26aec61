"""Time that passes only while everything waits: `@pytest.mark.virtual_time` for a test, a class or a module.

In such a test a minute's wait takes no time, and what happens after 0.3 s happens after 0.3 s exactly, on any
machine. virtual_clock.c says how, and for which tests it cannot be. The library must be there when a process
starts, so pytest starts itself again with it; child processes do not get it. In a module that is marked,
`@pytest.mark.virtual_time(False)` leaves a test on the system's clock. ``python -m tests.virtualtime MODULE
ARGUMENTS`` runs a program on the virtual clock.
"""

import contextlib
import ctypes
import hashlib
import os
import pathlib
import platform
import runpy
import shlex
import subprocess
import sys
import time

from tests.preload import without_preload

SOURCE = pathlib.Path(__file__).parent / "virtual_clock.c"
BEFORE = "SYNCLESS_TEST_PRELOAD"
"""Holds what LD_PRELOAD was, from the start of the process that has the library until it puts it back."""

_library = ctypes.CDLL(None)
AVAILABLE = sys.platform == "linux" and hasattr(_library, "gnu_get_libc_version")


def preloaded():
    return hasattr(_library, "virtual_clock_start")


def real_seconds():
    """Of a clock that is always the system's."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def build(source=SOURCE):
    """The library's path; it is compiled when its source, the C library or the Python has changed."""
    # a folder may be seen from several systems, whose C libraries cannot load what another one has linked
    system = f"{platform.machine()}, {' '.join(platform.libc_ver())}, {sys.version}"
    digest = hashlib.sha256(source.read_bytes() + system.encode()).hexdigest()[:16]
    library = source.parent.parent / "build" / f"{source.stem}-{digest}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        mine = library.with_suffix(f".{os.getpid()}")
        command = [
            *shlex.split(os.environ.get("CC", "cc")),
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            mine,
            source,
            "-ldl",
            "-lpthread",
        ]
        subprocess.run(command, check=True, env=without_preload())
        mine.replace(library)
    return library


def preload(for_children=False):
    """Starts this process again with the library, unless it has it; its children, if they are to."""
    if not AVAILABLE:
        return
    if preloaded():
        if for_children:
            return
        if before := os.environ.pop(BEFORE, ""):
            os.environ["LD_PRELOAD"] = before
        else:
            os.environ.pop("LD_PRELOAD", None)
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | with_library())


def with_library(*others):
    """The variables with which a process has the library from its start, and those of other sources."""
    before = os.environ.get("LD_PRELOAD", "")
    libraries = " ".join(str(build(source)) for source in (SOURCE, *others))
    return {BEFORE: before, "LD_PRELOAD": f"{before} {libraries}".strip()}


def program(module, *arguments):
    """The command that runs it on a virtual clock of its own."""
    if AVAILABLE:
        environment = [f"{name}={value}" for name, value in with_library().items()]
        return ["env", *environment, sys.executable, "-m", "tests.virtualtime", module, *map(str, arguments)]
    return [sys.executable, "-m", "tests.virtualtime", module, *map(str, arguments)]


@contextlib.contextmanager
def virtual_time():
    _library.virtual_clock_start()
    try:
        yield
    finally:
        _library.virtual_clock_stop()


def start_at(monotonic, real):
    """Virtual time begins at these seconds of the two clocks, later than any before, for good."""
    times = [ctypes.c_longlong(int(seconds * 1e9)) for seconds in (monotonic, real)]
    _library.virtual_clock_start_at(*times)


def let_pass(seconds):
    """While something runs, as on a busy machine."""
    _library.virtual_clock_pass(ctypes.c_longlong(int(seconds * 1e9)))


def set_system_time(seconds_later):
    """As an administrator or NTP sets it: the monotonic clock does not notice."""
    _library.virtual_clock_set(ctypes.c_longlong(int(seconds_later * 1e9)))


@contextlib.contextmanager
def real_time():
    """For a block in a test that is on the virtual clock."""
    _library.virtual_clock_stop()
    try:
        yield
    finally:
        _library.virtual_clock_start()


if __name__ == "__main__":  # python -m tests.virtualtime MODULE ARGUMENTS
    preload()
    del sys.argv[0]
    with virtual_time():
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
