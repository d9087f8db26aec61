"""SIGHUP of a terminal that closes, SIGUSR2, and process 1 of a container."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.cli.terminal import Terminal
from tests.cli.test_loading import command, environment
from tests.waiting import eventually

APP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'']\n"
WORKERS = pytest.mark.parametrize("options", [[], ["--workers", "2"]])


@pytest.fixture
def terminal(tmp_path):
    """terminal(*words) -> a server in a Terminal, started by these words before the command."""
    started = []

    def begin(*words, options=(), code=APP):
        (tmp_path / "app.py").write_text(code)
        serve = command("app:app", "--bind", "127.0.0.1:0", "--error-log", "errors", *options)
        started.append(Terminal([*words, *serve], environment(), cwd=tmp_path))
        started[-1].read("serves on")
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


@WORKERS
def test_server_ends_with_its_terminal(terminal, options):
    it = terminal(options=options)
    os.close(it._ours)
    assert it.process.wait(60) == 0


@WORKERS
def test_sighup_of_somebody_else_does_not_end_it(terminal, options, tmp_path):
    it = terminal(options=options)
    it.process.send_signal(signal.SIGHUP)
    it.process.send_signal(signal.SIGUSR2)
    assert eventually(lambda: "SIGUSR2 does nothing here" in (tmp_path / "errors").read_text())
    assert it.process.poll() is None
    it.process.terminate()
    assert it.process.wait(60) == 0


def test_server_that_nohup_has_started_survives_its_terminal(terminal, tmp_path):
    it = terminal("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    os.close(it._ours)
    it.process.send_signal(signal.SIGHUP)
    it.process.send_signal(signal.SIGUSR2)
    assert eventually(lambda: "SIGUSR2 does nothing here" in (tmp_path / "errors").read_text())
    assert it.process.poll() is None


def test_handler_of_the_application_for_sigusr2_stays(terminal):
    it = terminal(
        code="import signal\nsignal.signal(signal.SIGUSR2, lambda *_: print('mine', flush=True))\n" + APP
    )
    it.process.send_signal(signal.SIGUSR2)
    it.read("mine")


FIRST = """
import ctypes, os, signal, subprocess, sys
from syncless.cli.firstprocess import begin_in_child
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: it gets orphans, as process 1 does
getpid, os.getpid = os.getpid, lambda: 1
begin_in_child()
os.getpid = getpid
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print([subprocess.run(["sh", "-c", "(exit 4 &); exit 3"]).returncode for _ in range(5)], flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def first():
    with subprocess.Popen(
        [sys.executable, "-c", FIRST], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "[3, 3, 3, 3, 3]\n"
        yield process
        process.kill()


def children(process):
    return pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def test_process_1_waits_for_orphans_hands_on_signals_and_ends_as_its_child_does(first):
    assert eventually(lambda: len(children(first)) == 1)
    first.send_signal(signal.SIGUSR1)
    assert first.stdout.readline() == "usr1\n"
    first.terminate()
    assert first.wait(60) == 5


def test_process_1_tells_by_which_signal_its_child_was_killed(first):
    assert eventually(lambda: len(children(first)) == 1)
    os.kill(int(children(first)[0]), signal.SIGKILL)
    assert first.wait(60) == 128 + signal.SIGKILL
