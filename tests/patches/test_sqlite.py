"""sqlite3 under the patch: writers of one database, rows that are fetched ahead, databases in memory."""

import json
import subprocess
import sys

import pytest

from tests.programs import check

WRITERS = """
    import sqlite3, sys, threading
    from tests.waiting import eventually
    from syncless.patches.sqlite import databases
    path, mode, how = sys.argv[1] + "/db", sys.argv[2], sys.argv[3]
    def connect(): return sqlite3.connect(path, timeout=60, isolation_level=None if how else "")
    first = connect()
    first.execute("PRAGMA journal_mode=" + mode)
    first.execute("CREATE TABLE t (n)"); first.commit()
    first.execute(how or "BEGIN")
    first.execute("INSERT INTO t VALUES (0)")
    reader = connect()
    def write(number):
        connection = connect()
        if how: connection.execute(how)
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.execute("INSERT INTO t VALUES (?)", (-number,))
        connection.execute("COMMIT")
        connection.close()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 61)]
    for thread in threads: thread.start()
    entering = databases.known_of(first).database.entering
    assert eventually(lambda: entering._places.value == 0)
    assert reader.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    first.execute("INSERT INTO t VALUES (0)")
    first.commit()
    for thread in threads: thread.join()
    assert reader.execute("SELECT count(*), sum(n) FROM t").fetchall() == [(122, 0)]
    assert entering._places.value == databases.ENTERING
    first.close(); reader.close()
"""


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("how", ["", "BEGIN", "begin immediate"])
def test_holder_of_the_lock_commits_however_many_wait(tmp_path, mode, how):
    """Sixty writers wait for it, more than a pool has threads; others read meanwhile."""
    check(WRITERS, tmp_path, mode, how)


def test_a_writer_waits_for_a_place_no_longer_than_for_the_lock(tmp_path):
    check(
        """
    import sqlite3, sys, threading
    path = sys.argv[1] + "/db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("CREATE TABLE t (n)")
    holder.execute("BEGIN IMMEDIATE")
    errors = []
    def write():
        connection = sqlite3.connect(path, timeout=0.1)
        try: connection.execute("INSERT INTO t VALUES (1)")
        except sqlite3.OperationalError as error: errors.append(str(error))
        connection.close()
    threads = [threading.Thread(target=write) for _ in range(40)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()        # one after the other they would take 40 / 8 times as long
    assert errors == ["database is locked"] * 40, errors
    holder.execute("COMMIT")
    holder.close()
    """,
        tmp_path,
    )


