"""Under the patch a blocking socket takes all, as it does without: programs need not look at how much was
sent."""

import fcntl
import os
import socket

import pytest

import syncless
from syncless.patches import files
from tests.io.test_sending import receive
from tests.programs import run_python

pytestmark = pytest.mark.virtual_time

SIZE = 8_000_000


@pytest.fixture
def blob(tmp_path):
    path = tmp_path / "blob"
    path.write_bytes(os.urandom(SIZE))
    with path.open("rb") as file:
        yield file


@pytest.mark.parametrize(
    ("offset", "count"), [(None, SIZE), (1000, SIZE), (1000, SIZE - 5000), (0, 0), (SIZE, 10)]
)
def test_sendfile_sends_all(pair, blob, offset, count):
    left, right = pair
    reader = syncless.spawn(receive, right)
    begin = offset or 0
    size = max(0, min(count, SIZE - begin))
    assert files.sendfile(left.fileno(), blob.fileno(), offset, count) == size
    assert os.lseek(blob.fileno(), 0, os.SEEK_CUR) == (size if offset is None else 0)
    left.close()
    assert reader.result() == os.pread(blob.fileno(), size, begin)


def test_sendfile_tells_what_was_sent_before_the_reader_went(pair, blob):
    left, right = pair

    def read_a_little():
        right.recv(1000, socket.MSG_WAITALL)
        syncless.sleep(0.01)
        right.close()

    reader = syncless.spawn(read_a_little)
    sent = files.sendfile(left.fileno(), blob.fileno(), None, SIZE)
    assert 0 < sent < SIZE and os.lseek(blob.fileno(), 0, os.SEEK_CUR) == sent
    with pytest.raises(ConnectionError):
        while files.sendfile(left.fileno(), blob.fileno(), 0, 10):
            pass
    with pytest.raises(OSError):
        files.sendfile(left.fileno(), blob.fileno(), 0, -1)
    reader.result()


@pytest.mark.skipif(not hasattr(os, "splice"), reason="os.splice is of Python 3.10 and Linux")
def test_splice_to_a_socket_sends_what_the_pipe_holds(pair):
    """It is the socket that must not be waited for in the kernel: a flag of the call says so for pipes
    only."""
    left, right = pair
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    source, sink = os.pipe()
    held = os.write(sink, bytes(fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, 1 << 20)))
    turns = []

    def count():
        while True:
            syncless.sleep(0.001)
            turns.append(1)

    def receive_later():
        syncless.sleep(0.05)
        return right.recv(held, socket.MSG_WAITALL)

    counter, reader = syncless.spawn(count), syncless.spawn(receive_later)
    assert files.splice(source, left.fileno(), 10 * held) == held and turns
    assert len(reader.result()) == held and left.getblocking() and os.get_blocking(left.fileno())
    counter.kill()
    with pytest.raises(BlockingIOError):
        files.splice(source, left.fileno(), 10, None, None, os.SPLICE_F_NONBLOCK)
    os.close(sink)
    assert files.splice(source, left.fileno(), 10) == 0
    os.close(source)


PROGRAM = """
import hashlib, os, socket, ssl, sys, tempfile, threading
import trustme
authority = trustme.CA()
contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
authority.issue_cert("localhost").configure_cert(contexts[0])
authority.configure_trust(contexts[1])
if "patched" in sys.argv:
    from syncless.patches import patch_all
    patch_all()
blob = bytes(range(256)) * 31250
spare = tempfile.TemporaryFile()
spare.write(blob)
spare.flush()
def server(sock, tls, seen):
    if tls:
        sock = contexts[0].wrap_socket(sock, server_side=True)
    try:
        while piece := sock.recv(1 << 20):
            seen.append(len(piece))
    except ConnectionError:  # the client has closed without reading the server's session tickets
        pass
    sock.close()
def sent(call, tls=False):
    left, right = socket.socketpair()
    seen = []
    thread = threading.Thread(target=server, args=(right, tls, seen))
    thread.start()
    if tls:
        left = contexts[1].wrap_socket(left, server_hostname="localhost")
    result = call(left)
    left.close()
    thread.join()
    return result, sum(seen)
def splice(sock):
    source, sink = os.pipe()
    os.write(sink, blob[:60000])
    return os.splice(source, sock.fileno(), len(blob))
print(sent(lambda sock: sock.send(blob)))
print(sent(lambda sock: sock.sendmsg([blob, blob])))
print(sent(lambda sock: sock.send(blob), tls=True))
print(sent(lambda sock: sock.write(blob), tls=True))
print(sent(lambda sock: os.write(sock.fileno(), blob)))
print(sent(lambda sock: os.writev(sock.fileno(), [blob, blob])))
print(sent(lambda sock: os.sendfile(sock.fileno(), spare.fileno(), 0, len(blob))))
print(sent(lambda sock: sock.sendfile(spare)))
print(sent(splice) if hasattr(os, "splice") else None)
spare.close()
"""


def test_calls_send_as_much_as_unpatched():
    pytest.importorskip("trustme", reason="trustme makes the certificate of this test: pip install trustme")
    assert run_python("import sys; sys.argv.append('patched')" + PROGRAM) == run_python(PROGRAM)
