"""Hooks: when they are called, in which process, and where their errors go."""

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from syncless.server.program.hooks import NAMES
from tests.cli.test_loading import command, environment
from tests.cli.test_patch import Served, served
from tests.supervised import without_events
from tests.waiting import eventually

MINE = """
import json, os

def note(name, *about):
    with open("noted", "a") as file:
        print(json.dumps([name, os.getpid(), *about]), file=file)

def on_start(): note("on_start")
def post_fork(): note("post_fork")
def pre_request(environ): note("pre_request", environ["PATH_INFO"])
def post_request(environ, status): note("post_request", environ["PATH_INFO"], status)
def pre_stop(): note("pre_stop")
def worker_exit(): note("worker_exit")
def broken(*arguments): raise ValueError("mine")
number = 5
"""
APP = """
import os
from mine import note
note("import")

def app(environ, start_response):
    if environ["PATH_INFO"] == "/boom":
        raise ValueError("of the application")
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
"""
TABLE = "[hooks]\n" + "".join(f'{name} = "mine:{name}"\n' for name in NAMES)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def noted(folder):
    path = folder / "noted"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def test_hooks_of_one_process_are_called_in_their_order(folder):
    (folder / "syncless.toml").write_text(TABLE)
    with served(folder) as server:
        pid = int(server.get("/path"))
        with pytest.raises(OSError, match="500"):
            server.get("/boom")
    assert pid == server.process.pid and noted(folder) == [
        ("import", pid),
        ("on_start", pid),
        ("pre_request", pid, "/path"),
        ("post_request", pid, "/path", "200 OK"),
        ("pre_request", pid, "/boom"),
        ("post_request", pid, "/boom", None),
        ("pre_stop", pid),
    ]


def test_hooks_of_workers_are_called_in_each_and_again_after_a_reload(folder):
    (folder / "syncless.toml").write_text(TABLE)
    with served(folder, "--workers", "2") as server:
        assert eventually(lambda: [name for name, *_ in noted(folder)].count("import") == 2)
        assert noted(folder)[0] == ("on_start", server.process.pid)
        first = {pid for name, pid in noted(folder) if name == "post_fork"}
        server.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: [name for name, *_ in noted(folder)].count("worker_exit") == 2)
        server.get("/path")
    names = [name for name, *_ in noted(folder)]
    assert names.count("on_start") == 1 and names.count("pre_request") == names.count("post_request") == 1
    assert names.count("post_fork") == names.count("pre_stop") == names.count("worker_exit") == 4
    for pid in first:
        assert [name for name, *about in noted(folder) if about[0] == pid] == [
            "post_fork",
            "import",
            "pre_stop",
            "worker_exit",
        ]


def test_hooks_can_be_given_as_options_and_as_functions(folder):
    with served(folder, "--hook", "on_start=mine:on_start", "--hook", "pre_stop=mine:pre_stop"):
        pass
    assert [name for name, *_ in noted(folder)] == ["import", "on_start", "pre_stop"]
    (folder / "noted").unlink()
    (folder / "program.py").write_text(
        "import app, mine\nfrom syncless.wsgi import serve\n"
        "serve(app.app, port=0, hooks={'on_start': mine.on_start, 'pre_request': 'mine:pre_request'})\n"
    )
    with Served(folder, [sys.executable, "program.py"]) as server:
        server.get("/")
    assert [name for name, *_ in noted(folder)] == ["import", "on_start", "pre_request"]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_errors_of_hooks_are_logged_with_their_names(folder, workers):
    options = [
        f"--hook={name}=mine:broken" for name in ("pre_request", "post_request", "pre_stop", "worker_exit")
    ]
    with served(folder, "--workers", workers, *options) as server:
        assert int(server.get("/")) > 0
    said = server.errors.read_text()
    names = ["pre_request", "post_request", "pre_stop", *(["worker_exit"] if workers == "1" else [])]
    told = [line.rpartition("] ")[2] for line in without_events(said).splitlines() if line.startswith("[")]
    assert told == [f"the hook {name} (mine:broken) raised an error:" for name in names]
    assert said.count("ValueError: mine") == len(names)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (
            ["--hook", "on_start=mine:broken"],
            ["syncless: the hook on_start (mine:broken) raised an error:\nTraceback", "ValueError: mine"],
        ),
        (
            ["--workers", "2", "--hook", "on_start=mine:broken"],
            ["syncless: the hook on_start (mine:broken) raised an error:\nTraceback", "ValueError: mine"],
        ),
        (
            ["--workers", "2", "--hook", "post_fork=mine:broken"],
            [
                "no worker can start: the hook post_fork (mine:broken) raised an error:\nTraceback",
                "ValueError: mine",
            ],
        ),
        (["--hook", "on_start=mine:nothing"], ["module 'mine' has no attribute 'nothing'"]),
        (["--hook", "on_start=nothing:at_all"], ["there is no module 'nothing'"]),
        (["--hook", "pre_request=mine:number"], ["the hook pre_request (mine:number) is not a function"]),
        (
            ["--hook", "pre_requests=mine:note"],
            ["unknown hook 'pre_requests'; did you mean 'pre_request'?"],
        ),
        (["--hook", "on_start"], ["--hook: write NAME=MODULE:FUNCTION, not 'on_start'"]),
        (["--check", "--hook", "pre_stop=mine:nothing"], ["module 'mine' has no attribute 'nothing'"]),
    ],
)
def test_hook_without_which_nothing_can_be_served_ends_the_command(folder, options, messages):
    line = command("app:app", "--bind", "127.0.0.1:0", *options)
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode in (2, 3) and done.stdout == ""
    assert all(message in done.stderr for message in messages), done.stderr
    assert done.stderr.count("Traceback") == (1 if len(messages) > 1 else 0)


@pytest.mark.parametrize(
    "text", ['hooks = "mine:note"\n', "[hooks]\non_start = 5\n", '[hooks]\non_begin = "mine:note"\n']
)
def test_wrong_hooks_in_the_file_are_told(folder, text):
    (folder / "syncless.toml").write_text(text)
    done = subprocess.run(
        command("app:app", "--bind", "127.0.0.1:0"),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "hook" in done.stderr and "Traceback" not in done.stderr


def test_page_names_all_hooks():
    page = (pathlib.Path(__file__).parent.parent.parent / "docs" / "howto" / "hooks.md").read_text()
    assert re.findall(r"^\| `(\w+)\(", page, re.MULTILINE) == list(NAMES)
