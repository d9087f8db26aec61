"""Real clients under the patch, imported before or after it: fifty waits of 0.2 s side by side take little
more than one of them."""

import ctypes.util
import glob
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.patches.clients import CLIENTS, IN_C, OFFLOADED, PSQLODBC, THREADS, WAIT
from tests.patches.storm import DRIVERS

pytestmark = pytest.mark.slow

QUERIES = int(os.environ.get("SYNCLESS_TEST_QUERIES", "3000"))
"""Of a storm; `make storm` has more of them."""
ROOT = pathlib.Path(__file__).parent.parent.parent
LONGEST = 2.0
"""Seconds that all may take together."""
LONGEST_IN_C = 0.6
"""The same for those that wait in C: nothing of Python takes part."""
GROWTH = 20
"""Megabytes by which a process may grow in the second half of a storm."""


def skip_what_is_missing(module):
    if module == "pyodbc" and not (ctypes.util.find_library("odbc") and glob.glob(PSQLODBC)):
        pytest.skip("unixODBC or its driver for PostgreSQL is not installed: apt install odbc-postgresql")
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install --group clients --group drivers")


@pytest.mark.realtime("database servers are what waits")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("name", CLIENTS)
def test_waits_go_on_side_by_side(name, order, port_of):
    _, module, server = CLIENTS[name]
    package = module.partition(".")[0]
    skip_what_is_missing(package)
    for _ in range(3):  # a machine that has other things to do is no fault of the patch
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.patches.clients",
                name,
                str(port_of(server)),
                order,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["results"] == [True] * THREADS, done.stderr
        assert told["seconds"] >= WAIT * 0.95
        if name in IN_C:
            assert told["native"]["waits"] >= THREADS and not told["native"]["holding_gil"]
        if told["seconds"] < (LONGEST_IN_C if name in {*IN_C, *OFFLOADED} else LONGEST):
            return
    raise AssertionError(f"{name}: fifty waits of {WAIT} s took {told['seconds']:.2f} s")


@pytest.mark.parametrize("driver", DRIVERS)
def test_storm_of_queries_kills_and_deadlines(driver, port_of):
    _, module, server = DRIVERS[driver]
    skip_what_is_missing(module)
    if driver == "sqlalchemy":
        skip_what_is_missing("sqlalchemy")
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.patches.storm"]
    done = subprocess.run(
        [*command, driver, str(port_of(server)), str(QUERIES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 + QUERIES / 100,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["wrong"] == 0 and told["left"] == {} and told["descriptors"] == []
    assert told["answered"] > QUERIES * 0.9 and told["native"]["broken"] > 0
    assert told["errors"] <= told["killed"]
    assert told["grown"] < GROWTH
