"""The status of a server, as its operator reads it: in one process, and with workers."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest

from tests.status.seen import APP, WAITS_AT, in_flight, status_when
from tests.supervised import Load, halted
from tests.waiting import eventually

ROOT = __file__.rsplit("/tests/", 1)[0]


class Asking:
    """A request in a thread, which is still going on; the application is told to end it."""

    def __init__(self, program, path):
        self.told = program.folder / "end"
        self.told.unlink(missing_ok=True)
        self.thread = threading.Thread(target=self._ask, args=(program, path))
        self.thread.start()

    def _ask(self, program, path):
        try:
            program.get(path)
        except (OSError, http.client.HTTPException):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.told.touch()
        self.thread.join()


both = pytest.mark.parametrize("workers", ["0", "2"])


@both
def test_requests_in_flight_are_shown_with_what_they_wait_for(seen, workers):
    running, began = seen("--workers", workers), time.monotonic()
    with Asking(running, "/event/%3Cb%3E%1b%C3%A9"):
        (request,) = in_flight(status_when(running, in_flight))
    assert request["method"] == "GET" and request["path"] == "/event/<b>\x1bé"
    assert request["client"] == "127.0.0.1" and 0 < request["seconds"] <= time.monotonic() - began
    assert request["state"] == "waiting" and request["waits_for"] == "event"
    assert request["where"].endswith(WAITS_AT)
    assert eventually(lambda: not in_flight(running.status()))


def slowest(running):
    return [told for worker in running.status()["workers"] for told in worker["slowest_requests"]]


@both
def test_slow_request_that_has_ended_is_shown_with_its_waits(seen, workers):
    running = seen("--workers", workers)
    with Asking(running, "/event/x"):
        status_when(running, lambda status: any(one["seconds"] > 0.2 for one in in_flight(status)))
    assert eventually(lambda: slowest(running))
    [told] = slowest(running)
    assert told["request"] == "GET /event/x" and told["client"] == "127.0.0.1" and told["seconds"] > 0.2
    assert told["running"] + told["queued"] + told["waited"] == pytest.approx(told["seconds"])
    [wait] = told["waits"]
    assert wait["why"] == "event" and f"{wait['file']}:{wait['line']} in".endswith(WAITS_AT[: -len(" app")])
    assert 0 <= wait["since"] <= wait["since"] + wait["seconds"] <= told["seconds"]


def is_ready(worker):
    return worker["answers"] and worker["state"] == "ready"


@both
def test_workers_are_shown_with_their_figures(seen, workers):
    began = time.monotonic()
    running = seen("--workers", workers)
    status = status_when(running, lambda told: all(map(is_ready, told["workers"])))
    assert len(status["workers"]) == (int(workers) or 1) and status["ready"] and status["live"]
    assert {worker["pid"] for worker in status["workers"]} == (running.children() or {running.process.pid})
    assert status["master"] == (running.process.pid if int(workers) else None)
    assert status["urls"] == [f"http://127.0.0.1:{running.port}/"]
    for worker in status["workers"]:
        assert worker["state"] == "ready" and worker["answers"] and worker["memory_bytes"] > 1_000_000
        assert worker["open_files"] > 2 and worker["beat_seconds"] <= time.monotonic() - began


@both
def test_answers_are_counted_by_status(seen, workers):
    running = seen("--workers", workers)
    for path in ("/", "/", "/missing", "/fail"):
        running.get(path)
    assert eventually(
        lambda: running.status()["totals"]["answered"] == 4
    )  # an answer is counted once it is sent
    totals = running.status()["totals"]
    assert totals["answers_by_status"] == {"200": 2, "404": 1, "500": 1}
    assert sum(totals["latency"]["buckets"]) == 4 and totals["latency"]["seconds"] > 0
    assert totals["received_bytes"] > 100 and totals["sent_bytes"] > 400 and totals["accepted"] == 4


def test_requests_that_the_server_refuses_are_counted(seen):
    running = seen()
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as client:
            client.sendall(b"nonsense\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 400")
    assert eventually(lambda: running.status()["totals"]["refused_by_status"] == {"400": 2})
    assert running.status()["totals"]["answers_by_status"] == {}


@both
def test_stall_is_shown_with_its_stack_while_it_lasts(seen, workers):
    running = seen("--workers", workers)

    def stalls():
        """Those of the request: the machine itself may stand still, too."""
        shown = [stall for worker in running.status()["workers"] for stall in worker["recent_stalls"]]
        return [stall for stall in shown if "while not told()" in stall["stack"]]

    found = []
    with Asking(running, "/burn"):
        assert eventually(lambda: found.extend(stalls()) or found)
        stall = found[0]
        assert not stall["over"]
    assert eventually(lambda: any(each["over"] for each in stalls()))
    assert stalls()[0]["seconds"] >= stall["seconds"] > 0
    assert running.status()["totals"]["longest_stall_seconds"] >= stall["seconds"]


def test_requests_of_a_worker_that_crashes_are_logged(seen):
    running = seen("--workers", "1")
    with Asking(running, "/event"):
        status_when(running, lambda status: len(in_flight(status)) == 1)
        with contextlib.suppress(http.client.RemoteDisconnected):
            running.get("/die")
        assert eventually(lambda: "ended with status 7" in running.said())
    said = re.search(r"ended with status 7 with (\d) requests? in flight \((.*)\); a new one", running.said())
    assert int(said[1]) in (1, 2) and "GET /event" in said[2] and WAITS_AT in said[2], running.said()


def test_worker_that_does_not_answer_is_shown_with_how_long(seen):
    running = seen("--workers", "1")
    (pid,) = running.children()
    with halted(pid):
        status = running.status()
        assert not status["workers"][0]["answers"]
        assert eventually(lambda: running.status()["workers"][0]["silent_seconds"] > 0.6)
        assert eventually(lambda: running.status()["workers"][0]["beat_seconds"] > 0.5)
    assert eventually(lambda: running.status()["workers"][0]["answers"])


def test_counts_never_go_back_when_workers_die_or_are_replaced(seen):
    running = seen("--workers", "2")
    counted = [0]

    def count():
        totals = running.status()["totals"]
        assert totals["answered"] >= counted[-1]
        counted.append(totals["answered"])
        return totals

    with Load(running, "/") as load:
        assert eventually(lambda: count()["answered"] > 50)
        running.signal(signal.SIGHUP)
        assert eventually(lambda: count()["started"] == 4 and count()["processes"] == 2)
    with Asking(running, "/die"):
        pass
    assert eventually(lambda: count()["crashed"] == 1)
    assert eventually(lambda: count()["answered"] == len(load.answers)) and load.failures == []


@both
def test_events_bring_the_status_each_second(seen, workers):
    running = seen("--workers", workers)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(running.path)
        client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        came = b""
        while came.count(b"\n\ndata: ") < 3:
            came += client.recv(65536)
    assert b"Content-Type: text/event-stream" in came
    event = came.split(b"\n\n")[1].removeprefix(b"data: ")
    assert json.loads(event)["syncless"]


def test_client_that_does_not_read_its_events_harms_no_other(seen):
    running = seen()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(running.path)
        client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(3):
            assert running.status()["ready"]


def test_clients_that_only_connect_keep_no_others_out(seen):
    """They are more than there may be: the oldest make room."""
    running = seen()
    idle = []
    try:
        for _ in range(100):
            idle.append(socket.socket(socket.AF_UNIX))
            idle[-1].connect(running.path)
            idle[-1].sendall(b"GET /")
            if len(idle) % 20 == 0:
                assert running.health("/livez") == 200
        assert running.status()["ready"]
        idle[0].settimeout(5)  # less than it may take to ask
        assert idle[0].recv(100) == b""
    finally:
        for client in idle:
            client.close()


def test_head_that_never_ends_is_refused(seen):
    running = seen()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(running.path)
        client.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 6000)
        assert client.recv(1000).startswith(b"HTTP/1.1 431 ")
    assert running.health("/livez") == 200


def test_slow_start_is_no_stall(seen):
    """The loop stands still while the process prepares itself, and nobody waits for it."""
    slow = "\ndef slow():\n    end = time.monotonic() + 1\n    while time.monotonic() < end: pass\n"
    running = seen("--hook", "on_start=app:slow", code=APP + slow)
    stalls = [stall["stack"] for worker in running.status()["workers"] for stall in worker["recent_stalls"]]
    assert not any("in slow" in stack for stack in stalls), stalls  # the machine itself may stand still


COUNT_AT_FORK = """
import os
def write():
    for _ in range(10000):              # a thread that has been joined is listed for a moment
        number = len(os.listdir("/proc/self/task"))
        if number == 1:
            break
    with open(f"threads-{os.getpid()}", "w") as file:
        file.write(str(number))
