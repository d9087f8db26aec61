"""The metrics of the duration of requests show a traced request for each bucket, in OpenMetrics."""

import os

import pytest

from syncless.server.status.exemplars import SIZE, Exemplar, Exemplars
from syncless.server.status.metrics import Metrics
from syncless.server.status.reporter import Reporter
from syncless.server.status.scoreboard import Scoreboard
from syncless.wsgi import Server
from tests.http.test_websocket import HANDSHAKE, echo, frame
from tests.plugin import Client

openmetrics = pytest.importorskip(
    "prometheus_client.openmetrics.parser", reason="it makes the metrics: pip install prometheus-client"
)
MS = 1_000_000


def request(number, duration=3 * MS, end=1):
    return Exemplar(bytes([number]) * 16, bytes([number]) * 8, duration, end)


def test_newest_of_each_bucket_is_known_whatever_comes_last():
    known = Exemplars()
    newest = request(1, end=3), request(2, duration=61_000 * MS)
    for one in (request(3, end=2), *newest, request(4, end=1)):
        known.note(one)
    found = [known.of(bucket) for bucket in range(17)]
    assert [found[3], found[16]] == [*newest] and found.count(None) == 15


def test_bound_belongs_to_its_bucket_as_where_requests_are_counted():
    known = Exemplars()
    known.note(request(1, duration=5 * MS))
    assert known.of(3) == request(1, duration=5 * MS)


def test_record_that_is_half_written_is_left_out_and_overwritten():
    known = Exemplars()
    known.note(request(1, end=5))
    known._memory[3 * SIZE] ^= 255
    assert known.of(3) is None
    known.note(request(2, end=4))
    assert known.of(3) == request(2, end=4)


def test_processes_of_a_server_share_them():
    board = Scoreboard(2)
    if (pid := os.fork()) == 0:
        board.exemplars.note(request(7))
        os._exit(0)
    os.waitpid(pid, 0)
    assert board.exemplars.of(3) == request(7)


def bucket_exemplars(text):
    """{upper bound: (value, exemplar)} of the duration, as the library itself reads them; none elsewhere."""
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(text)}
    found = {}
    for name, family in families.items():
        for sample in family.samples:
            if sample.exemplar is not None:
                assert name == "syncless_request_duration_seconds" and sample.name == f"{name}_bucket"
                found[float(sample.labels["le"])] = sample.exemplar
    return found


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]


@pytest.mark.parametrize("sampler", ["always_on", "always_off"])
def test_traced_request_is_shown_to_readers_of_openmetrics(collector, monkeypatch, sampler):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    board = Scoreboard(1)
    server = Server(app, bind="127.0.0.1:0", otel=collector.url)
    board.begin(1)
    Reporter(server, board.row(1))
    server.exemplars = board.exemplars
    server.start()
    with Client(server.address) as client:
        client.get("/")
    server.stop()
    shown = bucket_exemplars(Metrics(board)("application/openmetrics-text; version=1.0.0")[0].decode())
    assert len(shown) == len(collector.spans) == (sampler == "always_on")
    for span, (bound, exemplar) in zip(collector.spans, shown.items(), strict=True):
        assert exemplar.labels == {"trace_id": span.trace, "span_id": span.id}
        assert exemplar.value == pytest.approx((span.end - span.start) / 1e9) and exemplar.value <= bound
        assert float(exemplar.timestamp) == round(span.end / 1e9, 3)
    assert b"span_id" not in Metrics(board)("text/plain")[0]


def test_websocket_whose_time_the_metrics_do_not_count_is_no_exemplar(collector):
    server = Server(echo, bind="127.0.0.1:0", otel=collector.url)
    server.exemplars = exemplars = Exemplars()
    server.start()
    with Client(server.address) as client:
        client.send(f"{HANDSHAKE}\r\n".encode())
        assert client.response(head_only=True)[0] == 101
        client.send(frame(8, b"\x03\xe8"))
        assert client.sock.recv(100) == b"\x88\x02\x03\xe8"
    server.stop()
    assert {span.attributes.get("http.response.status_code", 101) for span in collector.spans} == {101}
    assert [exemplars.of(bucket) for bucket in range(17)] == [None] * 17
