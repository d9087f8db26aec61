"""Real clients under the patch: ``python -m tests.patches.clients NAME PORT before|after`` has fifty threads
wait 0.2 s each in one way.

The client library is imported before or after patch_all(). Prints JSON: seconds, results. The servers are
those of servers.py.
"""

import glob
import importlib
import json
import sys
import threading
import time

from syncless.patches import native_stats, patch_all, patch_native

THREADS = 50
WAIT = 0.2
PSQLODBC = "/usr/lib/*/odbc/psqlodbcw.so"


def redis(port):
    from redis import Redis

    client = Redis(port=port, max_connections=THREADS)
    return lambda number: (client.blpop(["nothing"], timeout=WAIT), client.incr("count") > 0)[1]


def pymysql(port):
    import pymysql

    connections = [pymysql.connect(host="127.0.0.1", port=port, user="root") for _ in range(THREADS)]

    def wait(number):
        with connections[number].cursor() as cursor:
            cursor.execute("SELECT SLEEP(%s), 5", (WAIT,))
            return cursor.fetchone()[1] == 5

    return wait


def in_postgresql(connections):
    def wait(number):
        cursor = connections[number].cursor()
        cursor.execute(f"SELECT 5, pg_sleep({WAIT})")
        return cursor.fetchone()[0] == 5

    return wait


def pg8000(port):
    import pg8000.dbapi

    return in_postgresql(
        [pg8000.dbapi.connect(user="postgres", host="127.0.0.1", port=port) for _ in range(THREADS)]
    )


def psycopg2(port):
    import psycopg2

    return in_postgresql(
        [psycopg2.connect(user="postgres", host="127.0.0.1", port=port) for _ in range(THREADS)]
    )


def psycopg(port):
    import psycopg

    return in_postgresql(
        [psycopg.connect(user="postgres", host="127.0.0.1", port=port) for _ in range(THREADS)]
    )


def sqlalchemy(port):
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        f"postgresql+psycopg2://postgres@127.0.0.1:{port}/postgres", pool_size=THREADS
    )

    def wait(number):
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(f"SELECT 5, pg_sleep({WAIT})")).first()[0] == 5

    return wait


