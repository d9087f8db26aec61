"""HTTP/2 with programs that many use: httpx, curl, and HAProxy in front."""

import shutil
import socket as blocking
import subprocess

import pytest

from syncless import run_in_thread
from tests import needs
from tests.http.test_linger import deaf
from tests.http.test_websocket import client_library, echo
from tests.http2.test_http2 import echo as echo_body
from tests.http2.test_http2 import hello
from tests.preload import without_preload
from tests.programs import free_port
from tests.proxied import missing, program
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.virtual_time(False),  # other processes
    needs.HTTP2,
]


def test_httpx(https, authority):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    server = https(echo_body)

    def ask():
        with httpx.Client(http2=True, verify=authority.client_context()) as client:
            return [client.post(f"https://localhost:{server.port}/", content=bytes(100_000)) for _ in "ab"]

    for answer in run_in_thread(ask):
        assert (answer.http_version, answer.content) == ("HTTP/2", bytes(100_000))


def test_httpx_gets_the_answer_to_an_upload_that_nobody_reads(https, authority):
    """It waits for its window and does not look whether its stream has been reset."""
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    server = https(deaf)

    def ask():
        with httpx.Client(http2=True, verify=authority.client_context(), timeout=5) as client:
            url = f"https://localhost:{server.port}/short"
            return [client.post(url, content=bytes(size)) for size in (60_000, 100_000, 5_000_000)]

    for answer in run_in_thread(ask):
        assert (answer.http_version, answer.content) == ("HTTP/2", b"unread")


@pytest.mark.parametrize("how", ["--http2", "--http1.1"])
def test_curl(https, authority, tmp_path, how):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    trusted = tmp_path / "ca.pem"
    authority.ca.cert_pem.write_to_path(str(trusted))
    server = https(hello)
    command = ["curl", "-s", how, "--cacert", trusted, "-w", " %{http_version}"]
    url = f"https://localhost:{server.port}/"
    told = run_in_thread(
        subprocess.run, [*command, url], capture_output=True, text=True, env=without_preload()
    )
    assert told.stdout == ("hello 2" if how == "--http2" else "hello 1.1")


@pytest.fixture
def in_front(start, tmp_path):
    """in_front(app) -> the port of a HAProxy that speaks HTTP/2 to a server of the application."""
    if missing("haproxy"):
        pytest.skip("haproxy is not installed")
    proxies = []

    def answers(port):
        with blocking.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    def begin(app):
        server, port = start(app, http2="cleartext"), free_port()
        path = tmp_path / "haproxy.cfg"
        path.write_text(f"""
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen front
    bind 127.0.0.1:{port}
    server app 127.0.0.1:{server.port} proto h2 ws h2
""")
        proxies.append(subprocess.Popen([program("haproxy"), "-db", "-q", "-f", path], env=without_preload()))
        assert eventually(lambda: answers(port), 45)
        return port

    yield begin
    for proxy in proxies:
        proxy.terminate()
        run_in_thread(proxy.wait)


def test_haproxy_speaks_it_to_the_server(in_front):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    port = in_front(hello)
    answers = run_in_thread(lambda: [httpx.get(f"http://127.0.0.1:{port}/") for _ in range(20)])
    assert {(answer.headers["x-protocol"], answer.text) for answer in answers} == {("HTTP/2.0", "hello")}


def test_haproxy_makes_a_stream_of_a_websocket(in_front):
    protocols = []

    def app(environ, start_response):
        protocols.append(environ["SERVER_PROTOCOL"])
        return echo(environ, start_response)

    port = in_front(app)

    def talk():
        with client_library.connect(f"ws://127.0.0.1:{port}/") as connection:
            for message in ("hello", bytes(200_000), "x" * 200_000):
                connection.send(message)
                assert connection.recv() == message

    run_in_thread(talk)
    assert protocols == ["HTTP/2.0"]
