"""Drivers against silent, slow and resetting servers: what a call gives or raises, and when it gives up, is
what it is without the patch."""

import json
import os
import subprocess
import sys

import pytest

from tests import needs
from tests.patches.hostile import DRIVERS, mysql, postgresql, redis, server

pytestmark = pytest.mark.slow
COUNTS = {postgresql: 12, mysql: 13, redis: 13}


def became(driver, how):
    command = [sys.executable, "-W", "ignore", "-m", "tests.patches.hostile", driver, how]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


@pytest.mark.parametrize("driver", DRIVERS)
def test_calls_end_as_without_the_patch(driver):
    needs.module(driver, f"calls servers that {driver} gives up")
    plain, patched = became(driver, "plain"), became(driver, "patched")
    assert patched == plain
    assert len(plain) == COUNTS[DRIVERS[driver][0]] + (driver == "psycopg2"), plain
    assert plain["ask, well"] == plain["ask, slow"] == 7
    assert plain["connect, well"] == "connected" and plain["connect, silent, as long as it was told"]


PROGRAM = """
import os, sys
from syncless.patches import patch_all
patch_all()
import psycopg2
try:
    psycopg2.connect(**{arguments!r}, user="u", dbname="d")
except psycopg2.OperationalError as error:
    print(str(error), end="")
"""


@pytest.mark.parametrize("how", ["argument", "environment", "name with two addresses"])
def test_psycopg2_tells_which_server_was_silent(how):
    needs.module("psycopg2", "keeps connect_timeout")
    environment, arguments, name = dict(os.environ), {"host": "127.0.0.1"}, '"127.0.0.1"'
    if how == "environment":
        environment["PGCONNECT_TIMEOUT"] = "1"
    else:
        arguments["connect_timeout"] = 1
    if how == "name with two addresses":
        arguments["host"], name = "localhost", '"localhost" (127.0.0.1)'
    with server(postgresql, "silent", True) as port:
        program = PROGRAM.format(arguments={**arguments, "port": port})
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
        )
    told = f"connection to server at {name}, port {port} failed: timeout expired\n"
    assert done.stdout.endswith(told) and not done.stderr, done.stdout + done.stderr


REFUSED = """
import sys
if sys.argv[1] == "patched":
    from syncless.patches import patch_all
    patch_all()
import psycopg2
for host, port in ("127.0.0.1", "1"), ("localhost", "1"), ("127.0.0.1,127.0.0.1", "1,2"), ("/nowhere", "1"):
    try:
        psycopg2.connect(host=host, port=port, user="u", dbname="d")
    except psycopg2.OperationalError as error:
        print(repr(str(error)))
"""


def test_psycopg2_tells_which_server_has_refused():
    needs.module("psycopg2", "tells what libpq tells")

    def told(how):
        command = [sys.executable, "-c", REFUSED, how]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    plain = told("plain")
    assert plain.count("connection to server ") >= 5 and told("patched") == plain