SAME = """
import json, sqlite3, sys
path = sys.argv[1]
told = []
def tell(function, *args, **kwargs):
    try: told.append(function(*args, **kwargs))
    except Exception as error: told.append((type(error).__name__, str(error)))
for place in (":memory:", path):
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA synchronous=off"); connection.execute("PRAGMA journal_mode=memory")
    connection.execute("CREATE TABLE t (n INTEGER, s TEXT)"); connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ((n, str(n)) for n in range(5000)))
    connection.commit()
    for _ in range(5):      # in memory they are executed in threads first, and directly later
        cursor = connection.cursor()
        cursor.execute("SELECT n FROM t ORDER BY n")
        tell(cursor.fetchone); tell(cursor.fetchmany); tell(cursor.fetchmany, 3)
        tell(cursor.fetchmany, size=100)
        tell(next, cursor); tell(lambda: [row for row, _ in zip(cursor, range(2000))][-1])
        tell(lambda: cursor.fetchmany(5)[0])
        cursor.row_factory = sqlite3.Row; tell(lambda: dict(cursor.fetchone()))
        tell(lambda: len(cursor.fetchall()))
        tell(cursor.fetchone); tell(cursor.fetchall); tell(cursor.fetchmany, 2)
        tell(lambda: list(cursor)); tell(next, cursor, "end")
        cursor = connection.execute("SELECT n FROM t WHERE n < ?", (3,))
        tell(lambda: cursor.description); tell(cursor.fetchone)
        cursor.row_factory = lambda cursor, row: row[0] * 10
        tell(list, cursor)
        tell(cursor.execute, "SELECT nothing"); tell(cursor.fetchone)
        cursor.execute("SELECT n FROM t LIMIT 7")
        tell(cursor.fetchmany, 0); tell(cursor.fetchmany, -1); tell(cursor.fetchmany, 1)
        cursor.execute("SELECT n FROM t LIMIT 7")
        tell(lambda: connection.execute("SELECT 1").fetchone()); tell(lambda: len(cursor.fetchall()))
        cursor.execute("SELECT n FROM t"); cursor.close(); tell(cursor.fetchone)
        tell(cursor.execute, "SELECT 1")
        text = "CAST(CASE n WHEN 3 THEN x'ff' ELSE s END AS TEXT)"
        broken = connection.execute(f"SELECT {text} FROM t WHERE n < 6")
        for _ in range(8): tell(broken.fetchone)
        tell(lambda: connection.execute("INSERT INTO t VALUES (-1, 'x') RETURNING n").fetchall())
        tell(lambda: connection.execute("DELETE FROM t WHERE n < 0").rowcount)
        tell(lambda: connection.total_changes)
        tell(connection.execute); tell(connection.execute, 5); tell(connection.execute, "SELECT ?", (1, 2))
        tell(connection.execute, "SELECT 1; SELECT 2")
    for row in connection.execute("SELECT n FROM t WHERE n < 100"):
        connection.execute("UPDATE t SET s = 'seen' WHERE n = ?", row)
    tell(lambda: connection.execute("SELECT count(*) FROM t WHERE s = 'seen'").fetchone())
    tell(connection.executescript, 5); tell(connection.executemany, "SELECT 1", [()])
    left = connection.execute("SELECT n FROM t"); left.fetchone()
    connection.close(); tell(left.fetchone); tell(left.fetchall); tell(left.execute, "SELECT 1")
    tell(connection.execute, "SELECT 1")
    tell(connection.commit); tell(connection.close); del left, cursor, broken       # or it is closed later
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE IF NOT EXISTS u (n)")
    connection.executemany("INSERT INTO u VALUES (?)", [(n,) for n in range(2000)])
    left = connection.execute("SELECT n FROM u ORDER BY n"); left.fetchone(); connection.rollback()
    tell(lambda: sys.version_info >= (3, 11) or left.fetchone())
    with connection: connection.execute("INSERT INTO u VALUES (1)")
    tell(lambda: connection.execute("SELECT count(*) FROM u").fetchone())
    tell(lambda: connection.in_transaction)
    connection.close()
print(json.dumps(told, default=lambda found: type(found).__name__))
"""


