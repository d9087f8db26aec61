"""Workers and their master: death, replacement, reload, stuck loops; and that none of it loses a request."""

import http.client
import math
import mmap
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import types

import pytest

from syncless.http.limits import Limits
from syncless.server.program import slot as slots
from syncless.server.program import worker as worker_module
from syncless.server.program.slot import BEAT, Slot, Worker
from tests.supervised import APP, ROOT, InFlight, alive
from tests.waiting import eventually


def test_several_processes_serve_and_stop(program):
    running = program("--workers", "3", "--pid-file", "app.pid")
    assert "(3 workers, pid" in running.line
    assert int((running.folder / "app.pid").read_text()) == running.process.pid
    assert len(running.pids(2)) >= 2 and running.process.pid not in running.pids(1)
    workers = running.children()
    assert len(workers) == 3
    out = running.end()
    assert running.process.returncode == 0 and out == "" and running.said() == ""
    assert not any(alive(pid) for pid in workers) and not (running.folder / "app.pid").exists()


def test_the_environ_says_that_there_are_several(program):
    running = program("--workers", "2")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request("GET", "/")
    assert connection.getresponse().headers["X-Parallel"] == "True"
    connection.close()


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGKILL, []),
        (signal.SIGKILL, ["--preload"]),  # its master is patched
        (signal.SIGSEGV, []),
        (signal.SIGTERM, []),
    ],
)
def test_a_worker_that_dies_is_replaced(program, number, options):
    running = program("--workers", "2", *options)
    before = running.pids(2)
    victim = min(before)
    os.kill(victim, number)
    assert eventually(lambda: len(running.children()) == 2 and victim not in running.children())
    assert eventually(lambda: len(running.pids(2) - {victim}) == 2)
    name = "ended with status 0" if number == signal.SIGTERM else f"killed by {number.name}"
    assert f"worker {victim}" in running.said() and name in running.said()


@pytest.mark.realtime("a machine that stands still is the subject")
def test_workers_survive_a_pause_of_the_whole_server(program):
    running = program("--workers", "2", "-l", "worker_stuck_seconds=1.5")
    before = running.pids(2)
    processes = [running.process.pid, *running.children()]
    for number, pids in ((signal.SIGSTOP, processes[::-1]), (signal.SIGCONT, processes)):
        for pid in pids:
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(2.5)
    running.sleeps_again(3)  # the master has looked at its workers
    assert running.pids(2) == before and running.said() == ""


def test_time_in_which_the_master_did_not_run_is_no_workers_fault():
    clocks = mmap.mmap(-1, BEAT.size)
    worker = Worker(os.getpid(), -1, clocks, 0)
    BEAT.pack_into(clocks, 0, worker.born + 1)
    worker.killed_at = worker.born + 5
    assert worker.last_beat() == worker.born + 1
    worker.excuse(90, worker.born + 100)
    assert (worker.last_beat(), worker.killed_at) == (worker.born + 10, worker.born + 5)
    BEAT.pack_into(clocks, 0, worker.born + 11)
    assert worker.last_beat() == worker.born + 11


CHILD = """
import subprocess, threading
def ask(child):
    while not os.path.exists("go"):
        time.sleep(0.01)
    open("status", "w").write(str(child.poll()))
threading.Thread(target=ask, args=[subprocess.Popen(["sh", "-c", "exit 7"])], daemon=True).start()
"""


HOOKED = CHILD.replace("threading.Thread", "def begin():\n    threading.Thread")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--preload"], CHILD),
        (["--preload", "--no-patch"], CHILD),
        (["--hook", "on_start=app:begin"], HOOKED),
    ],
    ids=["preloaded", "not patched", "hook"],
)
def test_the_application_gets_the_status_of_a_process_started_in_the_master(program, options, code):
    running = program("--workers", "1", *options, code=APP + code)
    (pid,) = running.pids(1)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: running.get()[1] != pid)
    (running.folder / "go").touch()
    assert eventually(
        lambda: (running.folder / "status").exists() and (running.folder / "status").read_text()
    )
    assert (running.folder / "status").read_text() == "7"