def count():
    from syncless._core.cpython import forkhooks
    from syncless._core.current import directly
    if not hooks:
        hooks.append(lambda: directly(write))  # under the patch files take a thread
        forkhooks._before.insert(0, hooks[0])  # it is called last of all
hooks = []
os.register_at_fork(before=count)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux lists them")
@both
def test_process_has_one_thread_while_the_application_forks(seen, workers, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(COUNT_AT_FORK)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    running = seen("--workers", workers)
    _, pid, _ = running.get("/fork")
    assert (tmp_path / f"threads-{pid}").read_text() == "1"
    with Asking(running, "/event"):
        assert eventually(lambda: in_flight(running.status()))
    assert "Warning" not in running.said()


def test_page_is_one_file_that_takes_nothing_from_elsewhere(seen):
    status, headers, body = seen().ask("/", Accept="text/html")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert not re.search(rb"(src|href)\s*=\s*[\"']?(https?:)?//", body)


def test_root_is_json_for_clients_that_accept_it(seen):
    status, _, body = seen().ask("/", Accept="application/json")
    assert status == 200 and json.loads(body)["syncless"]


def test_unknown_paths_and_methods_are_refused(seen):
    running = seen()
    status, _, body = running.ask("/nothing")
    assert status == 404 and b"/status.json" in body
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(running.path)
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")


def test_page_of_another_site_cannot_read_the_status(seen):
    """DNS rebinding: its own name is made to lead to this machine."""
    running = seen()
    assert running.ask("/status.json", Host="evil.example")[0] == 421
    for host in ("localhost:9100", "127.0.0.1", "127.0.0.1:9100", "[::1]:9100", "[::1]"):
        assert running.ask("/livez", Host=host)[0] == 200, host


def test_socket_is_private_and_is_removed_at_the_end(seen):
    running = seen()
    assert os.stat(running.path).st_mode & 0o777 == 0o600
    running.end()
    assert not os.path.exists(running.path)


# -- health -------------------------------------------------------------------------------------------


@both
def test_healthy_server_is_live_and_ready(seen, workers):
    running = seen("--workers", workers)
    assert running.ask("/livez")[::2] == (200, b"ok\n") and running.ask("/readyz")[::2] == (200, b"ok\n")


@both
def test_stopping_server_is_not_ready_before_it_refuses_clients(seen, workers):
    running = seen("--workers", workers, "-l", "stop_delay_seconds=60")
    running.signal(signal.SIGTERM)
    assert eventually(lambda: running.health("/readyz") == 503)
    for _ in range(5):
        assert running.get("/")[0] == 200
    assert running.health("/livez") == 200
    running.signal(signal.SIGTERM)  # ends the delay
    assert running.process.wait(60) == 0


@both
def test_stop_waits_for_the_delay(seen, workers):
    running = seen("--workers", workers, "-l", "stop_delay_seconds=0.5")
    began = time.monotonic()
    running.signal(signal.SIGTERM)
    assert running.process.wait(60) == 0 and time.monotonic() - began > 0.5


def test_server_whose_only_worker_is_dead_is_not_ready(seen):
    running = seen("--workers", "1")
    (running.folder / "app.py").write_text("raise RuntimeError('broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    with Asking(running, "/die"):
        pass
    assert eventually(lambda: running.health("/readyz") == 503)
    assert running.health("/livez") == 200


def test_single_process_whose_loop_stands_still_is_not_live(seen):
    running = seen("-l", "worker_stuck_seconds=0.5")
    with Asking(running, "/burn"):
        assert eventually(lambda: running.health("/livez") == 503)
        assert running.health("/readyz") == 503
    assert eventually(lambda: running.health("/livez") == 200)
