"""Native handlers in processes of their own: the command line, workers, reload, kills, shortage of
descriptors."""

import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tests.status.seen import in_flight, status_when
from tests.supervised import APP, Load, alive, halted
from tests.waiting import eventually


@pytest.fixture
def running(program, library):
    """running(*options) -> a Program with native handlers, which ends."""

    def begin(*options, **more):
        native = [f"--native=/{name}={library}:{name}" for name in ("process", "steps")]
        return program(*native, "--native-threads=2", "-l", "stop_idle_seconds=0.2", *options, **more)

    return begin


def asking(running, path="/steps?100000&size=1&wait=50"):
    client = socket.create_connection(("127.0.0.1", running.port), timeout=60)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return client


def connected(running):
    client = asking(running)
    assert client.recv(10000).startswith(b"HTTP/1.1 200 OK")
    return client


def test_command_line_has_native_handlers_beside_the_application(running):
    server = running()
    assert server.get("/process") == (200, server.process.pid, "native")
    assert server.get("/") == (200, server.process.pid, "1")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("/a", "write /PATH=MODULE:HANDLER"),
        ("/a=nowhere:f", "nowhere"),
        ("/a=os:getcwd", "a native handler must be"),
        ("/a=./none.so:f", "none.so"),
    ],
)
def test_native_option_that_is_wrong_is_told(program, option, words):
    server = program("--native", option, "--check", serves=False)
    assert server.process.wait(60) == 2
    assert words in server.said() and "Traceback" not in server.said()


def test_option_in_a_file_and_a_module(program, library, tmp_path):
    (tmp_path / "fast.py").write_text(
        f"from syncless import native\nanswer = native.load({str(library)!r}, 'process')"
    )
    (tmp_path / "syncless.toml").write_text(
        'native-threads = 1\n[native]\n"GET /users/{id}" = "fast:answer"\n'
    )
    server = program()
    assert server.get("/users/1")[2] == "native"


def test_workers_have_threads_of_their_own_and_a_killed_one_is_replaced(running):
    server = running("--workers", "2")
    assert eventually(lambda: len(server.children()) == 2)
    first = server.children()
    killed = server.get("/process")[1]
    os.kill(killed, signal.SIGKILL)
    assert eventually(lambda: not alive(killed) and len(server.children()) == 2)
    survivor, successor = server.children() & first, server.children() - first
    assert len(survivor) == len(successor) == 1
    for stopped, answers in ((survivor, successor), (successor, survivor)):
        with halted(*stopped):  # an idle worker may take each connection that comes
            assert server.get("/process")[1] in answers


def test_native_requests_go_on_while_workers_are_reloaded(running):
    server = running("--workers", "2")
    assert eventually(lambda: len(server.children()) == 2)
    with Load(server, "/process") as native, Load(server, clients=2) as python:
        answered_by_one_of(server.children(), native)
        for _ in range(2):
            reload(server)
            answered_by_one_of(server.children(), native)
    assert native.failures == [] and python.failures == []


def test_reload_option_takes_the_new_application_beside_the_same_handlers(running):
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    server = running("--workers", "1", "--reload")
    assert eventually(lambda: "for changes" in server.said())
    assert server.get("/process")[2] == "native"
    (server.folder / "app.py").write_text(APP.format(version=2))
    os.utime(server.folder / "app.py", (5000, 5000))
    assert eventually(lambda: server.get("/")[2] == "2")
    assert server.get("/process")[2] == "native"


def test_stop_waits_for_a_response_that_is_under_way(running):
    server = running("--workers", "1")
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    client.sendall(b"GET /steps?20&size=1&wait=50 HTTP/1.1\r\nHost: a\r\n\r\n")
    data = client.recv(10000)
    server.process.send_signal(signal.SIGTERM)
    while more := client.recv(10000):
        data += more
    client.close()
    assert data.endswith(b"0\r\n\r\n") and data.count(b"\r\n1\r\n") >= 20
    assert server.process.wait(60) == 0


def test_native_requests_count_for_the_age_of_a_worker(running):
    server = running("--workers", "1", "-l", "worker_requests=20", "-l", "worker_requests_jitter=0")
    first = server.get("/process")[1]
    with Load(server, "/process") as load:
        assert eventually(lambda: not alive(first))
    assert load.failures == []


