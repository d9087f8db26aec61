"""The events of a poll do not starve tasklets that were ready before."""

import os
import time

import pytest

from syncless import sleep, spawn, wait_readable
from syncless.io import socket

CLIENTS = 100


pytestmark = pytest.mark.virtual_time


def test_ready_tasklets_get_as_many_turns_as_a_poll_brought_events(start):
    """Without that they get the time of one slice, a fifth of a millisecond."""
    left, right = os.pipe()
    happened = []

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/busy":
            time.sleep(0.001)  # stands for work: no other tasklet runs
            happened.append("request")
            if happened.count("request") == CLIENTS:
                os.write(right, b"x")
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def turns():
        while "poll" not in happened:
            if happened:
                time.sleep(0.00005)
            happened.append("turn")
            sleep(0)

    def hear():
        wait_readable(left)
        happened.append("poll")

    server = start(app)
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CLIENTS)]
    try:
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        hearing = spawn(hear)
        sleep(0)
        for client in clients:
            client.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        turning = spawn(turns)
        hearing.join()
        turning.join()
    finally:
        for client in clients:
            client.close()
        os.close(left)
        os.close(right)
    last = len(happened) - 1 - happened[::-1].index("request")
    assert happened[last:].count("turn") > CLIENTS // 2, happened
