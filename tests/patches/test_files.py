"""Files under the patch are what they are without it: types, errors, positions, several tasklets on one of
them."""

import sys
import textwrap

import pytest

from tests.programs import check


def test_two_tasklets_on_one_buffered_file():
    """The second waits for the first, for any two calls; a tasklet that is inside already gets the usual
    error."""
    check("""
    import io, os, threading, time
    left, right = os.pipe()
    reader, writer = open(left, "rb"), open(right, "wb")
    got = []
    def read():
        for _ in range(50):
            got.append(reader.readline())
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads: thread.start()
    def write(name):
        for number in range(20):
            writer.write(b"%d-%d" % (name, number) + b"x" * 5000 + b"\\n")
            writer.flush()
    writers = [threading.Thread(target=write, args=(name,)) for name in range(10)]
    for thread in writers: thread.start()
    for thread in writers + threads: thread.join()
    lines = {line for line in got}
    assert len(got) == len(lines) == 200 and all(line.endswith(b"x\\n") for line in lines), len(lines)
    writer.close(); reader.close()

    class Inside(io.RawIOBase):
        def readable(self): return True
        def readinto(self, buffer):
            return len(file.read(1))
    file = io.BufferedReader(Inside())
    try:
        file.read(1)
    except RuntimeError as error:
        assert "reentrant call" in str(error), error
    else:
        raise AssertionError("nobody said so")
    """)


def test_a_tasklet_that_is_killed_in_a_buffered_file_leaves_it():
    check("""
    import os, syncless, time
    left, right = os.pipe()
    with open(left, "rb") as reader:
        first, second = (syncless.spawn(reader.readline) for _ in range(2))
        time.sleep(0.01)
        first.kill()
        os.write(right, b"one\\n")
        assert second.result(5) == b"one\\n"
    os.close(right)
    """)


def test_what_is_thrown_is_not_lost_in_the_finaliser_of_a_file():
    """What lies in the file is written before."""
    check(
        """
    import os, socket, syncless
    def fill(write):
        filled = 0
        try:
            while True:
                filled += write(b"-")
        except BlockingIOError:
            return filled
    def drop(make, filled, got):
        file = make()
        file.write(b"the end")
        try:
            got.append("drops it")
            del file                        # waits for the reader
            syncless.sleep(0)
            got.append("nothing")
        except syncless.TaskletExit:
            got.append(filled)
            raise
    def check(make, filled, read):
        got = []
        writer = syncless.spawn(drop, make, filled, got)
        while not got or writer.waiting_for is None:
            syncless.sleep(0)
        writer.kill(block=False)
        found = bytearray()
        with syncless.Timeout(10):
            while not found.endswith(b"the end"):
                found += read(65536)
            writer.join()
        assert got == ["drops it", len(found) - len("the end")], (got, len(found))
    left, right = os.pipe()
    os.set_blocking(right, False)
    filled = fill(lambda data: os.write(right, data))
    os.set_blocking(right, True)
    check(lambda: open(right, "wb"), filled, lambda size: os.read(left, size))
    mine, other = socket.socketpair()
    filled = fill(lambda data: mine.send(data, socket.MSG_DONTWAIT))
    check(lambda: mine.makefile("wb"), filled, other.recv)
    import io
    class Late(io.BufferedWriter): pass
    filled = fill(lambda data: mine.send(data, socket.MSG_DONTWAIT))
    check(lambda: Late(socket.SocketIO(mine, "w")), filled, other.recv)
    os.close(left); mine.close(); other.close()
    """,
        patch="import warnings; warnings.simplefilter('ignore'); patch_all()",
    )


KINDS = """
import io
class {0}File(io.FileIO): pass
class {0}FileThatBegins(io.FileIO):
    def __init__(self, path): super().__init__(path)
class {0}Reader(io.BufferedReader): pass
class {0}ReaderThatGoesOn(io.BufferedReader):
    def __next__(self): return super().__next__()
"""


