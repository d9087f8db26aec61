"""Metrics for Prometheus: their counts, their addresses, and that counters never go back."""

import contextlib
import itertools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import syncless
from syncless.server.status.metrics import Metrics
from syncless.server.status.options import StatusOptions
from syncless.server.status.reporter import parked
from syncless.server.status.scoreboard import CAUSES, WAITS, Scoreboard
from tests.cli.test_loading import HELLO, command, environment
from tests.plugin import Client
from tests.status.seen import APP
from tests.status.test_status import Asking
from tests.supervised import Load, Program
from tests.waiting import eventually

prometheus = pytest.importorskip(
    "prometheus_client.parser", reason="prometheus_client makes the metrics: pip install prometheus-client"
)

PACKAGE = pathlib.Path(syncless.__file__).parent

both = pytest.mark.parametrize("workers", ["0", "2"])


def parsed(text):
    """{(name, labels): value} as the library itself reads them."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in prometheus.text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics(running):
    status, headers, body = running.ask("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    return parsed(body.decode())


@both
def test_metrics_count_all_workers_together(seen, workers):
    running, began = seen("--metrics", "--workers", workers), time.monotonic()
    for path in ("/", "/", "/missing", "/fail"):
        running.get(path)
    assert eventually(lambda: metrics(running)["syncless_request_duration_seconds_count",] == 4)
    found = metrics(running)
    assert found["syncless_requests_total", "200"] == 2 and found["syncless_requests_total", "404"] == 1
    assert found["syncless_requests_total", "500"] == 1
    assert found["syncless_request_duration_seconds_bucket", "+Inf"] == 4
    assert 0 < found["syncless_request_duration_seconds_sum",] <= time.monotonic() - began
    assert eventually(lambda: metrics(running)["syncless_workers",] == (int(workers) or 1))
    assert found["syncless_resident_memory_bytes",] > 1_000_000 and found["syncless_open_descriptors",] > 2
    with Asking(running, "/event"):
        assert eventually(lambda: metrics(running)["syncless_running_requests",] == 1)
        assert metrics(running)["syncless_connections", "running"] == 1
    with Asking(running, "/burn"):
        assert eventually(lambda: any(w["recent_stalls"] for w in running.status()["workers"]))
    assert eventually(lambda: metrics(running)["syncless_stalls_total",] == 1)
    assert eventually(lambda: metrics(running)["syncless_connections_accepted_total",] == 6)
    assert metrics(running)["syncless_longest_stall_seconds",] > 0
    assert metrics(running)["syncless_recent_stall_seconds",] > 0
    assert 0 < metrics(running)["syncless_loop_utilization",] <= 1


def test_pressure_is_told_by_resource_and_threads(monkeypatch):
    told = {"cpu": {"some": 2.5, "full": 0.5}, "io": {"some": 1.0}}
    monkeypatch.setattr("syncless.server.status.metrics.pressure", lambda: told)
    body, _ = Metrics(Scoreboard(1))("text/plain")
    found = {key[1:]: value for key, value in parsed(body.decode()).items() if "_pressure_" in key[0]}
    assert found == {("cpu", "some"): 2.5, ("cpu", "full"): 0.5, ("io", "some"): 1.0}


@both
def test_parked_tasklets_are_told_by_what_they_wait_for(seen, workers):
    joins = APP.replace("event.wait()", "syncless.spawn(event.wait).join()")  # nothing else joins a tasklet
    running = seen("--metrics", "--workers", workers, code=joins)
    with Asking(running, "/event"), Asking(running, "/event"):
        assert eventually(lambda: metrics(running)["syncless_parked_tasklets", "tasklet"] == 2)
    assert eventually(lambda: metrics(running)["syncless_parked_tasklets", "tasklet"] == 0)


def test_each_wait_counts_once(pair):
    lock = syncless.Lock()
    lock.acquire()
    left, _ = pair
    waits = {
        "sleep": lambda: syncless.sleep(100),
        "descriptor": lambda: left.recv(1),
        "lock": lock.acquire,
        "event": syncless.Event().wait,
        "queue": syncless.Queue().get,
        "tasklet": lambda: syncless.current_loop().main.join(),
        "other": syncless.park,
    }
    tasklets = [syncless.spawn(wait) for wait in waits.values()]
    syncless.sleep(0)
    told = parked([*tasklets, syncless.current()])
    for one in tasklets:
        one.kill()
    assert told == {f"parked_{cause}": int(cause in waits) for cause in CAUSES}


def test_waits_for_channels_and_queues_of_all_kinds_are_those_for_a_queue():
    work = syncless.JoinableQueue()
    work.put(1)
    waits = [syncless.Channel().receive, lambda: syncless.Channel().send(1), work.join]
    tasklets = [syncless.spawn(wait) for wait in waits]
    syncless.sleep(0)
    told = parked(tasklets)
    for one in tasklets:
        one.kill()
    assert told["parked_queue"] == len(waits) and sum(told.values()) == len(waits)


def test_words_of_waits_are_those_of_the_engine():
    code = "".join(
        path.read_text() for path in PACKAGE.rglob("*.p*") if path.suffix in (".py", ".pyx", ".pxi")
    )
    board = (PACKAGE / "server/status/scoreboard.py").read_text()
    assert [word for word in WAITS if f'"{word}"' not in code.replace(board, "")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how many connections wait")
def test_backlog_is_told_while_the_loop_is_held(seen):
    running = seen("-l", "backlog=7", "--no-defer-accept", "--metrics")
    assert eventually(lambda: metrics(running)["syncless_backlog_limit",] == 7)
    with contextlib.ExitStack() as stack, Asking(running, "/burn"):
        assert eventually(lambda: any(w["recent_stalls"] for w in running.status()["workers"]))
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
        assert eventually(lambda: metrics(running)["syncless_backlog",] == 3)
    assert eventually(lambda: metrics(running)["syncless_backlog",] == 0)


def test_counters_never_go_back(seen):
    running = seen("--metrics", "--workers", "2", "-l", "worker_requests=20")
    before = {}

    def count():
        after = {name: value for name, value in metrics(running).items() if name[0].endswith("_total")}
        assert all(after[name] >= value for name, value in before.items())
        before.update(after)
        return after

    with Load(running, "/") as load:
        assert eventually(lambda: count()["syncless_workers_recycled_total",] >= 3)
        running.signal(signal.SIGHUP)
        assert eventually(lambda: count()["syncless_workers_started_total",] >= 8)
    with Asking(running, "/die"):
        pass
    assert eventually(lambda: count()["syncless_workers_crashed_total",] == 1)
    assert eventually(lambda: count()["syncless_requests_total", "200"] == len(load.answers))
    assert load.failures == []


def fetch(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@both
def test_metrics_at_a_path_of_the_main_address(tmp_path, workers):
    (tmp_path / "app.py").write_text(HELLO)
    running = Program(tmp_path, ["--metrics", "/internal/metrics", "--workers", workers])
    url = f"http://127.0.0.1:{running.port}"
    try:
        for _ in range(3):
            assert fetch(f"{url}/")[1] == "found" == fetch(f"{url}/internal")[1]
        before = itertools.count(6)

        def all_are_counted():
            """An answer is counted once it is sent, and so is that to each question here."""
            kind, text = fetch(f"{url}/internal/metrics")
            assert kind.startswith("text/plain")
            return parsed(text)["syncless_requests_total", "200"] == next(before)

        assert eventually(all_are_counted)
        kind, text = fetch(f"{url}/internal/metrics", Accept="application/openmetrics-text")
        assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    finally:
        running.end()


@both
def test_metrics_on_an_address_of_their_own(tmp_path, workers):
    (tmp_path / "app.py").write_text(HELLO)
    path = tmp_path / "metrics"
    running = Program(tmp_path, ["--metrics", f"unix:{path}", "--workers", workers])
    try:
        with Client(str(path)) as client:
            client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            status, _, body = client.response()
        assert status == 200 and parsed(body.decode())["syncless_workers",] >= 1
    finally:
        running.end()
    assert not os.path.exists(path)


def test_metrics_without_a_place_are_an_error_that_says_what_to_write():
    with pytest.raises(ValueError, match=r"--status 127\.0\.0\.1:9100"):
        StatusOptions.of(None, True)
    with pytest.raises(ValueError, match="--status-public"):
        StatusOptions.of(None, "0.0.0.0:9100")


def test_missing_library_is_an_error_that_says_what_to_install(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['prometheus_client'] = None\n")
    done = subprocess.run(
        command("hello:app", "--bind", "127.0.0.1:0", "--metrics", "/metrics"),
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": f"{tmp_path}:{environment().get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "pip install 'syncless[metrics]'" in done.stderr, done


def test_application_after_metrics_is_not_taken_for_an_address(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    done = subprocess.run(
        command("--status", f"unix:{tmp_path}/status", "--check", "--metrics", "hello:app"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "hello:app can be served" in done.stdout, done.stderr
