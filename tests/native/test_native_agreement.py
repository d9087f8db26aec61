"""The tasklets of a server and its threads of native handlers get the same bytes, and answer alike.

The bytes are the cases of tests/http/cases.json, changed at random; SYNCLESS_AGREEMENT sets how many of them.
"""

import os
import random
import re

import pytest

from syncless.io import socket
from tests.fuzz import WORDS
from tests.http.test_wire import CASES, echo, raw
from tests.native.test_native_wire import ROUTES, is_for_python

ROUNDS = int(os.environ.get("SYNCLESS_AGREEMENT", "60"))
HEAD = re.compile(rb"HTTP/1\.1 (\d\d\d) [^\r]*\r\n((?:[^\r]+\r\n)*)\r\n")


def changed(choose):
    """One or two cases in a row, of which some bytes are others."""
    data = bytearray(b"".join(raw(choose.choice(CASES)) for _ in range(choose.choice((1, 1, 2)))))
    for _ in range(choose.choice((0, 1, 1, 2, 4))):
        at = choose.randrange(len(data) + 1)
        data[at : at + choose.choice((0, 0, 1, 2, 8))] = choose.choice(WORDS)
    return bytes(data)


def answers(server, data):
    """(status, fields that frame the message, body) of each response, up to the end of the connection."""
    received = b""
    with socket.create_connection(server.address, timeout=60) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while more := client.recv(65536):
                received += more
        except OSError:
            received += b"reset"
    found = []
    while match := HEAD.match(received):
        fields = sorted(
            field
            for field in match[2].lower().splitlines()
            if field.startswith((b"content-length", b"transfer-encoding", b"connection"))
        )
        size = int(b"".join(re.findall(rb"content-length: (\d+)", b"\n".join(fields))) or 0)
        received = received[match.end() :]
        found.append((match[1], fields, received[:size]))
        received = received[size:]
    return [*found, received]


@pytest.mark.parametrize("seed", range(5))
def test_both_answer_the_same_bytes_alike(start, served, seed):
    choose = random.Random(seed)
    python, native = start(echo, defer_accept=False), served(ROUTES, echo)
    for _ in range(ROUNDS):
        data = changed(choose)
        if not is_for_python({"request": data.decode("latin-1")}):
            assert answers(python, data) == answers(native, data), data
