"""Servers for the clients' tests: each a context manager that gives a port, or skips the test with the reason
why it cannot be had."""

import contextlib
import glob
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from tests.preload import without_preload
from tests.programs import free_port

WAIT = 0.2
"""Seconds that a late answer takes."""

SLOW_HTTP = """
import sys, time, syncless
from syncless.wsgi import Server
def app(environ, start_response):
    _, seconds, *answer = environ["PATH_INFO"].split("/")
    syncless.sleep(float(seconds))
    start_response("200 OK", [("Content-Type", "text/plain")])
    if len(answer) == 3:        # other clients ask for paths of their own below
        number, letter, size = answer
        return [f"{number} ".encode(), letter.encode() * int(size)]
    return [b"slept"]
server = Server(app, port=0)
server.start()
print(server.address[1], flush=True)
syncless.sleep(3600)
"""


def program(*names):
    """The path of the first of these programs that is there; database servers often are not on the PATH."""
    for name in names:
        found = shutil.which(name) or next(
            iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None
        )
        if found is None and os.path.exists(f"/usr/sbin/{name}"):
            found = f"/usr/sbin/{name}"
        if found:
            return found
    pytest.skip(f"{' or '.join(names)} is not installed")


@contextlib.contextmanager
def running(command, port, **options):
    """A server process, once it answers on its port; ended by its number. Its log is a file, because a server
    that writes more than a pipe holds would stand still."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, env=without_preload(), **options
        )
        try:
            for _ in range(600):
                if process.poll() is not None:
                    log.seek(0)
                    raise RuntimeError(f"{command[0]} ended: {log.read()[-2000:]}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as client:
                    # where nobody listens TCP connects a client to itself, if its own port is that one
                    if client.getsockname() != client.getpeername():
                        break
                time.sleep(0.1)
            else:
                raise RuntimeError(f"{command[0]} does not answer on port {port}")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def data_folder():
    """An empty folder, and the user to run as: database servers refuse to be root."""
    with tempfile.TemporaryDirectory() as folder:
        user = None
        if os.geteuid() == 0:
            user = "nobody"
            shutil.chown(folder, user)
        yield folder, user


@contextlib.contextmanager
def redis():
    port = free_port()
    with running(
        [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", ""], port, cwd="/"
    ):
        yield port


@contextlib.contextmanager
def postgresql(connections=400):
    initdb, postgres = program("initdb"), program("postgres")
    with data_folder() as (folder, user):
        subprocess.run(
            [
                initdb,
                "-D",
                f"{folder}/db",
                "-U",
                "postgres",
                "--auth=trust",
                "--no-sync",
                "--no-locale",
                "-E",
                "UTF8",
            ],
            user=user,
            check=True,
            capture_output=True,
            cwd=folder,
            env=without_preload(),
        )
        port = free_port()
        options = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "max_connections": connections,
            "fsync": "off",
        }
        command = [postgres, "-D", f"{folder}/db", *(f"--{name}={value}" for name, value in options.items())]
        with running(command, port, user=user, cwd=folder):
            for _ in range(100):  # it listens before it is ready
                asked = [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
                ready = subprocess.run(asked, env=without_preload())
                if ready.returncode == 0:
                    break
                time.sleep(0.1)
            yield port


@contextlib.contextmanager
def mariadb():
    server, install = program("mariadbd", "mysqld"), program("mariadb-install-db", "mysql_install_db")
    with data_folder() as (folder, user):
        made = ["--no-defaults", f"--datadir={folder}/db", *([f"--user={user}"] if user else [])]
        auth = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(
            [install, *made, *auth], check=True, capture_output=True, cwd=folder, env=without_preload()
        )
        port = free_port()
        options = [
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder}/socket",
            "--skip-name-resolve",
            "--thread-cache-size=60",
            "--max-connections=400",  # those of killed tasklets end when the server notices
        ]
        with running([server, *made, *options], port, cwd=folder):
            yield port


@contextlib.contextmanager
def mongodb():
    """No MongoDB can be had everywhere: the few messages that a client needs, answered by a thread each
    (OP_MSG of the wire protocol)."""
    bson = pytest.importorskip("bson", reason="pymongo is not installed: pip install pymongo")

    def talk(sock):
        with contextlib.suppress(ConnectionError), sock, sock.makefile("rb") as incoming:
            while head := incoming.read(16):
                length, number, _, opcode = struct.unpack("<iiii", head)
                body = incoming.read(length - 16)
                # OP_QUERY begins with flags, a name that ends with a zero, two numbers; OP_MSG with flags and
                # a section's kind
                start = 5 if opcode == 2013 else body.index(b"\0", 4) + 9
                size = struct.unpack_from("<i", body, start)[0]
                asked = bson.decode(body[start : start + size])
                answer = {"ok": 1.0}
                if "hello" in asked or "ismaster" in asked or "isMaster" in asked:
                    answer.update(
                        ismaster=True,
                        helloOk=True,
                        isWritablePrimary=True,
                        minWireVersion=0,
                        maxWireVersion=21,
                    )
                    answer.update(
                        maxBsonObjectSize=1 << 24, maxMessageSizeBytes=1 << 25, maxWriteBatchSize=1000
                    )
                elif "slow" in asked:
                    time.sleep(asked["seconds"])
                    answer["number"] = asked.get("number")
                document = bson.encode(answer)
                if opcode == 2013:
                    sock.sendall(struct.pack("<iiiiiB", 21 + len(document), 0, number, 2013, 0, 0) + document)
                else:
                    sock.sendall(
                        struct.pack("<iiiiiqii", 36 + len(document), 0, number, 1, 0, 0, 0, 1) + document
                    )

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


@contextlib.contextmanager
def http():
    process = subprocess.Popen([sys.executable, "-c", SLOW_HTTP], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def answering_late(port):
    """The port of a proxy that passes the answers of a quick server on after WAIT seconds."""

    def pass_on(source, target, seconds):
        with contextlib.suppress(OSError), source, target:
            while piece := source.recv(1 << 16):
                time.sleep(seconds)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                for pair in ((client, server, 0), (server, client, WAIT)):
                    threading.Thread(target=pass_on, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


@contextlib.contextmanager
def memcached():
    port = free_port()
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (
        running([program("memcached"), "-l", "127.0.0.1", "-p", str(port), *user], port, cwd="/"),
        answering_late(port) as late,
    ):
        yield late


@contextlib.contextmanager
def ldap():
    """One without a database, which has the entry about itself."""
    slapd, port = program("slapd"), free_port()
    with tempfile.NamedTemporaryFile(suffix=".conf") as empty:
        command = [slapd, "-h", f"ldap://127.0.0.1:{port}", "-f", empty.name, "-d", "256"]
        with running(command, port, cwd="/"), answering_late(port) as late:
            yield late


@contextlib.contextmanager
def none():
    """For clients that wait without a server."""
    yield 0


@contextlib.contextmanager
def refusing():
    """It ends each connection after WAIT seconds, without an answer."""
    source = (
        "import socket, threading\n"
        "listener = socket.create_server(('127.0.0.1', 0), backlog=200)\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "while True:\n"
        f"    threading.Timer({WAIT}, listener.accept()[0].close).start()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


SERVERS = {
    each.__name__: each
    for each in (redis, postgresql, mariadb, mongodb, http, memcached, ldap, none, refusing)
}
