"""The kqueue backend against a stand-in for a BSD kernel, with the refusals of one (tests/elsewhere)."""

import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ELSEWHERE = ROOT / "tests" / "elsewhere"
SOURCE = ROOT / "syncless" / "_core" / "poll" / "kqueue.pyx"

pytestmark = pytest.mark.skipif(not SOURCE.exists(), reason="the sources are not here")

LOADED = """
import importlib.util, os, sys
name = "syncless._core.poll.kqueue"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
import syncless._core.poll.poller
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
from syncless._core.poll.backends import BACKENDS
BACKENDS["kqueue"] = sys.modules[name].KqueuePoller
os.environ["SYNCLESS_LOOP"] = "kqueue"
import syncless
assert syncless.current_loop().backend == "kqueue"
left, right = os.pipe()
"""


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    """The path of the backend, compiled for the stand-in."""
    pytest.importorskip("Cython")
    folder = tmp_path_factory.mktemp("kqueue")
    source, module = folder / "kqueue_backend.c", folder / f"kqueue{sysconfig.get_config_var('EXT_SUFFIX')}"
    translate = [sys.executable, "-m", "cython", "-3", "-X", "cdivision=True", "-o", source]
    subprocess.run([*translate, SOURCE.relative_to(ROOT)], cwd=ROOT, check=True, timeout=60)
    folders = (ELSEWHERE / "include", sysconfig.get_path("include"))
    compiler = [*shlex.split(os.environ.get("CC", "cc")), "-O0", "-w", "-fPIC", "-shared"]
    subprocess.run(
        [*compiler, *(f"-I{path}" for path in folders), source, ELSEWHERE / "kqueue.c", "-o", module],
        check=True,
        timeout=60,
        env=os.environ | {"LD_PRELOAD": ""},
    )
    return module


def run(backend, program):
    done = subprocess.run(
        [sys.executable, "-c", LOADED + program, backend],
        capture_output=True,
        text=True,
        timeout=60,
        env={key: value for key, value in os.environ.items() if key != "SYNCLESS_LOOP"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_descriptors_and_times_are_waited_for(backend):
    assert (
        run(
            backend,
            """
from syncless._core.current import wait_readable
syncless.spawn(lambda: (syncless.sleep(0.05), os.write(right, b"x")))
print(wait_readable(left), os.read(left, 1), wait_readable(left, 0.01))
""",
        )
        == "True b'x' False\n"
    )


def test_pipe_without_a_reader_is_ready(backend):
    assert (
        run(
            backend,
            """
from syncless._core.current import wait_writable
os.close(left)
print(wait_writable(right, 10), wait_writable(right, 10))
""",
        )
        == "True True\n"
    )


def test_wait_of_years_is_cut_short(backend):
    assert (
        run(
            backend,
            """
import signal
signal.signal(signal.SIGALRM, lambda *_: print("woken") or sys.exit())
signal.setitimer(signal.ITIMER_REAL, 0.1)
syncless.sleep(1e9)
""",
        )
        == "woken\n"
    )
