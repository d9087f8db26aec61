"""Tasklets whose queries are interrupted, under the patch: ``python -m tests.patches.interrupted DRIVER PORT
WHAT [QUERIES]``, where WHAT is a function of this module. Prints JSON."""

import asyncio
import atexit
import contextlib
import io
import json
import logging
import random
import socket
import sys
import warnings
from types import SimpleNamespace

import syncless
from syncless.patches import patch_all, patch_native, queries

TASKLETS = 40
LONG = 60
"""Seconds of a query whose end no test waits for."""


def leave_unmade_connections():
    """Drivers do not close the socket of one that was interrupted while it was made."""
    warnings.simplefilter("ignore", ResourceWarning)


class PostgreSQL:
    others: tuple[str, ...] = ()
    running = (
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE state = 'active' AND query LIKE '%pg_sleep({LONG})%' AND pid <> pg_backend_pid()"
    )

    asked = "SELECT {}, pg_sleep({})"
    names_queries = True
    """Whether the text of one is among the variables of a function in Python."""

    def value(self, connection, query):
        """The first one of its answer."""
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return cursor.fetchone()[0]

    def ask(self, connection, number, pause):
        """The number, after this many seconds."""
        return self.value(connection, self.asked.format(number, pause))

    def begin(self):
        """Before many of them wait at once."""

    def wait(self, connection):
        self.ask(connection, 0, LONG)

    def is_open(self, connection):
        return not connection.closed

    def end_running(self, connection):
        self.value(connection, self.running.replace("*", "pg_terminate_backend(pid)"))


class Psycopg(PostgreSQL):
    others = ("copy", "stream", "pipeline", "many_rows", "transaction")

    def __init__(self, port):
        import psycopg

        # it warns of a pipeline whose connection was closed, as when a cancel takes more than its second
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        self.error = psycopg.Error
        self.port = port
        self.connect = lambda: psycopg.connect(f"host=127.0.0.1 port={port} user=postgres", autocommit=True)

    def copy(self, connection):
        with connection.cursor().copy(f"COPY (SELECT 5, pg_sleep({LONG})) TO STDOUT") as copy:
            list(copy)

    def stream(self, connection):
        for _ in connection.cursor().stream(f"SELECT generate_series(1, 9), pg_sleep({LONG})"):
            pass

    def pipeline(self, connection):
        with connection.pipeline():
            for number in range(3):
                connection.execute(f"SELECT {number}, pg_sleep({LONG})")

    def many_rows(self, connection):
        connection.execute(
            f"SELECT n, CASE WHEN n > 99999 THEN pg_sleep({LONG}) END FROM generate_series(1, 100000) n"
        )

    def transaction(self, connection):
        with connection.transaction():
            self.ask(connection, 0, LONG)


class Psycopg2(PostgreSQL):
    others = ("copy", "named_cursor")
    names_queries = False

    def __init__(self, port):
        import psycopg2

        self.error = psycopg2.Error
        self.connect = lambda: psycopg2.connect(host="127.0.0.1", port=port, user="postgres")

    def copy(self, connection):
        connection.cursor().copy_expert(f"COPY (SELECT 5, pg_sleep({LONG})) TO STDOUT", io.StringIO())

    def named_cursor(self, connection):
        cursor = connection.cursor("name")
        cursor.execute(f"SELECT pg_sleep({LONG})")
        cursor.fetchone()


class Pg8000(PostgreSQL):
    others = ("many_rows", "copy")

    def __init__(self, port):
        import pg8000.dbapi

        self.error = pg8000.dbapi.Error
        # else each connection reads all certificates of the system
        plain = {"host": "127.0.0.1", "port": port, "ssl_context": False}
        self.connect = lambda: pg8000.dbapi.connect("postgres", **plain)

    def is_open(self, connection):
        return connection._sock is not None

    def many_rows(self, connection):
        Psycopg.many_rows(self, connection.cursor())

    def copy(self, connection):
        connection.cursor().execute(f"COPY (SELECT 5, pg_sleep({LONG})) TO STDOUT", stream=io.StringIO())


