"""Many tasklets query real servers through C libraries while others are killed or run out of time:
``python -m tests.patches.storm DRIVER PORT QUERIES``.

Every answer is compared with the question. Prints JSON: how many queries were answered, how many tasklets
were killed, how many deadlines passed, what was wrong, and what was left over: descriptors of the process and
entries of the loop's census, and by how many megabytes the process grew in the second half.
"""

import contextlib
import gc
import io
import json
import os
import random
import sys
import time

import syncless
from syncless.patches import native_stats, patch_all, patch_native
from tests.patches.clients import psqlodbc_text

TASKLETS = 200
CONNECTIONS = 90
"""At once; servers allow some more."""


def one_row(query):
    """A question whose answer is one row: the number, anything, and the text."""

    def ask(connection, number, pause, letter, size):
        cursor = connection.cursor()
        cursor.execute(query, (number, pause, letter, size))
        row = cursor.fetchone()
        cursor.close()
        return int(row[0]) == number and row[2] == letter * size

    return ask


def mysqlclient(port):
    import MySQLdb
    import MySQLdb.cursors

    def connect():
        return MySQLdb.connect(host="127.0.0.1", port=port, user="root", database="mysql")

    def streamed(connection, number, pause, letter, size):
        """Rows that stay on the server until they are fetched."""
        cursor = connection.cursor(MySQLdb.cursors.SSCursor)
        cursor.execute(
            "SELECT seq + %s, REPEAT(%s, %s), SLEEP(%s) FROM seq_0_to_9",
            (number, letter, size // 10, pause / 10),
        )
        rows = [cursor.fetchone(), *cursor.fetchmany(4), *cursor]
        cursor.close()
        return [int(row[0]) - number for row in rows] == list(range(10)) and all(
            row[1] == letter * (size // 10) for row in rows
        )

    ask = one_row("SELECT %s, SLEEP(%s), REPEAT(%s, %s)")
    return connect, MySQLdb.Error, [ask, ask, streamed]


def sqlalchemy(port):
    """With a pool, which must notice each connection that was broken off."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        f"mysql+mysqldb://root@127.0.0.1:{port}/mysql", pool_size=CONNECTIONS, max_overflow=0
    )
    query = sqlalchemy.text("SELECT :number, SLEEP(:pause), REPEAT(:letter, :size)")

    def ask(connection, number, pause, letter, size):
        asked = {"number": number, "pause": pause, "letter": letter, "size": size}
        row = connection.execute(query, asked).first()
        connection.rollback()
        return int(row[0]) == number and row[2] == letter * size

    return engine.connect, sqlalchemy.exc.DBAPIError, [ask]


def psycopg2(port):
    import psycopg2

    def connect():
        connection = psycopg2.connect(user="postgres", host="127.0.0.1", port=port)
        connection.cursor().execute("CREATE TEMPORARY TABLE kept (number int, text text)")
        connection.commit()
        return connection

    def copied(connection, number, pause, letter, size):
        cursor = connection.cursor()
        cursor.copy_expert("COPY kept FROM STDIN", io.StringIO(f"{number}\t{letter * size}\n" * 3))
        out = io.StringIO()
        cursor.copy_expert(f"COPY (SELECT kept.*, pg_sleep({pause} / 3) FROM kept) TO STDOUT", out)
        connection.rollback()
        return out.getvalue() == f"{number}\t{letter * size}\t\n" * 3

    def large_object(connection, number, pause, letter, size):
        kept = connection.lobject(0, "rwb")
        kept.write(f"{number}{letter * size}".encode())
        kept.seek(0)
        connection.cursor().execute("SELECT pg_sleep(%s)", (pause,))
        got = kept.read().decode()
        kept.close()
        connection.rollback()
        return got == f"{number}{letter * size}"

    ask = one_row("SELECT %s, pg_sleep(%s), REPEAT(%s, %s)")
    return connect, psycopg2.Error, [ask, ask, ask, copied, large_object]


def pyodbc(port):
    import pyodbc

    def connect():
        return pyodbc.connect(psqlodbc_text(port))

    def ask(connection, number, pause, letter, size):
        cursor = connection.cursor()
        cursor.execute(f"SELECT {number}, pg_sleep({pause}), CAST(REPEAT(?, {size}) AS text)", letter)
        row = cursor.fetchone()
        cursor.close()
        return row[0] == number and row[2] == letter * size

    return connect, pyodbc.Error, [ask]


def pycurl(port):
    import pycurl

    def connect():
        handle = pycurl.Curl()
        handle.setopt(pycurl.NOSIGNAL, 1)
        return handle

    def ask(handle, number, pause, letter, size):
        got = io.BytesIO()
        handle.setopt(pycurl.URL, f"http://127.0.0.1:{port}/{pause}/{number}/{letter}/{size}")
        handle.setopt(pycurl.WRITEDATA, got)
        handle.perform()
        return got.getvalue() == f"{number} {letter * size}".encode()

    def ask_several(handle, number, pause, letter, size):
        """Transfers at once, beside the handle."""
        multi, several, got = pycurl.CurlMulti(), [connect() for _ in range(3)], []
        try:
            for each in several:
                got.append([])
                each.setopt(pycurl.URL, f"http://127.0.0.1:{port}/{pause}/{number}/{letter}/{size}")
                each.setopt(pycurl.WRITEFUNCTION, got[-1].append)
                multi.add_handle(each)
            running = 1
            while running:
                multi.select(1.0)
                running = multi.perform()[1]
            _, _, failed = multi.info_read()
            if failed:
                raise pycurl.error(*failed[0][1:])
            return {b"".join(parts) for parts in got} == {f"{number} {letter * size}".encode()}
        finally:
            for each in several:
                multi.remove_handle(each)
                each.close()
            multi.close()

    return connect, pycurl.error, [ask, ask, ask_several]


DRIVERS = {
    "mysqlclient": (mysqlclient, "MySQLdb", "mariadb"),
    "sqlalchemy": (sqlalchemy, "MySQLdb", "mariadb"),
    "psycopg2": (psycopg2, "psycopg2", "postgresql"),
    "pyodbc": (pyodbc, "pyodbc", "postgresql"),
    "pycurl": (pycurl, "pycurl", "http"),
}
"""Name -> (what makes the questions, what patch_native() is to be given, the server it needs)."""


def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Storm:
    def __init__(self, driver, port, queries, seed=26):
        self.connect, self.error, self.questions = driver(port)
        self.left = queries
        self.half = queries // 2
        self.size_at_half = 0.0
        self.chance = random.Random(seed)
        self.places = syncless.Semaphore(CONNECTIONS)
        self.workers = set()
        self.counts = dict.fromkeys(("answered", "killed", "late", "wrong", "errors"), 0)

    def ask(self, connection):
        number = self.left
        self.left -= 1
        if number == self.half:
            self.size_at_half = megabytes()
        pause = self.chance.choice([0, 0, 0, 0.001, 0.02])
        size = self.chance.choice([1, 10, 1000, 100_000])
        if not self.chance.choice(self.questions)(connection, number, pause, chr(97 + number % 26), size):
            self.counts["wrong"] += 1
        self.counts["answered"] += 1

    def work(self):
        """Queries on connections of its own. One that was broken off is closed, and another one made."""
        with self.places:
            connection = self.connect()
            try:
                while self.left > 0:
                    late = self.chance.random() < 0.01
                    try:
                        with syncless.deadline(0.005 if late else 60):
                            self.ask(connection)
                    except TimeoutError:
                        self.counts["late"] += 1
                        break
                    except self.error:
                        self.counts["errors"] += 1
                        raise
            finally:
                connection.close()

    def start(self):
        worker = syncless.spawn(self.work)
        self.workers.add(worker)
        worker.add_done_callback(self.ended)

    def ended(self, worker):
        self.workers.discard(worker)
        if self.left > 0:
            self.start()

    def kill_some(self):
        while self.left > 0:
            syncless.sleep(0.01)
            waiting = [worker for worker in self.workers if worker.status == "waiting"]
            if waiting:
                victim = self.chance.choice(waiting)
                victim.kill(block=False)
                self.counts["killed"] += 1

    def run(self):
        for _ in range(TASKLETS):
            self.start()
        killer = syncless.spawn(self.kill_some)
        while self.workers:
            syncless.sleep(0.05)
        killer.join()


def main(name, port, queries):
    driver, native, _ = DRIVERS[name]
    patch_all(drivers=False)
    patch_native(native)
    before, descriptors = syncless.current_loop().census(), set(os.listdir("/proc/self/fd"))
    storm = Storm(driver, port, queries)
    started = time.monotonic()
    storm.run()
    seconds = time.monotonic() - started
    grown = megabytes() - storm.size_at_half
    del storm.connect, storm.questions  # and the connections of a pool
    gc.collect()
    left = {key: value - before[key] for key, value in syncless.current_loop().census().items()}
    left = {key: value for key, value in left.items() if value and key != "busy carriers"}
    targets = []
    for fd in set(os.listdir("/proc/self/fd")) - descriptors:
        with contextlib.suppress(FileNotFoundError):  # the directory's own
            targets.append(os.readlink(f"/proc/self/fd/{fd}"))
    # psqlODBC may begin a log of its own when a connection is broken off, and keeps it open
    targets = [target for target in targets if not os.path.basename(target).startswith("psqlodbc_")]
    told = {"seconds": seconds, "grown": grown, "left": left, "descriptors": targets}
    print(json.dumps({**storm.counts, **told, "native": native_stats()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
