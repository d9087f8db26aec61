"""Calls that must not stop a ticker on a slow disk: ``python -m tests.patches.file_targets DIRECTORY
NAME...``.

Each is done in a directory of its own, with a file `there` of two lines and a directory `sub` with a file in
it. Prints a line of JSON for each: name, seconds, worst_stall (of a 5 ms ticker), result.
"""

import configparser
import contextlib
import csv
import fcntl
import glob
import importlib
import io
import json
import linecache
import logging
import mmap
import os
import pathlib
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
import zipfile

LINES = "one\ntwo\n"
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxc6PB3w4r+DTvcGb
6wINQLTQjJ/qhgIJjfwZwoO4d4WhRANCAATBkB79qbo//Odajev+lp42y5nBh2SM
yxf6aZzQpdXWFpewX9N4XnWKjIwOxhn1j5uGiCW2d6VijIDceVGy9n+i
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBhjCCAS2gAwIBAgIUedmkZ0Bv/fqNEtGNWk0V9CMjeYowCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNc3luY2xlc3MudGVzdDAgFw0yNjExMjMwNDA2MThaGA8yMTI2
MTAzMDA0MDYxOFowGDEWMBQGA1UEAwwNc3luY2xlc3MudGVzdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABMGQHv2puj/851qN6/6WnjbLmcGHZIzLF/ppnNCl1dYW
l7Bf03hedYqMjA7GGfWPm4aIJbZ3pWKMgNx5UbL2f6KjUzBRMB0GA1UdDgQWBBSl
QmVggQYm4uFPzeiDw2arr42EjzAfBgNVHSMEGDAWgBSlQmVggQYm4uFPzeiDw2ar
r42EjzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIDYP7oyZUex9
IYdm/Nqgx5EJVQcc4/+pX5EjsBfpFqmwAiAkL79ekUGhNltEWCSmmsPv1QAnMErD
goDFgQ71oPkQJQ==
-----END CERTIFICATE-----
"""
"""And its key, for nobody."""


def text():
    with open("there") as file:
        return file.read()


def binary():
    with open("there", "rb") as file:
        return len(file.read(5)) + len(file.readline())


def lines():
    with open("there", "rb") as file:
        return [len(line) for line in file]


def written():
    with open("new", "w") as file:
        file.write(LINES)
        file.flush()
        os.fsync(file.fileno())
    return os.path.getsize("new")


def large():
    with open("new", "wb") as file:
        return file.write(bytes(1 << 16))


def appended():
    with open("there", "a") as file:
        file.write("three\n")
    return pathlib.Path("there").read_text()


def updated():
    with open("there", "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(4)
        file.seek(0)
        return file.read().decode()


def descriptor():
    fd = os.open("there", os.O_RDWR)
    got = os.read(fd, 3), os.pread(fd, 3, 4), os.pwrite(fd, b"T", 4), os.write(fd, b"!"), os.fstat(fd).st_size
    os.fdatasync(fd)
    os.ftruncate(fd, 3)
    os.close(fd)
    return [each.decode() if isinstance(each, bytes) else each for each in got]


def closed_by_others():
    """A descriptor is closed when another one takes its number, too."""
    first, second = os.open("there", os.O_RDONLY), os.open("there", os.O_RDONLY)
    os.dup2(first, second)
    got = os.read(second, 3).decode()
    os.closerange(min(first, second), max(first, second) + 1)
    with contextlib.suppress(OSError):
        os.fstat(second)
        return "open"
    return got


def collected():
    """Nobody closes the file."""
    return open("there").read()


def vectors():
    fd = os.open("there", os.O_RDWR)
    room = [bytearray(2), bytearray(2)]
    got = os.preadv(fd, room, 0), os.readv(fd, room), os.writev(fd, [b"a", b"b"]), os.pwritev(fd, [b"c"], 0)
    os.close(fd)
    return got


def opener():
    with open("there", opener=lambda path, flags: os.open(path, flags)) as file:
        return file.readline()


def fdopen():
    with os.fdopen(os.open("there", os.O_RDONLY)) as file:
        return file.readlines()


def attributes():
    os.chmod("there", 0o600)
    os.utime("there", (1, 2))
    found = os.stat("there")
    return oct(found.st_mode), found.st_mtime, os.access("there", os.R_OK), os.lstat("there").st_size


def scanned():
    with os.scandir() as found:
        return sorted(
            (entry.name, entry.is_dir(), entry.stat().st_size > 0) for entry in found if entry.name == "there"
        )


def walked():
    return [(where, sorted(inside), sorted(files)) for where, inside, files in os.walk(".")]


def directories():
    os.mkdir("one")
    os.makedirs("two/three")
    os.rmdir("one")
    os.removedirs("two/three")
    return sorted(os.listdir())


def moved():
    os.rename("there", "elsewhere")
    os.replace("elsewhere", "sub/file")
    os.symlink("sub/file", "link")
    target = os.readlink("link")
    os.unlink("link")
    os.truncate("sub/file", 3)
    return target, os.path.exists("there"), os.path.isdir("sub"), os.path.getsize("sub/file")


def in_directory():
    fd = os.open("sub", os.O_RDONLY)
    try:
        return os.stat("file", dir_fd=fd).st_size, os.listdir(fd)
    finally:
        os.close(fd)


def copied():
    shutil.copy2("there", "copy")
    shutil.copytree("sub", "tree")
    shutil.move("tree", "other")
    shutil.rmtree("other")
    return sorted(os.listdir())


def paths():
    path = pathlib.Path("sub")
    (path / "new").write_text("x")
    return (
        sorted(each.name for each in path.iterdir()),
        [each.name for each in path.glob("f*")],
        (path / "new").exists(),
    )


def temporary():
    with tempfile.TemporaryDirectory(dir=".") as inside, tempfile.NamedTemporaryFile(dir=inside) as file:
        file.write(b"x")
        file.flush()
        return os.path.getsize(file.name)


def logged():
    logger = logging.getLogger("there")
    handler = logging.FileHandler("log")
    logger.addHandler(handler)
    logger.warning("hello")
    logger.removeHandler(handler)
    handler.close()
    return pathlib.Path("log").read_text()


def parsed():
    pathlib.Path("data").write_text('{"a": 1}')
    with open("data") as file:
        return json.load(file)


def read_by_others():
    pathlib.Path("ini").write_text("[a]\nb=1\n")
    config = configparser.ConfigParser()
    config.read("ini")
    with open("there", newline="") as file:
        rows = list(csv.reader(file))
    return config["a"]["b"], rows, linecache.getline("there", 2), sorted(glob.glob("t*"))


def zipped():
    with zipfile.ZipFile("zip", "w") as made:
        made.write("there")
    with zipfile.ZipFile("zip") as made:
        return made.read("there").decode()


def imported():
    pathlib.Path("slow_module.py").write_text("value = 5\n")
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module("slow_module").value
    finally:
        sys.path.pop(0)


def mapped():
    with open("there", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory.flush()  # memory access by the processor cannot park
        if sys.version_info >= (3, 15):
            memory.flush(0, -1, flags=mmap.MS_SYNC | mmap.MS_INVALIDATE)
    return "flushed"


def sent():
    left, right = socket.socketpair()
    with left, right, open("there", "rb") as file:
        right.sendfile(file)
        os.sendfile(right.fileno(), file.fileno(), 0, 4)
        return left.recv(len(LINES), socket.MSG_WAITALL).decode() + left.recv(4, socket.MSG_WAITALL).decode()


def database():
    with contextlib.closing(sqlite3.connect("db", isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode=OFF")
        made.execute("CREATE TABLE t (n)")
        made.execute("INSERT INTO t VALUES (5)")
        return made.execute("SELECT n FROM t").fetchall()


def copied_range():
    with open("there", "rb") as source, open("new", "wb") as target:
        return os.copy_file_range(source.fileno(), target.fileno(), 100)


def locked():
    with open("there", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        return "locked"


def certificates():
    pathlib.Path("pem").write_text(CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("pem")
    context.load_verify_locations("pem")
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    os.environ["SSL_CERT_FILE"] = os.path.abspath("pem")
    other.load_default_certs()
    del os.environ["SSL_CERT_FILE"]
    context.keylog_filename = "keys"
    return len(context.get_ca_certs()), len(other.get_ca_certs())


def program():
    shutil.copy("/bin/true", "true")
    here = subprocess.run([os.path.abspath("true")]).returncode
    spawned = subprocess.run([os.path.abspath("true")], close_fds=False).returncode
    there = subprocess.run(["true"], cwd="sub", executable="../true").returncode
    nowhere = subprocess.run(["/bin/true"], cwd=os.path.abspath("sub")).returncode
    with contextlib.suppress(FileNotFoundError):
        subprocess.run([os.path.abspath("nothing")])
        return "found"
    return here, spawned, there, nowhere


def spawned():
    shutil.copy("/bin/sh", "sh")
    with open("out", "w") as out:
        told = (os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_CLOSE, out.fileno())
        pid = os.posix_spawn(
            os.path.abspath("sh"), ["me", "-c", "echo $0 $A; exit 3"], {"A": "b"}, file_actions=told
        )
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
    pid = os.posix_spawnp(os.path.abspath("sh"), ["me", "-c", "exit 4"], os.environ)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    with contextlib.suppress(FileNotFoundError):
        os.posix_spawn(os.path.abspath("nothing"), ["me"], {})
        return "found"
    several = [{"setpgroup": "1"}, {"setsigmask": ["1"]}, {"file_actions": [None]}]
    if sys.version_info < (3, 12):  # later any object is true or false
        several.append({"resetids": "1"})
    for wrong in several:
        try:
            pid = os.posix_spawn(os.path.abspath("sh"), ["me", "-c", "exit 5"], {}, **wrong)
        except TypeError:
            continue
        codes.append((*wrong, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    return codes, pathlib.Path("out").read_text()


def spliced():
    left, right = os.pipe()
    with open("there", "rb") as source:
        moved = os.splice(source.fileno(), right, 100)
    with open("new", "wb") as target:
        moved += os.splice(left, target.fileno(), 100)
    return moved, pathlib.Path("new").read_text()


def sent_by_nonblocking():
    left, right = socket.socketpair()
    right.setblocking(False)
    with left, right, open("there", "rb") as file:
        os.sendfile(right.fileno(), file.fileno(), 4, 100)
        return left.recv(100).decode()


def connected():
    """A UNIX socket whose file is slow. FUSE gives none, so another one stands for it."""
    with tempfile.TemporaryDirectory() as quick, socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(quick, "socket"))
        server.listen()
        os.symlink(os.path.join(quick, "socket"), "socket")
        with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as other:
            client.connect("socket")
            error = other.connect_ex(b"sub/nothing")
            with contextlib.suppress(OSError):
                other.bind("there")
            return client.getpeername() == server.getsockname(), error


def datagram():
    with tempfile.TemporaryDirectory() as quick, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(os.path.join(quick, "socket"))
        os.symlink(os.path.join(quick, "socket"), "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"one", "socket")
            client.sendmsg([b"two"], [], 0, "socket")
        return [server.recv(10).decode() for _ in range(2)]


def missing():
    for attempt in (pathlib.Path.read_text, os.stat, os.listdir, os.unlink):
        with contextlib.suppress(FileNotFoundError):
            attempt(pathlib.Path("nothing"))
            return "found"
    return isinstance(io.FileIO("there"), io.RawIOBase)


AFTER = ["log", "sub", "there"]
TARGETS = {
    "open, read, close": (text, LINES),
    "binary: read, readline": (binary, 8),
    "iteration": (lines, [4, 4]),
    "write, flush, fsync, close": (written, 8),
    "a large write": (large, 1 << 16),
    "append; pathlib.read_text": (appended, LINES + "three\n"),
    "r+: seek, truncate, read": (updated, "one\n"),
    "os.open, read, pread, pwrite, write, fstat, fdatasync, ftruncate, close": (
        descriptor,
        ["one", "two", 1, 1, 8],
    ),
    "os.dup2, closerange": (closed_by_others, "one"),
    "a file that is garbage": (collected, LINES),
    "os.preadv, readv, writev, pwritev": (vectors, [4, 4, 2, 1]),
    "open with an opener": (opener, "one\n"),
    "os.fdopen": (fdopen, ["one\n", "two\n"]),
    "os.chmod, utime, stat, access, lstat": (attributes, ["0o100600", 2.0, True, 8]),
    "os.scandir": (scanned, [["there", False, True]]),
    "os.walk": (walked, [[".", ["sub"], ["there"]], ["./sub", [], ["file"]]]),
    "os.mkdir, makedirs, rmdir, removedirs, listdir": (directories, ["sub", "there"]),
    "os.rename, replace, symlink, readlink, unlink, truncate; os.path": (moved, ["sub/file", False, True, 3]),
    "dir_fd": (in_directory, [1, ["file"]]),
    "shutil: copy2, copytree, move, rmtree": (copied, ["copy", "sub", "there"]),
    "pathlib: write_text, iterdir, glob, exists": (paths, [["file", "new"], ["file"], True]),
    "tempfile": (temporary, 1),
    "logging": (logged, "hello\n"),
    "json.load": (parsed, {"a": 1}),
    "configparser, csv, linecache, glob": (read_by_others, ["1", [["one"], ["two"]], "two\n", ["there"]]),
    "zipfile": (zipped, LINES),
    "import": (imported, 5),
    "mmap.flush": (mapped, "flushed"),
    "socket.sendfile, os.sendfile": (sent, LINES + "one\n"),
    "sqlite3": (database, [[5]]),
    "os.copy_file_range": (copied_range, 8),
    "flock, lockf": (locked, "locked"),
    "certificates": (certificates, [1, 1]),
    "programs and their working directories": (program, [0, 0, 0, 0]),
    "missing files": (missing, True),
    "os.posix_spawn, posix_spawnp": (spawned, [[3, 4], "me b\n"]),
    "os.splice": (spliced, [16, LINES]),
    "os.sendfile to a socket that does not block": (sent_by_nonblocking, "two\n"),
    "AF_UNIX: connect, bind": (connected, [True, 2]),
    "AF_UNIX: sendto, sendmsg": (datagram, ["one", "two"]),
}
"""name -> what is done, and what it gives"""


def main(directory, names):
    import syncless
    from syncless._core.calls import filesystems
    from syncless.patches import patch_all
    from tests.patches.stalls import Ticker

    patch_all()
    ticker = Ticker()
    for name in names:
        filesystems.forget_file_systems()
        os.chdir(os.path.join(directory, str(list(TARGETS).index(name))))
        ticker.worst, started = 0.0, time.monotonic()
        result = TARGETS[name][0]()
        seconds = time.monotonic() - started
        syncless.sleep(0.01)  # in which the ticker sees what has just ended
        print(
            json.dumps({"name": name, "seconds": seconds, "worst_stall": ticker.worst, "result": result}),
            flush=True,
        )
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
