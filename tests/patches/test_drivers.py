"""Drivers in C whose servers are not at hand: several log in at once, in one process with a server that
answers none of them before it has read from all. A driver that blocks the others would never be answered."""

import importlib.util

import pytest

from tests.programs import run_python

pytest.importorskip("syncless.patches.libraries.parking", reason="C libraries can be patched on Linux only")

COUNT = 5
SERVER = f"""
import socket, threading
from syncless.patches import native_stats, patch_all, patch_native
patch_all()
have_asked = threading.Barrier({COUNT})
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
errors = []

def answer(client):
    with client:
        asked = client.recv(1000)
        have_asked.wait()
        client.sendall(answer_to(asked))

def serve():
    while True:
        threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()

def log_in():
    try: connect()
    except Exception as error: errors.append(str(error))

def log_in_at_once():
    threading.Thread(target=serve, daemon=True).start()
    threads = [threading.Thread(target=log_in) for _ in range({COUNT})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(errors) == {COUNT}, errors
    stats = native_stats()
    assert stats["waits"] and not stats["holding_gil"], stats
"""


def skip_without(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install --group drivers")


def test_logins_of_pymssql_wait_side_by_side():
    skip_without("pymssql")
    run_python(
        SERVER
        + f"""
patch_native("pymssql")
import pymssql
def connect():
    pymssql.connect("127.0.0.1", "user", "word", port=port, login_timeout=60, tds_version="7.4")
def answer_to(asked):
    return b""  # the connection is closed
log_in_at_once()
assert native_stats()["waits"] >= {COUNT}
assert all("connection failed" in error and "timed out" not in error for error in errors), errors
"""
    )


def test_connections_of_cassandra_wait_side_by_side_in_its_own_reactor():
    skip_without("cassandra")
    run_python(
        SERVER
        + """
import sys
sys.modules["eventlet"] = None  # the driver imports it where it is installed, and that warns
patch_native("cassandra")
from cassandra.cluster import Cluster, DefaultConnection
assert DefaultConnection.__name__ == "LibevConnection", DefaultConnection
def connect():
    cluster = Cluster(["127.0.0.1"], port=port, connect_timeout=60, protocol_version=4)
    try: cluster.connect()
    finally: cluster.shutdown()
def answer_to(asked):
    "A server's error, with the number of the request."
    assert asked[4] == 5, asked  # which options there are
    return b"\\x84\\0" + asked[2:4] + b"\\0" + (6 + 4).to_bytes(4, "big") + b"\\0\\0\\0\\0" + b"\\0\\4busy"
log_in_at_once()
assert all("busy" in error for error in errors), errors
"""
    )