def test_types_of_files_that_others_have_made_wait_as_well(tmp_path):
    """Before the patch and after it: opening waits for the other end of a FIFO, the next line for a turn."""
    check(
        KINDS.format("Late")
        + textwrap.dedent("""
    import os, signal, sys, syncless
    signal.alarm(60)
    for number, kind in enumerate((EarlyFile, EarlyFileThatBegins, LateFile, LateFileThatBegins)):
        path = f"{sys.argv[1]}/{number}"
        os.mkfifo(path)
        reader = syncless.spawn(kind, path)
        while reader.waiting_for is None:
            syncless.sleep(0)
        writer = open(path, "wb")
        with writer, reader.result() as file:
            assert type(file) is kind
    for kind in EarlyReader, EarlyReaderThatGoesOn, LateReader, LateReaderThatGoesOn:
        left, right = os.pipe()
        with kind(io.FileIO(left)) as file, open(right, "wb", buffering=0) as writer:
            readers = [syncless.spawn(next, file) for _ in range(2)]
            while any(reader.waiting_for is None for reader in readers):
                syncless.sleep(0)
            writer.write(b"one\\ntwo\\n")
            assert [reader.result() for reader in readers] == [b"one\\n", b"two\\n"]
    """),
        tmp_path,
        patch=KINDS.format("Early") + "patch_all()",
    )


def test_types_and_errors_are_the_same(tmp_path):
    check(
        """
    import builtins, io, os, pathlib, pickle, sys, inspect
    path = sys.argv[1] + "/file"
    with open(path, "w") as file:
        kinds = [type(each) for each in (file, file.buffer, file.buffer.raw)]
        assert kinds == [io.TextIOWrapper, io.BufferedWriter, io.FileIO]
        assert file.write("hello") == 5
    with open(path, "rb", buffering=0) as file:
        assert type(file) is io.FileIO
        assert file.read(2) == b"he" and file.tell() == 2 and file.readall() == b"llo"
        try: file.write(b"x")
        except io.UnsupportedOperation: pass
        else: raise AssertionError
    for call, error in (
        (lambda: open("/nonexistent/file"), FileNotFoundError), (lambda: open(path, "q"), ValueError),
        (lambda: open(sys.argv[1]), IsADirectoryError), (lambda: open(path, "x"), FileExistsError),
        (lambda: os.listdir(path), NotADirectoryError), (lambda: os.mkdir(sys.argv[1]), FileExistsError),
        (lambda: file.read(), ValueError), (lambda: open("a\\0b"), ValueError),
        (lambda: os.close(9999), OSError), (lambda: os.fsync(9999), OSError), (lambda: os.stat(), TypeError),
        (lambda: io.FileIO(), TypeError), (lambda: open(9999), OSError),
    ):
        for _ in range(10):
            try: call()
            except error as caught: assert type(caught) is error, caught
            else: raise AssertionError(call)
    assert os.stat in os.supports_dir_fd and os.listdir in os.supports_fd
    assert os.stat in os.supports_follow_symlinks
    assert pickle.loads(pickle.dumps(os.stat)) is os.stat and os.stat.__name__ == "stat"
    assert str(inspect.signature(os.stat)).startswith("(path")
    assert "stat" in repr(os.stat) and callable(os.stat)
    assert pathlib.Path(path).read_text() == "hello"
    with open(path, opener=lambda name, flags: os.open(name, flags)) as file:
        assert file.read() == "hello"
    """,
        tmp_path,
    )


def test_file_position_belongs_to_the_open_file_description(tmp_path):
    check(
        """
    import os, sys
    path = sys.argv[1] + "/file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    other = os.dup(fd)
    assert os.write(fd, b"0123456789") == 10 and os.lseek(other, 0, os.SEEK_CUR) == 10
    os.lseek(other, 3, os.SEEK_SET)
    assert os.read(fd, 2) == b"34" and os.pread(other, 2, 0) == b"01" and os.read(other, 100) == b"56789"
    os.ftruncate(fd, 4)
    assert os.fstat(other).st_size == 4 and os.pread(fd, 100, 0) == b"0123"
    pid = os.fork()
    if pid == 0:
        os.lseek(fd, 1, os.SEEK_SET)
        os._exit(0 if os.read(fd, 1) == b"1" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 and os.read(fd, 1) == b"2"
    os.close(fd); os.close(other)
    with open(path, "ab") as file:
        file.write(b"end"); assert file.tell() == 7
    with open(path, "r+") as file:
        assert file.read(2) == "01"
        file.seek(0); file.write("ab"); file.flush(); assert os.pread(file.fileno(), 9, 0) == b"ab23end"
        file.truncate(3)
    assert os.path.getsize(path) == 3
    """,
        tmp_path,
    )


