"""The applications that serve() takes, and the command line."""

import importlib.util
import io
import os
import platform
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import pytest

from syncless._core.poll.backends import BACKENDS
from syncless.wsgi import ApplicationNotFound, as_wsgi


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "syncless", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_applications_are_recognised_and_other_objects_refused():
    def app(environ, start_response):
        return []

    assert as_wsgi(app) is app
    assert callable(as_wsgi("wsgiref.simple_server:demo_app"))
    for wrong in (5, None, object(), {}, b"module:app"):
        with pytest.raises(TypeError, match="cannot serve"):
            as_wsgi(wrong)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:app", "there is no module 'no_such_module'"),
        ("wsgiref.no_such:app", "there is no module 'wsgiref.no_such'"),
        ("wsgiref.simple_server:no_such", "has no attribute 'no_such'"),
        ("wsgiref.simple_server:demo_app.x", "has no attribute"),
        ("wsgiref", "neither 'application' nor 'app'"),
        (":app", "incomplete name"),
        ("wsgiref.simple_server:", "incomplete name"),
        ("wsgiref.simple_server.demo_app", "write wsgiref.simple_server:demo_app"),
        ("no/such/file.py:app", "there is no file .*no/such/file.py"),
        ("wsgiref.simple_server:demo_app(x)", "literals only"),
    ],
)
def test_unknown_application_names_are_reported(name, message):
    with pytest.raises(ApplicationNotFound, match=message):
        as_wsgi(name)
    done = run(name)
    assert done.returncode == 2 and re.search(message, done.stderr) and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bind", "non sense"], "invalid address"),
        (["--bind", "127.0.0.1:70000"], "invalid address"),
        (["--limit", "nonsense=1"], "unknown limit 'nonsense'; --help-all lists all limits"),
        (["--limit", "head_second=1"], "unknown limit 'head_second'; did you mean head_seconds"),
        (["--limit", "head_seconds"], "write NAME=VALUE, for example idle_seconds=75"),
        (["--limit", "backlog=x"], "write a whole number, not 'x'"),
        (["--limit", "backlog=-1"], "must be positive"),
        (["--nonsense"], "there is no option --nonsense"),
        (["--chdir", "/no/such/directory"], "/no/such/directory"),
    ],
)
def test_wrong_arguments(arguments, message):
    done = run("examples.hello", *arguments)
    assert done.returncode == 2 and re.search(message, done.stderr) and "Traceback" not in done.stderr


def test_help_and_version():
    done = run("--help-all")
    assert done.returncode == 0 and "head_seconds (30 s)" in done.stdout and "module:attribute" in done.stdout
    version, runs_on, compiled, has, *lacks = run("--version").stdout.splitlines()
    assert re.fullmatch(r"syncless \d+\.\d+\.\d+\S*", version)
    assert f"CPython {platform.python_version()}, greenlet " in runs_on and compiled.startswith(
        "compiled by "
    )
    assert f" {next(iter(BACKENDS))}" in has
    session = importlib.util.find_spec("syncless.http.http2.session")
    assert ("HTTP/2" in has, any("HTTP/2 (install libnghttp2-dev" in each for each in lacks)) == (
        bool(session),
        not session,
    )


def test_features_are_told_where_native_handlers_are_not_built():
    program = "import sys; sys.modules['syncless.native.threads'] = None; "
    program += "from syncless.http.features import features; print(features())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert re.search(r"^lacks: native handlers", done.stdout, re.M), done.stderr


def test_a_port_in_use_is_exit_code_1():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("examples.hello", "--bind", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (
        done.returncode == 1
        and "another program already listens there" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_log_that_cannot_be_opened_is_exit_code_1():
    done = run("examples.hello", "--bind", "127.0.0.1:0", "--access-log", "/no/such/directory/log")
    assert done.returncode == 1 and "/no/such/directory/log" in done.stderr


def test_a_handler_class(start):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.send_header("X-Saw", self.headers["X-Sent"])
            self.end_headers()
            self.wfile.write(f"{self.path}!".encode())

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(201, "Made")
            self.end_headers()
            self.wfile.write(body + self.client_address[0].encode())

        def do_PUT(self):
            start = bytearray(1)
            self.rfile.readinto(start)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(start + io.TextIOWrapper(self.rfile).read().upper().encode())

    client = start.client(start(Handler))
    status, headers, body = client.get("/%61?b", "X-Sent: yes\r\n")
    assert (status, headers["x-saw"], body) == (200, "yes", b"/a?b!")
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert client.response()[0] == 100
    client.send(b"abc")
    assert client.response()[::2] == (201, b"abc127.0.0.1")
    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    assert client.response()[2] == b"aBC"
    client.send(b"PATCH / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response()[0] == 501


def test_modules_are_found_in_the_current_directory(tmp_path):
    (tmp_path / "mine.py").write_text("def app(environ, start_response): pass\n")
    assert (
        run("mine:nothing", cwd=tmp_path).stderr
        == "syncless: module 'mine' has no attribute 'nothing'; it has app\n"
    )
    assert run("mine:nothing", "--chdir", str(tmp_path), cwd=os.sep).returncode == 2
