"""On a file system that takes its time for each operation a ticker goes on, and everything is what it is on a
quick one."""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

import pytest

from tests.patches import slowfs
from tests.patches.file_targets import LINES, TARGETS

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent.parent
WAITS = 0.2, 0.2, 0.5, 1.5
"""Seconds that an operation takes: longer for those during which the ticker stood still, see stalls.py."""
SHARE = 0.5
"""Of what an operation takes: so long may the ticker stand still."""
AT_ONCE = 8
SLOW = {
    "all": (),
    "all but attributes": (
        *(
            "readdir",
            "open",
            "create",
            "read",
            "write",
            "truncate",
            "flush",
            "release",
            "fsync",
            "readlink",
            "symlink",
        ),
        *("link", "rename", "unlink", "mkdir", "rmdir", "chmod", "chown", "utimens"),
    ),
    "reading": ("read",),
    "closing": ("flush", "release"),
}
"""name -> the operations that take their time"""


def run(directory, names):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.patches.file_targets", str(directory), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return {told["name"]: told for told in map(json.loads, done.stdout.splitlines())}


def prepare(source):
    for number, _ in enumerate(TARGETS):
        directory = source / str(number)
        (directory / "sub").mkdir(parents=True)
        (directory / "there").write_text(LINES)
        (directory / "sub" / "file").write_text("x")


@pytest.fixture(scope="module", params=SLOW)
def told(request, tmp_path_factory):
    if reason := slowfs.why_not():
        pytest.skip(reason)
    found = {"slow": request.param}
    pending = list(TARGETS)
    for wait in WAITS:
        source, point = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("slow")
        prepare(source)
        process = slowfs.mount(str(source), str(point), wait, *SLOW[request.param])
        try:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                shares = [pending[i::AT_ONCE] for i in range(min(AT_ONCE, len(pending)))]
                for each in pool.map(run, [point] * len(shares), shares):
                    found.update({name: {**told, "wait": wait} for name, told in each.items()})
        finally:
            slowfs.unmount(process, str(point))
        pending = [name for name in pending if found[name]["worst_stall"] >= wait * SHARE]
        if not pending:
            break
    return found


@pytest.mark.realtime("a file system in another process is slow")
@pytest.mark.parametrize("name", TARGETS)
def test_a_ticker_goes_on(told, name):
    assert told[name]["result"] == TARGETS[name][1]
    assert told[name]["seconds"] >= told[name]["wait"] or told["slow"] != "all"
    assert told[name]["worst_stall"] < told[name]["wait"] * SHARE
