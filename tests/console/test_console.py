"""A prompt in a running process: attached over a UNIX socket, or in its own terminal."""

import contextlib
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

import syncless
from syncless import console
from syncless.console.protocol import decode, encode
from syncless.io import socket
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.fixture
def served(tmp_path):
    with console.listen(str(tmp_path / "console"), {"numbers": [1, 2, 3], "__name__": "inside"}) as one:
        yield one
    assert not (tmp_path / "console").exists()


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self.lines = self.sock.makefile("rb")

    def send(self, **message):
        self.sock.sendall(encode(message))

    def answer(self):
        """The output until the statement has ended, and whether it was incomplete."""
        output = ""
        while True:
            message = decode(self.lines.readline())
            if "more" in message:
                return output, message["more"]
            output += message["output"]

    def run(self, source):
        self.send(source=source)
        return self.answer()

    def close(self):
        self.lines.close()
        self.sock.close()


@pytest.fixture
def client(served):
    one = Client(served.path)
    yield one
    one.close()
    syncless.sleep(0.02)


def test_statements_run_in_the_process(served, client):
    assert client.run("numbers.append(4)") == ("", False)
    assert client.run("numbers") == ("[1, 2, 3, 4]\n", False)
    assert client.run("__name__") == ("'inside'\n", False)
    assert client.run("for number in numbers:") == ("", True)
    assert client.run("for number in numbers:\n    print(number)\n") == ("1\n2\n3\n4\n", False)
    assert client.run(")")[0].strip().split("\n")[-1].startswith("SyntaxError: ")
    output, _ = client.run("numbers.missing")
    assert "AttributeError" in output and "<console>" in output and "server.py" not in output
    assert "SystemExit" in client.run("raise SystemExit(1)")[0]
    assert "main (" in client.run("debug.print_tasklets()")[0]


def test_output_goes_to_the_terminal_that_asked(served, client, capsys):
    other = Client(served.path)
    print("not yours")
    assert client.run("import sys; print('mine'); _ = sys.stderr.write('and mine')") == (
        "mine\nand mine",
        False,
    )
    assert other.run("print('of the other')") == ("of the other\n", False)
    client.run("import syncless; _ = syncless.spawn(lambda: (syncless.sleep(0.01), print('later')))")
    assert decode(client.lines.readline()) == {"output": "later"}
    assert capsys.readouterr().out == "not yours\n"
    other.close()
    syncless.sleep(0.02)


def test_others_go_on_and_a_statement_can_be_interrupted(served, client):
    client.send(source="import syncless; syncless.sleep(30)")
    syncless.sleep(0.02)
    client.send(source="1")
    assert client.answer() == ("the previous statement is still running\n", False)
    client.send(interrupt=True)
    output, more = client.answer()
    assert output.strip().endswith("KeyboardInterrupt") and not more
    assert client.run("1 + 1") == ("2\n", False)


def test_completions(served, client):
    client.send(complete="numbers.app")
    assert decode(client.lines.readline()) == {"completions": ["numbers.append("]}
    client.send(complete="")
    assert "completions" in decode(client.lines.readline())


def test_leaving_while_a_statement_runs_ends_it(served):
    client = Client(served.path)
    client.send(source="import syncless; syncless.sleep(30)")
    syncless.sleep(0.02)
    assert any(
        tasklet.name == "console" and tasklet.waiting_for == "sleep" for tasklet in syncless.tasklets()
    )
    client.close()
    syncless.sleep(0.05)
    assert not any(tasklet.waiting_for == "sleep" for tasklet in syncless.tasklets())


def test_rubbish_ends_the_connection_only(served, client):
    for rubbish in (b"no message\n", b"[1]\n", b"x" * 3_000_000):
        bad = Client(served.path)
        try:
            bad.sock.sendall(rubbish)
            assert bad.lines.readline() == b""
        except ConnectionError:
            pass  # it was cut off before all had been sent
        bad.close()
    assert client.run("1") == ("1\n", False)
    syncless.sleep(0.02)


def test_only_the_same_user_and_only_once(served, tmp_path, monkeypatch):
    assert os.stat(served.path).st_mode & 0o777 == 0o600
    with pytest.raises(console.ConsoleExists):
        console.listen()
    assert console.listen_if_asked() is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "syncless").mkdir(mode=0o777)
    (tmp_path / "syncless").chmod(0o777)
    with pytest.raises(RuntimeError, match="only you"):
        console.socket_path(1)
    (tmp_path / "syncless").chmod(0o700)
    assert console.socket_path(1) == str(tmp_path / "syncless" / "console-1")


def test_another_user_is_cut_off(served, monkeypatch):
    monkeypatch.setattr("syncless.console.server.os.getuid", lambda: 12345)
    monkeypatch.setattr("syncless.console.server.struct.unpack", lambda *_: (1, 54321, 1))
    client = Client(served.path)
    assert client.lines.readline() == b""
    client.close()


def test_path_at_which_another_listens_is_refused(served, client):
    with pytest.raises(OSError, match=f"cannot listen on {served.path}: another program already listens"):
        console.Console(served.path)
    assert client.run("numbers") == ("[1, 2, 3]\n", False)
    assert os.path.exists(served.path)
    Client(served.path).close()