@pytest.mark.parametrize("mode", ["adaptive", "pool", "direct"])
def test_many_tasklets_and_files(tmp_path, mode):
    check(
        """
    import os, sys, threading, tempfile, shutil, hashlib
    from syncless.io import files
    files.set_mode(sys.argv[2])
    wrong = []
    def work(number):
        directory = tempfile.mkdtemp(dir=sys.argv[1])
        for turn in range(5):
            data = os.urandom(50_000 + number)
            path = os.path.join(directory, str(turn))
            with open(path, "wb") as file: file.write(data)
            shutil.copy(path, path + ".copy")
            with open(path + ".copy", "rb") as file:
                if file.read() != data: wrong.append(path)
            os.rename(path, path + ".old")
        expected = sorted(str(turn) + end for turn in range(5) for end in (".copy", ".old"))
        if sorted(os.listdir(directory)) != expected: wrong.append(directory)
        shutil.rmtree(directory)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not wrong and not os.listdir(sys.argv[1])
    """,
        tmp_path,
        mode,
    )


def test_logging_and_print_from_many_tasklets(tmp_path):
    check(
        """
    import logging, sys, threading
    path = sys.argv[1] + "/log"
    logging.basicConfig(filename=path, format="%(message)s", level=logging.INFO)
    def work(number):
        for turn in range(50): logging.info("%s-%s", number, turn)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    logging.shutdown()
    with open(path) as file: lines = file.read().splitlines()
    assert len(lines) == len(set(lines)) == 1000
    """,
        tmp_path,
    )


def test_everything_is_given_back():
    check(
        """
    import _io, builtins, fcntl, io, mmap, os, sqlite3, tempfile, zlib, hashlib
    def state():
        found = {}
        closer = tempfile._TemporaryFileCloser
        for owner in (_io.FileIO, _io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, os.DirEntry,
                      mmap.mmap, sqlite3.Connection, sqlite3.Cursor, closer):
            found.update({(owner.__qualname__, name): value for name, value in vars(owner).items()})
        for module in (os, builtins, fcntl, sqlite3, zlib, hashlib):
            found.update({(module.__name__, name): value for name, value in vars(module).items()})
        for name in ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks"):
            found[name] = frozenset(getattr(os, name))
        defaults = {name: getattr(value, "__defaults__", None) for name, value in vars(closer).items()}
        return found, defaults
    before, defaults = state()
    with patched(cpu=True):
        with open("/proc/self/stat") as file: assert file.read()
        assert len({key for key, value in state()[0].items() if before.get(key) is not value}) > 40
    after, now = state()
    different = {key for key in before if before[key] is not after[key] and before[key] != after[key]}
    assert not different and now == defaults, different
    with open("/proc/self/stat") as file: assert file.read()
    for line in open("/proc/self/stat", "rb"): assert line
    """,
        patch="import warnings; warnings.simplefilter('ignore')",
    )


def test_sqlite_in_several_tasklets(tmp_path):
    """More writers than SQLite lets in at once, each with a connection of its own; and one that is kept in
    its thread."""
    check(
        """
    import sqlite3, sys, threading
    path = sys.argv[1] + "/db"
    with sqlite3.connect(path) as made: made.execute("CREATE TABLE t (n)")
    made.close()
    def work(number):
        if sys.version_info < (3, 12):      # deprecated since
            connection = sqlite3.connect(path, 30.0, 0, None, True)
        else:
            connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        for turn in range(5):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.close()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    strict = sqlite3.Connection(path)
    assert strict.execute("SELECT count(*) FROM t").fetchall() == [(50,)]
    try: strict.execute("SELECT nonsense")
    except sqlite3.OperationalError as error: assert "nonsense" in str(error)
    strict.close()
    """,
        tmp_path,
    )


