"""Sending to a collector that is slow, wrong or away: memory is bounded, losses are counted, the log has one
line of a trouble."""

import io
import os
import re
import socket
import threading
import time

import pytest

import syncless
from syncless.server.otel import exporter, settings
from syncless.server.otel.exporter import Backlog, Outlet
from syncless.server.otel.posting import Interrupted, post
from tests.otel.collector import Collector
from tests.waiting import eventually


def hello(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]


@pytest.fixture(autouse=True)
def spans_alone(monkeypatch):
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")


@pytest.fixture
def quick(monkeypatch):
    """What waits is sent at once, and again soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    monkeypatch.setattr(exporter, "TICK", 0.01)
    monkeypatch.setattr(exporter, "FIRST_PAUSE", 0.01)


def lines(log):
    return [re.sub(r"^\[[^]]*\] \[\d+\] ", "", line) for line in log.getvalue().splitlines()]


class Asked:
    """A server with its log, which has been asked a number of times."""

    def __init__(self, start, url, number=3, **options):
        self.log = io.StringIO()
        self.server = start(hello, otel=url, error_log=self.log, **options)
        self.start = start
        self.ask(number)

    def ask(self, number=1):
        with self.start.client(self.server) as client:
            for _ in range(number):
                assert client.get("/")[0] == 200

    @property
    def outlet(self):
        return self.server.telemetry.exporter.outlets[0]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_message_that_cannot_be_taken_now_is_sent_again(start, quick, status):
    with Collector([(status, {}, b"la\x07ter")]) as collector:
        asked = Asked(start, collector.url)
        assert eventually(lambda: len(collector.spans) == 3 and asked.outlet.sent == 3)
        assert eventually(lambda: len(lines(asked.log)) == 2)
        asked.server.stop()
    first, last = lines(asked.log)
    assert first.startswith(
        f"[WARNING] OpenTelemetry: cannot send spans to {collector.url}/v1/traces: {status} "
    )
    assert ": la ter. They are sent later" in first
    assert last == f"[INFO] OpenTelemetry: {collector.url}/v1/traces takes spans again; none were dropped"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 302])
def test_refused_message_is_dropped_and_told_once(start, quick, status):
    with Collector([(status, {}, b"wrong")] * 2) as collector:
        asked = Asked(start, collector.url, 1)
        assert eventually(lambda: asked.outlet.refused == 1)
        asked.ask()
        assert eventually(lambda: asked.outlet.refused == 2)
        asked.ask()
        assert eventually(lambda: asked.outlet.sent == 1)
        asked.server.stop()
    first, last = lines(asked.log)
    assert re.match(
        rf"\[WARNING\] OpenTelemetry: \S+ refuses spans: {status} .*: wrong\. They are dropped$", first
    )
    assert last.endswith("takes spans again; 2 were dropped")


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("7", 7, 7),
        ("0", 0, 0),
        ("99999", 600, 600),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0, 0),
        ("Fri, 31 Dec 2999 23:59:59 GMT", 600, 600),
        ("soon", 0.8, 1.2),
        ("-1", 0.8, 1.2),
    ],
)
def test_retry_after_says_when_a_message_is_sent_again(field, least, most):
    with Collector([(429, {"Retry-After": field}, b"")]) as collector:
        outlet = outlet_to(collector.url)
        outlet.backlog.put(b"x")
        now = time.monotonic()
        assert not send(outlet)
        assert least - 0.01 <= outlet._not_before - now <= most + 60
        assert outlet._not_before - now >= least - 0.01
        if most > 60:
            assert outlet._not_before - now > 500


def target_of(url, seconds=10.0, gzip=False):
    return settings.Target(url, {}, seconds, gzip, None)


def outlet_to(url, most=100, batch=10, **options):
    backlog = Backlog(most, batch, lambda: None)
    return Outlet(target_of(url + "/v1/traces", **options), "spans", backlog, 0.0, lambda items: b"")


def send(outlet, seconds=60):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return outlet.send(theirs.fileno(), time.monotonic() + seconds)


def post_to(listening, woken):
    target = target_of("http://{}:{}".format(*listening.getsockname()))
    return post(target, b"x", False, woken.fileno(), time.monotonic() + 60)


def test_pauses_double_up_to_a_minute():
    outlet = outlet_to("http://127.0.0.1:9")
    outlet.backlog.put(b"x")
    pauses = []
    for _ in range(9):
        now = time.monotonic()
        outlet._wait("no", None)
        pauses.append(outlet._not_before - now)
    for number, pause in enumerate(pauses):
        assert 0.75 * min(2**number, 60) <= pause <= 1.3 * min(2**number, 60)


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_collector_that_is_away_gets_what_waits_when_it_is_back(start, quick):
    port = closed_port()
    asked = Asked(start, f"http://127.0.0.1:{port}", 5)
    assert eventually(lambda: lines(asked.log))
    asked.ask(5)
    with Collector(port=port) as collector:
        assert eventually(lambda: len(collector.spans) == 10)
        asked.server.stop()
    assert [line.split()[0] for line in lines(asked.log)] == ["[WARNING]", "[INFO]"]
    assert "Connection refused" in lines(asked.log)[0]


def test_flood_of_spans_keeps_the_newest_and_counts_the_others(start, monkeypatch):
    """Nobody takes them."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    asked = Asked(start, f"http://127.0.0.1:{closed_port()}", 200)
    backlog = asked.outlet.backlog
    assert eventually(lambda: backlog.dropped + asked.outlet.waiting == 200)
    assert asked.outlet.waiting <= 20 and backlog.dropped >= 180
    asked.server.stop()
    left = 200 - backlog.dropped
    assert len(lines(asked.log)) == 2 and lines(asked.log)[-1].endswith(
        f"{left} spans could not be sent before the end; {200 - left} were dropped"
    )