class PyMySQL(PostgreSQL):
    running = (
        "SELECT COUNT(*) FROM information_schema.processlist "
        f"WHERE (info LIKE '%, SLEEP({LONG})%' OR info LIKE '%''held'', {LONG})%') AND id <> CONNECTION_ID()"
    )
    asked = "SELECT {}, SLEEP({})"
    held = f"GET_LOCK('held', {LONG})"
    """MariaDB takes seconds to end several SLEEPs at once."""
    others = ("unbuffered", "many_rows", "lock")

    def __init__(self, port):
        import pymysql

        self.error, self.module = pymysql.Error, pymysql
        # else each connection reads all certificates of the system
        plain = {"host": "127.0.0.1", "port": port, "user": "root", "ssl_disabled": True}
        self.connect = lambda: pymysql.connect(**plain, database="mysql")

    def begin(self):
        holder = self.connect()
        atexit.register(holder.close)
        self.value(holder, f"SELECT {self.held}")

    def wait(self, connection):
        self.value(connection, f"SELECT {self.held}")

    def is_open(self, connection):
        return connection.open

    def end_running(self, connection):
        number = self.value(connection, self.running.replace("COUNT(*)", "id"))
        connection.cursor().execute(f"KILL {number}")

    def unbuffered(self, connection):
        with contextlib.closing(connection.cursor(self.module.cursors.SSCursor)) as cursor:
            cursor.execute(f"SELECT seq, IF(seq > 5000, {self.held}, 0) FROM seq_0_to_9999")
            cursor.fetchall()

    def many_rows(self, connection):
        self.value(connection, f"SELECT seq, IF(seq > 5000, {self.held}, 0) FROM seq_0_to_9999")

    def lock(self, connection):
        self.value(connection, f"DO GET_LOCK('lock', 0), {self.held}")


class MySQLClient(PyMySQL):
    """Its connections know no more than their next error whether they are closed."""

    def __init__(self, port):
        import MySQLdb
        import MySQLdb.cursors

        self.error, self.module = MySQLdb.Error, MySQLdb
        self.connect = lambda: MySQLdb.connect(host="127.0.0.1", port=port, user="root", database="mysql")

    def is_open(self, connection):
        try:
            connection.ping()
        except self.module.OperationalError:
            return False
        return True


class Redis:
    """A pool of the driver's own. No command is cancelled: a connection that was interrupted is closed."""

    others = ()
    asked = "{} {}"
    names_queries = False
    begin, wait = PostgreSQL.begin, PostgreSQL.wait

    def __init__(self, port):
        import redis

        leave_unmade_connections()
        self.error = redis.RedisError
        client = redis.Redis(port=port, max_connections=200)
        self.client = SimpleNamespace(closed=False, rollback=lambda: None, close=lambda: None, redis=client)
        self.connect = lambda: self.client

    def is_open(self, connection):
        return True

    def ask(self, connection, number, pause):
        pause = pause and connection.redis.blpop([f"nothing{number}"], timeout=pause)
        return int(connection.redis.echo(str(number)))

    running = "blocked_clients"

    def value(self, connection, query):
        return connection.redis.info("clients")[query]


class PyMongo(Redis):
    """The same of MongoDB; what its server still computes is not known here."""

    def __init__(self, port):
        import pymongo

        leave_unmade_connections()
        self.error = pymongo.errors.PyMongoError
        client = pymongo.MongoClient("127.0.0.1", port, maxPoolSize=200)
        atexit.register(client.close)
        self.client = SimpleNamespace(rollback=lambda: None, close=lambda: None, admin=client.admin)
        self.connect = lambda: self.client

    def ask(self, connection, number, pause):
        return connection.admin.command("slow", seconds=pause, number=number)["number"]

    running = 0

    def value(self, connection, query):
        return query


class SQLAlchemy(PostgreSQL):
    """Each query is made on a connection of a QueuePool."""

    url = "postgresql+psycopg://postgres@127.0.0.1:{}/postgres"
    options: dict[str, object] = {}

    def __init__(self, port):
        import sqlalchemy

        engine = sqlalchemy.create_engine(self.url.format(port), pool_size=100, connect_args=self.options)
        self.error, self.text, self.open = sqlalchemy.exc.DBAPIError, sqlalchemy.text, engine.connect
        self.connect = lambda: SimpleNamespace(closed=False, rollback=lambda: None, close=engine.dispose)

    def value(self, connection, query):
        with self.open() as taken:
            return taken.execute(self.text(query)).scalar()


class SQLAlchemyPsycopg2(SQLAlchemy):
    url = "postgresql+psycopg2://postgres@127.0.0.1:{}/postgres"


class SQLAlchemyPg8000(SQLAlchemy):
    url = "postgresql+pg8000://postgres@127.0.0.1:{}/postgres"
    options = {"ssl_context": False}

    def __init__(self, port):
        leave_unmade_connections()
        super().__init__(port)


