"""Calls of other services carry on the trace of the request that makes them."""

import asyncio
import http.client
import importlib
import re
import urllib.request

import pytest

import syncless
from syncless import patches
from syncless.patches import patched
from tests.plugin import Client

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER = 2


def hello(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]


class Called:
    """A service, and the trace fields of each request that it gets."""

    def __init__(self, start):
        self.got = []
        self.server = start(self)
        self.port = self.server.port
        self.url = f"http://127.0.0.1:{self.port}/"

    def __call__(self, environ, start_response):
        self.got.append((environ.get("HTTP_TRACEPARENT"), environ.get("HTTP_TRACESTATE")))
        start_response("200 OK", [])
        return [b"ok"]


@pytest.fixture
def called(start):
    with patched(thread=False):
        yield Called(start)


def by_http_client(called, fields):
    connection = http.client.HTTPConnection("127.0.0.1", called.port)
    for _ in range(2):  # on one connection, each has its own
        connection.request("GET", "/", headers=fields)
        connection.getresponse().read()
    connection.close()


def by_urllib(called, fields):
    with urllib.request.urlopen(urllib.request.Request(called.url, headers=fields)) as response:
        response.read()


def by_urllib3(called, fields):
    pool = importlib.import_module("urllib3").PoolManager()
    pool.request("GET", called.url, headers=fields)
    pool.clear()


def by_requests(called, fields):
    with importlib.import_module("requests").Session() as session:
        session.post(called.url, headers=fields, data=iter([b"a", b"b"])).close()


def by_httpx(called, fields):
    with importlib.import_module("httpx").Client() as client:
        client.get(called.url, headers=fields)


def by_async_httpx(called, fields):
    httpx = importlib.import_module("httpx")

    async def call():
        await asyncio.sleep(0)
        async with httpx.AsyncClient() as client:
            await client.get(called.url, headers=fields)

    asyncio.run(call())


def by_aiohttp(called, fields):
    aiohttp = importlib.import_module("aiohttp")

    async def call():
        await asyncio.sleep(0)
        async with aiohttp.ClientSession() as session, session.get(called.url, headers=fields) as response:
            await response.read()

    asyncio.run(call())


def in_tasklet(called, fields):
    syncless.spawn(by_http_client, called, fields).join()


def in_os_thread(called, fields):
    syncless.run_in_thread(by_http_client, called, fields)


NEEDED = {
    by_urllib3: ["urllib3"],
    by_requests: ["requests"],
    by_httpx: ["httpx"],
    by_async_httpx: ["httpx"],
    by_aiohttp: ["aiohttp"],
}
LIBRARIES = [by_http_client, by_urllib, by_urllib3, by_requests, by_httpx, by_async_httpx, by_aiohttp]
every_client = pytest.mark.parametrize("call", [*LIBRARIES, in_tasklet, in_os_thread])


@pytest.fixture
def ask(start, collector):
    """ask(call, called, *fields of the client, given=fields of the call) -> what the called service got."""

    def ask(call, called, *fields, given=(), **options):
        for library in NEEDED.get(call, ()):
            pytest.importorskip(library)

        def app(environ, start_response):
            call(called, dict(given))
            start_response("200 OK", [])
            return [b"ok"]

        server = start(app, **{"otel": collector.url, **options})
        with start.client(server) as client:
            client.send("\r\n".join(["GET / HTTP/1.1", "Host: a", *fields, "", ""]).encode())
            assert client.response()[2] == b"ok"
        server.stop()
        got, called.got = called.got, []
        return got

    return ask


@every_client
def test_call_is_a_child_of_the_span(ask, called, collector, call):
    got = ask(call, called)
    [span] = [span for span in collector.spans if span.kind == SERVER]
    assert got and set(got) == {(f"00-{span.trace}-{span.id}-01", None)}


