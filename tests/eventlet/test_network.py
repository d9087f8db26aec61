"""Sockets, the web server, WebSockets and green modules of syncless.eventlet."""

import http.client
import io
import sys

import pytest

import syncless.eventlet as eventlet
from syncless.eventlet import greenio, tpool, websocket, wsgi
from syncless.eventlet.green import socket


def served(application, **options):
    """The address of a server of the application, and the green thread that serves."""
    listener = eventlet.listen(("127.0.0.1", 0))
    thread = eventlet.spawn(wsgi.server, listener, application, log=io.StringIO(), **options)
    return listener.getsockname(), thread


def answer_of(address, request):
    with eventlet.connect(address) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(8192), b""))


def test_body_of_unknown_length_is_sent_in_chunks_and_the_request_is_read():
    def application(environ, start_response):
        start_response("200 OK", [("x-size", environ["CONTENT_LENGTH"])])
        yield environ["wsgi.input"].read()
        yield b"end"

    address, thread = served(application)
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    head, _, body = answer_of(address, request).partition(b"\r\n\r\n")
    thread.kill()
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX-Size: 4\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert body == b"7\r\nbodyend\r\n0\r\n\r\n"


def test_length_and_chunks_in_one_request_are_refused():
    address, thread = served(lambda environ, start_response: 1 / 0)
    request = b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    answer = answer_of(address, request)
    thread.kill()
    assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")


def test_server_that_is_killed_closes_idle_connections_and_its_socket():
    address, thread = served(lambda environ, start_response: start_response("200 OK", []) and [])
    client = eventlet.connect(address)
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.recv(8192).startswith(b"HTTP/1.1 200 OK")
    thread.kill()
    assert client.recv(1) == b""
    client.close()


def test_messages_of_a_websocket_come_back():
    @websocket.WebSocketWSGI
    def echo(ws):
        for message in iter(ws.wait, None):
            ws.send(message)

    address, thread = served(echo)
    client = eventlet.connect(address)
    client.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d9MXuOzlVQ0h+qRllvSCIg==\r\n\r\n"
    )
    assert b"ywSyWXCPNsDxLrQdQrn5RFNRfBU=" in client.recv(8192)
    ws = websocket.RFC6455WebSocket(client, {}, client=True)
    for message in ("text \u2603", b"bytes" * 30000):
        ws.send(message)
        assert ws.wait() == message
    ws.close()
    thread.kill()


def test_frame_of_a_client_is_masked_as_the_rfc_shows():
    assert websocket._masked(b"Hello", bytes.fromhex("37fa213d")) == bytes.fromhex("7f9f4d5158")


def test_second_reader_of_a_socket_is_refused():
    one, other = socket.socketpair()
    reader = eventlet.spawn(one.recv, 1)
    eventlet.sleep(0)
    with pytest.raises(RuntimeError, match="Second simultaneous read"):
        one.recv(1)
    other.sendall(b"x")
    assert reader.wait() == b"x"
    one.close()
    other.close()


def test_readers_of_a_socket_take_turns_where_several_are_allowed():
    one, other = socket.socketpair()
    eventlet.debug.hub_prevent_multiple_readers(False)
    try:
        readers = [eventlet.spawn(lambda: [one.recv(1), one.recv(1)]) for _ in range(2)]
        eventlet.sleep(0)
        for letter in (b"a", b"b", b"c", b"d"):
            other.sendall(letter)
            for _ in range(3):
                eventlet.sleep(0)
        assert [reader.wait() for reader in readers] == [[b"a", b"c"], [b"b", b"d"]]
    finally:
        eventlet.debug.hub_prevent_multiple_readers(True)
        one.close()
        other.close()


def test_socket_that_took_over_another_closes_it():
    given = socket.socket()
    made = greenio.GreenSocket(given)
    assert made.fileno() == given.fileno()
    made.close()
    assert given.fileno() == -1


def test_green_module_is_a_copy_that_leaves_the_standard_one_alone():
    from syncless.eventlet.green.http import client
    from syncless.eventlet.green.urllib import error, request

    assert client.HTTPConnection is not http.client.HTTPConnection
    assert client.socket.socket is greenio.GreenSocket
    assert sys.modules["http.client"] is http.client
    assert request.HTTPError is error.HTTPError
    assert http.client.socket.socket is not greenio.GreenSocket


def test_call_in_a_thread_lets_others_run_and_gives_its_exception():
    lock = eventlet.patcher.original("threading").Lock()
    lock.acquire()
    eventlet.spawn(lock.release)  # runs while the call waits
    assert tpool.execute(lock.acquire, True, 30)
    with pytest.raises(ValueError, match="invalid literal"):
        tpool.execute(int, "x")
