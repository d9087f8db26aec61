"""sqlite3 under the patch: writers of one database, rows fetched ahead, statements without threads."""

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
for place in (":memory:", path, "file:other?mode=memory&cache=shared"):
    connection = sqlite3.connect(place, isolation_level=None, uri=place[0] == "f")
    connection.execute("PRAGMA synchronous=off"); connection.execute("PRAGMA journal_mode=memory")
    connection.execute("CREATE TABLE t (n INTEGER, s TEXT)"); connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ((n, str(n)) for n in range(5000)))
    connection.commit()
    for _ in range(2):
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
        cursor = connection.execute("INSERT INTO t VALUES (-1, 'x') RETURNING n"); cursor.execute("SELECT 5")
        tell(cursor.fetchall)
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
    connection = sqlite3.connect(place, uri=place[0] == "f")
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
    import sqlite3, sys, syncless, threading
    from syncless._core.calls import filesystems, threads
    run, given = threads._many._run, []
    threads._many._run = lambda job: (given.append(job), run(job))[1]
    def threads_of(connection, *args):
        filesystems.forget_file_systems()       # each is slow at times where the machine is busy
        given.clear()
        connection.execute(*args).fetchall()
        return len(given)
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE %s) SELECT max(i) FROM n"
    endless = counting % "i > 0"
