"""While one tasklet waits in a patched call, a ticker beside it goes on: one test for each target."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import virtualtime
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


def told_by(command, wait):
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**stalls.environment(wait), "PYTHONWARNINGS": "ignore::DeprecationWarning"},
        capture_output=True,
        text=True,
        timeout=60 + 20 * wait,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not virtualtime.AVAILABLE, reason="the clock can be replaced where glibc is")
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in OUTSIDE])
def test_ticker_never_stands_still(name):
    """On the virtual clock: a wait takes its time, and the ticker ticks all the while."""
    told = told_by(virtualtime.program("tests.patches.targets", name), stalls.WAITS[0])
    assert told["result"] == TARGETS[name][1]
    # A loop that looks a nanosecond too early reads the clock until it has moved: a few microseconds. asyncio
    # rounds each of its waits up to a millisecond.
    assert told["seconds"] == pytest.approx(stalls.WAIT, abs=2e-3) and told["worst_stall"] < 5e-4


@pytest.mark.parametrize("name", [name for name in TARGETS if name in OUTSIDE])
def test_a_ticker_goes_on(name):
    for wait in stalls.WAITS:
        told = told_by([sys.executable, "-m", "tests.patches.targets", name], wait)
        assert told["result"] == TARGETS[name][1]
        assert told["seconds"] >= wait * 0.95
        if told["worst_stall"] < stalls.WORST and (told["seconds"] < wait * 10 or name in COMPUTE):
            return
    raise AssertionError(f"{name}: {told}")