def test_metrics_count_native_requests(seen, library):
    """They are asked for at the address of the status, where asking is not counted."""
    pytest.importorskip("prometheus_client", reason="prometheus_client makes the metrics")
    server = seen("--metrics", f"--native=/process={library}:process", "--native-threads=2")
    for _ in range(7):
        server.get("/process")

    def metrics():
        return server.ask("/metrics")[2].decode()

    assert eventually(lambda: 'syncless_requests_total{status="200"} 7.0\n' in metrics())
    assert "syncless_connections_accepted_total" in metrics()


def test_status_shows_native_handler_at_work(seen, library, tmp_path):
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "slow.py").write_text(
        "import os\nfrom syncless import native\n"
        f"answer = native.load({str(library)!r}, 'block', context=os.open('gate', os.O_RDWR))"
    )
    running = seen("--native", "GET /users/{id}=slow:answer", "--native-threads", "1")
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as client:
        client.sendall(b"GET /users/1 HTTP/1.1\r\nHost: a\r\n\r\n")

        def is_running(told):  # the figures are a little older than the requests
            return in_flight(told) and told["workers"][0]["connections"]["running"]

        told = status_when(running, is_running)
        (request,) = in_flight(told)
        connections = told["workers"][0]["connections"]
        shown = subprocess.run(
            [sys.executable, "-m", "syncless", "status", f"unix:{running.path}"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        (tmp_path / "gate").write_bytes(b"x")
        assert b"went on" in client.recv(10000)
    assert (request["method"], request["path"], request["state"]) == ("GET", "/users/{id}", "running")
    assert request["where"] == "native thread 0" and request["seconds"] > 0
    assert (connections["running"], connections["idle"]) == (1, 0)
    assert "1 in flight" in shown.stdout and "GET /users/{id}" in shown.stdout
    assert eventually(lambda: not in_flight(running.status()))


def can_read(sock):
    return bool(select.select([sock], [], [], 0)[0])


def test_shortage_of_descriptors_is_told_once_without_spinning_and_ends(running):
    server = running()
    pid = server.process.pid
    clients = [connected(server) for _ in range(5)]
    beyond = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 3
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (beyond, beyond))

    def is_short():
        return "native handlers cannot accept connections: Too many open files" in server.said()

    while not is_short():
        clients.append(asking(server))
        assert eventually(lambda: is_short() or can_read(clients[-1]))
    late, before = asking(server), ticks(pid)
    while select.select([late], [], [], 1)[0]:  # the last descriptor was in use for a moment only
        clients.append(late)
        late, before = asking(server), ticks(pid)
    assert ticks(pid) - before < 0.5 * os.sysconf("SC_CLK_TCK")
    for client in clients:
        client.close()
    assert late.recv(1000).startswith(b"HTTP/1.1 200 OK")
    assert server.said().count("cannot accept") <= 2  # of each thread
    late.close()


def answered_by_one_of(workers, load):
    assert eventually(lambda: load.answers and load.answers[-1][0] in workers)


def reload(server):
    """Until none of the workers are there that were before."""
    before = server.children()
    server.signal(signal.SIGHUP)
    assert eventually(lambda: not any(alive(pid) for pid in before))


def test_requests_in_two_threads_wait_for_no_lock(running):
    """A lock that has to be waited for is a futex call, so there must be next to none."""
    if (strace := shutil.which("strace")) is None:
        pytest.skip("strace is not installed")
    server = running()
    pid, calls = server.process.pid, server.folder / "calls"
    clients = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(8)]
    for client in clients:
        ask(client, 1)
    command = [strace, "-f", "-qq", "-e", "trace=futex", "-o", calls, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracing:
        traced = eventually(lambda: tracing.poll() is not None or is_traced(pid))
        if not traced or tracing.poll() is not None:
            pytest.skip(f"strace cannot trace here: {tracing.communicate()[1]}")
        asking = [threading.Thread(target=ask, args=(client, 1000)) for client in clients]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        tracing.send_signal(signal.SIGINT)
        tracing.wait(60)
    for client in clients:
        client.close()
    assert calls.read_text().count("futex(") < 20  # of 8,000 requests


def is_traced(pid):
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    return len(tasks) >= 3 and all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)


def ask(client, times):
    """So many requests, ten at a time."""
    each = b"GET /process HTTP/1.1\r\nHost: a\r\n\r\n"
    for _ in range(max(1, times // 10)):
        number = min(times, 10)
        client.sendall(each * number)
        data = b""
        while data.count(b"native") < number:
            data += client.recv(65536)


def ticks(pid):
    """CPU time of a process, in ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])
