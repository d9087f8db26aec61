"""Servers as users start them: workers, reload, stop, and OpenTelemetry's own instrumentation beside ours."""

import http.client
import importlib.util
import pathlib
import re
import signal
import sys

import pytest

from tests.plugin import Client
from tests.supervised import Program
from tests.waiting import eventually

SERVER, INTERNAL = 2, 1


def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def servers_spans(collector):
    return [span for span in collector.spans if span.kind == SERVER]


@pytest.mark.parametrize(
    "options", [[], ["--workers", "2"], ["--workers", "2", "--preload"], ["--workers", "1", "--no-patch"]]
)
def test_each_request_is_sent_before_the_server_has_stopped(program, collector, options):
    running = program("--otel", collector.url, *options)
    pids = {running.get(f"/{number}")[1] for number in range(20)}
    assert "OpenTelemetry" not in running.end()
    spans = servers_spans(collector)
    assert sorted(int(span.attributes["url.path"][1:]) for span in spans) == list(range(20))
    assert {span.resource["process.pid"] for span in spans} == pids
    assert len({span.resource["service.instance.id"] for span in spans}) == len(pids)


def test_no_span_is_lost_while_workers_are_replaced(program, collector):
    running = program("--otel", collector.url, "--workers", "1")
    before = running.get("/before")[1]
    running.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: running.get("/again")[1] != before)
    running.end()
    paths = [span.attributes["url.path"] for span in servers_spans(collector)]
    assert "/before" in paths and "/again" in paths
    assert len({span.resource["service.instance.id"] for span in servers_spans(collector)}) == 2


def test_option_without_the_package_says_what_is_missing(program, tmp_path):
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("")
    running = program("--otel", "http://127.0.0.1:9", serves=False)
    running.process.wait(60)
    assert "pip install 'syncless[otel]'" in running.said()


def test_wrong_address_is_refused(program):
    running = program("--otel", "collector:4318", serves=False)
    running.process.wait(60)
    assert "http://host:port" in running.said() and "Traceback" not in running.said()


FLASK = """
from flask import Flask
from opentelemetry import trace
app = Flask(__name__)
@app.route("/r<int:number>")
def answer(number):
    with trace.get_tracer("shop").start_as_current_span("inner"):
        return f"{{number}}"
"""
NEEDED = [
    "flask",
    "opentelemetry.distro",
    "opentelemetry.instrumentation.flask",
    "opentelemetry.exporter.otlp.proto.http",
]


CALLS = """
from flask import Flask, request
import httpx
import requests
app = Flask(__name__)
@app.route("/<library>")
def call(library):
    return {{"requests": requests, "httpx": httpx}}[library].get(request.args["url"]).text
"""


class Instrumented(Program):
    command = (pathlib.Path(sys.executable).with_name("opentelemetry-instrument"), *Program.command)


@pytest.mark.skipif(
    not all(map(is_there, NEEDED)), reason=f"{', '.join(NEEDED)}: pip install --group clients"
)
@pytest.mark.parametrize("sampler", ["parentbased_always_on", "parentbased_always_off"])
@pytest.mark.parametrize("explicit", [True, False], ids=["option", "variables"])
def test_sdk_beside_it_makes_children_and_no_doubles(tmp_path, monkeypatch, collector, explicit, sampler):
    for name, value in {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_TRACES_SAMPLER": sampler,
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "app.py").write_text(FLASK.format())
    running = Instrumented(tmp_path, ["--workers", "1", *(["--otel"] if explicit else [])])
    try:
        for number in range(5):
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
            connection.request("GET", f"/r{number}")
            assert connection.getresponse().read() == f"{number}".encode()
            connection.close()
    finally:
        running.end()
    spans = collector.spans
    if sampler == "parentbased_always_off":
        assert spans == []
        return
    by_id = {span.id: span for span in spans}
    requests = {span.id for span in spans if span.kind == SERVER}
    assert len(requests) == 5
    for inner in (span for span in spans if span.name == "inner"):
        middle = by_id[inner.parent]
        assert middle.name == "GET /r<int:number>"
        if explicit:
            assert middle.kind == INTERNAL and middle.parent in requests
            assert by_id[middle.parent].resource["telemetry.sdk.name"] == "syncless"
        else:
            assert middle.id in requests and middle.resource["telemetry.sdk.name"] == "opentelemetry"
    assert len({span.trace for span in spans}) == 5


@pytest.mark.parametrize("library", ["requests", "httpx"])
@pytest.mark.parametrize("explicit", [True, False], ids=["both", "SDK alone"])
def test_instrumented_client_sends_one_traceparent(
    tmp_path, monkeypatch, collector, start, library, explicit
):
    if not all(map(is_there, [*NEEDED, f"opentelemetry.instrumentation.{library}"])):
        pytest.skip("pip install --group clients")
    for name, value in {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
    }.items():
        monkeypatch.setenv(name, value)

    def called(environ, start_response):
        start_response("200 OK", [])
        return [environ.get("HTTP_TRACEPARENT", "-").encode()]

    (tmp_path / "app.py").write_text(CALLS.format())
    running = Instrumented(tmp_path, ["--workers", "1", *(["--otel"] if explicit else [])])
    try:
        with Client(("127.0.0.1", running.port)) as client:
            told = client.get(f"/{library}?url={start(called, otel=False).url}")[2].decode()
    finally:
        running.end()
    spans = {span.id: span for span in collector.spans}
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", told)  # two would be joined
    calling = spans[told[36:52]]
    assert calling.resource["telemetry.sdk.name"] == "opentelemetry"  # that of the client
    assert told[3:35] == calling.trace == spans[calling.parent].trace
