"""The command's message when it serves: a few lines on a terminal, one for each address elsewhere."""

import platform
import re
import subprocess
import urllib.request

import pytest

import syncless
from syncless._core.threadloop import current_loop
from syncless.server.program.banner import loop_name
from syncless.server.serve import Patching
from tests.cli.terminal import Terminal
from tests.cli.test_loading import HELLO, command, environment
from tests.programs import run_unchecked
from tests.waiting import eventually

LAST = "stops immediately.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    return tmp_path


def serving(*options):
    return command("hello:app", "--bind", "127.0.0.1:0", *options)


def banner(terminal):
    """The lines that are no entries of the error log."""
    return [line for line in terminal.read(LAST).splitlines() if "[INFO]" not in line]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["process {pid}", "patched the standard library", "{about}"]),
        (["-w", "2"], ["processes 2 workers of master {pid}", "patched the standard library", "{about}"]),
        (
            ["--status", "unix:status"],
            ["process {pid}", "patched the standard library", "{about}", "status unix:status"],
        ),
        (["-w", "1"], ["processes 1 worker of master {pid}", "patched the standard library", "{about}"]),
        (
            ["--no-patch"],
            ["process {pid}", "patched nothing: a call that waits blocks all requests", "{about}"],
        ),
        (
            ["--no-patch-sqlite3", "--patch-cpu"],
            ["process {pid}", "patched the standard library but sqlite3, and cpu", "{about}"],
        ),
    ],
)
def test_terminal_shows_what_serves_and_ctrl_c_stops_it(folder, options, expected):
    with Terminal(serving(*options), environment(), folder) as terminal:
        first, *others = banner(terminal)
        assert re.fullmatch(
            rf"syncless {re.escape(syncless.__version__)} serves on http://127.0.0.1:\d+/", first
        )
        lines = [" ".join(line.split()) for line in others]
        about = f"Python {platform.python_version()}, loop: {current_loop().backend}"
        assert lines[:-1] == [line.format(pid=terminal.process.pid, about=about) for line in expected]
        with urllib.request.urlopen(first.split()[-1], timeout=60) as response:
            assert response.read() == b"found"
        terminal.press("\x03")
        assert "[INFO] stop begins" in terminal.read("stopped after")
        assert terminal.process.wait(60) == 0


def test_terminal_shows_each_address(folder):
    with Terminal(serving("--bind", f"unix:{folder}/socket"), environment(), folder) as terminal:
        first, second, *_ = banner(terminal)
        assert second == f"{'and on':>{first.index(' http')}} unix:{folder}/socket"


def test_quiet_terminal_shows_nothing(folder):
    with Terminal(serving("--quiet", "--pid-file", "pid"), environment(), folder) as terminal:
        assert eventually((folder / "pid").exists)
        terminal.process.terminate()
        assert terminal.read() == ""


@pytest.mark.parametrize(("workers", "how"), [("0", "loop: \\w+"), ("1", "1 worker"), ("2", "2 workers")])
def test_pipe_gets_a_line_for_each_address(folder, workers, how):
    arguments = serving("--bind", "127.0.0.1:0", "--workers", workers)
    with subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        told = [process.stdout.readline() for _ in range(2)]
        process.terminate()
        assert process.stdout.read() == ""
    for line in told:
        assert re.fullmatch(rf"syncless \S+ serves on http://\S+ \({how}, pid {process.pid}\)\n", line)


def test_loop_is_the_one_that_serves(monkeypatch):
    assert loop_name() == current_loop().backend
    monkeypatch.setenv("SYNCLESS_LOOP", "select")
    assert loop_name() == "select"


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (True, "the standard library"),
        (False, ""),
        ({"sqlite3": False}, "the standard library but sqlite3"),
        ({"cpu": True}, "the standard library, and cpu"),
    ],
)
def test_areas_that_workers_patch_are_told(patch, said):
    assert str(Patching(patch)) == said


def test_few_areas_are_named():
    program = (
        "from syncless.patches import patch_time, patch_socket; patch_time(); patch_socket()\n"
        "from syncless.server.program.banner import patched_areas; print(patched_areas())"
    )
    done = run_unchecked(program, env=environment())
    assert done.stdout == "time, socket\n", done
