"""The benchmark of applications compares servers by the same answers, and says which it could not start and
what failed."""

import contextlib
import http.server
import importlib.util
import shutil
import threading
import types
from typing import ClassVar

import pytest

import benchmark.servers
from benchmark import applications
from benchmark.applications import asked, services
from benchmark.experiment import Scale
from benchmark.loads import Load
from benchmark.servers import Absent

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


def of_load(cpu_us, errors=0):
    latency = {"p50": 5.0, "p99": 20.0, "max": 30.0}
    return {
        "cpu_us": cpu_us,
        "requests": 100,
        "errors": errors,
        "memory": 50_000_000,
        "latency_ms": latency,
    }


def test_table_has_order_share_errors_and_who_is_absent():
    def rounds(*loads):
        return {"rounds": [{"loads": {"single-64": load}} for load in loads]}

    found = applications.table(
        {
            "title": "Flask",
            "alone": {"single": 500.0},
            "peers": {
                "slow": rounds(of_load(2000.0, errors=3), of_load(2000.0, errors=4)),
                "fast": rounds(of_load(600.0), of_load(1000.0), of_load(9000.0)),
                "gone": {"absent": "it is not here"},
            },
        }
    )
    rows = [line for line in found.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| fast | 1,000 | 5.0 | 20.0 | 50 | 0 | 50% |",
        "| slow | 500 | 5.0 | 20.0 | 50 | 7 | 25% |",
    ]
    assert "500 µs of CPU without a server" in found and found.endswith("Absent: gone: it is not here.")
    assert "512 connections" not in found


def test_rows_that_are_read_are_never_updated_and_transactions_cannot_wait_in_a_circle():
    read = {row for number in range(600) for row in asked.chosen(number)}
    for number in (0, 7, 499, 500, 123_456):
        rows = asked.changed(number)
        assert rows == sorted(set(rows)) and len(rows) == asked.BATCH and read.isdisjoint(rows)
    assert read == set(range(1, asked.ROWS + 1))
    updates, login = asked.LOADS["updates"], asked.LOADS["login"]
    assert updates.target(1234) == "/updates?n=1234" and updates.method == "GET"
    assert login.sent(107).startswith(b"user=user7&") and login.method == "POST"


def test_reason_is_named_where_there_is_no_database(monkeypatch):
    def absent(connections):
        pytest.skip("initdb is not installed")

    monkeypatch.setattr(services.servers, "postgresql", absent)
    result = applications.run("applications-flask", Scale(1, 1, 1), None, True)
    assert result["peers"] == {"syncless": {"absent": "initdb is not installed"}}
    assert applications.table(result).endswith("Absent: syncless: initdb is not installed.")


@contextlib.contextmanager
def no_services():
    yield {}


@pytest.fixture
def made_up(monkeypatch):
    """Servers that are not started, whose loads are of no requests yet."""

    class Server:
        port, cpu_ns, private_bytes = 0, 0, 0

        def __init__(self, peer, application):
            self.name = peer.name

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("benchmark.rounds.Running", Server)
    monkeypatch.setattr(services, "started", no_services)
    monkeypatch.setattr(services, "prepare", lambda site, environment: None)
    alone = {load: {"cpu_us": 1.0, "body": "right"} for load in asked.LOADS}
    monkeypatch.setattr(services, "alone", lambda site, environment, seconds: alone)
    monkeypatch.setattr(applications, "_versions", lambda *packages: lambda: "1")


def test_server_that_gives_another_answer_is_not_measured(made_up, monkeypatch):
    monkeypatch.setattr(applications, "answer_of", lambda port, asked, number: "wrong")
    result = applications.run("applications-flask", Scale(1, 1, 1), ["syncless"], True)
    said = result["peers"]["syncless"]["absent"]
    assert said == "AssertionError: single: it answers 'wrong', not 'right'"


def test_server_that_does_not_serve_the_protocol_is_named(made_up, monkeypatch):
    def answer(port, asked, number):
        raise Absent("no more")

    monkeypatch.setattr(applications, "answer_of", answer)
    peers = applications.run("applications-fastapi", Scale(1, 1, 1), None, True)["peers"]
    assert peers["gunicorn, gthread"] == peers["gunicorn, gevent"]
    assert peers["gunicorn, gevent"] == {"absent": "it has no application 'site_fastapi'"}
    assert peers["uvicorn"]["absent"] == "no more"


class Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


@needs_wrk
@pytest.mark.parametrize("load", ["single", "login", "upload"])
def test_clients_send_what_is_asked_each_with_its_number(load):
    Recorder.seen.clear()
    one = asked.LOADS[load]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        running = types.SimpleNamespace(port=server.server_port)
        while applications._load(running, load, 2, 1).requests < 2:
            pass  # a busy machine
        server.shutdown()
        serving.join()
    numbers = [
        number
        for number in range(one.numbers)
        if any(seen == (one.method, one.target(number), one.sent(number)) for seen in Recorder.seen)
    ]
    assert len(numbers) == len(set(Recorder.seen))


def asked_thrice(server, name, connections, seconds):
    """A load that takes as long as it takes."""
    for number in range(3):
        applications.answer_of(server.port, asked.LOADS[name], number)
    return Load(3, 1.0, 0, {"p50": 1.0, "p99": 1.0, "max": 1.0}, "-")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "packages"),
    [
        ("flask", ["flask", "sqlalchemy", "psycopg2", "redis"]),
        ("django", ["django", "psycopg2", "redis"]),
        ("fastapi", ["fastapi", "sqlalchemy", "psycopg2", "redis", "jinja2", "python_multipart"]),
    ],
)
def test_site_answers_every_load_on_ours(site, packages, monkeypatch):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    monkeypatch.setattr(benchmark.servers, "START_SECONDS", 900)
    monkeypatch.setattr(applications, "QUICK", tuple(asked.LOADS))
    monkeypatch.setattr(applications, "_load", asked_thrice)
    result = applications.run(f"applications-{site}", Scale(1, 1, 1), ["syncless"], True)
    peer = result["peers"]["syncless"]
    if "not installed" in peer.get("absent", ""):
        pytest.skip(peer["absent"])
    assert "absent" not in peer, peer["absent"]
    [measured] = peer["rounds"]
    assert measured["errors"] == 0 and set(measured["loads"]) == {f"{load}-64" for load in asked.LOADS}
    assert all(load["cpu_us"] > 0 for load in measured["loads"].values())
