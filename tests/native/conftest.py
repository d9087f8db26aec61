"""Native handlers, compiled for the tests, and servers that have them."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from syncless import native
from syncless.http.limits import Limits
from syncless.native.routing import parse_routes
from syncless.native.threads import Threads
from tests.preload import without_preload

HERE = pathlib.Path(__file__).parent


def compiled(source, target, *options):
    command = [
        "cc",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        f"-I{native.get_include()}",
    ]
    command += [*options, source, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, env=without_preload())
    assert done.returncode == 0, done.stderr
    return target


def build_in_place(folder):
    """Runs the setup.py there. It imports syncless, so it keeps what is preloaded for that."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "CFLAGS": "-O0 -g0"}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The path of the library made of handlers.c."""
    return compiled(HERE / "handlers.c", tmp_path_factory.mktemp("handlers") / "handlers.so")


@pytest.fixture(scope="session")
def handlers(library):
    """handlers(name): one of the functions of handlers.c."""
    return lambda name, **options: native.load(library, name, **options)


def chosen(routes, handlers):
    return {text: handlers(each) if isinstance(each, str) else each for text, each in routes.items()}


class Stepped:
    """A thread of native handlers whose turns the test takes, and a client of it."""

    def __init__(self, routes, limits):
        self.threads = Threads(parse_routes(routes), 1, Limits(**limits))
        self.connect()

    def connect(self):
        self.client, server = socket.socketpair()
        server.setblocking(False)  # as an accepted one
        self.threads.give(0, server.detach())
        self.client.setblocking(False)
        self.turn()

    def turn(self, times=1):
        for _ in range(times):
            self.threads.turn()

    def send(self, data):
        """False where the server reads no more."""
        try:
            self.client.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        self.turn(2)
        return True

    def received(self):
        """The bytes that have come; ends with None if the server has closed."""
        data = b""
        while True:
            try:
                more = self.client.recv(65536)
            except BlockingIOError:
                return data, False
            except ConnectionResetError:
                return data, True
            if not more:
                return data, True
            data += more

    def close(self):
        self.client.close()
        self.turn(2)
        left = self.threads.connections
        self.threads.close_connections(True)
        self.turn(2)
        assert left == 0 or self.threads.connections == 0


@pytest.fixture
def stepped(handlers):
    """stepped(routes, **limits) -> a Stepped; the routes by the names of functions in handlers.c."""
    made = []

    def begin(routes, **limits):
        made.append(Stepped(chosen(routes, handlers), limits))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def python(environ, start_response):
    """The application beside the handlers."""
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"python ", environ["REQUEST_METHOD"].encode(), b" ", environ["PATH_INFO"].encode(), b" ", body]


@pytest.fixture
def served(start, handlers):
    """served(routes, application=python, **options) -> a Server with those native handlers."""

    def begin(routes, application=python, **options):
        options.setdefault("native_threads", 2)
        options.setdefault("defer_accept", False)
        return start(application, native=chosen(routes, handlers), **options)

    begin.client = start.client
    return begin
