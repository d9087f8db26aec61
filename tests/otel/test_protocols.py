"""Spans of what is no plain request, and a collector behind TLS."""

import ssl

import pytest

from tests.http.test_websocket import HANDSHAKE, echo, frame
from tests.http2_client import Client
from tests.otel.collector import Collector

pytest.importorskip("syncless.http.http2.session", reason="needs libnghttp2")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER = 2


def hello(environ, start_response):
    start_response("200 OK", [])
    return [environ.get("HTTP_TRACEPARENT", "-").encode()]


def test_each_request_of_an_http2_connection_has_its_own_span(start, collector):
    server = start(hello, otel=collector.url, http2="cleartext")
    client = Client(server)
    streams = [client.ask(f"/{number}") for number in range(2)]
    streams.append(client.ask("/2", "GET", ("traceparent", f"00-{TRACE}-{PARENT}-01")))
    told = [client.answer(stream)[2].decode() for stream in streams]
    client.close()
    server.stop()
    spans = {span.attributes["url.path"]: span for span in collector.spans}
    assert [f"00-{spans[path].trace}-{spans[path].id}-01" for path in ("/0", "/1", "/2")] == told
    assert {span.attributes["network.protocol.version"] for span in spans.values()} == {"2"}
    assert (spans["/2"].trace, spans["/2"].parent) == (TRACE, PARENT)


def test_websocket_is_one_span_until_it_ends(start, collector):
    server = start(echo, otel=collector.url)
    client = start.client(server)
    client.send(f"{HANDSHAKE}traceparent: 00-{TRACE}-{PARENT}-01\r\n\r\n".encode())
    assert client.response(head_only=True)[0] == 101
    client.send(frame(1, b"one"))
    assert client.sock.recv(100) == b"\x81\x03one"
    assert collector.spans == []
    client.send(frame(8, b"\x03\xe8"))
    assert client.sock.recv(100) == b"\x88\x02\x03\xe8"
    client.close()
    server.stop()
    [span] = [span for span in collector.spans if span.kind == SERVER]  # a slow machine waits long for bytes
    assert (span.name, span.trace, span.parent, span.status) == ("GET", TRACE, PARENT, 0)
    assert span.attributes["http.response.status_code"] == 101


@pytest.fixture
def collector_with_tls(authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    with Collector() as collector:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certfile, keyfile)
        collector.server.socket = context.wrap_socket(collector.server.socket, server_side=True)
        collector.url = collector.url.replace("http:", "https:")
        yield collector


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the collector's sockets
@pytest.mark.parametrize("known", [True, False])
def test_collector_behind_tls_is_believed_by_its_certificate(
    start, authority, collector_with_tls, monkeypatch, tmp_path, known
):
    root = tmp_path / "root.pem"
    root.write_bytes(authority.ca.cert_pem.bytes())
    if known:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(root))
    log = tmp_path / "log"
    server = start(hello, otel=collector_with_tls.url, error_log=str(log))
    with start.client(server) as client:
        client.get("/")
    server.stop()
    assert len(collector_with_tls.spans) == known
    assert ("CERTIFICATE_VERIFY_FAILED" in log.read_text()) == (not known)


def flask_app():
    from flask import Flask, request

    app = Flask(__name__)

    @app.before_request
    def name_route():
        if request.url_rule is not None:
            request.environ["http.route"] = request.url_rule.rule

    @app.route("/orders/<int:number>")
    def order(number):
        return "ok"

    return app


def test_flask_names_its_route_as_the_page_says(asked):
    pytest.importorskip("flask")
    [span, unknown] = asked(
        flask_app(), "GET /orders/7 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    assert span.name == "GET /orders/<int:number>"
    assert unknown.name == "GET" and "http.route" not in unknown.attributes
