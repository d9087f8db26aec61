"""The ID and the trace of a request: in the environ or scope, in a context variable, and in each log."""

import asyncio
import io
import json
import logging
import re

import pytest

import syncless
from syncless import debug
from syncless.http.requestids import RequestFilter, current_ids
from syncless.wsgi import current_request

pytestmark = pytest.mark.virtual_time

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"
FIELDS = f"X-Request-ID: from-proxy\r\ntraceparent: {GIVEN}\r\n"
MADE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00")


def tell(environ, start_response):
    """What the application, the variable, and those in a tasklet and a thread of it see."""
    start_response("200 OK", [])
    everywhere = [current_ids.get(), syncless.spawn(current_ids.get).result()]
    everywhere.append(syncless.run_in_thread(current_ids.get))
    assert len({*everywhere}) == 1
    ids = everywhere[0]
    assert ids is None or current_request().trace_id == ids.trace_id
    seen = [environ.get(key) for key in ("syncless.request_id", "syncless.traceparent")]
    assert seen == ([None, None] if ids is None else [*ids])
    return [json.dumps(seen).encode()]


async def tell_asgi(scope, receive, send):
    if scope["type"] == "http":
        told = scope["extensions"].get("syncless.request", {})
        ids = await asyncio.create_task(in_task())
        assert ids is None or ids == (told["id"], told["traceparent"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = json.dumps([told.get("id"), told.get("traceparent")]).encode()
        await send({"type": "http.response.body", "body": body})


async def in_task():
    return current_ids.get()


@pytest.fixture(params=[tell, tell_asgi], ids=["wsgi", "asgi"])
def app(request, background):
    return request.param


def test_ids_of_a_trusted_proxy_are_the_requests(app, start):
    client = start.client(start(app, request_ids=True, trusted="127.0.0.1"))
    for _ in range(2):
        assert json.loads(client.get("/", FIELDS)[2]) == ["from-proxy", GIVEN]


def test_each_request_gets_new_ones_without_them(app, start):
    client = start.client(start(app, request_ids=True, trusted="127.0.0.1"))
    seen = [json.loads(client.get()[2]) for _ in range(3)]
    assert len({id for id, _ in seen}) == len({trace for _, trace in seen}) == 3
    assert all(MADE.fullmatch(trace) for _, trace in seen)


def test_those_of_any_other_client_are_not_believed(app, start):
    client = start.client(start(app, request_ids=True))
    id, trace = json.loads(client.get("/", FIELDS)[2])
    assert id != "from-proxy" and MADE.fullmatch(trace)


def test_nothing_is_given_unless_asked_for(app, start):
    client = start.client(start(app, trusted="127.0.0.1"))
    assert json.loads(client.get("/", FIELDS)[2]) == [None, None]


@pytest.mark.parametrize(
    ("field", "believed"),
    [
        (GIVEN, True),
        (f"01-{TRACE}-{SPAN}-01-more", True),  # of a later version
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (GIVEN.upper(), False),
        (f"{GIVEN},{GIVEN}", False),
        ("", False),
    ],
)
def test_malformed_traceparent_is_replaced(start, field, believed):
    client = start.client(start(tell, request_ids=True, trusted="127.0.0.1"))
    trace = json.loads(client.get("/", f"traceparent: {field}\r\n")[2])[1]
    assert trace == field if believed else MADE.fullmatch(trace)


def test_logs_and_lists_of_tasklets_name_them(start, errors):
    lines, listed = io.StringIO(), io.StringIO()

    def app(environ, start_response):
        debug.print_tasklets(listed)
        raise KeyError("customer")

    options = {"request_ids": True, "trusted": "127.0.0.1", "error_log_format": "json"}
    server = start(app, access_log=lines, access_log_format="%L %{trace}L", error_log=errors, **options)
    client = start.client(server)
    assert client.get("/", FIELDS)[0] == 500
    client.close()
    server.stop()
    assert lines.getvalue() == f"from-proxy {TRACE}\n"
    entry = json.loads(errors.getvalue())
    assert (entry["request_id"], entry["trace_id"]) == ("from-proxy", TRACE)
    assert "request from-proxy" in listed.getvalue()


def test_filter_puts_them_into_records_of_logging(start):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RequestFilter())
    handler.setFormatter(logging.Formatter("%(request_id)s %(trace_id)s %(message)s"))
    logger = logging.getLogger("shop")
    logger.propagate = False
    logger.addHandler(handler)

    def app(environ, start_response):
        logger.warning("inside")
        start_response("200 OK", [])
        return []

    try:
        logger.warning("outside")
        client = start.client(start(app, request_ids=True, trusted="127.0.0.1"))
        client.get("/", FIELDS)
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue() == f"- - outside\nfrom-proxy {TRACE} inside\n"


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_opentelemetry_goes_on_with_the_same_trace(background, start, kind):
    name = f"opentelemetry.instrumentation.{kind}"
    instrumentation = pytest.importorskip(name, reason=f"{name.replace('.', '-')} is not installed")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    def app(environ, start_response):
        start_response("200 OK", [])
        return [format(trace.get_current_span().get_span_context().trace_id, "032x").encode()]

    async def app_asgi(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = format(trace.get_current_span().get_span_context().trace_id, "032x").encode()
            await send({"type": "http.response.body", "body": body})

    lines = io.StringIO()
    options = {"request_ids": True, "trusted": "127.0.0.1", "access_log_format": "%{trace}L"}
    provider = TracerProvider(shutdown_on_exit=False)
    wrap = instrumentation.OpenTelemetryMiddleware
    wrapped = wrap(app_asgi if kind == "asgi" else app, tracer_provider=provider)
    server = start(wrapped, access_log=lines, interface=kind, **options)
    client = start.client(server)
    assert client.get("/", FIELDS)[2] == TRACE.encode()
    client.close()
    server.stop()
    assert lines.getvalue() == f"{TRACE}\n"