DRIVERS = {
    "psycopg": (Psycopg, "psycopg", "postgresql"),
    "psycopg2": (Psycopg2, "psycopg2", "postgresql"),
    "pg8000": (Pg8000, "pg8000", "postgresql"),
    "pymysql": (PyMySQL, "pymysql", "mariadb"),
    "mysqlclient": (MySQLClient, "MySQLdb", "mariadb"),
    "redis": (Redis, "redis", "redis"),
    "pymongo": (PyMongo, "pymongo", "mongodb"),
    "sqlalchemy with psycopg": (SQLAlchemy, "sqlalchemy", "postgresql"),
    "sqlalchemy with psycopg2": (SQLAlchemyPsycopg2, "sqlalchemy", "postgresql"),
    "sqlalchemy with pg8000": (SQLAlchemyPg8000, "sqlalchemy", "postgresql"),
}
"""Name -> (class, the module that it imports, the server)."""


def still_running(driver):
    """How many long queries the server computes when it has had time to end them."""
    connection = driver.connect()
    for _ in range(400):
        count = driver.value(connection, driver.running)
        connection.rollback()
        if not count:
            break
        syncless.sleep(0.05)
    connection.close()
    return count


def is_usable(driver, connection):
    """Or closed."""
    if driver.is_open(connection):
        connection.rollback()
        usable = driver.ask(connection, 7, 0) == 7
        connection.close()
        return usable
    return True


def late(driver, connections, asks):
    """What is left of queries that never end, each under a deadline."""
    queries.CANCEL_SECONDS = LONG  # a slow server is no reason to give up
    told = {"late": 0}

    def work(connection, ask):
        try:
            with syncless.deadline(0.2):
                ask(connection)
        except TimeoutError:
            told["late"] += 1

    syncless.join_all([syncless.spawn(work, *each) for each in zip(connections, asks, strict=True)])
    running = still_running(driver)
    return {**told, "running": running, "usable": sum(is_usable(driver, each) for each in connections)}


def long_queries(driver):
    """More than end at a time."""
    driver.begin()
    return late(driver, [driver.connect() for _ in range(TASKLETS)], [driver.wait] * TASKLETS)


def other_ways(driver):
    """To wait for an answer than execute()."""
    driver.begin()
    asks = [getattr(driver, name) for name in driver.others] * 10
    return late(driver, [driver.connect() for _ in asks], asks)


def refused(application, seconds=0.2):
    """The status of a request that is late, after one that may connect, and what the server logs."""
    from http.client import HTTPConnection

    from syncless.wsgi import Server

    errors = io.StringIO()
    server = Server(application, port=0, request_seconds=seconds, cancel_seconds=LONG, error_log=errors)
    server.start()
    with contextlib.closing(HTTPConnection(*server.address[:2])) as client:
        for path in ("/connect", "/"):
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
    server.stop()
    return answer.status, errors.getvalue()


def request(driver):
    """The status of one that is late, what is left of its query, and whether the log names it."""
    connection = driver.connect()
    driver.ask(connection, 7, 0)  # a pool connects with its first query

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/":
            driver.ask(connection, 0, LONG)
        start_response("204 No Content", [])
        return []

    status, log = refused(app)
    running, named = still_running(driver), driver.asked.format(0, LONG) in log
    return {"status": status, "running": running, "usable": is_usable(driver, connection), "named": named}


def request_by_asyncpg(driver):
    """The same of an ASGI application."""
    import asyncpg

    connections = []

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        if not connections:
            where = {"host": "127.0.0.1", "port": driver.port, "user": "postgres"}
            connections.append(await asyncpg.connect(**where))
        else:
            try:
                await connections[0].fetchval(driver.asked.format(0, LONG))
            finally:
                await connections[0].close()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    status, log = refused(app, 1)
    return {"status": status, "running": still_running(driver), "named": driver.asked.format(0, LONG) in log}