def test_path_of_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="there is a file that is not a socket"):
        console.Console(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "mine"


def test_socket_that_a_killed_process_left_is_replaced(tmp_path):
    path = str(tmp_path / "console")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with console.Console(path):
        Client(path).close()
    assert not os.path.exists(path)


def test_socket_of_a_successor_stays(tmp_path):
    path = str(tmp_path / "console")
    with console.Console(path):
        os.rename(path, path + ".old")
        successor = console.Console(path)
    Client(path).close()
    successor.close()
    assert not os.path.exists(path)


def environment(tmp_path, **more):
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(tmp_path), **more}


@contextlib.contextmanager
def program(tmp_path, *arguments, at="1"):
    """`python -m syncless ARGUMENTS` with a console, once it has said its first line."""
    running = subprocess.Popen(
        [sys.executable, "-m", "syncless", *arguments],
        cwd=ROOT,
        env=environment(tmp_path, SYNCLESS_CONSOLE=at),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        syncless.run_in_thread(running.stdout.readline)
        yield running
    finally:
        running.terminate()
        syncless.run_in_thread(running.communicate)


def attach(tmp_path, *arguments, says="", command="console"):
    return syncless.run_in_thread(
        subprocess.run,
        [sys.executable, "-m", "syncless", command, *arguments],
        input=says,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.virtual_time(False)  # other processes
def test_console_attaches_to_a_server_by_its_process_id(tmp_path):
    with program(tmp_path, "examples.hello:app", "--bind", "127.0.0.1:0") as server:
        asked = attach(
            tmp_path,
            str(server.pid),
            says="import sys\nfor name in ('a', 'b'):\n    print(name)\n\n"
            "print('syncless.wsgi' in sys.modules)",
        )
        assert asked.stdout == "a\nb\nTrue\n" and asked.returncode == 0, asked.stderr
    assert server.returncode == 0 and not (tmp_path / "syncless" / f"console-{server.pid}").exists()


WAITS = """
import syncless
def pause():
    while True:
        syncless.sleep(0.01)
syncless.spawn(pause)
print("begun", flush=True)
syncless.Event().wait()
"""


@pytest.mark.virtual_time(False)  # other processes
def test_trace_of_a_process_is_written_for_perfetto(tmp_path):
    (tmp_path / "program.py").write_text(WAITS)
    into = tmp_path / "trace.json"
    with program(tmp_path, "run", str(tmp_path / "program.py")) as running:
        done = attach(tmp_path, str(running.pid), "--seconds", "0.1", "-o", str(into), command="trace")
        assert done.returncode == 0 and done.stdout.startswith(f"{into}: "), done.stderr
        running.kill()
    events = json.loads(into.read_text())
    named = {event["tid"] for event in events if event.get("args", {}).get("name", "").startswith("pause-")}
    waits = [
        event for event in events if event["ph"] == "X" and event["tid"] in named and event["cat"] == "wait"
    ]
    assert waits and {event["name"] for event in waits} == {"sleep"}
    assert f"{tmp_path}/program.py:5 in pause()" in {event["args"].get("place") for event in waits}


@pytest.mark.virtual_time(False)  # other processes
def test_trace_that_cannot_be_made_has_a_reason(tmp_path):
    done = attach(tmp_path, str(os.getpid()), command="trace")
    assert done.returncode == 1 and "SYNCLESS_CONSOLE=1" in done.stderr
    assert attach(tmp_path, "1", "--seconds", "0", command="trace").returncode == 2


@pytest.mark.virtual_time(False)  # other processes
def test_each_worker_adds_its_process_id_to_the_path(tmp_path):
    def listening():
        return {path.name for path in tmp_path.glob("at-*")}

    options = ("--workers", "2", "--bind", "127.0.0.1:0")
    with program(tmp_path, "examples.hello:app", *options, at=str(tmp_path / "at")) as server:
        assert eventually(lambda: len(listening()) == 2)
        first = listening()
        for name in first:
            asked = attach(tmp_path, str(tmp_path / name), says="import os\nos.getpid()")
            assert f"at-{asked.stdout.strip()}" == name, asked.stderr
        server.send_signal(signal.SIGHUP)
        assert eventually(lambda: len(listening()) == 2 and not first & listening())
    assert not listening()


PROGRAM = """
import syncless, sys
early = 1
print("begun", flush=True)
count, rest = 41, syncless.Event()
def tell():
    return count
rest.wait()
print(tell(), later, flush=True)
"""


@pytest.mark.virtual_time(False)  # other processes
def test_statements_see_and_change_the_names_of_the_program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    with program(tmp_path, "run", str(tmp_path / "program.py")) as running:
        asked = attach(
            tmp_path,
            str(running.pid),
            says="early\n'rest' in dir()\ncount += 1\n"
            "later = [tell() for _ in 'a']\ndebug.__name__\nrest.set()",
        )
        assert asked.stdout == "1\nTrue\n'syncless.debug'\n" and asked.returncode == 0, asked.stderr
        assert syncless.run_in_thread(running.stdout.read) == "42 [42]\n"


@pytest.mark.virtual_time(False)  # other processes
def test_clear_errors(tmp_path):
    done = attach(tmp_path, str(os.getpid()))
    assert done.returncode == 1 and "SYNCLESS_CONSOLE=1" in done.stderr
    ended = subprocess.Popen(["true"])
    ended.wait()
    done = attach(tmp_path, str(ended.pid))
    assert done.returncode == 1 and f"no such process: {ended.pid}" in done.stderr
    done = attach(tmp_path, "1", "2")
    assert done.returncode == 2 and "usage" in done.stderr
    assert "usage" in attach(tmp_path, "--help").stdout


def test_console_that_cannot_be_opened_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SYNCLESS_CONSOLE", str(tmp_path / "missing" / "console"))
    assert console.listen_if_asked() is None
    assert "cannot open the console" in capsys.readouterr().err
    monkeypatch.setenv("SYNCLESS_CONSOLE", "0")
    assert console.listen_if_asked() is None


def read_until(fd, pattern, seconds=20):
    seen, end = "", time.monotonic() + seconds
    while not re.search(pattern, seen):
        if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            pytest.fail(f"{pattern!r} has not come, but {seen!r}")
        try:
            seen += os.read(fd, 1000).decode()
        except OSError:
            pytest.fail(f"it has ended: {seen}")
    return seen


def read_to_the_end(fd):
    while select.select([fd], [], [], 20)[0]:
        try:
            if not os.read(fd, 1000):
                return
        except OSError:
            return
    pytest.fail("it does not end")


def in_terminal(tmp_path, *arguments):
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "syncless", "console", *arguments],
            environment(tmp_path, TERM="dumb"),
        )
    return pid, fd


