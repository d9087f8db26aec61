"""A server that was started without stdin, stdout or stderr."""

import socket
import subprocess
import sys

import pytest

from tests.cli.test_loading import command, environment
from tests.plugin import Client
from tests.waiting import eventually

APP = """
import os
def app(environ, start_response):
    os.write(2, b"of a library in C")
    if environ["PATH_INFO"] == "/error":
        raise ValueError("on purpose")
    start_response("200 OK", [])
    return [" ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)).encode()]
"""


OF_COMMAND = command("hello:app", "--bind", "unix:socket")


def listens(path):
    """Its file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(path)) == 0


SERVES = """
from syncless.wsgi import serve
serve(app, bind="unix:socket", workers={workers}, patch=True)
"""


@pytest.mark.parametrize("program", [False, True])
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("closed", ["2", "0", "012"])
def test_missing_ones_are_null(tmp_path, workers, closed, program):
    """For the command, and for a program that serves."""
    (tmp_path / "hello.py").write_text(APP + (SERVES.format(workers=workers) if program else ""))
    served = [sys.executable, "hello.py"] if program else [*OF_COMMAND, "--workers", workers]
    shell = f'exec "$@" {" ".join(fd + "<&-" for fd in closed)}'
    with subprocess.Popen(
        ["sh", "-c", shell, "sh", *served],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert eventually(lambda: listens(tmp_path / "socket"))
            with Client(str(tmp_path / "socket")) as client:
                assert client.get("/")[2] == b"/dev/null /dev/null /dev/null"
                assert client.get("/error")[0] == 500
        finally:
            process.terminate()
    assert process.returncode == 0
