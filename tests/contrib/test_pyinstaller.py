"""A program that PyInstaller has frozen finds all of syncless that it uses."""

import pathlib
import subprocess
import sys

import pytest

from syncless.contrib.pyinstaller import get_hook_dirs

pytest.importorskip("PyInstaller")

ROOT = str(pathlib.Path(__file__).parent.parent.parent)

PROGRAM = """
from syncless import patches, sleep, spawn
patches.patch_all()
import asyncio, socket, sqlite3, ssl, subprocess, sys, threading, time, urllib.request
from syncless.io import dns
from syncless.wsgi import Server
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"frozen"]
threading.Thread(target=time.sleep, args=(0.001,)).start()
assert socket.getaddrinfo("localhost", 80)
try:
    dns.getaddrinfo("nowhere.invalid", 80)
except OSError:
    pass
assert sqlite3.connect(":memory:").execute("select 7").fetchall() == [(7,)]
async def wait():
    await asyncio.sleep(0.001)
asyncio.run(wait())
server = Server(app, port=0)
server.start()
host, port = server.address
print(urllib.request.urlopen(f"http://{host}:{port}/", timeout=20).read().decode())
server.stop()
"""


@pytest.mark.slow
def test_frozen_program_serves(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = [
        "--onedir",
        "--log-level",
        "ERROR",
        "--paths",
        ROOT,
        "--additional-hooks-dir",
        *get_hook_dirs(),
    ]
    subprocess.run(
        [sys.executable, "-m", "PyInstaller", *options, "program.py"], cwd=tmp_path, timeout=1800, check=True
    )
    done = subprocess.run(
        [str(tmp_path / "dist/program/program")], cwd="/", capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "frozen\n", done.stderr