@pytest.mark.virtual_time(False)  # other processes
def test_tasklets_run_while_the_prompt_waits(tmp_path):
    def talk():
        pid, fd = in_terminal(tmp_path)
        try:
            read_until(fd, ">>> ")
            os.write(fd, b"done = []\n")
            read_until(fd, ">>> ")
            os.write(fd, b"_ = spawn(lambda: (sleep(0.05), print('from a' + ' tasklet')))\n")
            read_until(fd, "from a tasklet")  # nobody has pressed a key
            os.write(fd, b"1 + 1\n")
            read_until(fd, r"\n2\r?\n>>> ")
            os.write(fd, b"\x04")
            read_to_the_end(fd)
        finally:
            os.close(fd)  # which ends it, if nothing else has
            status = os.waitpid(pid, 0)[1]
        return os.waitstatus_to_exitcode(status)

    assert syncless.run_in_thread(talk) == 0


@pytest.mark.virtual_time(False)  # a child lives on while its parent waits for a time
def test_lines_are_edited_and_completed_when_attached(tmp_path, served):
    pytest.importorskip("readline", reason="this Python has no readline")
    loop = syncless.current_loop()

    def talk():
        pid, fd = in_terminal(tmp_path, served.path)
        try:
            read_until(fd, ">>> ")
            os.write(fd, b"numbers.ap\t4)\n")
            read_until(fd, ">>> ")
            os.write(fd, b"numbersX\x08\n")
            read_until(fd, r"\[1, 2, 3, 4\]\r?\n>>> ")
            os.write(fd, b"import syncless; syncless.sleep(30)\n")
            assert eventually(lambda: any(each.waiting_for == "sleep" for each in loop.tasklets()))
            os.write(fd, b"\x03")
            read_until(fd, r"KeyboardInterrupt\r?\n>>> ")
            os.write(fd, b"\x04")
            read_to_the_end(fd)
        finally:
            os.close(fd)  # which ends it, if nothing else has
            status = os.waitpid(pid, 0)[1]
        return os.waitstatus_to_exitcode(status)

    assert syncless.run_in_thread(talk) == 0


def test_output_of_the_client(served):
    found = io.StringIO()

    def ask():
        return console.attach(served.path, found)

    stdin, sys.stdin = sys.stdin, io.StringIO("numbers\nnumbers[0]\n")
    try:
        assert syncless.run_in_thread(ask) == 0
    finally:
        sys.stdin = stdin
    assert found.getvalue() == "[1, 2, 3]\n1\n"


@pytest.mark.parametrize("held", [True, False])
def test_client_says_when_the_loop_is_held_and_goes_on(served, monkeypatch, held):
    monkeypatch.setattr("syncless.console.client.HELD_SECONDS", 0.05)
    monkeypatch.setattr(sys, "stdin", io.StringIO("wait()\n1 + 1\n"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    found, told, wait = io.StringIO(), sys.stderr, time.sleep if held else syncless.sleep

    def wait_until_it_is_told():
        for _ in range(3000 if held else 40):
            wait(0.01)
            if told.getvalue():
                return
        assert not held, "the client says nothing"

    served.namespace["wait"] = wait_until_it_is_told
    assert syncless.run_in_thread(console.attach, served.path, found) == 0
    assert found.getvalue() == "2\n"
    notices = [line.split(":")[1] for line in told.getvalue().splitlines()]
    assert notices == ([" the process does not respond", " the process responds again"] if held else [])
