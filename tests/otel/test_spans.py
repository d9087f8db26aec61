"""The span of a request: its attributes, its place in a trace, and whether there is one."""

import re

import pytest

import syncless
from syncless.http.requestids import current_ids
from syncless.wsgi import current_request

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER, ERROR = 2, 2


def get(path="/", *fields, method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: shop.example:8080", *fields, "", ""])


def from_client(flags="01", *more):
    return get("/", f"traceparent: 00-{TRACE}-{PARENT}-{flags}", *more)


def hello(environ, start_response):
    if environ["PATH_INFO"] == "/fails":
        raise LookupError("no such order")
    if environ["PATH_INFO"] == "/broken":
        start_response("503 Service Unavailable", [])
        return [b""]
    start_response("404 Not Found" if environ["PATH_INFO"] == "/missing" else "200 OK", [])
    return [(environ.get("HTTP_TRACEPARENT") or "-").encode()]


async def hello_asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/fails":
        raise LookupError("no such order")
    status = {"/broken": 503, "/missing": 404}.get(scope["path"], 200)
    fields = [value for name, value in scope["headers"] if name == b"traceparent"]
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b",".join(fields) or b"-"})


both = pytest.mark.parametrize("app", [hello, hello_asgi], ids=["wsgi", "asgi"])


@both
def test_span_has_the_attributes_of_the_semantic_conventions(asked, background, app):
    [span] = asked(app, get("/caf%C3%A9?secret=1", "User-Agent: curl/8", "X-Forwarded-For: 9.9.9.9"))
    assert (span.name, span.kind, span.status, span.parent) == ("GET", SERVER, 0, "")
    assert span.attributes == {
        "http.request.method": "GET",
        "url.path": "/café",
        "url.scheme": "http",
        "server.address": "shop.example",
        "server.port": 8080,
        "client.address": "127.0.0.1",
        "network.protocol.version": "1.1",
        "user_agent.original": "curl/8",
        "http.response.status_code": 200,
    }
    assert 0 < span.end - span.start < 60e9


@both
@pytest.mark.parametrize(
    ("path", "code", "error"),
    [
        ("/fails", 500, "LookupError"),
        ("/broken", 503, "503"),
        ("/missing", 404, None),
    ],
)
def test_failure_of_the_server_is_an_error_and_that_of_the_client_is_none(
    asked, background, app, path, code, error, tmp_path
):
    [span] = asked(app, get(path), error_log=str(tmp_path / "log"))
    assert span.attributes["http.response.status_code"] == code
    assert span.attributes.get("error.type") == error
    assert span.status == (ERROR if error else 0)


@both
def test_span_goes_on_with_the_trace_of_the_client(asked, start, background, collector, app):
    server = start(app, otel=collector.url)
    client = start.client(server)
    client.send(from_client("01", "tracestate: vendor=x").encode())
    told = client.response()[2].decode()
    client.close()
    server.stop()
    [span] = collector.spans
    assert (span.trace, span.parent, span.state) == (TRACE, PARENT, "vendor=x")
    assert told == f"00-{TRACE}-{span.id}-01"  # the application is told of the server's span


@both
def test_each_request_has_a_trace_of_its_own_and_the_application_knows_it(start, background, collector, app):
    server = start(app, otel=collector.url)
    client = start.client(server)
    told = [client.get("/")[2].decode() for _ in range(3)]
    client.close()
    server.stop()
    assert told == [f"00-{span.trace}-{span.id}-01" for span in collector.spans]
    assert len({span.trace for span in collector.spans}) == 3


@pytest.mark.parametrize(
    ("sampler", "argument", "traced"),
    [
        ("always_on", "", [True, True, True]),
        ("always_off", "", [False, False, False]),
        ("traceidratio", "0", [False, False, False]),
        ("traceidratio", "1", [True, True, True]),
        ("parentbased_always_on", "", [True, True, False]),
        ("parentbased_always_off", "", [False, True, False]),
        ("parentbased_traceidratio", "0", [False, True, False]),
        ("parentbased_traceidratio", "1", [True, True, False]),
        ("", "", [True, True, False]),
        ("jaeger_remote", "", [True, True, False]),  # unknown: as by default
        ("traceidratio", "many", [True, True, True]),
    ],
)
def test_sampler_decides_by_the_client_or_by_itself(asked, monkeypatch, tmp_path, sampler, argument, traced):
    """A request without a traceparent, of a traced trace, and of one that is not."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    heads = [get("/0"), from_client("01").replace("/", "/1", 1), from_client("00").replace("/", "/2", 1)]
    spans = asked(hello, *heads, error_log=str(tmp_path / "log"))
    assert [span.attributes["url.path"] for span in spans] == [
        f"/{number}" for number in range(3) if traced[number]
    ]


def test_ratio_is_kept_and_agrees_with_the_trace_id(asked, monkeypatch):
    """Other services decide by the lower half of the ID."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    spans = asked(hello, *[get()] * 1000)
    assert 130 < len(spans) < 400  # 8 standard deviations
    assert all(int(span.trace[16:], 16) < 2**62 for span in spans)


