"""PostgreSQL and Redis with the rows of the benchmark, on the core of the load; those of the tests, with more
connections. And the sites' answers without a server."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from benchmark.applications.asked import ITERATIONS, PASSWORD, ROWS, USERS
from benchmark.measure import SERVER_CORE, on_load_core
from benchmark.servers.peer import Absent
from tests.patches import servers

HERE = pathlib.Path(__file__).parent
CONNECTIONS = 1200
"""Of PostgreSQL. A server with a greenlet for each client has one for each."""
SECONDS = 600
"""For which a site may take to be prepared, and to answer without a server."""
TABLES = f"""
create table world (id integer primary key, number integer not null);
insert into world select id, id * 7919 % 10000 + 1 from generate_series(1, {2 * ROWS}) as id;
create table fortune (id integer primary key, message text not null);
insert into fortune values
  (1, 'fortune: No such file or directory'),
  (2, 'A computer scientist is someone who fixes things that aren''t broken.'),
  (3, 'After enough decimal places, nobody gives a damn.'),
  (4, 'A bad random number generator: 1, 1, 1, 1, 1'),
  (5, 'A computer program does what you tell it to do, not what you want it to do.'),
  (6, 'Emacs is a nice editor.'),
  (7, 'Any program that runs right is obsolete.'),
  (8, 'A list is only as strong as its weakest link.'),
  (9, 'Feature: A bug with seniority.'),
  (10, 'Computers make very fast, very accurate mistakes.'),
  (11, '<script>alert("This should not be displayed in a browser alert box.");</script>'),
  (12, 'フレームワーク');
create table account (name text primary key, password text not null);
"""


def _accounts() -> str:
    hashed = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", ITERATIONS).hex()
    rows = ", ".join(f"('user{number}', 'salt${hashed}')" for number in range(USERS))
    return f"insert into account values {rows};"


@contextmanager
def started() -> Iterator[dict[str, str]]:
    """The environment of a site. Absent where they cannot be had."""
    with ExitStack() as stack:
        try:
            with on_load_core():
                database = stack.enter_context(servers.postgresql(CONNECTIONS))
                store = stack.enter_context(servers.redis())
            command = [
                servers.program("psql"),
                "-q",
                "-h",
                "127.0.0.1",
                "-p",
                str(database),
                "-U",
                "postgres",
            ]
        except pytest.skip.Exception as why:
            raise Absent(str(why)) from None
        subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "postgres"],
            input=TABLES + _accounts() + "vacuum analyze;",
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield {"DATABASE_PORT": str(database), "REDIS_PORT": str(store)}


def _run(environment: dict[str, str], *words: str) -> str:
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, *words]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode:
        raise Absent((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    return done.stdout


def prepare(site: str, environment: dict[str, str]) -> None:
    """Makes what the site needs beside the tables of all."""
    if site == "django":
        _run(environment, str(HERE / "site_django.py"), "prepare")


def alone(site: str, environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """Load -> `cpu_us` of a request of the site without a server, and the `body` that each server has to
    give."""
    found: dict[str, Any] = json.loads(_run(environment, str(HERE / "alone.py"), site, str(seconds)))
    return found
