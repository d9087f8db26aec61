"""The calls that psycopg2 refuses beside a wait callback: ``python -m tests.patches.copying PORT
before|after|never``.

psycopg2 is imported before or after the patch, or there is none. Prints as JSON what the calls gave.
"""

import io
import json
import sys
import tempfile
import threading
import time

from syncless.patches import patch_all

ROWS = "".join(f"{number}\tname {number}\n" for number in range(300_000))
LARGE = bytes(range(256)) * 80_000


class Lines:
    """A file that has only what COPY FROM needs."""

    def __init__(self, text):
        self._file = io.StringIO(text)
        self.sizes = set()

    def read(self, size):
        self.sizes.add(size)
        return self._file.read(size)


class Broken:
    def read(self, size):
        raise ValueError("a broken file")

    write = read


def failing(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]


def copies(psycopg2, connection):
    from psycopg2 import sql

    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE t (number int, name text)")
    file = Lines(ROWS)
    cursor.copy_from(file, "t", size=1000)
    yield cursor.query.decode(), cursor.rowcount, sorted(file.sizes)
    cursor.copy_from(io.BytesIO(b"it's|-1\n?|-2\n"), "t", sep="|", null="?", columns=iter(["name", "number"]))
    yield cursor.query.decode(), cursor.rowcount
    out = io.StringIO()
    cursor.copy_to(out, "t", null="it's \\ nothing", columns=("number",))
    yield cursor.query.decode(), len(out.getvalue()), out.getvalue()[-9:]
    with tempfile.TemporaryFile() as made:
        cursor.copy_expert("COPY (SELECT 100 % 7, name FROM t WHERE number < 0 ORDER BY 2) TO STDOUT", made)
        made.seek(0)
        yield made.read().decode()
    cursor.copy_expert(
        sql.SQL("COPY {} FROM STDIN").format(sql.Identifier("t")), io.StringIO("5\tfive\n"), size=3
    )
    yield cursor.query.decode()
    connection.commit()
    yield failing(cursor.copy_from, Broken(), "t")
    connection.rollback()
    yield failing(cursor.copy_to, Broken(), "t")
    connection.rollback()
    yield failing(cursor.copy_from, object(), "t"), failing(cursor.copy_to, object(), "t")
    yield (
        failing(cursor.copy_expert, "COPY t TO STDOUT", object()),
        failing(cursor.copy_expert, "SELECT 1", io.StringIO()),
    )
    connection.rollback()
    yield failing(cursor.copy_from, io.StringIO("x\n"), 'no"thing')[1]
    connection.rollback()
    cursor.execute("SELECT count(*) FROM t")
    yield cursor.fetchone()
    cursor.close()
    yield failing(cursor.copy_to, io.StringIO(), "t")


def large_objects(psycopg2, connection):
    class Mine(psycopg2.extensions.lobject):
        pass

    made = connection.lobject(0, "wb")
    yield made.write(LARGE), made.tell(), made.mode
    number = made.oid
    made.close()
    yield made.closed, failing(made.read)
    connection.commit()
    mine = connection.lobject(number, "rwb", lobject_factory=Mine)
    yield (
        type(mine).__name__,
        mine.seek(-3, 2),
        list(mine.read()),
        mine.truncate(7),
        mine.seek(0),
        list(mine.read()),
    )
    yield connection.lobject(number, "b", 0).oid == number
    mine.unlink()
    connection.commit()
    yield failing(connection.lobject, number, "r")[0]
    connection.rollback()
    yield failing(connection.lobject, lobject_factory=dict)[0], failing(connection.lobject, number, "wrong")
    connection.rollback()
    connection.close()
    yield failing(connection.lobject)


def beside_a_lock(psycopg2, connect):
    """COPY waits for a table that another tasklet has locked, and a statement of a third one waits for
    COPY."""
    holder, copier, third, watcher = (connect() for _ in range(4))
    cursor = holder.cursor()
    cursor.execute("DROP TABLE IF EXISTS locked, other")
    cursor.execute("CREATE TABLE locked (number int); CREATE TABLE other (number int)")
    holder.commit()
    cursor.execute("LOCK TABLE locked")

    def waiting():
        with watcher, watcher.cursor() as asking:
            asking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return asking.fetchone()[0]

    def copy():
        work = copier.cursor()
        work.execute("LOCK TABLE other")
        work.copy_from(io.StringIO("1\n2\n"), "locked")
        copier.commit()

    def wait():
        third.cursor().execute("LOCK TABLE other")
        third.commit()

    threads = [threading.Thread(target=function) for function in (copy, wait)]
    for number, thread in enumerate(threads):
        thread.start()
        while waiting() <= number:
            time.sleep(0.001)
    holder.commit()
    for thread in threads:
        thread.join()
    cursor.execute("SELECT sum(number) FROM locked")
    return cursor.fetchone()[0]


def main(port, order):
    if order == "after":
        patch_all()
    import psycopg2

    if order == "before":
        patch_all()

    def connect():
        return psycopg2.connect(user="postgres", host="127.0.0.1", port=port)

    connection = connect()
    told = [
        *copies(psycopg2, connection),
        *large_objects(psycopg2, connection),
        beside_a_lock(psycopg2, connect),
    ]
    print(json.dumps(told, default=repr))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
