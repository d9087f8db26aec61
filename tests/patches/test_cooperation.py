"""While one tasklet waits in a patched call, a ticker beside it goes on: one test for each target."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.patches import stalls
from tests.patches.key_targets import KEY_TARGETS
from tests.patches.targets import TARGETS

ROOT = pathlib.Path(__file__).parent.parent.parent
COMPUTE = {"long computations", "sqlite3, a long statement", "sqlite3, slow rows", *KEY_TARGETS}
"""How long these take is the machine's affair; the others end when what they wait for has come."""


@pytest.mark.realtime("the waits are those of other processes and of the kernel")
@pytest.mark.parametrize("name", TARGETS)
def test_a_ticker_goes_on(name):
    for wait in stalls.WAITS:
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.patches.targets", name],
            cwd=ROOT,
            env=stalls.environment(wait),
            capture_output=True,
            text=True,
            timeout=60 + 20 * wait,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        told = json.loads(done.stdout)
        assert told["result"] == TARGETS[name][1]
        assert told["seconds"] >= wait * 0.95
        if told["worst_stall"] < stalls.WORST and (told["seconds"] < wait * 10 or name in COMPUTE):
            return
    raise AssertionError(f"{name}: {told}")
