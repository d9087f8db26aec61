"""TLS over a real socket: handshakes, certificates by name, reloading, and what goes wrong."""

import contextlib
import http.client
import io
import os
import shutil
import socket as blocking
import ssl
import struct
import subprocess
import threading

import pytest

import syncless
from tests.authority import answer_of, connect, hello, in_thread
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def test_requests_over_one_connection(https, authority):
    server = https(hello)
    assert server.url.startswith("https://127.0.0.1:")

    def client():
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=authority.context, timeout=10
        )
        bodies = []
        for _ in range(3):
            connection.request("GET", "/")
            bodies.append(connection.getresponse().read().decode())
        chosen = connection.sock.selected_alpn_protocol()
        connection.close()
        return bodies, chosen

    bodies, _ = in_thread(client)
    assert bodies == ["https on TLSv1.3"] * 3


def test_large_bodies_both_ways_and_files(https, authority, tmp_path):
    blob = os.urandom(1 << 20) * 5
    (tmp_path / "blob").write_bytes(blob)

    def app(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/file":
            return environ["wsgi.file_wrapper"](open(tmp_path / "blob", "rb"))
        if environ["PATH_INFO"] == "/stream":
            return (blob[i : i + 100_000] for i in range(0, len(blob), 100_000))
        return [environ["wsgi.input"].read()]

    server = https(app)

    def client():
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=authority.context, timeout=30
        )
        for method, path, body in (("POST", "/", blob), ("GET", "/file", None), ("GET", "/stream", None)):
            connection.request(method, path, body)
            assert connection.getresponse().read() == blob, path
        connection.close()

    in_thread(client)


