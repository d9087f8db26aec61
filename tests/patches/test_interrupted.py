"""A query whose tasklet is interrupted ends on the server too, and its connection is clean or closed."""

import importlib.util
import json
import os
import sys

import pytest

from tests import prepared
from tests.patches.interrupted import DRIVERS
from tests.programs import SLOW

QUERIES = int(os.environ.get("SYNCLESS_TEST_QUERIES", "3000"))
"""Of a long storm; `make storm` has more of them."""

QUICK = [
    pytest.param(name, marks=pytest.mark.slow)
    if name in ("sqlalchemy with psycopg2", "sqlalchemy with pg8000")
    else name
    for name in DRIVERS
]
"""What SQLAlchemy passes on to drivers that are tried by themselves is left for `make check`."""


def run(port_of, name, what, *numbers):
    """What the function of interrupted.py tells."""
    _, module, server = DRIVERS[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install --group clients --group drivers")
    # SQLAlchemy leaves a new connection to the collector if its own first query is interrupted
    left = "ignore:<psycopg.Connection object:ResourceWarning"
    done = prepared.run(
        'import runpy; runpy.run_module("tests.patches.interrupted", run_name="__main__", alter_sys=True)',
        *(name, port_of(server), what, *numbers),
        options=["-X", "dev", "-W", "error", "-W", left],
        timeout=60 + QUERIES / 10,
    )
    errors = SLOW.sub("", done.stderr)
    assert done.returncode == 0 and not errors, errors
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", QUICK)
def test_query_of_a_tasklet_whose_time_is_over_ends_on_the_server(name, port_of):
    assert run(port_of, name, "long_queries") == {"late": 40, "usable": 40, "running": 0}


@pytest.mark.parametrize("name", [name for name, each in DRIVERS.items() if each[0].others])
def test_so_does_one_that_gives_its_rows_in_another_way(name, port_of):
    count = 10 * len(DRIVERS[name][0].others)
    assert run(port_of, name, "other_ways") == {"late": count, "usable": count, "running": 0}


@pytest.mark.parametrize("name", QUICK)
def test_tasklet_that_is_killed_again_still_ends_its_query(name, port_of):
    assert run(port_of, name, "killed_again") == {"usable": 10, "running": 0}


@pytest.mark.parametrize("name", QUICK)
def test_query_of_a_request_whose_time_is_over_ends_on_the_server(name, port_of):
    told = run(port_of, name, "request")
    assert told.pop("named") is DRIVERS[name][0].names_queries
    assert told == {"status": 503, "running": 0, "usable": True}


@pytest.mark.parametrize("library", ["asyncpg", "django"])
def test_so_does_one_that_a_library_asks_and_it_is_named(library, port_of):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install --group clients")
    assert run(port_of, "psycopg", f"request_by_{library}") == {"status": 503, "running": 0, "named": True}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout() came with Python 3.11")
def test_query_of_a_cancelled_coroutine_ends_on_the_server(port_of):
    if importlib.util.find_spec("asyncpg") is None:
        pytest.skip("asyncpg is not installed: pip install --group clients")
    assert run(port_of, "psycopg", "coroutines") == {"usable": 40, "running": 0}


CANCELLED = ("psycopg", "psycopg2", "pg8000", "pymysql", "mysqlclient")


@pytest.mark.parametrize("name", CANCELLED)
def test_connection_is_closed_when_nobody_answers_the_cancel(name, port_of):
    assert run(port_of, name, "unheard") == {"open": False, "asked": True, "running": 1}


def test_thread_of_mysql_that_may_be_of_another_server_is_left_alone(port_of):
    assert run(port_of, "pymysql", "behind_a_proxy") == 1


def check_storm(told, queries):
    assert told["wrong"] == 0 and told["errors"] == []
    assert told["answered"] + told["late"] == queries and min(told["answered"], told["late"]) > 0


@pytest.mark.parametrize("name", QUICK)
def test_no_cancel_hits_the_next_query_of_a_connection(name, port_of):
    check_storm(run(port_of, name, "storm", 100), 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIVERS)
def test_no_cancel_hits_the_next_query_in_a_storm(name, port_of):
    check_storm(run(port_of, name, "storm", QUERIES), QUERIES)
