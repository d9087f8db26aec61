"""The targets of files that do not stand on a disk, of locks on files, sqlite3 and long computations. See
targets.py."""

import binascii
import bz2
import contextlib
import fcntl
import hashlib
import hmac
import lzma
import os
import pathlib
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

from tests.patches.stalls import WAIT, WAITS

SCALE = WAIT / WAITS[0]
"""Computations grow with the waits of others."""
ROOM = pathlib.Path(tempfile.gettempdir())
STALLS = []
"""How long a ticker in another process stood still, in seconds: judged like those of the ticker here."""


def later(function, *args):
    threading.Timer(WAIT, function, args).start()


def fresh(name):
    return str(ROOM / f"syncless-{os.getpid()}-{name}")


def fifo(use, other_mode):
    """Opens a FIFO whose other end is opened late, by another process."""
    path = fresh("fifo")
    os.mkfifo(path)
    use_it = "file.read(10)" if other_mode == "r" else "file.write('line')"
    program = f"import time; time.sleep({WAIT}); file = open({path!r}, {other_mode!r}); print({use_it})"
    try:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
            return use(path), child.stdout.read().strip()
    finally:
        os.unlink(path)


def fifo_read(path):
    with open(path) as file:
        return file.read()


def fifo_written(path):
    with open(path, "w") as file:
        return file.write("written")


def fifo_between_tasklets():
    path = fresh("inner")
    os.mkfifo(path)
    later(lambda: pathlib.Path(path).write_text("x"))
    try:
        fd = os.open(path, os.O_RDONLY)
        got = os.read(fd, 10).decode()
        os.close(fd)
        return got
    finally:
        os.unlink(path)


def stdin(read):
    """Standard input is a pipe into which somebody writes late."""
    left, right = os.pipe()
    os.dup2(left, 0)
    later(os.write, right, b"a line\n")
    return read()


CURSES = """
import curses, os
os.environ.setdefault("TERM", "xterm")
def first(screen):
    screen.addstr("name? ")
    return chr(screen.getch())
"""


def at_a_terminal(before, ask='input("name? ")'):
    """input() at a pseudo-terminal, in a child; the line is typed late. The child tells what it got and its
    ticker's worst pause."""
    import pty

    program = f"""
{before}
import sys, time
from syncless.patches import patch_all
from tests.patches.stalls import Ticker
patch_all()
ticker = Ticker()
line = {ask}
time.sleep(0.01)  # in which the ticker sees what has just ended
print()
print(repr(line), ticker.worst)
"""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    seen = b""
    while b"name? " not in seen:
        seen += os.read(fd, 1000)
    time.sleep(WAIT)
    os.write(fd, b"me\n")
    with contextlib.suppress(OSError):  # EIO: the child has ended
        while True:
            seen += os.read(fd, 1000)
    os.waitpid(pid, 0)
    os.close(fd)
    line, worst = seen.split(b"\n")[-2].split()
    STALLS.append(float(worst))
    return line.decode()


def full_pipe(write):
    """A buffered or text file on a pipe from which a child reads late."""
    left, right = os.pipe()
    child = subprocess.Popen(f"sleep {WAIT}; wc -c", shell=True, stdin=left, stdout=subprocess.PIPE)
    os.close(left)
    write(right)
    with child:
        return int(child.stdout.read())


def buffered(fd):
    with os.fdopen(fd, "wb") as file:
        file.write(b"x" * 1_000_000)


def printed(fd):
    with os.fdopen(fd, "w") as file:
        for _ in range(1000):
            print("x" * 999, file=file)


def raw(fd):
    with open(fd, "wb", buffering=0) as file:
        file.write(b"x" * 1_000_000)