def request_by_django(driver):
    """The same of a cursor of Django."""
    import django
    from django.conf import settings
    from django.db import connection

    database = {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": driver.port}
    settings.configure(DATABASES={"default": database | {"USER": "postgres", "NAME": "postgres"}})
    django.setup()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/":
            with contextlib.closing(connection), connection.cursor() as cursor:
                cursor.execute(driver.asked.format(0, LONG))
        connection.ensure_connection()  # is the second request's, too, which has the same slot
        start_response("204 No Content", [])
        return []

    status, log = refused(app, 1)
    return {"status": status, "running": still_running(driver), "named": driver.asked.format(0, LONG) in log}


def coroutines(driver, count=20):
    """asyncpg and psycopg's own for coroutines: both drivers cancel by themselves."""
    import asyncpg
    import psycopg

    where = {"host": "127.0.0.1", "port": driver.port, "user": "postgres"}

    async def late(connection):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await connection.execute(f"SELECT 0, pg_sleep({LONG})")

    async def main():
        asked = [await asyncpg.connect(**where) for _ in range(count)]
        others = [await psycopg.AsyncConnection.connect(**where, autocommit=True) for _ in range(count)]
        await asyncio.gather(*map(late, asked + others))
        answers = [await each.fetchval("SELECT 7") for each in asked]
        answers += [(await (await each.execute("SELECT 7")).fetchone())[0] for each in others]
        for each in asked + others:
            await each.close()
        return answers.count(7)

    return {"usable": asyncio.run(main()), "running": still_running(driver)}


def behind_a_proxy(driver):
    """Where a thread with the number of ours may be somebody else's."""
    connection, other = driver.connect(), driver.connect()
    connection._syncless_port = 1
    with contextlib.suppress(TimeoutError), syncless.deadline(0.05):
        driver.ask(connection, 0, LONG)
    running = driver.value(other, driver.running)
    other.kill(connection.server_thread_id[0])
    other.close()
    return running


@contextlib.contextmanager
def passing_on(port, closed):
    """A proxy in front of the server: gives its own port. As long as the list `closed` is not empty, it takes
    connections and does nothing with them, but for adding them to the list."""

    def pass_on(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
        target.close()

    def accept(listener):
        while True:
            client = listener.accept()[0]
            if closed:
                closed.append(client)
                continue
            pair = client, socket.create_connection(("127.0.0.1", port))
            passing.extend(syncless.spawn(pass_on, *each) for each in (pair, pair[::-1]))

    passing = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = syncless.spawn(accept, listener)
        yield listener.getsockname()[1]
        accepting.kill()
        for each in closed[1:]:
            each.close()
        syncless.join_all(passing)


def unheard(driver, port):
    """What is left of a query when nobody answers the cancel."""
    queries.CANCEL_SECONDS = 0.05
    closed = []
    with passing_on(port, closed) as proxy:
        behind = type(driver)(proxy)
        connection = behind.connect()
        closed.append("from now on")
        asking = syncless.spawn(behind.ask, connection, 0, LONG)
        with contextlib.closing(driver.connect()) as other:
            while not driver.value(other, driver.running):
                other.rollback()
                syncless.sleep(0.01)
            asking.kill()
            with contextlib.suppress(syncless.TaskletKilled):
                asking.result()
                raise AssertionError("the kill was lost")
            told = {"open": behind.is_open(connection), "asked": len(closed) > 1}
            other.rollback()
            told["running"] = driver.value(other, driver.running)
            other.rollback()
            driver.end_running(other)
    return told


def killed_again(driver, count=10):
    """Each is killed over and over until it has ended."""
    connections = [driver.connect() for _ in range(count)]
    tasklets = [syncless.spawn(driver.ask, each, 0, LONG) for each in connections]
    syncless.sleep(0.05)
    while waiting := [each for each in tasklets if not each.done()]:
        for each in waiting:
            each.kill(block=False)
        syncless.sleep(0.005)
    running = still_running(driver)
    return {"running": running, "usable": sum(is_usable(driver, each) for each in connections)}


def storm(driver, queries):
    """Many short queries under tiny deadlines, on connections that go back to a pool. Each answer is compared
    with its question; an error is a cancel that came late and hit the next query."""
    told = {"answered": 0, "late": 0, "wrong": 0, "errors": []}
    pool = syncless.Queue()
    for _ in range(TASKLETS // 2):
        pool.put(driver.connect())
    chance, left = random.Random(31), iter(range(queries))

    def work():
        for number in left:
            connection = pool.get()
            try:
                with syncless.deadline(chance.choice([0.0005, 0.001, 0.002, 0.005, LONG])):
                    answer = driver.ask(connection, number, chance.choice([0, 0, 0.001, 0.002]))
                told["answered"] += 1
                told["wrong"] += answer != number
            except TimeoutError:
                told["late"] += 1
            except driver.error as error:
                told["errors"].append(repr(error))
            finally:
                if driver.is_open(connection):
                    connection.rollback()
                else:
                    connection = driver.connect()
                pool.put(connection)

    syncless.join_all([syncless.spawn(work) for _ in range(TASKLETS)])
    while not pool.empty():
        pool.get().close()
    return told


def main(name, port, what, *numbers):
    patch_all()
    queries.CANCEL_SECONDS = LONG  # no verdict depends on the speed of the machine
    driver, module, _ = DRIVERS[name]
    if module == "MySQLdb":
        patch_native("MySQLdb")
    given = [port] if what == "unheard" else map(int, numbers)
    print(json.dumps(globals()[what](driver(port), *given)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
