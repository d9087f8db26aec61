"""Tracing libraries: each request has a trace and a scope of its own, however requests interleave.

The real OpenTelemetry instrumentations and sentry-sdk, in a server as a user starts it. All requests meet at
barriers inside their spans, so each is resumed while the others stand in theirs.
"""

import http.client
import importlib.util
import json
import threading

import pytest

from tests.waiting import eventually

REQUESTS = 8

MEETING = """
import json, threading
barrier = threading.Barrier(REQUESTS)
def meet():
    barrier.wait(60)
"""

TRACED = (
    MEETING
    + """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("test")
def work(name):
    trace.get_current_span().set_attribute("who", name)
    meet()
    with tracer.start_as_current_span("inner") as span:
        meet()
        trace.get_current_span().set_attribute("who", name)
        meet()
    meet()
    trace.get_current_span().set_attribute("again", name)
def seen():
    return json.dumps([
        [span.name, format(span.context.trace_id, "032x"), format(span.context.span_id, "016x"),
         span.parent and format(span.parent.span_id, "016x"), dict(span.attributes)]
        for span in exporter.get_finished_spans()])
"""
)

REPORTED = (
    MEETING
    + """
import sentry_sdk
from sentry_sdk.integrations.modules import ModulesIntegration
from sentry_sdk.transport import Transport
events = []
class Keep(Transport):
    def capture_envelope(self, envelope):
        events.extend(item.payload.json for item in envelope.items)
sentry_sdk.init(
    dsn="http://key@127.0.0.1/1", transport=Keep, traces_sample_rate=1.0,
    auto_enabling_integrations=False,  # which would import all that is installed
    disabled_integrations=[ModulesIntegration],  # which would read about all that is installed
    integrations=[INTEGRATIONS],
)
def work(name):
    sentry_sdk.set_tag("who", name)
    meet()
    with sentry_sdk.start_span(op="inner", name=name):
        meet()
        sentry_sdk.add_breadcrumb(message=name)
        meet()
    sentry_sdk.capture_message("from " + name)
    meet()
def seen():
    return json.dumps(events, default=str)
"""
)

PLAIN = """
def plain(environ, start_response):
    path = environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "application/json")])
    if path == "/seen":
        return [seen().encode()]
    work(path[1:])
    return [b"done"]
"""

FLASK = """
import flask
app = flask.Flask("app")
@app.get("/seen")
def show():
    return seen()
@app.get("/<name>")
def answer(name):
    work(name)
    return "done"
"""


def needs(*modules):
    def is_there(module):
        try:
            return importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # the package that it would be in
            return False

    missing = [module for module in modules if not is_there(module)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)}: pip install --group clients")


def whole(library, application):
    """The program, as the fixture formats it."""
    code = library.replace("REQUESTS", str(REQUESTS)) + application
    return code.replace("{", "{{").replace("}", "}}")


def trace_of(number):
    return f"{number + 1:032x}"


def ask(running, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        return response.read()
    finally:
        connection.close()


def all_at_once(running, ended):
    """Each request belongs to a trace of its own. Returns what the library has seen when ended() finds all of
    them in it: a request may end after its client has the answer."""
    answers = []

    def request(number):
        parent = f"00-{trace_of(number)}-00000000000000ff-01"
        answers.append(ask(running, f"/r{number}", traceparent=parent))

    threads = [threading.Thread(target=request, args=(number,)) for number in range(REQUESTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [b"done"] * REQUESTS, running.said()
    assert eventually(lambda: len(ended(json.loads(ask(running, "/seen")))) == REQUESTS)
    return json.loads(ask(running, "/seen"))


@pytest.mark.parametrize(
    "application",
    [
        pytest.param(
            PLAIN
            + "from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware\n"
            + "app = OpenTelemetryMiddleware(plain, tracer_provider=provider)\n",
            id="wsgi",
            marks=needs("opentelemetry.sdk", "opentelemetry.instrumentation.wsgi"),
        ),
        pytest.param(
            FLASK
            + "from opentelemetry.instrumentation.flask import FlaskInstrumentor\n"
            + "FlaskInstrumentor().instrument_app(app, tracer_provider=provider)\n",
            id="flask",
            marks=needs("flask", "opentelemetry.sdk", "opentelemetry.instrumentation.flask"),
        ),
    ],
)
def test_each_request_has_a_trace_of_its_own_in_opentelemetry(program, application):
    spans = all_at_once(
        program(code=whole(TRACED, application)),
        lambda seen: [span for span in seen if "again" in span[4]],
    )
    inner, outer = {}, {}
    for name, trace, span, parent, attributes in spans:
        if name == "inner":
            inner[trace] = (parent, attributes)
        elif "who" in attributes:
            outer[trace] = (span, parent, attributes)
    assert set(outer) == set(inner) == {trace_of(number) for number in range(REQUESTS)}
    for number in range(REQUESTS):
        span, parent, attributes = outer[trace_of(number)]
        assert parent == "00000000000000ff"
        assert attributes["who"] == attributes["again"] == f"r{number}"
        assert inner[trace_of(number)] == (span, {"who": f"r{number}"})


@pytest.mark.parametrize(
    ("integrations", "application"),
    [
        pytest.param(
            "",
            PLAIN
            + "from sentry_sdk.integrations.wsgi import SentryWsgiMiddleware\n"
            + "app = SentryWsgiMiddleware(plain)\n",
            id="wsgi",
            marks=needs("sentry_sdk"),
        ),
        pytest.param(
            '__import__("sentry_sdk.integrations.flask").integrations.flask.FlaskIntegration()',
            FLASK,
            id="flask",
            marks=needs("flask", "sentry_sdk"),
        ),
    ],
)
def test_each_request_has_a_scope_of_its_own_in_sentry(program, integrations, application):
    def transactions_of(events):
        return [event for event in events if event.get("type") == "transaction" and "who" in event["tags"]]

    events = all_at_once(
        program(code=whole(REPORTED.replace("INTEGRATIONS", integrations), application)), transactions_of
    )
    messages = [event for event in events if event.get("message", "").startswith("from ")]
    assert len(messages) == REQUESTS
    for event in messages:
        name = event["message"].removeprefix("from ")
        assert event["tags"]["who"] == name and event["request"]["url"].endswith(f"/{name}")
        assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == [name]
    transactions = transactions_of(events)
    assert len(transactions) == REQUESTS
    assert len({event["contexts"]["trace"]["trace_id"] for event in transactions}) == REQUESTS
    for event in transactions:
        assert [span["description"] for span in event["spans"]] == [event["tags"]["who"]]