STUCK = """
import ctypes
def app(environ, start_response, serve=app):
    if environ["PATH_INFO"] == "/stuck":
        os.open("stuck", os.O_CREAT)
        ctypes.PyDLL(None).sleep(100)  # with the interpreter's lock
    return serve(environ, start_response)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_workers_end_after_a_master_that_was_killed(program):
    """One of them is stuck, and one has a request that goes on."""
    running = program("--workers", "2", code=APP + STUCK)
    running.pids(2)
    workers = running.children()
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.sendall(b"GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually((running.folder / "stuck").exists)
        request = InFlight(running)
        running.process.kill()
        assert eventually(lambda: sum(alive(pid) for pid in workers) < 2)
        assert request.end()[0] == 200
    assert eventually(lambda: not any(alive(pid) for pid in workers))


def test_a_request_that_kills_its_worker_harms_only_that_worker(program):
    running = program("--workers", "2")
    running.pids(2)
    with pytest.raises((http.client.HTTPException, OSError)):
        running.get("/die")
    assert eventually(lambda: "ended with status 7" in running.said())
    assert eventually(lambda: len(running.children()) == 2)
    assert running.get()[0] == 200


def test_workers_that_the_system_refuses_are_tried_again(program):
    """Those that run go on meanwhile."""
    running = program("--workers", "2")
    before = running.pids(2)
    _, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (1, hard))  # those that it has stay
    running.signal(signal.SIGHUP)
    assert eventually(lambda: "cannot start a worker: [Errno 24] Too many open files" in running.said())
    assert running.pids(2) == before
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert eventually(lambda: not any(alive(pid) for pid in before))
    assert len(running.pids(2)) == 2


def test_workers_that_cannot_start_end_the_master(program, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "app.py").write_text("import no_such_module_at_all")
    command = [sys.executable, "-m", "syncless", "app:app", "--bind", "127.0.0.1:0", "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path / "broken", capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and done.stdout == ""  # it serves nowhere
    assert (
        done.stderr.count("syncless: ") == 1
        and "syncless: no worker can start: app:app raised an error:" in done.stderr
    )
    assert (
        done.stderr.count("ModuleNotFoundError: No module named 'no_such_module_at_all'") == 1
        and 'app.py", line 1' in done.stderr
    )
    assert str(ROOT / "syncless") not in done.stderr


def test_pauses_between_attempts_grow_to_ten_seconds(monkeypatch):
    said = []
    monkeypatch.setattr(slots, "warn", said.append)
    clock = types.SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(slots, "time", clock)
    slot = Slot()
    made = slots.Failures([slot])
    pauses = []
    for slot.failures in range(12):
        made.again(slot, "it failed")
        pauses.append(round(slot.not_before - 100.0, 3))
    assert pauses == [0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10, 10]
    assert "it failed; a new one starts in 6.4 s" in said


def test_more_and_fewer_workers(program):
    running = program("--workers", "1")
    running.signal(signal.SIGTTIN)
    assert eventually(lambda: len(running.children()) == 2)
    assert len(running.pids(2)) == 2
    for _ in range(3):
        running.signal(signal.SIGTTOU)
    assert eventually(lambda: len(running.children()) == 1)
    assert running.get()[0] == 200


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors"
)
def test_as_many_workers_as_processors_also_when_these_change(program):
    """Until the operator says another number."""
    all_of_them = os.sched_getaffinity(0)
    running = program("--workers", "auto")
    assert f"({len(all_of_them)} workers, pid" in running.line
    os.sched_setaffinity(running.process.pid, {min(all_of_them)})
    assert eventually(lambda: len(running.children()) == 1)
    os.sched_setaffinity(running.process.pid, all_of_them)
    assert eventually(lambda: len(running.children()) == len(all_of_them))
    assert "1 worker instead of" in running.said()
    running.signal(signal.SIGTTIN)
    assert eventually(lambda: len(running.children()) == len(all_of_them) + 1)
    os.sched_setaffinity(running.process.pid, {min(all_of_them)})
    running.sleeps_again(3)
    assert len(running.children()) == len(all_of_them) + 1


def test_a_share_of_the_memory_that_the_workers_may_use(monkeypatch):
    clocks = slots.new_clocks()
    work = types.SimpleNamespace(clocks=clocks, limits=Limits(worker_memory_percent=80))
    monkeypatch.setattr(worker_module.allowance, "memory", lambda: 1000)
    slots.set_number_of_workers(clocks, 2)
    assert worker_module.Work._share_of_memory(work) == 400
    slots.set_number_of_workers(clocks, 4)
    assert worker_module.Work._share_of_memory(work) == 200
    work.limits = Limits()
    assert worker_module.Work._share_of_memory(work) == math.inf


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        ({}, ""),
        ({"worker_seconds": 7}, ""),
        ({"worker_seconds": 6}, "worker_seconds"),
        ({"worker_memory_bytes": 300, "worker_memory_percent": 90}, ""),
        ({"worker_memory_bytes": 299, "worker_memory_percent": 80}, "worker_memory_bytes"),
        ({"worker_memory_bytes": 300, "worker_memory_percent": 59}, "worker_memory_percent"),
    ],
)
def test_worker_names_the_limit_that_it_has_reached(monkeypatch, limits, reached):
    clocks = slots.new_clocks()
    slots.set_number_of_workers(clocks, 2)
    monkeypatch.setattr(worker_module.allowance, "memory", lambda: 1000)
    monkeypatch.setattr(worker_module, "memory", lambda: 300)
    work = types.SimpleNamespace(clocks=clocks, limits=Limits(**limits))
    work._share_of_memory = lambda: worker_module.Work._share_of_memory(work)
    full = types.SimpleNamespace(is_set=lambda: False)
    assert worker_module.Work._reached(work, full, 6.5) == reached
    full.is_set = lambda: True
    assert worker_module.Work._reached(work, full, 6.5) == "worker_requests"


def test_stopping_waits_for_requests_and_a_second_signal_does_not(program):
    running = program("--workers", "2")
    running.pids(2)
    request = InFlight(running)
    running.signal(signal.SIGTERM)
    assert running.tells(r"stop begins: 1 request in flight") and running.process.poll() is None
    assert request.end()[0] == 200 and running.process.wait(60) == 0

    running = program("--workers", "2")
    running.pids(2)
    request = InFlight(running)
    for _ in range(2):
        running.signal(signal.SIGTERM)
    assert request.result()[0] == 503 and running.process.wait(60) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_unread_output_harms_no_request(program, workers):
    """As in `serve 2>&1 | tee log`, whose tee ends by the same Ctrl-C."""
    running = program(*(["--workers", str(workers)] if workers else []), stderr=subprocess.STDOUT)
    before = running.pids(workers or 1)
    running.process.stdout.close()
    if workers:
        os.kill(min(before), signal.SIGKILL)
        assert eventually(lambda: len(running.children() - {min(before)}) == 2)
        running.signal(signal.SIGHUP)
        assert eventually(lambda: not running.children() & before and len(running.pids(2)) == 2)
    request = InFlight(running)
    running.signal(signal.SIGINT)
    assert request.end()[0] == 200 and running.process.wait(60) == 0


def test_stopping_master_refuses_new_connections_at_once(program):
    running = program("--workers", "2")
    request = InFlight(running)
    running.signal(signal.SIGTERM)

    def refused():
        try:
            socket.create_connection(("127.0.0.1", running.port), timeout=60).close()
        except ConnectionRefusedError:
            return True
        return False

    assert eventually(refused)
    assert request.end()[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU])
@pytest.mark.parametrize("options", [(), ("--reuse-port",)])
def test_connections_that_wait_to_be_accepted_survive_their_workers(program, options, number):
    running = program("--workers", "2", *options)
    running.pids(2)
    workers = running.children()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    clients = [socket.create_connection(("127.0.0.1", running.port), timeout=60) for _ in range(40)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    running.signal(number)
    if number == signal.SIGTERM:
        running.sleeps_again(5)  # it would have closed its sockets, if it did not see who waits
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    for client in clients:
        with client:
            assert client.recv(1000).startswith(b"HTTP/1.1 200")


def test_ctrl_c_in_a_terminal_is_one_signal(program):
    """It reaches the workers, too; they leave it to their master, so requests in flight still end."""
    running = program("--workers", "2")
    running.pids(2)
    request = InFlight(running)
    for pid in (*running.children(), running.process.pid):
        os.kill(pid, signal.SIGINT)
    assert request.end()[0] == 200 and running.process.wait(60) == 0


def test_children_of_a_worker_end_with_it_and_those_of_the_master_with_the_master(tmp_path):
    (tmp_path / "main.py").write_text("""