def test_record_that_is_larger_than_the_room_for_it(https, authority):
    """What the layer holds back of it makes no event."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [b"".join(iter(lambda: environ["wsgi.input"].read(1000), b""))]

    server = https(app)
    body = os.urandom(16_000)

    def client():
        with connect(server, authority.context) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 16000\r\n\r\n")
            sock.sendall(body)  # in one record
            with sock.makefile("rb") as answer:
                return answer.read().partition(b"\r\n\r\n")[2]

    assert in_thread(client) == body


def test_every_split_of_the_handshake_and_request(https, authority):
    """Ciphertext byte by byte and in pieces; the answer is the same."""
    server = https(hello, defer_accept=False)

    def client(step):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = authority.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with blocking.create_connection(server.address, timeout=60) as sock:
            sock.setsockopt(blocking.IPPROTO_TCP, blocking.TCP_NODELAY, 1)

            def exchange(action):
                while True:
                    try:
                        return action()
                    except ssl.SSLWantReadError:
                        pass
                    finally:
                        data = outgoing.read()
                        for i in range(0, len(data), step):
                            sock.sendall(data[i : i + step])
                    incoming.write(sock.recv(step))

            exchange(tls.do_handshake)
            exchange(lambda: tls.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
            answer = b""
            while True:
                try:
                    piece = exchange(lambda: tls.read(10000))
                except ssl.SSLZeroReturnError:
                    return answer
                if not piece:
                    return answer
                answer += piece

    for step in (1, 7, 100):
        assert in_thread(client, step).endswith(b"https on TLSv1.3")


def test_the_end_is_told_by_close_notify(https, authority):
    server = https(hello)
    request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = in_thread(answer_of, server, authority.context, request)  # SSLEOFError if the end were not told
    assert answer.endswith(b"https on TLSv1.3")


def test_an_idle_connection_is_closed_with_close_notify(https, authority):
    server = https(hello, idle_seconds=0.5)
    answer = in_thread(answer_of, server, authority.context, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.endswith(b"https on TLSv1.3")


def test_an_error_in_mid_stream_is_no_clean_end(https, authority):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"x" * 100
        raise RuntimeError("boom")

    server = https(app, error_log=io.StringIO())

    def client():
        with connect(server, authority.context) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            while sock.recv(1000):
                pass

    with pytest.raises(OSError):  # SSLEOFError or ConnectionResetError
        in_thread(client)


def test_slow_handshake_blocks_no_other_client_and_times_out(https, authority):
    server = https(hello, greeting_seconds=1.5, defer_accept=False)
    slow = [blocking.create_connection(server.address, timeout=60) for _ in range(50)]
    for sock in slow[::2]:
        sock.sendall(b"\x16\x03\x01")
    for _ in range(3):
        in_thread(lambda: connect(server, authority.context).close())
    assert server.census()["connections"] >= 50
    for sock in slow:
        assert in_thread(sock.recv, 10) == b""
        sock.close()


def test_alpn_chooses_http_1_1_where_http_2_is_off(https, authority):
    """A browser offers h2 first; without an answer it would have to guess (RFC 7301)."""
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def chosen():
        with connect(server, context) as client:
            return client.selected_alpn_protocol()

    server = https(hello, http2="off")
    assert in_thread(chosen) == "http/1.1"


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="Python's ssl cannot renegotiate, and openssl is not installed"
)
def test_clients_cannot_renegotiate(https):
    """TLS 1.2 lets a client ask for handshakes without end, each of which costs the server most
    (CVE-2011-1473)."""
    server = https(hello)
    command = ["openssl", "s_client", "-tls1_2", "-connect", "{}:{}".format(*server.address[:2])]

    def renegotiate():
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        with child:
            seen = b""
            while b"Verify return code" not in seen:  # the first handshake is over
                seen += child.stdout.read1(10000)
            child.stdin.write(b"R\n")
            child.stdin.flush()
            return child.communicate(timeout=60)[0]

    said = in_thread(renegotiate)
    assert b"RENEGOTIATING" in said and b"no renegotiation" in said


def test_plain_http_on_a_tls_port(https, start):
    client = start.client(https(hello))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, headers, body = client.response()
    assert status == 400 and b"HTTPS" in body and headers["connection"] == "close" and client.at_end()


def test_both_on_one_port(https, start, authority):
    server = https(hello, plain_http=True)
    client = start.client(server)
    assert client.get()[2] == client.get()[2] == b"http None "
    test_requests_over_one_connection(lambda app: server, authority)


def test_tls_on_one_address_and_plain_on_another(start, authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    server = start(
        hello, certfile=certfile, keyfile=keyfile, bind=["http://127.0.0.1:0", "https://127.0.0.1:0"]
    )
    assert [url.partition(":")[0] for url in server.urls] == ["http", "https"]
    assert start.client(server).get()[2] == b"http None "


@pytest.mark.parametrize(
    "junk", [b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\x02\x00" + bytes(600), b"\x16" * 5000]
)
@pytest.mark.parametrize("reset", [False, True])
def test_junk_instead_of_a_handshake_closes_the_connection(https, start, authority, junk, reset):
    server = https(hello, greeting_seconds=2)
    client = start.client(server)
    client.send(junk)
    syncless.sleep(0.01)
    if reset:
        client.sock.setsockopt(blocking.SOL_SOCKET, blocking.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    test_requests_over_one_connection(lambda app: server, authority)


def test_junk_after_the_handshake_closes_the_connection(https, authority):
    server = https(hello)

    def client():
        with connect(server, authority.context) as sock:
            raw = blocking.socket(fileno=os.dup(sock.fileno()))
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            with pytest.raises(OSError):
                while sock.recv(1000):
                    pass
            raw.close()

    in_thread(client)


def test_client_that_does_not_read_is_disconnected(https, authority):
    blob = b"x" * 20_000_000

    def app(environ, start_response):
        start_response("200 OK", [])
        return [blob]

    server = https(app, write_seconds=0.1)
    gone = threading.Event()

    def client():
        with connect(server, authority.context) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert gone.wait(10)

    waiting = syncless.spawn(in_thread, client)
    assert eventually(lambda: server.census()["connections"] == 1)
    assert eventually(lambda: server.census()["connections"] == 0)
    gone.set()
    waiting.join()


def test_client_that_reads_little_at_a_time_gets_every_byte_once(https, authority):
    """The socket takes part of what is ready for it, again and again."""
    blob = os.urandom(1 << 20) * 4

    def app(environ, start_response):
        start_response("200 OK", [])
        return [blob]

    server = https(app)

    def client():
        sock = blocking.socket()
        sock.setsockopt(blocking.SOL_SOCKET, blocking.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(server.address)
        with authority.context.wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            with tls.makefile("rb") as answer:
                return answer.read().partition(b"\r\n\r\n")[2]

    assert in_thread(client) == blob


def test_a_request_that_comes_with_the_end_of_the_handshake(https, authority):
    """It is in the layer's hands when the handshake ends, and no event tells of it."""
    server = https(hello, defer_accept=False, head_seconds=3)

    def client():
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = authority.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with blocking.create_connection(server.address, timeout=60) as sock:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(100_000))
            tls.do_handshake()
            tls.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sock.sendall(outgoing.read())
            while True:
                incoming.write(sock.recv(100_000))
                with contextlib.suppress(ssl.SSLWantReadError):
                    return tls.read(1000)

    for _ in range(30):
        assert in_thread(client).startswith(b"HTTP/1.1 200 OK")
