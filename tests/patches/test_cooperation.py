"""While one tasklet waits in a patched call, a ticker beside it goes on: one test for each target."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import prepared, virtualtime
from tests.patches import stalls
from tests.patches.targets import COMPUTE, TARGETS

ROOT = pathlib.Path(__file__).parent.parent.parent
OUTSIDE = COMPUTE | {
    "select, timeout",
    "subprocess.run",
    "subprocess, output",
    "Popen.wait, timeout",
    "os.system",
    "os.waitpid",
    "os.wait",
    "os.wait4",
    "os.waitid",
    "multiprocessing.Process",
    "multiprocessing.Process, spawn",
    "multiprocessing.Process, forkserver",
    "subprocess, one pipe",
    "os.popen",
    "os.posix_spawn",
    "pty",
    "os.write",
    "os.writev",
    "multiprocessing.Pool",
    "ProcessPoolExecutor",
    "multiprocessing.Queue",
    "multiprocessing.Pipe",
    "multiprocessing.Pipe, both ways",
    "multiprocessing.Pipe, full",
    "sub-interpreter",
    "multiprocessing.Lock",
    "multiprocessing.RLock",
    "a FIFO without a writer",
    "a FIFO without a reader",
    "input at a terminal",
    "curses, getch",
    "input at a terminal, readline",
    "BufferedWriter, full pipe",
    "print, full pipe",
    "FileIO.write, full pipe",
    "flock",
    "lockf",
    "os.lockf",
    "sqlite3, a locked database",
    "sqlite3, a long statement",
    "sqlite3, slow rows",
    "sqlite3, many rows",
    "long computations",
    "long computations, the rest",
}
"""These wait for other processes or for the kernel, and not in the program's own time."""


MODULES = "asyncio", "concurrent.futures", "multiprocessing", "sqlite3", "syncless.patches"
TARGET = 'import runpy; runpy.run_module("tests.virtualtime", run_name="__main__", alter_sys=True)'


def environment(wait):
    return {**stalls.environment(wait), "PYTHONWARNINGS": "ignore::DeprecationWarning"}


def told(done):
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not virtualtime.AVAILABLE, reason="the clock can be replaced where glibc is")
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in OUTSIDE])
def test_ticker_never_stands_still(name):
    """On the virtual clock: a wait takes its time, and the ticker ticks all the while."""
    program = "tests.patches.targets", name
    variables = {**environment(stalls.WAITS[0]), **virtualtime.with_library()}
    done = prepared.run(TARGET, *program, modules=MODULES, environment=variables, folder=ROOT, timeout=60)
    each = told(done)
    assert each["result"] == TARGETS[name][1]
    # A loop that looks a nanosecond too early reads the clock until it has moved: a few microseconds. asyncio
    # rounds each of its waits up to a millisecond.
    assert each["seconds"] == pytest.approx(stalls.WAIT, abs=2e-3) and each["worst_stall"] < 5e-4


@pytest.mark.parametrize("name", [name for name in TARGETS if name in OUTSIDE])
def test_a_ticker_goes_on(name):
    for wait in stalls.WAITS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.patches.targets", name],
            cwd=ROOT,
            env=environment(wait),
            capture_output=True,
            text=True,
            timeout=60 + 20 * wait,
        )
        each = told(done)
        assert each["result"] == TARGETS[name][1]
        assert each["seconds"] >= wait * 0.95
        if each["worst_stall"] < stalls.WORST and (each["seconds"] < wait * 10 or name in COMPUTE):
            return
    raise AssertionError(f"{name}: {each}")