def test_rows_are_those_of_sqlite3_unpatched(tmp_path):
    told = []
    for patch in ("", "from syncless.patches import patch_all; patch_all()\n"):
        command = [sys.executable, "-c", patch + SAME, str(tmp_path / f"db{len(patch)}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert told[0] == told[1]


COUNT = """
    import sqlite3, syncless, threading
    from syncless.patches.sqlite import rows, statements
    time = step = 0
    def now():      # each look at the clock comes `step` seconds after the last one
        global time
        time += step
        return time
    rows.now = statements.now = now
    from syncless._core.calls import threads
    run, given = threads._many._run, []
    threads._many._run = lambda job: (given.append(job), run(job))[1]
    def threads_of(connection, *args):
        given.clear()
        connection.execute(*args).fetchall()
        return len(given)
"""


def test_short_statements_in_memory_are_made_directly():
    check(
        COUNT
        + """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (n)")
    for sql, args in (("SELECT n FROM t WHERE n = ?", (5,)), ("INSERT INTO t VALUES (?)", (5,))):
        counts = [threads_of(connection, sql, args) for _ in range(60)]
        assert counts == [1] * statements.TRIAL + [0] * (60 - statements.TRIAL), counts
    def threads_if_slow(*args):
        global step
        step = 2 * rows.SECONDS
        try: return threads_of(connection, *args)
        finally: step = 0
    long = "SELECT max(n) FROM t WHERE n < ?"
    for _ in range(10): assert threads_if_slow(long, (5,)) > 0
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n"
    for _ in range(10): assert threads_of(connection, many) > 0
    for most in (statements.TRIAL, 2 * statements.TRIAL):
        counts = [threads_of(connection, long, (5,)) for _ in range(20)]
        assert counts == [1] * most + [0] * (20 - most), counts
        assert threads_if_slow(long, (5,)) <= 1      # suddenly takes long: executed directly, and not again
    other = sqlite3.connect("file::memory:?cache=shared", uri=True)
    for _ in range(10): assert threads_of(other, "SELECT 5") > 0
    connection.execute("ATTACH ':memory:' AS other")
    for _ in range(10): assert threads_of(connection, "SELECT n FROM t WHERE n = ?", (5,)) > 0
    connection.close(); other.close()
    """
    )


def test_functions_that_wait_are_called_in_threads():
    check(
        COUNT
        + """
    connection = sqlite3.connect(":memory:")
    connection.create_function("waits", 0, lambda: syncless.sleep(0.001) or 5)
    for _ in range(10): assert threads_of(connection, "SELECT waits()") > 0
    connection.close()
    """
    )


def test_nothing_is_direct_while_a_thread_uses_the_connection():
    check(
        COUNT
        + """
    from syncless.patches.sqlite import databases
    connection = sqlite3.connect(":memory:")
    while threads_of(connection, "SELECT 5"): pass
    databases.known_of(connection).in_threads.add(None)
    assert threads_of(connection, "SELECT 5") > 0
    databases.known_of(connection).in_threads.discard(None)
    assert threads_of(connection, "SELECT 5") == 0
    connection.close()
    """
    )


def test_rows_are_not_lost_when_the_wait_for_them_is_broken_off():
    check("""
    import sqlite3, syncless
    from itertools import count
    from syncless.patches.sqlite import rows as ahead
    ahead.now = count().__next__        # a second passes between two looks: rows come one by one
    connection = sqlite3.connect(":memory:")
    go = [True]
    def wait():
        while not go: pass
    connection.set_progress_handler(wait, 1000)
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < x.n)"
    total = f"({counted} SELECT max(i) FROM n)"
    rows = "SELECT 1 AS n UNION ALL SELECT 100000 UNION ALL SELECT 2000000 UNION ALL SELECT 3"
    cursor = connection.execute(f"SELECT {total} FROM ({rows}) AS x")
    assert cursor.fetchone() == (1,)
    go.clear()
    try:
        with syncless.Timeout(0.001): cursor.fetchone()
    except syncless.Timeout: pass
    else: raise AssertionError
    finally: go.append(True)
    assert cursor.fetchall() == [(100000,), (2000000,), (3,)]
    connection.close()
    """)


def test_unfetched_rows_are_forgotten_with_their_cursor():
    check("""
    import gc, sqlite3
    from syncless.patches.sqlite import rows
    connection = sqlite3.connect(":memory:")
    for _ in range(10):
        connection.execute("SELECT 1 UNION SELECT 2")
        cursor = connection.cursor()
        assert cursor.fetchone() is None
    connection.close()
    gc.collect()
    assert not rows._aheads
    """)


@pytest.mark.skipif(
    not (3, 13) <= sys.version_info < (3, 15),
    reason="older Pythons do not warn of arguments by keyword here, newer ones refuse them",
)
def test_warning_names_the_line_that_registers_a_function():
    check("""
        import sqlite3, warnings
        with warnings.catch_warnings(record=True) as caught, sqlite3.connect(":memory:") as connection:
            warnings.simplefilter("always")
            connection.create_function(name="f", narg=0, func=int)
        assert [each.filename for each in caught] == ["<string>"], caught
        connection.close()
    """)
