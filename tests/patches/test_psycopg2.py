"""COPY and large objects of psycopg2 do what they do without the patch, and other tasklets go on."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from tests.patches.servers import postgresql

ROOT = pathlib.Path(__file__).parent.parent.parent

MISSING = importlib.util.find_spec("psycopg2") is None
pytestmark = [
    pytest.mark.skipif(MISSING, reason="psycopg2 is not installed: pip install --group clients"),
    pytest.mark.slow,
]


def run(port, order):
    command = [sys.executable, "-W", "ignore", "-m", "tests.patches.copying", str(port), order]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server():
    with postgresql() as port:
        yield port, run(port, "never")


@pytest.mark.parametrize("order", ["before", "after"])
def test_copy_and_large_objects_give_what_they_give_unpatched(server, order):
    port, unpatched = server
    assert run(port, order) == unpatched
