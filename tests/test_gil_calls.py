"""Whatever releases the GIL in the standard library is patched, or gil_calls.txt says why not."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import gil_calls

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent
SEEN = {
    "posix.read",
    "posix.splice",
    "_io.FileIO.readinto",
    "_socket.socket.recv",
    "_thread.lock.acquire",
    "pwd.getpwnam",
    "select.poll.poll",
    "time.sleep",
    "termios.tcdrain",
}
"""Some that the search must find: directly, by functions that are not exported, by _Py_read."""
NEVER = {"time.monotonic", "_io.StringIO.read", "posix.getpid", "_thread.lock.locked"}


@pytest.fixture(scope="module")
def told():
    if reason := gil_calls.why_not():
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.gil_calls"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    return json.loads(done.stdout)


def test_search_finds_what_releases_the_gil(told):
    assert set(told["releasing"]) >= SEEN and not NEVER & set(told["releasing"])


def test_what_is_patched_is_not_left(told):
    assert not SEEN & set(told["left"])


def test_whatever_may_wait_is_patched_or_explained(told):
    assert told["unexplained"] == []


@pytest.mark.skipif(sys.version_info[:2] != gil_calls.COMPLETE, reason="the reasons are for one Python")
def test_each_reason_is_needed(told):
    assert told["unneeded"] == []