def test_ratio_decides_by_the_trace_id_of_a_client(asked, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    low, high = f"{1:016x}{1:016x}", f"{1:016x}{2**64 - 1:016x}"
    heads = [get("/", f"traceparent: 00-{trace}-{PARENT}-00") for trace in (low, high) * 3]
    assert [span.trace for span in asked(hello, *heads)] == [low] * 3


@pytest.mark.parametrize(
    "field", [f"00-{TRACE}-{PARENT}", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "x-00", "é"]
)
def test_malformed_traceparent_begins_a_new_trace(asked, field, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    [span] = asked(hello, get("/", f"traceparent: {field}").encode("latin-1"))
    assert span.parent == "" and span.trace != TRACE


def test_traceparent_is_ignored_without_its_propagator(asked, monkeypatch):
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    [one, two] = asked(hello, from_client("01"), from_client("00"))
    assert one.parent == two.parent == "" and TRACE not in (one.trace, two.trace)


def test_request_that_is_not_traced_gets_the_traceparent_of_its_client(start, collector, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    client = start.client(start(hello, otel=collector.url))
    assert client.get("/")[2] == b"-"
    client.send(from_client("00").encode())
    assert client.response()[2].decode() == f"00-{TRACE}-{PARENT}-00"


def test_traced_request_leaves_no_ids_to_the_next_one(start, collector, monkeypatch):
    def app(environ, start_response):
        start_response("200 OK", [])
        ids = current_ids.get()
        assert current_request().trace_id == (ids and ids.trace_id)
        return [b"-" if ids is None else ids.trace_id.encode()]

    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    client = start.client(start(app, otel=collector.url))
    client.send(from_client("01").encode())
    assert client.response()[2].decode() == TRACE
    assert client.get("/")[2] == b"-"


def test_request_ids_and_logs_have_the_trace_of_the_span(start, collector, tmp_path):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [environ["syncless.traceparent"].encode()]

    log = tmp_path / "access"
    server = start(
        app, otel=collector.url, request_ids=True, access_log=str(log), access_log_format="%{trace}L"
    )
    client = start.client(server)
    told = client.get("/")[2].decode()
    client.close()
    server.stop()
    [span] = collector.spans
    assert told == f"00-{span.trace}-{span.id}-01"
    assert log.read_text() == f"{span.trace}\n"


def fastapi_app():
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/orders/{number}")
    async def order(number: int):
        return "ok"

    return app


def litestar_app():
    from litestar import Litestar
    from litestar import get as route

    @route("/orders")
    async def order() -> str:
        return "ok"

    return Litestar([order])


@pytest.mark.parametrize(
    ("library", "make", "route"),
    [
        ("fastapi", fastapi_app, "/orders/{number}"),
        ("litestar", litestar_app, "/orders"),
    ],
)
def test_route_of_the_framework_is_in_the_name_and_the_attributes(asked, background, library, make, route):
    pytest.importorskip(library)
    [span, unknown] = asked(make(), get(route.replace("{number}", "7")), get("/nowhere"))
    assert span.name == f"GET {route}" and span.attributes["http.route"] == route
    assert unknown.name == "GET" and "http.route" not in unknown.attributes


def test_application_may_tell_the_route_itself(asked):
    def app(environ, start_response):
        environ["http.route"] = "/orders/{id}"
        return hello(environ, start_response)

    assert [span.name for span in asked(app, get())] == ["GET /orders/{id}"]


def test_unknown_method_is_told_as_other(asked):
    [span] = asked(hello, get("/", method="BREW"))
    assert span.name == "HTTP" and span.attributes["http.request.method"] == "_OTHER"
    assert span.attributes["http.request.method_original"] == "BREW"


def test_odd_characters_arrive_as_text(asked):
    """Bytes that are no UTF-8, controls, and a long path."""
    head = get("/%FF%00%0A<b>" + "x" * 6000, "User-Agent: \xff\x80\t\"'")
    [span] = asked(hello, head.encode("latin-1"))
    assert span.attributes["url.path"].startswith("/\ufffd\0\n<b>xxx")
    assert len(span.attributes["url.path"]) == 4096
    assert span.attributes["user_agent.original"] == "\ufffd\ufffd\t\"'"


def test_resource_names_the_service_and_the_process(asked, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "service.name=no,team=a%2Cb, deployment.environment.name=x"
    )
    [span] = asked(hello, get())
    assert span.resource["service.name"] == "shop" and span.resource["team"] == "a,b"
    assert span.resource["deployment.environment.name"] == "x"
    assert span.resource["telemetry.sdk.name"] == "syncless"
    assert re.fullmatch(r"[0-9a-f-]{36}", span.resource["service.instance.id"])


def test_requests_of_many_clients_have_their_own_spans(start, collector):
    """Each says what it is while others run."""

    def app(environ, start_response):
        syncless.sleep(0.001)
        start_response("200 OK", [])
        return [f"{environ['PATH_INFO']} {current_ids.get().trace_id}".encode()]

    server = start(app, otel=collector.url)

    def ask(number):
        with start.client(server) as client:
            return [client.get(f"/{number}.{turn}")[2].decode() for turn in range(5)]

    asking = [syncless.spawn(ask, number) for number in range(20)]
    told = sorted(line for each in asking for line in each.result())
    server.stop()
    spans = [span for span in collector.spans if span.kind == SERVER]
    assert told == sorted(f"{span.attributes['url.path']} {span.trace}" for span in spans)


def test_same_head_again_is_traced_by_chance_and_another_by_its_client(start, collector, monkeypatch):
    """A connection whose requests were without a traceparent, untraced, may bring one."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    client = start.client(server := start(hello, otel=collector.url))
    told = []
    for _ in range(2):
        told += [client.get("/")[2] for _ in range(3)]
        client.send(from_client("01").encode())
        told.append(client.response()[2])
    client.close()
    server.stop()
    spans = [f"00-{TRACE}-{span.id}-01".encode() for span in collector.spans]
    assert told == [b"-", b"-", b"-", spans[0], b"-", b"-", b"-", spans[1]]


def test_share_of_the_requests_of_one_connection_is_traced(start, collector, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    client = start.client(server := start(hello, otel=collector.url))
    told = [client.get("/")[2] for _ in range(300)]
    client.close()
    server.stop()
    assert 75 < len(collector.spans) < 225  # 8 standard deviations
    assert sum(each != b"-" for each in told) == len(collector.spans)