def test_backlog_is_bounded_whatever_comes():
    backlog = Backlog(100, 10, lambda: None)
    for number in range(1_000_000):
        backlog.put(number)
    assert len(backlog) == 100 and backlog.dropped == 999_900
    assert backlog.take() == list(range(999_900, 999_910))


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 200_000])
def test_what_is_no_collector_is_a_failure(listening, answer):
    def respond():
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(answer)

    thread = threading.Thread(target=respond)
    thread.start()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError):
        post_to(listening, theirs)
    thread.join()


def test_slow_collector_is_given_up_and_asked_again(listening):
    outlet = outlet_to("http://{}:{}".format(*listening.getsockname()), seconds=0.05)
    outlet.backlog.put(b"x")
    assert not send(outlet)
    assert outlet.waiting == 1 and outlet._not_before > time.monotonic()


def test_thread_that_is_needed_leaves_a_slow_collector(listening):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")
        with pytest.raises(Interrupted):
            post_to(listening, theirs)


def test_stop_waits_for_a_slow_collector_only_so_long(start, listening, monkeypatch):
    monkeypatch.setattr("syncless.server.otel.telemetry.LAST_SECONDS", 0.1)
    asked = Asked(start, "http://{}:{}".format(*listening.getsockname()))
    asked.server.telemetry.stop(0.1)
    assert "3 spans could not be sent before the end" in lines(asked.log)[-1]
    asked.server.telemetry = None


def test_stop_sends_what_is_left(start, collector):
    asked = Asked(start, collector.url, 1200)
    asked.server.stop()
    assert len(collector.spans) == 1200
    assert lines(asked.log) == []
    assert all(headers["Content-Encoding"] == "gzip" for _, headers, _ in collector.requests)


def test_variables_alone_are_enough(start, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url + "/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%3Dcret, x=1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    asked = Asked(start, None)
    asked.server.stop()
    assert len(collector.spans) == 3
    [(path, headers, _)] = collector.requests
    assert path == "/v1/traces" and "Content-Encoding" not in headers
    assert (headers["api-key"], headers["x"]) == ("s=cret", "1")


@pytest.mark.parametrize(
    ("option", "variables"),
    [
        (False, {}),
        (None, {"OTEL_SDK_DISABLED": "true"}),
        (True, {"OTEL_SDK_DISABLED": "True"}),
        (None, {"OTEL_TRACES_EXPORTER": "none"}),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ],
)
def test_it_can_be_turned_off(start, collector, monkeypatch, option, variables):
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **variables}.items():
        monkeypatch.setenv(name, value)
    asked = Asked(start, option)
    asked.server.stop()
    assert collector.requests == []


@pytest.mark.parametrize("url", ["collector:4318", "ftp://x", "http://", "unix:/x", "http://x:0x"])
def test_wrong_url_is_told_at_the_start(url):
    with pytest.raises(ValueError):
        settings.read(url, variables={})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_TRACES_SAMPLER", "x", "OTEL_TRACES_SAMPLER must be always_on or "),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "must be a number from 1 to "),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a", "must be a list such as a=b,c=d; 'a' in it is left out"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere", "no traces are sent"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "br", "must be gzip or none, not 'br'"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "Set it to http/protobuf"),
    ],
)
def test_malformed_variable_is_told_and_ignored(name, value, told):
    said = []
    settings.read("", said.append, {name: value})
    assert any(told in words for words in said), said


def test_each_child_of_a_fork_of_the_program_leaves_the_thread_alone(start, collector):
    """A fork ends the thread, and starts it again."""
    asked = Asked(start, collector.url, 2)
    child = os.fork()
    if child == 0:
        os._exit(0)
    syncless.run_in_thread(os.waitpid, child, 0)
    asked.ask(2)
    asked.server.stop()
    assert len(collector.spans) == 4
