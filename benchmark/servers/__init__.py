"""The servers that are compared, each started by one command; and why one is absent where it is."""

from __future__ import annotations

import http.client
import importlib.metadata
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmark.measure import SERVER_CORE, cpu_ns, pinned, private_bytes

HERE = pathlib.Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "benchmark"
BODY = b"Hello, World!"


class Absent(Exception):
    """The server cannot run here; the text says why."""


@dataclass
class Peer:
    """How to start a server: `command(port, application)`; Absent if it cannot be had."""

    name: str
    command: Callable[[int, str], list[str]]
    version: Callable[[], str]
    applications: tuple[str, ...] = ("hello", "sleep", "flask", "django")


def _python(script: str, package: str) -> Peer:
    def version() -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise Absent(f"the Python package {package} is not installed") from None

    return Peer(package, lambda port, app: [sys.executable, str(HERE / script), str(port), app], version)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _compiled_c(name: str) -> pathlib.Path:
    target = BUILD / name
    if not target.exists() or target.stat().st_mtime < (HERE / f"{name}.c").stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", target, HERE / f"{name}.c"], check=True)
    return target


def _go(name: str) -> Peer:
    def build() -> pathlib.Path:
        go = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
        if go is None:
            raise Absent("there is no Go compiler")
        BUILD.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([go, "build", "-o", BUILD / name, "."], cwd=HERE / name, capture_output=True, text=True)
        if done.returncode:
            raise Absent(f"go build failed: {done.stderr.strip().splitlines()[-1]}")
        return BUILD / name

    def version() -> str:
        build()
        return _output(shutil.which("go") or "/usr/local/go/bin/go", "version").split()[2]

    return Peer(f"go {name}", lambda port, app: [str(BUILD / name), str(port), app], version, ("hello", "sleep"))


def _node() -> Peer:
    def version() -> str:
        if shutil.which("node") is None:
            raise Absent("node is not installed")
        return _output("node", "--version")

    return Peer("node", lambda port, app: ["node", str(HERE / "run_node.js"), str(port), app], version, ("hello", "sleep"))


def _meinheld() -> Peer:
    """It does not compile on Python 3.10 and later: BENCHMARK_MEINHELD_PYTHON names an interpreter that has it."""
    python = os.environ.get("BENCHMARK_MEINHELD_PYTHON", "")

    def version() -> str:
        if not python:
            raise Absent("it needs Python 3.9 or older; BENCHMARK_MEINHELD_PYTHON=/path/to/python that has it")
        return _output(python, "-c", "import meinheld, platform; print(meinheld.__version__, 'on Python', platform.python_version())")

    return Peer("meinheld", lambda port, app: [python, str(HERE / "run_meinheld.py"), str(port), app], version, ("hello",))


PEERS = {
    peer.name: peer
    for peer in (
        _python("run_syncless.py", "syncless"),
        Peer(
            "syncless, access log",
            lambda port, app: [sys.executable, str(HERE / "run_syncless.py"), str(port), app, str(BUILD / "access.log")],
            lambda: "combined format, to a file",
        ),
        Peer("floor", lambda port, app: [str(_compiled_c("floor")), str(port)], lambda: "C, epoll, parses nothing", ("hello",)),
        Peer(
            "floor, deferred accept",
            lambda port, app: [str(_compiled_c("floor")), str(port), "defer"],
            lambda: "C, epoll, parses nothing",
            ("hello",),
        ),
        _node(),
        _go("nethttp"),
        _go("fasthttp"),
        _python("run_bjoern.py", "bjoern"),
        _meinheld(),
        _python("run_gevent.py", "gevent"),
    )
}


class Running:
    """A server that runs on its core and has given the right answer."""

    def __init__(self, peer: Peer, application: str):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.measured_from = 0
        self.process = pinned(SERVER_CORE, peer.command(self.port, application), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._verify()
        except BaseException:
            self.__exit__()
            raise

    def _verify(self) -> None:
        """Answers are checked, not only counted: twice on one connection, once on another."""
        deadline = time.monotonic() + 20
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                for _ in range(2):
                    connection.request("GET", "/")
                    response = connection.getresponse()
                    body = response.read()
                    if (response.status, body) != (200, BODY):
                        raise AssertionError(f"wrong answer: {response.status} {body!r}")
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
            finally:
                connection.close()

    @property
    def cpu_ns(self) -> int:
        return cpu_ns(self.process.pid)

    @property
    def private_bytes(self) -> int:
        return private_bytes(self.process.pid)

    def __enter__(self) -> Running:
        time.sleep(0.3)  # what the start still does in the background is not the requests' cost
        return self

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
