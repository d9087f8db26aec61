"""A program in a prepared interpreter meets what it would meet in one of its own."""

import os
import subprocess
import sys
import time

import pytest

import syncless
from tests import prepared
from tests.programs import run_unchecked

FACTS = """
import os, sys
names = sorted(name for name in globals() if not name.startswith("__"))
print(names, sys.argv, __name__, os.getcwd(), os.environ.get("FACT"), sys.path[0], sys.flags.dev_mode)
print(sorted(os.listdir("/dev/fd"))[:4], sys.stdout.seekable(), sys.stdin.closed)
print("said", file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere /dev/fd is another thing")
def test_program_finds_what_it_would_find_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FACT", "changed")
    for _ in range(2):
        done = prepared.run(FACTS, "one", 2, options=["-X", "dev"], timeout=60)
        command = [sys.executable, "-X", "dev", "-c", FACTS, "one", "2"]
        alone = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, alone.stdout, "said\n")


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "1 / 0",
        "raise KeyboardInterrupt",
    ],
)
def test_program_ends_as_it_would_alone(program):
    done, alone = prepared.run(program, timeout=60), run_unchecked(program)
    assert done.returncode == alone.returncode
    assert done.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_main_thread_is_the_running_one():
    program = "import threading; print(threading.main_thread().native_id == threading.get_native_id())"
    assert prepared.run(program, timeout=60).stdout == "True\n"


@pytest.mark.virtual_time
def test_virtual_clock_goes_on_beside_a_prepared_interpreter():
    assert prepared.run("import time; time.sleep(0.01)", timeout=60).returncode == 0
    began = time.monotonic()
    syncless.sleep(600)
    assert 600 <= time.monotonic() - began < 601


def test_nothing_is_left_for_the_next_program():
    assert prepared.run("import sys, json; sys.left = json.left = 1", timeout=60).returncode == 0
    done = prepared.run("import sys, json; print(hasattr(sys, 'left'), hasattr(json, 'left'))", timeout=60)
    assert done.stdout == "False False\n"


def test_program_that_hangs_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        prepared.run("import time; time.sleep(3600)", timeout=0.01)
    assert prepared.run("print('the next')", timeout=60).stdout == "the next\n"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is prepared where pidfd_open is not")
def test_interpreter_that_cannot_begin_says_why():
    with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
        prepared.run("", modules=["no_such_module"], timeout=60)