def two_readers():
    """Two threads on one buffered file: the second waits for the first."""
    left, right = os.pipe()
    later(os.write, right, b"one\ntwo\n")
    got = []
    with os.fdopen(left, "rb") as file:
        threads = [threading.Thread(target=lambda: got.append(file.readline().decode())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.close(right)
    return sorted(got)


def spliced():
    left, right = os.pipe()
    out, into = os.pipe()
    later(os.write, right, b"line")
    return os.splice(left, into, 100), os.read(out, 100).decode()


def eventfd():
    fd = os.eventfd(0)
    later(os.eventfd_write, fd, 5)
    return int.from_bytes(os.read(fd, 8), sys.byteorder)


def lock_of_another(take, mine):
    """A child has the lock for a while."""
    path = fresh("lock")
    program = (
        f"import fcntl, os, time; file = open({path!r}, 'w'); {take}; "
        f"print('mine', flush=True); time.sleep({WAIT})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        child.stdout.readline()
        with open(path, "r+") as file:
            mine(file)
    os.unlink(path)
    return "mine"


def database_of_another():
    """A child has the database locked for a while: SQLite waits by itself."""
    path = fresh("db")
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (n)")
    program = (
        f"import sqlite3, time; c = sqlite3.connect({path!r}, isolation_level=None); "
        f"c.execute('BEGIN EXCLUSIVE'); print('mine', flush=True); time.sleep({WAIT}); c.execute('COMMIT')"
    )
    try:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            with sqlite3.connect(path, timeout=60) as connection:
                connection.execute("INSERT INTO t VALUES (5)")
            return connection.execute("SELECT n FROM t").fetchone()
    finally:
        os.unlink(path)


def counting(first, last):
    """A common table expression of SQL that takes long."""
    return f"WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"


def long_statement():
    connection = sqlite3.connect(":memory:")
    last = int(200_000 * SCALE)
    total = f"{counting('1', last)} SELECT max(i) = {last} FROM n"
    started = time.monotonic()
    while time.monotonic() - started < WAIT:
        found = connection.execute(total).fetchone()
    return found


def slow_rows():
    """Each takes a third of WAIT and more."""
    connection = sqlite3.connect(":memory:")
    last = int(1_500_000 * SCALE)
    total = f"({counting('x.n', last)} SELECT max(i) = {last} FROM n)"
    four = "SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4"
    started, found = time.monotonic(), []
    while time.monotonic() - started < WAIT:
        cursor = connection.execute(f"SELECT {total} FROM ({four}) AS x")
        found = [cursor.fetchone(), next(cursor), *cursor.fetchmany(1), *cursor.fetchall()]
    return found


def many_rows():
    """They take WAIT and more together."""
    connection = sqlite3.connect(":memory:")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    started, found = time.monotonic(), []
    for row in connection.execute(endless):
        found.append(row[0])
        if not row[0] & 1023 and time.monotonic() - started > WAIT:
            break
    return found == list(range(1, len(found) + 1))


def long_computations():
    """Each takes more than a sixth of WAIT."""
    part = os.urandom(int(SCALE * (1 << 20)))
    data = part * 4
    started = time.monotonic()
    done = []
    while time.monotonic() - started < WAIT:
        done = [
            zlib.decompress(zlib.compress(data, 1)) == data,
            len(bz2.compress(part)) > 0,
            len(lzma.compress(part, preset=1)) > 0,
            len(hashlib.sha512(data).digest()),
            len(hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", int(300_000 * SCALE))),
        ]
    return done


def computations_of_the_rest():
    """The ways to hash that take a megabyte at once, and many small pieces in a row."""
    data = bytes(int(SCALE * (16 << 20)))  # zeros: the kernel gives them at once, random bytes take long
    keyed = hmac.new(b"secret", b"", "sha256")
    started = time.monotonic()
    done = []
    while time.monotonic() - started < WAIT:
        hashes = [make() for make in (hashlib.blake2b, hashlib.blake2s, hashlib.sha3_256)]
        for each in hashes:
            each.update(data)
        keyed.update(data)
        pieces = hashlib.sha256()
        for at in range(0, len(data), 1 << 18):
            pieces.update(data[at : at + (1 << 18)])
        done = [
            *(each.digest_size for each in hashes),
            keyed.digest_size,
            pieces.digest() == hashlib.new("sha256", data).digest(),
            hmac.digest(b"secret", data, "sha256") == hmac.new(b"secret", data, "sha256").digest(),
            binascii.crc32(data) == zlib.crc32(data),
        ]
    return done


def lingering():
    """The peer takes what is under way only after a while, and the socket waits for it when it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
        receiver = server.accept()[0]
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(1 << 16))
    sender.setblocking(True)

    def take():
        with receiver:
            while receiver.recv(1 << 20):
                pass

    taker = threading.Timer(WAIT, take)
    taker.start()
    sender.close()
    taker.join()
    return sender.fileno()


IO_TARGETS = {
    "a FIFO without a writer": (lambda: fifo(fifo_read, "w"), ["line", "4"]),
    "a FIFO without a reader": (lambda: fifo(fifo_written, "r"), [7, "written"]),
    "a FIFO, os.open": (fifo_between_tasklets, "x"),
    "sys.stdin.readline": (lambda: stdin(lambda: sys.stdin.readline()), "a line\n"),
    "sys.stdin, iteration": (lambda: stdin(lambda: next(iter(sys.stdin))), "a line\n"),
    "input": (lambda: stdin(input), "a line"),
    "input at a terminal": (lambda: at_a_terminal(""), "'me'"),
    "curses, getch": (lambda: at_a_terminal(CURSES, "curses.wrapper(first)"), "'m'"),
    "input at a terminal, readline": (lambda: at_a_terminal("import readline"), "'me'"),
    "BufferedWriter, full pipe": (lambda: full_pipe(buffered), 1_000_000),
    "print, full pipe": (lambda: full_pipe(printed), 1_000_000),
    "FileIO.write, full pipe": (lambda: full_pipe(raw), 1_000_000),
    "two readers of a buffered file": (two_readers, ["one\n", "two\n"]),
    "os.splice": (spliced, [4, "line"]),
    "eventfd": (eventfd, 5),
    "flock": (
        lambda: lock_of_another("fcntl.flock(file, 2)", lambda file: fcntl.flock(file, fcntl.LOCK_EX)),
        "mine",
    ),
    "lockf": (
        lambda: lock_of_another("fcntl.lockf(file, 2)", lambda file: fcntl.lockf(file, fcntl.LOCK_EX)),
        "mine",
    ),
    "os.lockf": (
        lambda: lock_of_another(
            "os.lockf(file.fileno(), 1, 0)", lambda file: os.lockf(file.fileno(), os.F_LOCK, 0)
        ),
        "mine",
    ),
    "sqlite3, a locked database": (database_of_another, [5]),
    "sqlite3, a long statement": (long_statement, [1]),
    "sqlite3, slow rows": (slow_rows, [[1]] * 4),
    "sqlite3, many rows": (many_rows, True),
    "close, SO_LINGER": (lingering, -1),
    "long computations": (long_computations, [True, True, True, 64, 32]),
    "long computations, the rest": (computations_of_the_rest, [64, 32, 32, 32, True, True, True]),
}