@every_client
def test_call_goes_on_with_the_trace_of_the_client(ask, called, collector, call):
    got = ask(call, called, f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: vendor=x")
    [span] = [span for span in collector.spans if span.kind == SERVER]
    assert set(got) == {(f"00-{TRACE}-{span.id}-01", "vendor=x")}


@every_client
def test_call_of_a_request_that_is_not_traced_says_so(ask, called, call):
    got = ask(call, called, f"traceparent: 00-{TRACE}-{PARENT}-00", "tracestate: vendor=x")
    assert set(got) == {(f"00-{TRACE}-{PARENT}-00", "vendor=x")}


def test_all_calls_of_an_untraced_request_without_a_client_s_trace_are_of_one(ask, called, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    got = ask(by_http_client, called) + ask(by_http_client, called)
    assert len(got) == 4 and len(set(got)) == 2
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", traceparent) for traceparent, _ in got)


@every_client
def test_field_that_the_caller_has_set_stays_alone(ask, called, call):
    own = f"00-{TRACE}-{PARENT}-01"
    got = ask(call, called, "tracestate: vendor=x", given={"TraceParent": own})
    assert set(got) == {(own, None)}  # two of a name would be joined


@pytest.mark.parametrize("field", ["x-00", "é-00", f"00-{'0' * 32}-{PARENT}-00"])
def test_malformed_traceparent_is_not_passed_on(ask, called, field):
    got = ask(by_http_client, called, f"traceparent: {field}")
    assert field not in {traceparent for traceparent, _ in got}


def test_traceparent_of_a_later_version_decides_by_its_flags(ask, called, collector):
    got = ask(by_http_client, called, f"traceparent: cc-{TRACE}-{PARENT}-01-what-00")
    [span] = [span for span in collector.spans if span.kind == SERVER]
    assert set(got) == {(f"00-{TRACE}-{span.id}-01", None)}


@pytest.mark.parametrize("flags", ["00", "01"])
@pytest.mark.parametrize(
    ("state", "passed"), [("é=1", None), ("a=" + "x" * 511, None), ("a=" + "x" * 510, "a=" + "x" * 510)]
)
def test_tracestate_that_a_service_might_refuse_is_not_passed_on(ask, called, flags, state, passed):
    got = ask(by_http_client, called, f"traceparent: 00-{TRACE}-{PARENT}-{flags}", f"tracestate: {state}")
    assert {tracestate for _, tracestate in got} == {passed}


@pytest.mark.parametrize("call", [by_http_client, by_httpx])
def test_nothing_is_sent_without_tracing(ask, called, call, monkeypatch):
    assert set(ask(call, called, f"traceparent: 00-{TRACE}-{PARENT}-01", otel=None)) == {(None, None)}
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    assert set(ask(call, called, f"traceparent: 00-{TRACE}-{PARENT}-01")) == {(None, None)}


def test_nothing_is_sent_outside_of_requests(start, called, collector):
    start(called, otel=collector.url)
    by_http_client(called, {})
    assert set(called.got) == {(None, None)}


def test_clients_are_changed_only_while_a_server_traces(start, collector):
    def is_changed():
        return "calls" in {change.area for change in patches.changes()}

    first = start(hello, otel=collector.url)
    assert not is_changed()  # the program is not patched
    with patched(thread=False):
        second, third = (start(hello, otel=collector.url) for _ in range(2))
        assert is_changed()
        second.stop()
        assert is_changed()
        third.stop()
        assert not is_changed()
    first.stop()


def test_several_servers_of_a_process_add_one_field(start, ask, called, collector):
    start(hello, otel=collector.url)
    got = ask(by_http_client, called)
    assert [len(traceparent) for traceparent, _ in got] == [55, 55]


def test_proxy_of_a_tunnel_is_not_told(start, called, collector):
    """A CONNECT is the proxy's."""
    httpcore = pytest.importorskip("httpcore")

    def app(environ, start_response):
        tunnel = httpcore.Request("CONNECT", called.url)
        start_response("200 OK", [])
        return [repr(tunnel.headers).encode()]

    server = start(app, otel=collector.url)
    with start.client(server) as client:
        assert client.get("/")[2] == b"[]"


GRPC = """
import asyncio
from concurrent import futures
import grpc

def tell(request, context):
    return " ".join(value for name, value in context.invocation_metadata() if name == "traceparent").encode()

handlers = {"tell": grpc.unary_unary_rpc_method_handler(tell)}
called = grpc.server(futures.ThreadPoolExecutor(2))
called.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
target = "127.0.0.1:" + str(called.add_insecure_port("127.0.0.1:0"))
called.start()
channel = grpc.insecure_channel(target)

async def call(**options):
    async with grpc.aio.insecure_channel(target) as channel:
        return await channel.unary_unary("/test/tell")(b"", **options)

def app(environ, start_response):
    given = {"metadata": [("traceparent", "own")]} if environ["PATH_INFO"] == "/own" else {}
    packed = {"compression": grpc.Compression.Gzip, **given}
    found = [channel.unary_unary("/test/tell")(b"", **options) for options in (given, packed)]
    found += [asyncio.run(call(**options)) for options in (given, packed)]
    start_response("200 OK", [])
    return [b",".join(found)]
"""


@pytest.mark.slow
def test_calls_of_grpcio_are_children_of_the_span(program, collector):
    pytest.importorskip("grpc")
    running = program("--otel", collector.url, code=GRPC.replace("{", "{{").replace("}", "}}"))
    with Client(("127.0.0.1", running.port)) as client:
        told, own = (client.get(path)[2].decode() for path in ("/", "/own"))
    running.end()
    spans = {span.attributes["url.path"]: span for span in collector.spans if span.kind == SERVER}
    assert told == ",".join([f"00-{spans['/'].trace}-{spans['/'].id}-01"] * 4)
    assert own == "own,own,own,own"
