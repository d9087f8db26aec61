"""A build without libnghttp2: HTTP/1.1 as ever, and a sentence for those who ask for HTTP/2."""

import socket as blocking
import sys

import pytest

from syncless import run_in_thread
from syncless.wsgi import Server

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "syncless.http2.session", None)


def hello(environ, start_response):
    start_response("200 OK", [])
    return [environ["SERVER_PROTOCOL"].encode()]


def test_cleartext_says_what_to_install():
    with pytest.raises(RuntimeError, match=r"install libnghttp2-dev .* and build it again$"):
        Server(hello, port=0, http2="cleartext")


def test_handshake_offers_http_1_only(https, authority):
    server = https(hello)
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def ask():
        raw = blocking.create_connection(server.address, timeout=60)
        with context.wrap_socket(raw, server_hostname="localhost") as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := client.recv(4096):
                answer += data
            return client.selected_alpn_protocol(), answer

    protocol, answer = run_in_thread(ask)
    assert protocol == "http/1.1"
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"HTTP/1.1")
