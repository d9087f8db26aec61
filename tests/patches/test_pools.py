"""Pools lose no connection when tasklets that use them are interrupted: see syncless/patches/pools.py."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import needs
from tests.patches.servers import postgresql, redis

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]

BEGIN = """
import sys, json, time, threading, random
from syncless.patches import patch_all
patch_all()
import syncless
from tests.waiting import eventually
port = int(sys.argv[1])
def cut(use, number, seed):
    "Many uses at once, most of them cut at a moment of their own: in a step of theirs, and in any order."
    choose, tasklets = random.Random(seed), []
    began = time.monotonic()
    use()
    one = max(time.monotonic() - began, 0.002)
    def limited(seconds):
        with syncless.Timeout(seconds, False):
            use()
    def kill(tasklet, seconds):
        syncless.sleep(seconds)
        tasklet.kill()
    for _ in range(number):
        seconds = choose.random() * one * 8
        tasklets.append(syncless.spawn(limited, seconds if choose.random() < 0.5 else 60))
        tasklets.append(syncless.spawn(kill, tasklets[-1], seconds))
    for tasklet in tasklets:
        tasklet.join()
"""

PSYCOPG = """
from psycopg_pool import ConnectionPool
pool = ConnectionPool(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", min_size=2, max_size=2)
def use():
    with pool.connection(timeout=60) as connection:
        connection.execute("select pg_sleep(0.002)")
def free():
    told = pool.get_stats()
    return told.get("pool_available") == 2 and not told.get("requests_waiting")
"""

REDIS = """
import importlib.metadata
import redis
pool = redis.BlockingConnectionPool(max_connections=50, timeout=60, port=port)
client = redis.Redis(connection_pool=pool)
def use():
    client.get("x")
    if random.random() < 0.2:
        pool.disconnect()
def free():
    return pool.pool.qsize() == 50
"""

HTTPX = """
import httpx
from syncless.wsgi import Server
def app(environ, start_response):
    syncless.sleep(0)
    start_response("200 OK", [("Content-Length", "1")])
    return [b"x"]
server = Server(app, port=0)
server.start()
client = httpx.Client(limits=httpx.Limits(max_connections=3), timeout=60)
def use():
    client.get(f"http://127.0.0.1:{server.address[1]}/")
pool = client._transport._pool
def free():
    return not pool._requests and all(each.is_idle() or each.is_closed() for each in pool.connections)
"""

END = """
cut(use, 150, int(sys.argv[2]))
print(json.dumps(eventually(free)), flush=True)
import os
os._exit(0)
"""


def is_free(program, port, seed):
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + program + END, str(port), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", [1, 2])
def test_pool_of_psycopg(seed):
    needs.module("psycopg_pool", "has a pool of connections")
    with postgresql() as port:
        assert is_free(PSYCOPG, port, seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_pool_of_redis(seed):
    needs.module("redis", "has a pool of connections")
    with redis() as port:
        assert is_free(REDIS, port, seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_pool_of_httpx(seed):
    needs.module("httpx", "has a pool of connections")
    assert is_free(HTTPX, 0, seed)