def test_file_may_be_closed_while_it_is_read():
    """The reader ends with an error; nobody hangs."""
    check("""
    import errno, os, syncless, time
    syncless.set_error_handler(lambda where, error: None)
    left, right = os.pipe()
    tasklet = syncless.spawn(os.read, left, 10)
    time.sleep(0.01)
    os.write(right, b"x"); os.close(left)
    assert tasklet.join(10) and tasklet.exception().errno == errno.EBADF
    os.close(right)
    """)


def test_wrong_uses_of_locks(tmp_path):
    check(
        """
    import fcntl, os, sys
    with open(sys.argv[1] + "/lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX); fcntl.flock(file, fcntl.LOCK_UN)
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 5); os.lockf(file.fileno(), os.F_ULOCK, 0)
        with open(file.name, "r+") as other:
            fcntl.flock(file, fcntl.LOCK_EX)
            try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError: pass
            else: raise AssertionError
    for wrong in (file, "x", 9999):
        try: fcntl.flock(wrong, fcntl.LOCK_EX)
        except (ValueError, TypeError, OSError, AttributeError): pass
        else: raise AssertionError
    assert fcntl.fcntl(0, fcntl.F_GETFD) >= 0
    """,
        tmp_path,
    )


def test_a_child_has_threads_of_its_own():
    """Those that its parent had for databases, computing, files and FIFOs did not come along."""
    check(
        """
    import os, sqlite3, tempfile, threading, zlib
    import syncless
    def use_all(folder):
        with sqlite3.connect(folder + "/db") as database:
            database.execute("create table if not exists t (n)")
            assert database.execute("select count(*) from t").fetchall() == [(0,)]
        database.close()
        assert len(zlib.decompress(zlib.compress(bytes(3_000_000)))) == 3_000_000
        assert syncless.run_in_thread(int, "7") == 7
        reader = threading.Thread(target=lambda: open(folder + "/fifo").close())
        reader.start()
        open(folder + "/fifo", "w").close()
        reader.join()
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(folder + "/fifo")
        use_all(folder)
        pid = os.fork()
        if pid == 0:
            use_all(folder)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    """,
        # fork beside threads
        patch="import warnings; warnings.simplefilter('ignore', DeprecationWarning); patch_all(cpu=True)",
    )


@pytest.mark.parametrize(
    "close",
    ["os.close(left)", "os.closerange(left, left + 1)", "os.dup2(other, left)", "file.close()"],
)
@pytest.mark.parametrize("call", ["os.read(left, 1)", "file.read(1)", "wait_readable(left)"])
def test_tasklet_that_waits_for_a_descriptor_meets_its_end(close, call):
    """Also where the number is in use again."""
    check(f"""
    import errno, os, syncless
    from syncless import wait_readable
    syncless.set_error_handler(lambda where, error: None)
    left, right = os.pipe()
    other, sink = os.pipe()
    file = open(left, "rb", 0)
    waiting = [syncless.spawn(lambda: {call}) for _ in range(2)]
    syncless.sleep(0)
    {close}
    again = os.dup(other)
    os.write(sink, b"of another")
    for tasklet in waiting:
        tasklet.join(10)
        assert getattr(tasklet.exception(), "errno", None) == errno.EBADF, tasklet
    assert os.read(other, 20) == b"of another"
    file.close()
    """)


def test_descriptor_that_is_not_closed_is_waited_for():
    check("""
    import os, syncless
    left, right = os.pipe()
    file = open(left, "rb", 0, closefd=False)
    waiting = syncless.spawn(os.read, left, 1)
    syncless.sleep(0)
    file.close()
    os.dup2(left, left)
    os.write(right, b"a")
    assert waiting.result(10) == b"a"
    """)


