"""A slow request is logged with what its time went for."""

import io
import json
import re
import time
from types import SimpleNamespace

import pytest

import syncless
from syncless.cli.arguments import parse
from syncless.wsgi import Server
from tests.plugin import Client

pytestmark = pytest.mark.virtual_time


def wait():
    for _ in range(4):
        syncless.sleep(0.25)


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/waits":
        wait()
        syncless.Event().wait(0.5)
    elif path == "/computes":
        time.sleep(1.5)
    elif path == "/queues":
        syncless.spawn(time.sleep, 2)
        syncless.sleep(1)
    elif path == "/fails":
        syncless.sleep(1.25)
        raise RuntimeError("no")
    start_response("200 OK", [])
    return [b"ok"]


@pytest.fixture
def asked(start):
    """The error log after requests for the paths."""

    def ask(*paths, app=application, **options):
        log = io.StringIO()
        with start.client(start(app, error_log=log, **options)) as client:
            for path in paths:
                client.get(path)
        return log.getvalue()

    return ask


def test_slow_request_is_logged_with_its_waits(asked):
    told = asked("/waits", "/", slow_request=1)
    [head, *lines] = told.splitlines()
    here = f"tests/http/test_slow_requests.py:{wait.__code__.co_firstlineno + 2} in wait()"
    assert re.search(
        r"\[WARNING\] \[\S+ 127.0.0.1\] Slow request: GET /waits took 1.500 s: 0.000 s running, "
        r"0.000 s in the ready queue, 1.500 s in 5 waits$",
        head,
    )
    assert lines[0] == f"    1.000 s in 4 waits: sleep at {here}"
    assert re.fullmatch(
        r"    0.500 s: event at tests/http/test_slow_requests.py:\d+ in application\(\)", lines[1]
    )
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("path", "shares"),
    [
        ("/computes", "took 1.500 s: 1.500 s running, 0.000 s in the ready queue, 0.000 s in 0 waits"),
        ("/queues", "took 2.000 s: 0.000 s running, 1.000 s in the ready queue, 1.000 s in 1 wait\n"),
        ("/fails", "took 1.250 s: 0.000 s running, 0.000 s in the ready queue, 1.250 s in 1 wait\n"),
    ],
)
def test_time_is_shared_out(asked, path, shares):
    assert shares in asked(path, slow_request=1.2)


def test_five_rows_are_shown(asked):
    def app(environ, start_response):
        exec("\n".join(f"syncless.sleep({number / 10})" for number in range(1, 9)))
        return application(environ, start_response)

    told = asked("/", app=app, slow_request=1)
    assert [line.split(":")[0].strip() for line in told.splitlines()[1:]] == [
        *("0.800 s", "0.700 s", "0.600 s", "0.500 s", "0.400 s"),
        "0.600 s in 3 further waits",
    ]


def test_json_has_the_parts_as_fields(asked):
    [line] = asked("/waits", slow_request=1, error_log_format="json").splitlines()
    entry = json.loads(line)
    assert entry["message"].startswith("Slow request: GET /waits took 1.500 s")
    assert "\n" not in entry["message"] and entry["level"] == "WARNING"
    slow = entry["slow_request"]
    assert slow["seconds"] == pytest.approx(1.5, abs=1e-3) and slow["request"] == "GET /waits"
    assert [wait["seconds"] for wait in slow["waits"]] == pytest.approx([0.25] * 4 + [0.5], abs=1e-3)
    assert slow["waits"][0]["why"] == "sleep" and slow["waits"][0]["function"] == "wait"
    assert slow["switches"] >= 5


@pytest.mark.parametrize("options", [{}, {"slow_request": 0}, {"slow_request": 2}])
def test_quicker_request_is_not_logged(asked, options):
    assert asked("/waits", **options) == ""


def test_negative_time_is_refused():
    with pytest.raises(ValueError, match="slow_request must not be negative"):
        Server(application, slow_request=-1)


def test_it_is_refused_where_no_wait_is_recorded():
    with pytest.raises(ValueError, match=r"slow_request .*: the limit recorded_waits must not be 0"):
        Server(application, slow_request=1, recorded_waits=0)


def test_deadline_of_the_request_says_where_its_time_went(asked):
    told = asked("/waits", request_seconds=0.9)
    assert re.search(
        r"RequestTimeout: the request took longer than 0.9 s: 0.900 s in 4 waits: sleep at "
        r"tests/http/test_slow_requests.py:\d+ in wait\(\)\n",
        told,
    )


def test_deadline_of_a_block_says_where_its_time_went(start):
    told = []

    def app(environ, start_response):
        try:
            with syncless.deadline(0.7):
                wait()
        except TimeoutError as error:
            told.append(str(error))
        return application(environ, start_response)

    start.client(start(app)).get("/")
    assert re.fullmatch(
        r"the deadline of 0.7 seconds has passed: 0.700 s in 3 waits: sleep at "
        r"tests/http/test_slow_requests.py:\d+ in wait\(\)",
        told[0],
    )


def test_wait_begins_no_earlier_than_its_request(monkeypatch):
    """However late the end of the request is looked at."""
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 0.1, time=time.time)
    monkeypatch.setattr("syncless.http.log.slowrequests.time", late)
    server = Server(application, port=0)
    server.keeps_slowest = True
    with server:
        with Client(server.address) as client:
            client.get("/waits")
        assert server.slow_requests.slowest()[0]["waits"][0]["since"] == 0


def test_slowest_of_the_last_minutes_are_kept():
    paths = [f"/{number}" for number in range(30)]

    def app(environ, start_response):
        syncless.sleep(0.2 + int(environ["PATH_INFO"][1:]) * 7 % 30 / 10)
        return application(environ, start_response)

    def told():
        return [(one["request"], round(one["seconds"], 1)) for one in server.slow_requests.slowest()]

    server = Server(app, port=0)
    server.keeps_slowest = True
    with server:
        with Client(server.address) as client:
            for path in paths:
                client.get(path)
        assert [seconds for _, seconds in told()] == [3.1, 3.0, 2.9, 2.8, 2.7, 2.6, 2.5, 2.4, 2.3, 2.2]
        assert told()[0] == ("GET /17", 3.1)
        [wait] = server.slow_requests.slowest()[0]["waits"]
        assert (wait["since"], wait["seconds"]) == pytest.approx((0, 3.1), abs=1e-3)
        syncless.sleep(301)
        with Client(server.address) as client:
            client.get("/1")
        assert told() == [("GET /1", 0.9)]


@pytest.mark.parametrize("text", ["0.5", '"0.5"'])
def test_configuration_file_has_seconds(tmp_path, text):
    path = tmp_path / "syncless.toml"
    path.write_text(f"slow_request = {text}\n")
    assert parse(["app:app", "--config", str(path)]).slow_request == 0.5