"""


def test_only_what_may_wait_is_executed_in_threads(tmp_path):
    check(
        COUNT
        + """
    for place, of_write in ((":memory:", 0), (sys.argv[1] + "/db", 1)):
        connection = sqlite3.connect(place, isolation_level=None)
        assert threads_of(connection, "CREATE TABLE t (n)") == of_write
        assert threads_of(connection, "INSERT INTO t VALUES (?)", (5,)) == of_write
        for sql in "SELECT n FROM t WHERE n = 5", counting % "i < 10000", "BEGIN", "VALUES (1)":
            assert threads_of(connection, sql) == 0, sql
        given.clear()
        connection.commit()
        assert len(given) == of_write
        connection.commit()                             # there is no transaction
        with connection: assert connection.execute("SELECT n FROM t").fetchone() == (5,)
        assert len(given) == of_write
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (6)")
        given.clear()
        connection.isolation_level = None               # commits
        assert not connection.in_transaction and len(given) == of_write
        if hasattr(connection, "serialize"):            # since Python 3.11
            given.clear()
            whole = connection.serialize()
            assert len(given) == 1
            copy = sqlite3.connect(":memory:")
            copy.deserialize(whole)
            assert len(given) == 2
            assert copy.execute("SELECT n FROM t").fetchall() == [(5,), (6,)]
            copy.close()
        connection.execute("ATTACH ':memory:' AS other")
        assert threads_of(connection, "SELECT n FROM t") > 0
        connection.close()
    other = sqlite3.connect("file::memory:?cache=shared", uri=True)
    assert threads_of(other, "SELECT 5") > 0
    other.close()
    """,
        tmp_path,
    )


def test_quick_statements_that_write_need_no_thread(tmp_path):
    """Once they have been quick. In a thread are those that sync or give rows, and those that must not
    overtake others, or meet a lock."""
    check(
        COUNT
        + """
    from syncless.patches.sqlite import databases
    from tests.waiting import eventually
    path, insert, n = sys.argv[1] + "/db", "INSERT INTO t VALUES (1)", 0
    def is_direct(function, *args):
        filesystems.forget_file_systems()
        given.clear()
        function(*args)
        return not given
    def inserts_directly(connection):
        global n
        n += 1
        return is_direct(connection.execute, insert)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (n)")
    assert eventually(lambda: inserts_directly(connection))         # in a transaction
    assert not is_direct(connection.commit)
    for _ in range(20):
        assert not is_direct(connection.execute, "INSERT INTO t VALUES (0) RETURNING n")
    connection.rollback()
    def begins_directly():
        try: return inserts_directly(connection)
        finally: connection.commit()
    assert eventually(begins_directly)
    entering = databases.known_of(connection).database.entering
    entering._places.acquire()                                      # by somebody who waits for the lock
    assert not begins_directly()
    entering._places.release()
    other = sqlite3.connect(path, isolation_level=None, timeout=0.01)
    for _ in range(20):
        assert not inserts_directly(other)                          # which commits, and so syncs
    assert eventually(begins_directly)
    inserts_directly(connection)
    other.execute("BEGIN")
    try: assert not inserts_directly(other)
    except sqlite3.OperationalError as error: assert str(error) == "database is locked", error
    else: raise AssertionError("two have the lock")
    n -= 1
    other.execute("ROLLBACK")
    connection.commit()
    connection.execute("PRAGMA synchronous=OFF")
    def commits_directly():
        inserts_directly(connection)
        return is_direct(connection.commit)
    assert eventually(commits_directly)
    def leaves_directly():
        with connection:
            inserts_directly(connection)
            given.clear()
        return not given
    assert eventually(leaves_directly)
    assert other.execute("SELECT count(*) FROM t").fetchone() == (n,)
    connection.close(); other.close()
    """,
        tmp_path,
    )


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the function is gone")
def test_shared_caches_are_used_in_threads(tmp_path):
    check(
        COUNT
        + """
    import warnings
    warnings.simplefilter("ignore")
    sqlite3.enable_shared_cache(True)
    connection = sqlite3.connect(sys.argv[1] + "/db")
    assert threads_of(connection, "SELECT 5") > 0
    connection.close()
    """,
        tmp_path,
    )


@pytest.mark.parametrize("mode", ["adaptive", "direct"])
def test_long_statement_lets_others_run(tmp_path, mode):
    """The statement ends when others have had three turns; meanwhile its connection is not used."""
    check(
        COUNT
        + """
    from syncless.io import files
    for place in ":memory:", sys.argv[1] + "/db":
        connection = sqlite3.connect(place)
        files.set_mode(sys.argv[2])
        order, others = [], []
        def enough():
            if not others: others.extend([syncless.spawn(take_turns), syncless.spawn(use)])
            return order.count("turn") >= 3
        connection.create_function("enough", 0, enough)
        def take_turns():
            for _ in range(3):
                syncless.sleep(0); order.append("turn")
        def use():
            assert connection.execute("SELECT 5").fetchone() == (5,); order.append("second")
        assert threads_of(connection, counting % "NOT enough()") == 0
        order.append("first")
        for each in others: each.join()
        assert order == ["turn"] * 3 + ["first", "second"], order
        files.set_mode("adaptive")
        connection.close()
    """,
        tmp_path,
        mode,
    )


def test_short_requests_keep_their_turn(tmp_path):
    """A tasklet that was let go on executes a statement although a poll is due; a loop of them gives way."""
    check(
        COUNT
        + """
    import time
    for place in ":memory:", sys.argv[1] + "/db":
        connection = sqlite3.connect(place)
        order = []
        def request(name):
            end = time.perf_counter() + 0.002   # more than is run before a poll is due
            while time.perf_counter() < end: pass
            connection.execute("SELECT 5").fetchall(); order.append(name)
        def loop():
            while "last" not in order: connection.execute("SELECT 5").fetchall()
            order.append("loop")
        work = (request, "first"), (request, "second"), (loop,), (request, "last")
        for _ in range(3): syncless.sleep(0.001)    # what came before gives nobody a longer turn
        for each in [syncless.spawn(*one) for one in work]: each.join()
        assert order == ["first", "second", "last", "loop"], order
        connection.close()
    """,
        tmp_path,
    )


def test_loop_of_short_statements_takes_turns_in_direct_mode(tmp_path):
    check(
        COUNT
        + """
    from syncless.io import files
    connection = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
    connection.execute("CREATE TABLE t (n)")
    files.set_mode("direct")
    for sql in "SELECT 5", "UPDATE t SET n = 5":
        seen = []
        other = syncless.spawn(seen.append, 5)
        while not seen: assert threads_of(connection, sql) == 0
        other.join()
    connection.close()
    """,
        tmp_path,
    )


def test_functions_that_wait_let_others_run():
    check(
        COUNT
        + """
    connection = sqlite3.connect(":memory:")
    event = syncless.Event()
    def nested(): return connection.execute("SELECT 7").fetchone()[0]
    connection.create_function("waits", 0, lambda: event.wait() and nested())
    syncless.spawn(event.set)
    assert connection.execute("SELECT waits()").fetchall() == [(7,)]
    connection.close()
    """
    )


def test_long_statement_can_be_ended():
    check(
        COUNT
        + """
    connection = sqlite3.connect(":memory:")
    killed = syncless.spawn(connection.execute, endless)
    syncless.sleep(0); killed.kill()
    assert killed.done()
    try:
        with syncless.Timeout(0.001): connection.execute(endless)
    except syncless.Timeout: pass
    else: raise AssertionError
    syncless.spawn(connection.interrupt)
    try: connection.execute(endless)
    except sqlite3.OperationalError as error: assert str(error) == "interrupted"
    else: raise AssertionError
    assert threads_of(connection, "SELECT 5") == 0
    connection.close()
    """
    )


def test_long_statement_in_a_thread_can_be_ended(tmp_path):
    check(
        COUNT
        + """
    from syncless.io import files
    connection = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
    connection.execute("CREATE TABLE t (n)")
    cursor = connection.cursor()
    write = f"INSERT INTO t {endless}"
    def fetch(): cursor.execute(f"SELECT 1 UNION ALL SELECT * FROM ({endless})").fetchall()
    calls = [lambda: connection.execute(write), lambda: cursor.execute(write), fetch]
    calls += [lambda: connection.executescript(write), lambda: connection.execute(endless).fetchall()]
    for call in calls:
        for mode in "adaptive", "pool":
            files.set_mode(mode)
            try:
                with syncless.Timeout(0.005): call()
            except syncless.Timeout: pass
            else: raise AssertionError
            assert cursor.execute("SELECT 5").fetchall() == [(5,)]
            connection.execute("INSERT INTO t VALUES (5)")
            killed = syncless.spawn(call)
            syncless.sleep(0.001)
            killed.kill()
    assert connection.execute("SELECT DISTINCT n FROM t").fetchall() == [(5,)]
    connection.close()
    """,
        tmp_path,
        timeout=30,
    )


def test_killed_tasklet_executes_nothing_when_its_connection_is_free_again(tmp_path):
    check(
        COUNT
        + """
    connection, event = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None), syncless.Event()
    connection.execute("CREATE TABLE t (n)")
    connection.create_function("waits", 0, lambda: event.wait() and 5)
    reader = syncless.spawn(connection.execute, "SELECT waits()")
    syncless.sleep(0)
    writer = syncless.spawn(connection.execute, "INSERT INTO t VALUES (1)")
    from syncless.patches.sqlite import uses
    from tests.waiting import eventually
    assert eventually(lambda: uses.use_of(connection).waiting)
    writer.kill()
    event.set()
    reader.join()
    connection.execute("INSERT INTO t VALUES (2)")
    assert connection.execute("SELECT n FROM t").fetchall() == [(2,)]
    connection.close()
    """,
        tmp_path,
    )


def test_exception_thrown_inside_a_function_comes_out_of_the_call():
    """What SQLite calls cannot raise it: SQLite makes an error of its own of it, or ignores it."""
    check(
        COUNT
        + """
    event = syncless.Event()
    def wait(*args): event.wait(); return 0
    class Sums:
        def __init__(self): self.steps = 0
        def step(self, n):
            self.steps += 1
            if self.steps == 2: wait()
        def finalize(self): return self.steps
        value, inverse = finalize, step
    rows = "(SELECT 1 AS n UNION ALL SELECT 2)"
    cases = [
        (lambda c: c.create_function("f", 0, wait, deterministic=True), "SELECT f()"),
        (lambda c: c.create_function("f", -1, wait), f"SELECT n, n = 2 AND f(n) FROM {rows}"),
        (lambda c: c.create_aggregate("f", 1, Sums), f"SELECT f(n) FROM {rows}"),
        (lambda c: c.create_collation("f", wait), f"SELECT n FROM {rows} ORDER BY 'a' || n COLLATE f"),
        (lambda c: c.set_authorizer(wait), "SELECT 1"),
        (lambda c: c.set_trace_callback(wait), "SELECT 1"),
        (lambda c: c.set_progress_handler(wait, 1), "SELECT 1 UNION SELECT 2"),
    ]
    if sys.version_info >= (3, 11) and sqlite3.sqlite_version_info >= (3, 25):
        over = f"SELECT f(n) OVER (ORDER BY n ROWS 1 PRECEDING) FROM {rows}"
        cases.append((lambda c: c.create_window_function("f", 1, Sums), over))
    class Gone(Exception): pass
    def use(connection, sql):
        seen.append("begins")
        try: seen.append(connection.execute(sql).fetchall())
        except BaseException as error: seen.append(error)
    for register, sql in cases:
        for thrown in syncless.TaskletExit(), Gone(), KeyError("slow"):
            connection, seen = sqlite3.connect(":memory:"), []
            register(connection)
            tasklet = syncless.spawn(use, connection, sql)
            syncless.sleep(0)
            tasklet.kill(thrown)
            assert seen == ["begins", thrown], (sql, seen)
            connection.set_authorizer(lambda *args: 0); connection.set_trace_callback(None)
            connection.set_progress_handler(None, 1)
            assert connection.execute("SELECT 5").fetchall() == [(5,)]
            connection.close()
    connection = sqlite3.connect(":memory:")
    connection.create_function("f", 0, wait)
    try:
        with syncless.deadline(0.001): connection.execute("SELECT f()")
    except TimeoutError: pass
    else: raise AssertionError
    def fails():            # of the function's own, caught and raised: SQLite's error, as without the patch
        with syncless.deadline(0.001): event.wait()
    def fails_later():      # this is another one, even if it lies where the first has lain
        inside.set()
        try: event.wait()
        except Gone: pass
        raise Gone
    inside = syncless.Event()
    connection.create_function("f", 0, fails_later)
    seen = []
    tasklet = syncless.spawn(use, connection, "SELECT f()")
    inside.wait()
    tasklet.kill(Gone(), block=False)
    tasklet.join()
    assert "user-defined function" in str(seen[1]), seen
    connection.create_function("f", 0, fails)
    try: connection.execute("SELECT f()")
    except sqlite3.OperationalError as error: assert "user-defined function" in str(error)
    else: raise AssertionError
    connection.close()
    """
    )


@pytest.mark.parametrize("n", [500, 2000, 6000])
def test_progress_handler_of_the_application_is_kept(n):
    check(
        COUNT
        + """
    n, calls = int(sys.argv[1]), []
    def count(stop):
        connection = sqlite3.connect(":memory:")
        calls.clear()
        connection.set_progress_handler(lambda: calls.append(5) or stop, n)
        try: connection.execute(counting % "i < 10000")
        except sqlite3.OperationalError as error: assert stop and str(error) == "interrupted"
        if not stop:
            connection.set_progress_handler(None, n)
            before = len(calls)
            connection.execute(counting % "i < 10000")
            assert len(calls) == before
        connection.close()
        return len(calls)
    from syncless.patches import patch_all, unpatch
    counted = count(0), count(1)
    unpatch()
    assert counted == (count(0), count(1)) and counted[0] > 3, counted
    """,
        n,
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons print the error and name no handler")
def test_error_of_a_progress_handler_names_the_handler():
    check("""
    import sqlite3, sys
    class Undecided:
        def __bool__(self): 1 / 0
    def fails(): 1 / 0
    def is_undecided(): return Undecided()
    seen = []
    # Python 3.15 names it in the message
    sys.unraisablehook = lambda it: seen.append((it.exc_type, str(it.object or it.err_msg).split()))
    connection = sqlite3.connect(":memory:")
    for told in True, False:
        sqlite3.enable_callback_tracebacks(told)
        for each in fails, is_undecided:
            connection.set_progress_handler(each, 1)
            try: connection.execute("CREATE TABLE t (n)")
            except sqlite3.OperationalError as error: assert str(error) == "interrupted"
            else: raise AssertionError
    connection.close()
    assert [error for error, _ in seen] == [ZeroDivisionError] * 2, seen
    assert all(name in words for name, (_, words) in zip(("fails", "is_undecided"), seen)), seen
    """)


def test_reader_waits_for_a_lock_without_a_thread(tmp_path):
    check(
        COUNT
        + """
    path = sys.argv[1] + "/db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("CREATE TABLE t (n)")
    reader, hasty = sqlite3.connect(path, timeout=60), sqlite3.connect(path, timeout=0.002)
    holder.execute("BEGIN EXCLUSIVE")
    filesystems.forget_file_systems()
    given.clear()
    reading = syncless.spawn(reader.execute, "SELECT count(*) FROM t")
    for _ in range(2):
        try: hasty.execute("SELECT count(*) FROM t")
        except sqlite3.OperationalError as error: assert str(error) == "database is locked"
        else: raise AssertionError
        assert not given and not reading.done()
        assert hasty.execute("PRAGMA busy_timeout").fetchone() == (2,)      # in a thread
        hasty.execute("PRAGMA busy_timeout=1")
        assert hasty.execute("PRAGMA busy_timeout").fetchone() == (1,)
        hasty.execute("PRAGMA busy_timeout=2")
        given.clear()
    holder.execute("COMMIT")
    assert reading.result().fetchone() == (0,)
    assert hasty.execute("SELECT count(*) FROM t").fetchone() == (0,)
    unpatch()
    assert hasty.execute("PRAGMA busy_timeout").fetchone() == (2,)
    assert reader.execute("PRAGMA busy_timeout").fetchone() == (60000,)
    for each in holder, reader, hasty: each.close()
    """,
        tmp_path,
    )


def test_rows_are_not_lost_when_the_wait_for_them_is_broken_off():
    check("""
    import sqlite3, syncless
    from itertools import count
    from syncless.patches.sqlite import rows as ahead
    ahead.now = count().__next__        # a second passes between two looks: rows come one by one
    connection = sqlite3.connect("file::memory:?cache=shared", uri=True)     # used in threads
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
    connection = sqlite3.connect("file::memory:?cache=shared", uri=True)     # used in threads
    for _ in range(10):
        connection.execute("SELECT 1 UNION SELECT 2")
        cursor = connection.cursor()
        assert cursor.fetchone() is None
    connection.close()
    gc.collect()
    assert not rows.aheads
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


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the function is gone")
def test_warning_names_the_line_that_shares_caches():
    check("""
        import sqlite3, warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for each in True, False: sqlite3.enable_shared_cache(each)
        assert {each.filename for each in caught} <= {"<string>"}, caught
    """)


