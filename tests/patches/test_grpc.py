"""grpcio waits cooperatively under the patch, also with a server in the same process, which hung before."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from tests.patches.stalls import WORST

ROOT = pathlib.Path(__file__).parent.parent.parent

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("grpc") is None, reason="grpcio is not installed: pip install grpcio"
    ),
    pytest.mark.slow,
    pytest.mark.realtime("threads of grpcio's own are what waits"),
]

EXPECTED = {"unary": "x", "future": "x", "stream": "x0 x1 x2 x3 x4", "both": "1 2 3"}


def test_calls_of_all_kinds_let_tasklets_run():
    command = [sys.executable, "-W", "ignore", "-m", "tests.patches.grpc_calls"]
    for _ in range(3):  # a machine that has other things to do is no fault of the patch
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        for kind, result in EXPECTED.items():
            assert told[kind]["results"] == [result] * 50
        assert (told["killed"], told["late"], told["after"]) == ("TaskletExit", "DEADLINE_EXCEEDED", "x")
        assert told["stopped"]["ended"]
        seen = dict.fromkeys(("never", "silent", "endless"), True)
        assert told.pop("broken off") == {"killed": seen, "late": seen}
        measured = [value for value in told.values() if isinstance(value, dict)]
        if max(value["worst"] for value in measured) < WORST and told["unary"]["seconds"] < 2:
            return
    raise AssertionError(done.stdout)