import atexit, concurrent.futures, os, pathlib, sys, time
if "patched" in sys.argv:
    from syncless.patches import patch_all
    patch_all()
from syncless.wsgi import serve
here, pool = pathlib.Path(__file__).parent, concurrent.futures.ThreadPoolExecutor(1)
def note(what):
    (here / f"{what}-{os.getpid()}").touch()
def later():
    time.sleep(0.5)
    note("job")
def app(environ, start_response):
    if environ["PATH_INFO"] == "/begin":
        atexit.register(note, "worker")
        pool.submit(later)
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    return [b""]
if __name__ == "__main__":
    atexit.register(note, "master")
    serve(app, port=0, workers=2)
""")
    for mode in ("", "patched"):
        process = subprocess.Popen(
            [sys.executable, tmp_path / "main.py", mode], stdout=subprocess.PIPE, text=True
        )
        port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/begin")
        worker = connection.getresponse().headers["X-Pid"]
        connection.close()
        process.terminate()
        assert process.communicate(timeout=60)[0] == "" and process.returncode == 0
        assert {path.name for path in tmp_path.glob("*-*")} == {
            f"worker-{worker}",
            f"job-{worker}",
            f"master-{process.pid}",
        }
        for path in tmp_path.glob("*-*"):
            path.unlink()


def test_workers_end_with_their_master(program):
    running = program("--workers", "2")
    running.pids(2)
    workers = running.children()
    running.process.kill()
    assert eventually(lambda: not any(alive(pid) for pid in workers))
    running.process.communicate()


def open_files(pid):
    return {os.readlink(path) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir() if path.exists()}


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs a /proc file system")
def test_unix_sockets_and_logs(program, tmp_path):
    running = program("--workers", "2", "--access-log", "log", bind=f"unix:{tmp_path}/s")

    def get():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{tmp_path}/s")
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := client.recv(1000):
                data += piece
            return data

    for _ in range(20):
        assert b"200 OK" in get()
    assert eventually(lambda: (tmp_path / "log").read_text().count("\n") == 20)
    (tmp_path / "log").rename(tmp_path / "old")
    running.signal(signal.SIGUSR1)
    assert eventually(
        lambda: sum(str(tmp_path / "log") in open_files(pid) for pid in running.children()) == 2
    )
    os.kill(min(running.children()), signal.SIGKILL)
    assert b"200 OK" in get()
    running.end()
    assert not (tmp_path / "s").exists() and (tmp_path / "old").read_text().count("\n") == 20


def test_each_worker_has_its_own_socket(program):
    """SO_REUSEPORT: both accept, and a worker's successor has its socket."""
    running = program("--workers", "2", "--reuse-port")

    def sockets(pid):
        links = open_files(pid)
        table = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {
            row[9]
            for row in table
            if row[3] == "0A"
            and f"socket:[{row[9]}]" in links
            and int(row[1].split(":")[1], 16) == running.port
        }

    assert len(running.pids(2)) == 2
    first = {pid: sockets(pid) for pid in running.children()}
    assert [len(own) for own in first.values()] == [1, 1] and len(set.union(*first.values())) == 2
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    assert eventually(
        lambda: len(running.children() - {victim}) == 2 and len(running.pids(2) - {victim}) == 2
    )
    (successor,) = running.children() - set(first)
    assert sockets(successor) == first[victim]
    running.signal(signal.SIGTTOU)
    assert eventually(lambda: len(running.children()) == 1)
    assert all(running.get()[0] == 200 for _ in range(20))


@pytest.mark.parametrize("number", ["-1", "1000", "x"])
def test_wrong_numbers(number):
    command = [
        sys.executable,
        "-m",
        "syncless",
        "examples.hello",
        "--bind",
        "127.0.0.1:0",
        "--workers",
        number,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and ("workers" in done.stderr) and "Traceback" not in done.stderr