def test_descriptor_that_an_opener_gave_is_closed_if_its_tasklet_is_killed():
    """While it waits for a thread that asks for the file's attributes."""
    check("""
        import os
        import syncless
        from syncless._core.calls import filesystems, threads

        filesystems.set_mode("pool")
        give, found = threads.ThreadPool._give, []

        def opener(path, flags):
            found.append(os.open(path, flags))
            threads.ThreadPool._give = lambda pool, job: None   # no thread has time for it
            syncless.spawn(syncless.current().kill)
            return found[0]

        victim = syncless.spawn(open, "/etc/hosts", opener=opener)
        syncless.wait([victim])
        threads.ThreadPool._give = give
        assert found and not os.path.exists(f"/proc/self/fd/{found[0]}")
    """)


@pytest.mark.parametrize("close", ["file.close()", "os.close(fd)", "mapped.close()"])
def test_what_is_closed_is_so_although_its_tasklet_is_killed_before_a_thread_has_time(close):
    check(
        """
        import mmap, os, sys
        import syncless
        from syncless._core.calls import filesystems, threads

        file, fd = open("/etc/hosts", "rb"), os.open("/etc/hosts", os.O_RDONLY)
        mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        before = len(os.listdir("/proc/self/fd"))
        filesystems.set_mode("pool")
        give, given = threads.ThreadPool._give, []
        threads.ThreadPool._give = lambda pool, job: given.append((pool, job))  # no thread has time for it

        victim = syncless.spawn(exec, sys.argv[1], globals())
        while not given:
            syncless.sleep(0)
        victim.kill()
        threads.ThreadPool._give = give
        for pool, job in given:
            give(pool, job)
        filesystems.set_mode("direct")
        with syncless.Timeout(60):
            while len(os.listdir("/proc/self/fd")) >= before:
                syncless.sleep(0.001)
        file.close()
    """,
        close,
    )


@pytest.mark.parametrize(
    "becomes",
    [
        "os.dup2(write, number)",
        "os.close(number); assert os.dup(write) == number",
        "os.closerange(number, number + 1); assert os.dup(write) == number",
        "file.__init__(write, 'wb', closefd=False)",
    ],
)
def test_file_whose_descriptor_means_a_pipe_by_now_waits_for_it(tmp_path, becomes):
    """Its file system was noted when it was opened, so that it need not be asked for."""
    program = f"""
import io, os, syncless
from syncless.patches import patch_all
patch_all()
file = open({str(tmp_path / "file")!r}, "wb", buffering=0)
number = file.fileno()
for _ in range(30):
    file.write(b"x")                    # directly by now
read, write = os.pipe()
{becomes}
writer = syncless.spawn(file.write, b"x" * 200_000)
syncless.sleep(0)
left = 200_000
while left:                             # were the thread to wait in write(2), nobody would read
    left -= len(os.read(read, left))
assert writer.result() == 200_000
file.close()
"""
    check(program, timeout=30)


@pytest.mark.parametrize("flags", ["os.O_RDONLY", "os.O_RDONLY | os.O_EXCL", "os.O_RDONLY | os.O_CREAT"])
def test_whatever_flags_make_a_fifo_wait_for_its_other_end_let_others_run(tmp_path, flags):
    """Where the file system is known as quick, so that its files are opened directly."""
    check(
        f"""
    import os, signal, sys, syncless
    signal.alarm(60)
    os.chdir(sys.argv[1])
    os.mkfifo("fifo")
    open("file", "w").close()
    for _ in range(100): os.close(os.open("file", os.O_RDONLY))
    reader = syncless.spawn(os.open, "fifo", {flags})
    while reader.waiting_for is None: syncless.sleep(0)
    writer = os.open("fifo", os.O_WRONLY)
    os.close(reader.result()); os.close(writer)
    """,
        tmp_path,
    )


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 warns first")
def test_bool_as_a_descriptor_warns_in_the_line_of_the_caller():
    check("""
    import io, sys, warnings
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        io.FileIO(False, closefd=False)
    assert [each.filename for each in seen] == [sys._getframe().f_code.co_filename], seen
    """)
