"""http/stream: bytes that are in use stay where they are, and a descriptor that is closed is used no more,
whatever Python code does that runs between a look and its use."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

from syncless.http.stream import Buffers
from syncless.io import socket


def test_head_that_is_read_in_the_inbox_outlives_the_close(units):
    buffers = Buffers(100_000)
    ours, theirs = socket.socketpair()
    wire = units.Wire(buffers, ours.detach())
    theirs.sendall(b"the head of a request")
    assert wire.receive() == (21, b"the head of a request")
    assert wire.borrow() == 21
    wire.close()  # by a finaliser, while the head is read
    other = units.Bytes(buffers)
    other.append(b"x" * 100)  # gets the block, if it was given back
    assert wire.borrowed() == b"the head of a request"
    wire.give_back(0)
    other.release()
    assert units.owned(buffers)[:2] == (0, 0)
    theirs.close()


# TLS that leaves the bytes as they are, over buffers that call a hook when they have done their work
BEGIN = """
import socket, ssl
hooks = {}
def called(name):
    hook = hooks.pop(name, None)
    if hook is not None:
        hook()
class Buffer:
    def __init__(self):
        self.data = b""
    @property
    def pending(self):
        return len(self.data)
    def put(self, data):
        self.data += data
        return len(data)
    def take(self, n):
        data, self.data = self.data[:n], self.data[n:]
        return data
    def write(self, data):
        self.put(data)
        called("fill")
    def read(self):
        data = self.take(len(self.data))
        called("push")
        return data
ssl.MemoryBIO = Buffer
class Calls:
    def __init__(self, incoming, outgoing):
        self.incoming, self.outgoing = incoming, outgoing
    def read(self, n, into):
        data = self.incoming.take(n)
        if not data:
            raise ssl.SSLWantReadError
        into[:len(data)] = data
        return len(data)
    def write(self, data):
        return self.outgoing.put(data)
    def unwrap(self):
        raise ValueError
class Context:
    def wrap_bio(self, incoming, outgoing, server_side):
        made = Calls(incoming, outgoing)
        made._sslobj = made
        return made
from syncless.http.stream import Buffers, TlsLayer
import units
buffers = Buffers(1000000)
ours, theirs = socket.socketpair()
wire = units.Wire(buffers, ours.detach(), TlsLayer(Context()))
theirs.setblocking(False)
def taken():
    data = bytearray()
    while True:
        try:
            data += theirs.recv(1 << 20)
        except BlockingIOError:
            return bytes(data)
"""

BETWEEN = {
    "receiving into the inbox of a stream that is closed": """
        def close():
            global other
            wire.close()
            other = units.Bytes(buffers)
            other.append(b"x" * 100)
        hooks["fill"] = close
        theirs.send(b"a body")
        assert wire.receive() == (0, b""), wire.inbox()
        assert bytes(other) == b"x" * 100, bytes(other)
    """,
    "receiving into an inbox in which another tasklet makes room": """
        def receive():
            theirs.send(b"more")
            assert wire.receive()[0] == -1
        hooks["fill"] = receive
        theirs.send(b"a body")
        assert wire.receive() == (6, b"a body"), wire.inbox()
    """,
    "sending on a descriptor that was closed, and is another's": """
        def close():
            global mine, others
            theirs.close()
            wire.close()
            mine, others = socket.socketpair()
            others.setblocking(False)
        hooks["push"] = close
        assert wire.transmit(b"a secret") == -1
        try:
            raise SystemExit(f"another connection got {others.recv(100)}")
        except BlockingIOError:
            pass
    """,
    "sending bytes that were moved": """
        sent = b""
        while wire.send_pending():
            wire.put(bytes([65 + len(sent) // 50000 % 26]) * 50000)
            sent += bytes([65 + len(sent) // 50000 % 26]) * 50000
        got = taken()                   # the layer still has ciphertext, and `out` bytes behind it
        def move():
            global other
            wire.put(b"z" * 100000)
            other = [units.Bytes(buffers) for _ in range(3)]
            for each in other:
                each.append(b"-" * 70000)
        hooks["push"] = move
        sent += b"z" * 100000
        while wire.send_pending() < 1:
            got += taken()
        got += taken()
        assert got == sent, (len(got), len(sent))
    """,
}


@pytest.mark.parametrize("name", BETWEEN)
def test_python_code_runs_in_the_layer_while(units, name):
    folder = str(pathlib.Path(units.__file__).parent)
    program = f"import sys; sys.path.insert(0, {folder!r})\n" + BEGIN + textwrap.dedent(BETWEEN[name])
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
