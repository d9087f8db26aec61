"""SIGHUP of a terminal that closes, signals that do nothing, and process 1 of a container."""

import os
import pathlib
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.terminal import Terminal
from tests.cli.test_loading import command, environment
from tests.supervised import without_events
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


@pytest.mark.parametrize("name", ["SIGTTIN", "SIGTTOU"])
def test_number_of_workers_cannot_be_changed_where_there_are_none(terminal, tmp_path, name):
    it = terminal()
    it.process.send_signal(signal.Signals[name])
    assert eventually(lambda: f"{name} does nothing here" in (tmp_path / "errors").read_text())
    it.process.send_signal(signal.Signals[name])  # told once
    it.process.send_signal(signal.SIGUSR2)
    assert eventually(lambda: "SIGUSR2 does nothing here" in (tmp_path / "errors").read_text())
    assert (tmp_path / "errors").read_text().count(name) == 1
    it.process.terminate()
    assert it.process.wait(60) == 0


FIRST = """
import ctypes, os, signal, subprocess, sys, time
from syncless.server.program.firstprocess import begin_in_child
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: it gets orphans, as process 1 does
getpid, os.getpid = os.getpid, lambda: 1
begin_in_child()
os.getpid = getpid
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print([subprocess.run(["sh", "-c", "(exit 4 &); exit 3"]).returncode for _ in range(5)], flush=True)
while True:
    time.sleep(0.1)  # pause() would miss a signal that comes just before it
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


ORPHANS = """
import glob, os, signal, subprocess, sys
from syncless.wsgi import serve
def zombies():
    count = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            count += open(path).read().rpartition(") ")[2][0] == "Z"
        except OSError:
            pass
    return count
def app(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/stop":
        os.kill(os.getpid(), signal.SIGTERM)
    if environ["PATH_INFO"] == "/orphan":
        return [b"%d" % subprocess.run(["sh", "-c", "(exit 4 &); exit 3"]).returncode]
    return [b"%d of %d" % (zombies(), os.getpid())]
if __name__ == "__main__":
    if "thread" in sys.argv:
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    serve(app, "127.0.0.1", 0, patch="workers" not in sys.argv, workers=2 if "workers" in sys.argv else 0)
"""
CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def container(tmp_path):
    """container(*words) -> a Python program as process 1, and get(path) once it serves."""
    try:
        subprocess.run([*CONTAINER, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system does not let its users make PID namespaces")
    (tmp_path / "app.py").write_text(ORPHANS)
    started = []

    def begin(*words):
        process = subprocess.Popen(
            [*CONTAINER, sys.executable, *words],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stdout.readline()
        port = int(line.split(":")[2].split("/")[0])

        def get(path):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.read().decode()

        return process, get

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words", [["-m", "syncless", "app:app", "--bind", "127.0.0.1:0"], ["app.py"], ["app.py", "workers"]]
)
def test_server_as_process_1_leaves_no_zombies(container, words):
    process, get = container(*words)
    for _ in range(3):
        assert get("/orphan") == "3"
    assert eventually(lambda: get("/").startswith("0 of"))
    if "workers" not in words:
        assert get("/") == "0 of 2"
        get("/stop")
        assert process.wait(60) == 0 and without_events(process.stderr.read()) == ""


def test_program_that_cannot_go_on_in_a_child_is_told_so(container):
    process, get = container("app.py", "thread")
    assert get("/").endswith(" of 1")
    get("/stop")
    assert process.wait(60) == 0
    assert "process 1 does not wait for orphans here" in process.stderr.read()
