"""A build without libnghttp2: HTTP/1.1 as ever, and a sentence for those who ask for HTTP/2."""

import re
import socket as blocking
import subprocess
import sys

import pytest

from syncless import run_in_thread
from syncless.wsgi import Server
from tests.cli.test_loading import HELLO, command, environment

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "syncless.http.http2.session", None)


def hello(environ, start_response):
    start_response("200 OK", [])
    return [environ["SERVER_PROTOCOL"].encode()]


WORDS = r"install libnghttp2-dev .* and rebuild syncless$"


def test_cleartext_says_what_to_install():
    with pytest.raises(ValueError, match=WORDS):
        Server(hello, port=0, http2="cleartext")


def test_command_says_what_to_install(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; sys.modules['syncless.http.http2.session'] = None\n"
    )
    done = subprocess.run(
        command("hello:app", "--bind", "127.0.0.1:0", "--http2", "cleartext"),
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": f"{tmp_path}:{environment().get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert re.fullmatch(r"syncless: .*" + WORDS, done.stderr.strip())


def test_handshake_offers_http_1_only(https, authority):
    server = https(hello)
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def ask():
        raw = blocking.create_connection(server.address)  # on the clock of the test a limit may pass at once
        with context.wrap_socket(raw, server_hostname="localhost") as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := client.recv(4096):
                answer += data
            return client.selected_alpn_protocol(), answer

    protocol, answer = run_in_thread(ask)
    assert protocol == "http/1.1"
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"HTTP/1.1")