def sqlalchemy_pool(port):
    """Ten connections for fifty threads: a fifth of the time each, in turn."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        f"postgresql+pg8000://postgres@127.0.0.1:{port}/postgres", pool_size=10, max_overflow=0
    )
    for connection in [engine.connect() for _ in range(10)]:  # making them computes more than it waits
        connection.close()

    def wait(number):
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(f"SELECT 5, pg_sleep({WAIT / 5})")).first()[0] == 5

    return wait


def pymongo(port):
    from pymongo import MongoClient

    client = MongoClient("127.0.0.1", port, maxPoolSize=THREADS)
    return lambda number: client.admin.command("slow", seconds=WAIT)["ok"] == 1


def requests(port):
    import requests

    return lambda number: requests.get(f"http://127.0.0.1:{port}/{WAIT}").text == "slept"


def urllib3(port):
    import urllib3

    pool = urllib3.PoolManager(maxsize=THREADS)
    return lambda number: pool.request("GET", f"http://127.0.0.1:{port}/{WAIT}").data == b"slept"


def httpx(port):
    import httpx

    client = httpx.Client(limits=httpx.Limits(max_connections=THREADS), trust_env=False)
    return lambda number: client.get(f"http://127.0.0.1:{port}/{WAIT}").text == "slept"


def boto3(port):
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="eu-west-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(max_pool_connections=THREADS, s3={"addressing_style": "path"}),
    )
    return lambda number: client.get_object(Bucket=str(WAIT), Key="slow")["Body"].read() == b"slept"


def http_client(port):
    import http.client

    def wait(number):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/{WAIT}")
        with connection.getresponse() as response:
            return response.read() == b"slept"

    return wait


def urllib_request(port):
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return lambda number: opener.open(f"http://127.0.0.1:{port}/{WAIT}").read() == b"slept"


def mysqlclient(port):
    import MySQLdb

    connections = [MySQLdb.connect(host="127.0.0.1", port=port, user="root") for _ in range(THREADS)]

    def wait(number):
        cursor = connections[number].cursor()
        cursor.execute("SELECT SLEEP(%s), 5", (WAIT,))
        return cursor.fetchone()[1] == 5

    return wait


def sqlalchemy_mysql(port):
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"mysql+mysqldb://root@127.0.0.1:{port}/mysql", pool_size=THREADS)

    def wait(number):
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(f"SELECT 5, SLEEP({WAIT})")).first()[0] == 5

    return wait


def psycopg2_copies(port):
    """COPY, which psycopg2 refuses beside a wait callback."""
    import io

    import psycopg2

    connections = [psycopg2.connect(user="postgres", host="127.0.0.1", port=port) for _ in range(THREADS)]

    def wait(number):
        copied = io.StringIO()
        query = f"COPY (SELECT 5, pg_sleep({WAIT})) TO STDOUT"
        connections[number].cursor().copy_expert(query, copied)
        return copied.getvalue() == "5\t\n"

    return wait


def psycopg2_shared(port):
    """Ten tasklets share each connection, whose mutex is held during a query."""
    import psycopg2

    connections = [psycopg2.connect(user="postgres", host="127.0.0.1", port=port) for _ in range(5)]

    def wait(number):
        cursor = connections[number % 5].cursor()
        cursor.execute(f"SELECT 5, pg_sleep({WAIT / 10})")
        return cursor.fetchone()[0] == 5

    return wait


def pycurl(port):
    import io

    import pycurl

    def wait(number):
        got = io.BytesIO()
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, f"http://127.0.0.1:{port}/{WAIT}")
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.WRITEDATA, got)
        handle.perform()
        handle.close()
        return got.getvalue() == b"slept"

    return wait


def pycurl_multi(port):
    """Two transfers of each tasklet at once."""
    import pycurl

    def wait(number):
        multi = pycurl.CurlMulti()
        handles = [pycurl.Curl() for _ in range(2)]
        got = [[], []]
        for handle, parts in zip(handles, got, strict=True):
            handle.setopt(pycurl.URL, f"http://localhost:{port}/{WAIT}")
            handle.setopt(pycurl.NOSIGNAL, 1)
            handle.setopt(pycurl.WRITEFUNCTION, parts.append)
            multi.add_handle(handle)
        running = 1
        while running:
            multi.select(1.0)
            running = multi.perform()[1]
        for handle in handles:
            multi.remove_handle(handle)
        return [b"".join(parts) for parts in got] == [b"slept"] * 2

    return wait


def mysqlclient_streamed(port):
    """Rows that stay on the server until they are fetched."""
    import MySQLdb
    from MySQLdb.cursors import SSCursor

    options = {"host": "127.0.0.1", "port": port, "user": "root", "cursorclass": SSCursor}
    connections = [MySQLdb.connect(**options) for _ in range(THREADS)]

    def wait(number):
        cursor = connections[number].cursor()
        cursor.execute("SELECT 5 UNION ALL SELECT SLEEP(%s) + 6", (WAIT,))
        rows = [cursor.fetchone(), *cursor]
        cursor.close()
        return rows == [(5,), (6,)]

    return wait


def python_ldap(port):
    import ldap

    connections = [ldap.initialize(f"ldap://127.0.0.1:{port}") for _ in range(THREADS)]
    return lambda number: connections[number].search_s("", ldap.SCOPE_BASE)[0][0] == ""


def pylibmc(port):
    import pylibmc

    made = [pylibmc.Client([f"127.0.0.1:{port}"]) for _ in range(THREADS)]
    return lambda number: made[number].get("nothing") is None


def zmq_messages(port):
    import zmq

    context = zmq.Context()
    pairs = []
    for number in range(THREADS):
        pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        pull.bind(f"inproc://{number}")
        push.connect(f"inproc://{number}")
        pairs.append((pull, push))

    def wait(number):
        pull, push = pairs[number]
        threading.Timer(WAIT, push.send, (b"sent",)).start()
        return pull.recv() == b"sent"

    return wait


def zmq_poller(port):
    import zmq

    context = zmq.Context()
    sockets = [context.socket(zmq.PULL) for _ in range(THREADS)]
    for number, each in enumerate(sockets):
        each.bind(f"inproc://{number}")

    def wait(number):
        poller = zmq.Poller()
        poller.register(sockets[number], zmq.POLLIN)
        return poller.poll(WAIT * 1000) == []

    return wait


def apsw(port):
    """A database that another connection has locked."""
    import tempfile

    import apsw

    path = tempfile.mkdtemp() + "/database"
    owner = apsw.Connection(path)
    owner.execute("CREATE TABLE t (n); BEGIN EXCLUSIVE")
    connections = [apsw.Connection(path) for _ in range(THREADS)]

    def wait(number):
        connections[number].set_busy_timeout(int(WAIT * 1000))
        try:
            connections[number].execute("INSERT INTO t VALUES (1)")
        except apsw.BusyError:
            return owner.in_transaction

    return wait


def confluent_kafka(port):
    """No broker is there, and so no message."""
    import logging

    import confluent_kafka

    options = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "logger": logging.getLogger("silent")}
    logging.getLogger("silent").setLevel(logging.CRITICAL)
    consumers = [confluent_kafka.Consumer(options) for _ in range(THREADS)]
    for each in consumers:
        each.subscribe(["topic"])
    return lambda number: consumers[number].poll(WAIT) is None


def pymssql(port):
    """Logins that are refused late; FreeTDS tries each of them twice."""
    import pymssql

    def wait(number):
        try:
            pymssql.connect("127.0.0.1", "user", "password", port=str(port), login_timeout=60)
        except pymssql.OperationalError:
            return True

    return wait


def grpcio(port):
    """Calls of a server in the same process."""
    from concurrent import futures

    import grpc

    def slow(request, context):
        time.sleep(WAIT)
        return request

    handlers = {"slow": grpc.unary_unary_rpc_method_handler(slow)}
    server = grpc.server(futures.ThreadPoolExecutor(THREADS))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
    channel = grpc.insecure_channel(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    call = channel.unary_unary("/test/slow")

    def wait(number, keep=server):
        """A server that nothing refers to ends."""
        return call(b"asked", timeout=60) == b"asked"

    return wait


def psqlodbc_text(port):
    driver = glob.glob(PSQLODBC)[0]
    return f"Driver={driver};Server=127.0.0.1;Port={port};Database=postgres;UID=postgres;"


def pyodbc(port):
    import pyodbc

    connections = [pyodbc.connect(psqlodbc_text(port)) for _ in range(THREADS)]
    return in_postgresql(connections)


CLIENTS = {
    "redis": (redis, "redis", "redis"),
    "pymysql": (pymysql, "pymysql", "mariadb"),
    "mysqlclient": (mysqlclient, "MySQLdb", "mariadb"),
    "sqlalchemy with mysqlclient": (sqlalchemy_mysql, "MySQLdb", "mariadb"),
    "psycopg2's COPY": (psycopg2_copies, "psycopg2", "postgresql"),
    "psycopg2, shared": (psycopg2_shared, "psycopg2", "postgresql"),
    "pycurl": (pycurl, "pycurl", "http"),
    "pycurl's multi": (pycurl_multi, "pycurl", "http"),
    "pyodbc": (pyodbc, "pyodbc", "postgresql"),
    "mysqlclient's SSCursor": (mysqlclient_streamed, "MySQLdb", "mariadb"),
    "python-ldap": (python_ldap, "ldap", "ldap"),
    "pylibmc": (pylibmc, "pylibmc", "memcached"),
    "pyzmq": (zmq_messages, "zmq", "none"),
    "pyzmq's poller": (zmq_poller, "zmq", "none"),
    "apsw": (apsw, "apsw", "none"),
    "confluent-kafka": (confluent_kafka, "confluent_kafka", "none"),
    "pymssql": (pymssql, "pymssql", "refusing"),
    "grpcio": (grpcio, "grpc", "none"),
    "pg8000": (pg8000, "pg8000.dbapi", "postgresql"),
    "psycopg2": (psycopg2, "psycopg2", "postgresql"),
    "psycopg": (psycopg, "psycopg", "postgresql"),
    "sqlalchemy": (sqlalchemy, "sqlalchemy", "postgresql"),
    "sqlalchemy's pool": (sqlalchemy_pool, "sqlalchemy", "postgresql"),
    "pymongo": (pymongo, "pymongo", "mongodb"),
    "requests": (requests, "requests", "http"),
    "urllib3": (urllib3, "urllib3", "http"),
    "httpx": (httpx, "httpx", "http"),
    "boto3": (boto3, "boto3", "http"),
    "http.client": (http_client, "http.client", "http"),
    "urllib.request": (urllib_request, "urllib.request", "http"),
}
"""Name -> (what makes a function that waits, the module to import, the server it needs)."""

IN_C = {
    "mysqlclient": ["MySQLdb"],
    "sqlalchemy with mysqlclient": ["MySQLdb"],
    "psycopg2's COPY": ["psycopg2"],
    "psycopg2, shared": ["psycopg2"],
    "pycurl": ["pycurl"],
    "pycurl's multi": ["pycurl"],
    "pyodbc": ["pyodbc"],
    "mysqlclient's SSCursor": ["MySQLdb"],
    "python-ldap": ["ldap"],
    "pylibmc": ["pylibmc"],
    "pyzmq": ["zmq"],
    "pyzmq's poller": ["zmq"],
    "pymssql": ["pymssql"],
}
"""Those that wait in C -> what patch_native() is to be given."""
OFFLOADED = {"apsw": ["apsw.Connection"]}
"""Those that cannot be patched -> what patch_all() is to offload."""


def main(name, port, order):
    connect, module, _ = CLIENTS[name]
    if order == "before":
        importlib.import_module(module)
    patch_all(drivers=name not in IN_C, offload=OFFLOADED.get(name, ()))
    if name in IN_C:
        patch_native(*IN_C[name])
    wait = connect(port)
    wait(0)  # imports and compilation at the first call are not waits
    results = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(wait(number)))
        for number in range(THREADS)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "results": results, "native": native_stats()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
