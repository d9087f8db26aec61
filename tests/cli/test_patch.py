"""The command line patches the standard library by itself; `serve` in a program does on request, and says
when it should."""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.cli.test_loading import command, environment
from tests.kernel import needs_stacks
from tests.supervised import without_events
from tests.waiting import eventually

SLEEPER = """
import ctypes, os, signal, threading, time
here = threading.local()
begun = threading.Barrier(10)
libc = ctypes.CDLL(None)
signal.signal(signal.SIGRTMIN, lambda *_: None)   # ends a sleep in C

def app(environ, start_response):
    here.path = environ["PATH_INFO"]
    if environ["PATH_INFO"].startswith("/together"):
        begun.wait(60)          # ends when ten requests are in here at once
    if environ["PATH_INFO"] == "/slow":
        time.sleep(0.5)
    if environ["PATH_INFO"] == "/c":
        os.symlink(str(os.getpid()), environ["QUERY_STRING"])
        time.sleep(0)           # what it has done until here is another turn
        libc.sleep(int(environ["QUERY_STRING"]))
    start_response("200 OK", [])
    return [here.path.encode()]
"""
PROGRAM = """
from sleeper import app
from syncless.wsgi import serve
serve(app, port=0, {options})
"""


class Served:
    """A server as a process; its first line says where it listens."""

    def __init__(self, folder, arguments):
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.url = re.search(r"http://[^ ]*", self.process.stdout.readline())[0].rstrip("/")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return response.read().decode()

    def said(self):
        return without_events(self.errors.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.terminate()
        self.process.communicate(timeout=60)


def served(folder, *options):
    return Served(folder, command("app:app", "--bind", "127.0.0.1:0", *options))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    return tmp_path


def ten_at_once(server):
    paths = [f"/together/{number}" for number in range(10)]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert list(pool.map(server.get, paths)) == paths


@pytest.mark.parametrize(
    "options",
    [[], ["--workers", "1"], ["--workers", "1", "--preload"], ["--no-patch-sqlite3", "--patch-cpu"]],
)
def test_requests_that_block_run_at_once_with_locals_of_their_own(folder, options):
    with Served(folder, command("sleeper:app", "--bind", "127.0.0.1:0", *options)) as server:
        ten_at_once(server)
    assert server.said() == ""


@pytest.mark.parametrize(
    "options", ["patch=True", "patch={'sqlite3': False}, workers=1", "patch=True, workers=1, preload=True"]
)
def test_program_can_ask_for_the_patch(folder, options):
    (folder / "program.py").write_text(PROGRAM.format(options=options))
    with Served(folder, [sys.executable, "program.py"]) as server:
        ten_at_once(server)
    assert server.said() == ""


@pytest.mark.parametrize("options", [[], ["--preload"]])
def test_application_is_imported_into_a_patched_process_and_seen_by_the_collector(folder, options):
    (folder / "early.py").write_text(
        "import gc, syncless.patches\n"
        "patched, kept = syncless.patches.is_patched('time'), [[]]\n"
        "def app(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return [f'{patched} {any(each is kept for each in gc.get_objects())}'.encode()]\n"
    )
    with Served(folder, command("early:app", "--bind", "127.0.0.1:0", "--workers", "1", *options)) as server:
        assert server.get("/") == "True True"
    assert server.said() == ""


@pytest.mark.parametrize("arguments", [["--no-patch"], ["--no-patch-time"], ["--no-patch", "--workers", "1"]])
def test_application_that_is_not_patched_and_blocks_is_told_once(folder, arguments):
    with Served(folder, command("sleeper:app", "--bind", "127.0.0.1:0", *arguments)) as server:
        end = time.monotonic() + 30
        while "and still does" not in server.said() and time.monotonic() < end:
            server.get("/slow")
        for _ in range(2):
            server.get("/slow")
    said = server.said()
    assert said.count("the application has blocked all other requests for ") == 1
    assert (
        "serve(..., patch=True)" in said
        and 'sleeper.py", line 13, in app' in said
        and "time.sleep(0.5)" in said
    )


@needs_stacks
@pytest.mark.parametrize("arguments", [[], ["--workers", "1"]])
def test_patched_application_that_blocks_in_c_is_told_once_with_the_cure(folder, arguments):
    with (
        Served(folder, command("sleeper:app", "--bind", "127.0.0.1:0", *arguments)) as server,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        server.get("/slow")
        assert server.said() == ""
        asked = pool.submit(server.get, "/c?600")
        assert eventually(lambda: "appears once" in server.said())
        os.kill(int(os.readlink(folder / "600")), signal.SIGRTMIN)
        asked.result()
        server.get("/c?2")
    said = server.said()
    assert said.count("the application has blocked all other requests for ") == 1
    assert 'sleeper.py", line 17, in app' in said and "sleep in libc" in said
    assert "fix: it waits: patch_native()" in said and "patch=True" not in said
    assert "With --standby 1, or serve(..., standby_threads=1), another thread serves meanwhile. " in said


def test_blocking_modules_are_told_with_workers_too(folder):
    (folder / "requests.py").write_text("")
    (folder / "sleeper.py").write_text("import requests\n" + SLEEPER)
    with Served(
        folder, command("sleeper:app", "--bind", "127.0.0.1:0", "--no-patch", "--workers", "2")
    ) as server:
        assert eventually(
            lambda: (
                "the application has imported requests: a call that waits there blocks all" in server.said()
            )
        )
        server.get("/")
    assert server.said().count("has imported") == 1


def test_unknown_areas_are_refused(folder):
    done = subprocess.run(
        command("sleeper:app", "--no-patch-nothing"),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "--no-patch-nothing" in done.stderr
