"""Real proxies in front of a server: nginx and HAProxy keep their connections to it, and clients POST through
them and count what is lost.

A proxy does not send a POST a second time, so a connection that the server closes at the wrong moment shows
as a 502.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import syncless
from syncless.io import socket
from tests.preload import without_preload
from tests.waiting import eventually

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000;
    upstream app {{
        server 127.0.0.1:{port};
        keepalive 16;
    }}
    server {{
        listen unix:{folder}/front;
        client_max_body_size 0;
        location / {{
            proxy_pass http://app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Request-Start t=$msec;
        }}
    }}
}}
"""

HAPROXY = """
global
    maxconn 512
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend front
    bind unix@{folder}/front
    http-request set-header X-Request-Start t=%[date(0,us)]
    default_backend app
backend app
    server one 127.0.0.1:{port}
"""

COMMANDS = {
    "nginx": (NGINX, ["nginx", "-p", "{folder}", "-c", "{folder}/configuration"]),
    "haproxy": (HAPROXY, ["haproxy", "-db", "-q", "-f", "{folder}/configuration"]),
}
"""Its configuration, and how it is started."""

APP = """
import ctypes, os, time
def app(environ, start_response):
    if environ["PATH_INFO"] == "/unread":
        start_response("403 Forbidden", [])
        return [b"unread"]
    body = environ["wsgi.input"].read()
    if environ["PATH_INFO"] == "/die":
        os._exit(7)
    if environ["PATH_INFO"] == "/hold":
        ctypes.CDLL(None).usleep(20_000)
    if environ["PATH_INFO"] == "/fork":
        if child := os.fork():
            os.waitpid(child, 0)
        else:
            if not os.fork():
                time.sleep(0.2)  # it has a copy of each descriptor
            os._exit(0)
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    return [body]
"""


def missing(kind: str) -> bool:
    """Whether the proxy is not installed."""
    return program(kind) is None


def program(kind: str) -> str | None:
    return shutil.which(kind, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def start_server(folder: pathlib.Path, errors: Any, *options: str) -> tuple[subprocess.Popen[str], int]:
    """A server that is listening, and its port, if it has one."""
    (folder / "app.py").write_text(APP)
    command = [sys.executable, "-m", "syncless", "app:app", *options]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
    port = re.search(r":(\d+)/", server.stdout.readline())
    return server, int(port[1]) if port else 0


class Proxied:
    """A server with workers behind a proxy, and clients. ``with Proxied(...) as proxied`` runs all of them
    and ends them."""

    def __init__(
        self,
        kind: str,
        folder: pathlib.Path,
        *options: str,
        workers: int = 2,
        clients: int = 12,
        bind: str = "127.0.0.1:0",
        configuration: Callable[[pathlib.Path, int], str] | None = None,
        paths: Sequence[str] = ("/",),
    ):
        """`configuration`: makes that of the proxy, of the folder and the server's port. `paths`: of the
        requests, at random."""
        self.paths = paths
        self.kind = kind
        self.bind = bind
        self.configuration = configuration or (
            lambda folder, port: COMMANDS[kind][0].format(folder=folder, port=port)
        )
        self.folder = folder
        self.options = ["--workers", str(workers), *options]
        self.processes = workers
        self.wanted = clients
        self.counts: Counter[str] = Counter()
        self.pids: set[int] = set()
        self.lost: list[str] = []
        self.ending = False
        self.choose = random.Random(1)

    def __enter__(self) -> Proxied:
        self.folder.mkdir(exist_ok=True)
        self.errors = open(self.folder / "errors", "w+")
        self.server, self.port = start_server(self.folder, self.errors, "--bind", self.bind, *self.options)
        (self.folder / "configuration").write_text(self.configuration(self.folder, self.port))
        command = COMMANDS[self.kind][1]
        command = [program(self.kind), *(part.format(folder=self.folder) for part in command[1:])]
        self.proxy = subprocess.Popen(command, stdout=self.errors, stderr=self.errors, env=without_preload())
        self.tasklets = []
        if not eventually(lambda: self.reachable() and len(self.workers()) == self.processes):
            self.__exit__()
            raise AssertionError((self.folder / "errors").read_text())
        self.tasklets = [syncless.spawn(self.client) for _ in range(self.wanted)]
        return self

    def reachable(self) -> bool:
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        try:
            client.connect(f"{self.folder}/front")
        except BaseException:
            client.close()
            raise
        return client

    def client(self) -> None:
        """POSTs one request after the other, on a connection that the proxy keeps."""
        while not self.ending:
            with self.connect() as connection:
                try:
                    while not self.ending and self.post(connection):
                        if self.choose.random() < 0.3:
                            syncless.sleep(self.choose.random() / 50)
                except (OSError, AssertionError) as error:
                    self.lost.append(repr(error))

    def post(self, connection) -> bool:
        """Whether the connection is kept."""
        body = b"%d" % self.choose.getrandbits(64)
        line = f"POST {self.choose.choice(self.paths)} HTTP/1.1\r\nHost: a\r\n"
        connection.sendall(f"{line}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more(connection)
        head, _, answer = data.partition(b"\r\n\r\n")
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        while len(answer) < size:
            answer += self.more(connection)
        if b" 200 " in head[:20] and answer == body:
            self.counts["answered"] += 1
            self.pids.add(int(re.search(rb"(?i)x-pid: (\d+)", head)[1]))
        else:
            self.lost.append(head.decode("latin-1"))
        return b"connection: close" not in head.lower()

    @staticmethod
    def more(connection) -> bytes:
        block = connection.recv(65536)
        if not block:
            raise ConnectionError("the proxy has closed the connection")
        return block

    def workers(self) -> set[int]:
        return set(
            map(
                int,
                pathlib.Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split(),
            )
        )

    def reload(self) -> None:
        """SIGHUP, and waits until others serve."""
        before = self.workers()
        self.server.send_signal(signal.SIGHUP)
        assert eventually(lambda: not self.workers() & before, 60)
        self.counts["reloads"] += 1

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        assert eventually(condition, seconds), f"{self.kind}: {dict(self.counts)}, {self.lost[:3]}"

    def __exit__(self, *error: object) -> None:
        self.ending = True
        try:
            for tasklet in self.tasklets:
                tasklet.join()
        finally:
            for process in (self.proxy, self.server):
                process.terminate()
                syncless.run_in_thread(process.wait)
            self.server.stdout.close()
            self.errors.close()
