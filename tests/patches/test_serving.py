"""Servers that others have written on threads, run unchanged under the patch: their threads are tasklets, and
wait side by side."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import syncless
from tests.patches.clients import THREADS, WAIT
from tests.patches.servers import free_port, running
from tests.patches.serving import SERVERS
from tests.patches.test_clients import LONGEST

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent.parent


def children_of(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


@pytest.mark.realtime("how long fifty waits in another process take is measured")
@pytest.mark.parametrize("name", SERVERS)
def test_waits_go_on_side_by_side(name):
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install --group clients")
    port = free_port()
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "syncless",
        "run",
        "-m",
        "tests.patches.serving",
        name,
        str(port),
    ]
    with running(command, port, cwd=ROOT) as process:
        for _ in range(3):
            client = [sys.executable, "-m", "tests.patches.clients", "http.client", str(port), "after"]
            done = syncless.run_in_thread(
                subprocess.run, client, cwd=ROOT, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            assert told["results"] == [True] * THREADS
            assert told["seconds"] >= WAIT * 0.95
            if told["seconds"] < LONGEST:
                break
        else:
            raise AssertionError(f"{name}: fifty waits of {WAIT} s took {told['seconds']:.2f} s")
        for pid in [process.pid, *children_of(process.pid)]:
            if os.path.exists(f"/proc/{pid}/task"):
                assert len(os.listdir(f"/proc/{pid}/task")) <= 4  # tasklets, and perhaps a thread for names
        process.send_signal(signal.SIGINT)
        syncless.run_in_thread(process.wait, 20)
