"""Metrics of a process, each minute and at its end, by the conventions where there are some."""

import re
import sys
import types

import pytest

from syncless.http.listener import SECONDS
from syncless.server.otel import exporter
from tests.otel.collector import as_dict
from tests.waiting import eventually


def app(environ, start_response):
    start_response("404 Not Found" if environ["PATH_INFO"] == "/no" else "200 OK", [])
    return [b"ok"]


def by_status(metric):
    return {as_dict(point.attributes)["status"]: point.as_double for point in metric.sum.data_points}


@pytest.mark.parametrize("sampler", ["always_on", "always_off"])
def test_last_reading_has_all_requests(start, collector, monkeypatch, sampler):
    """Whether they are traced or not."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    server = start(app, otel=collector.url)
    with start.client(server) as client:
        for path in ("/", "/", "/no"):
            client.get(path)
    server.stop()
    [(resource, found)] = collector.readings
    assert resource["service.name"] == "unknown_service:syncless"
    assert by_status(found["syncless.requests"]) == {"200": 2, "404": 1}
    assert found["syncless.requests"].sum.is_monotonic
    [point] = found["http.server.request.duration"].histogram.data_points
    assert found["http.server.request.duration"].unit == "s"
    assert point.count == sum(point.bucket_counts) == 3 and point.sum > 0
    assert list(point.explicit_bounds) == list(SECONDS)
    assert len(point.bucket_counts) == len(SECONDS) + 1
    assert 0 < point.start_time_unix_nano < point.time_unix_nano
    [active] = found["http.server.active_requests"].sum.data_points
    assert active.as_double == 0 and not found["http.server.active_requests"].sum.is_monotonic
    [utilization] = found["syncless.loop_utilization"].gauge.data_points
    assert 0 <= utilization.as_double <= 1
    assert found["syncless.cpu_seconds"].unit == "s"


def test_reading_comes_at_each_interval(start, collector, monkeypatch):
    monkeypatch.setattr(exporter, "TICK", 0.01)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    server = start(app, otel=collector.url)
    with start.client(server) as client:
        client.get("/")
    assert eventually(
        lambda: collector.readings and by_status(collector.readings[-1][1]["syncless.requests"])
    )
    assert eventually(lambda: len(collector.readings) > 3)
    server.stop()
    times = [found["http.server.request.duration"] for _, found in collector.readings]
    moments = [metric.histogram.data_points[0].time_unix_nano for metric in times]
    assert moments == sorted(moments)


def test_sdk_of_the_application_counts_requests_itself(start, collector, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", types.ModuleType("metrics"))
    server = start(app, otel=collector.url)
    server.stop()
    [(_, found)] = collector.readings
    assert "syncless.requests" in found and not [name for name in found if name.startswith("http.")]


@pytest.mark.parametrize("name", ["OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER"])
def test_each_signal_can_be_left_out(start, collector, monkeypatch, name):
    monkeypatch.setenv(name, "none")
    server = start(app, otel=collector.url)
    with start.client(server) as client:
        client.get("/")
    server.stop()
    assert {path for path, _, _ in collector.requests} == {
        "/v1/traces" if name == "OTEL_METRICS_EXPORTER" else "/v1/metrics"
    }


def test_metrics_are_those_of_the_status_page(program, collector):
    """The same reporter counts for both."""
    running = program("--otel", collector.url, "--status", "127.0.0.1:0", "--workers", "1")
    for _ in range(3):
        running.get("/")
    running.end()
    [(_, found)] = collector.readings
    assert by_status(found["syncless.requests"]) == {"200": 3}
    assert all(re.fullmatch(r"syncless\.\w+|http\.server\.[\w.]+", name) for name in found)