def test_a_use_of_a_connection_inside_another_one_never_goes_to_a_thread(tmp_path):
    """The thread would wait for the outer one: a cursor of Connection.execute() when files have become slow
    meanwhile, and a function that SQLite calls and that writes."""
    check(
        """
    import sqlite3, sys
    from syncless.io import files
    class Slow(sqlite3.Connection):
        def cursor(self, *args, **options):
            files.set_mode("pool")
            return super().cursor(*args, **options)
    path = sys.argv[1] + "/db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE t (n)")
    def insert(n):
        connection.execute("INSERT INTO t VALUES (?)", (n,))
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]
    connection.create_function("insert_it", 1, insert)
    assert connection.execute("SELECT insert_it(5)").fetchall() == [(1,)]
    slow = sqlite3.connect(path, factory=Slow, isolation_level=None)
    for sql in ("SELECT n FROM t", "BEGIN", "SELECT n FROM t"):
        files.set_mode("adaptive")
        slow.execute(sql).fetchall()
    files.set_mode("adaptive")
    slow.close(); connection.close()
    """,
        tmp_path,
        timeout=20,
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons print the error and name no function")
def test_functions_of_the_application_are_reported_and_refused_as_without_the_patch():
    check(
        """
    import sqlite3, sys
    sqlite3.enable_callback_tracebacks(True)
    reported = []
    def note(found):
        reported.append((found.exc_type, getattr(found.object, "__name__", None) or found.err_msg))
    sys.unraisablehook = note
    connection = sqlite3.connect(":memory:")

    def fails(*args):
        raise OSError

    class Fails:
        def step(self, value):
            raise OSError

        def finalize(self):
            return 1

    connection.create_function("fails", 0, fails)
    connection.create_aggregate("adds", 1, Fails)
    for query in ("select fails()", "select adds(1)"):
        try:
            connection.execute(query).fetchone()
        except sqlite3.OperationalError:
            pass
    (first, function), (second, method) = reported
    assert first is second is OSError and "fails" in function and "Fails" in method, reported
    try:
        connection.create_collation("wrong", 5)
    except TypeError:
        pass
    else:
        raise AssertionError("a number is no function")
    """
    )
