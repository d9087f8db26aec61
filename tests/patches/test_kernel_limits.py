"""Limits that the kernel keeps for a blocking socket, and calls that never wait: as unpatched."""

import errno
import socket
import sys

import pytest

from tests.programs import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks for a queue that Linux has")

PROGRAM = """
import os, socket, struct, sys
if "patched" in sys.argv:
    from syncless.patches import patch_all
    patch_all()
LIMIT = struct.pack("ll", 0, 20_000)                # 20 ms
def limited(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, LIMIT)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, LIMIT)
    return sock
def pair():
    one, other = socket.socketpair()
    keep.append(other)
    return limited(one)
keep = []
def full():
    one = pair()
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    one.setblocking(True)
    return one
def datagrams():
    return limited(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
def listening():
    return limited(socket.create_server(("127.0.0.1", 0)))
def unix_full():
    server = socket.socket(socket.AF_UNIX)
    server.bind("")
    server.listen(0)
    for _ in range(2):
        client = limited(socket.socket(socket.AF_UNIX))
        client.connect_ex(server.getsockname())
        keep.append(client)
    keep.append(server)
    return server.getsockname()
def half_sent():
    one = pair()
    keep[-1].send(b"half")
    return one
def with_timeout(sock):
    sock.settimeout(0.01)
    return sock
def short(found):
    return f"{type(found).__name__} of some" if type(found) is int else found
errors = socket.MSG_ERRQUEUE
cases = {
    "recv": lambda: pair().recv(5),
    "recv_into": lambda: pair().recv_into(bytearray(5)),
    "recv of all": lambda: half_sent().recv(9, socket.MSG_WAITALL),
    "recvfrom": lambda: datagrams().recvfrom(5),
    "recvfrom_into": lambda: datagrams().recvfrom_into(bytearray(5)),
    "recvmsg": lambda: pair().recvmsg(5),
    "recvmsg with more": lambda: pair().recvmsg(5, 100),
    "recvmsg_into": lambda: pair().recvmsg_into([bytearray(5)]),
    "accept": lambda: listening().accept(),
    "send": lambda: full().send(b"x"),
    "send much": lambda: short(pair().send(bytes(1 << 23))),
    "sendall": lambda: full().sendall(b"x"),
    "sendall much": lambda: pair().sendall(bytes(1 << 23)),
    "sendmsg": lambda: full().sendmsg([b"x", b"y"]),
    "connect to a full backlog": lambda: limited(socket.socket(socket.AF_UNIX)).connect(unix_full()),
    "connect_ex to a full backlog": lambda: limited(socket.socket(socket.AF_UNIX)).connect_ex(unix_full()),
    "connect to a full backlog, with a timeout":
        lambda: with_timeout(socket.socket(socket.AF_UNIX)).connect(unix_full()),
    "os.read": lambda: os.read(pair().detach(), 5),
    "os.write": lambda: os.write(full().detach(), b"x"),
    "file": lambda: pair().makefile("rb", buffering=0).read(5),
    "a timeout counts instead": lambda: with_timeout(pair()).recv(5),
    "errors, recv": lambda: socket.socketpair()[0].recv(5, errors),
    "errors, recvfrom": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).recvfrom(5, errors),
    "errors, recvmsg": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).recvmsg(5, 100, errors),
    "errors, recvmsg_into":
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).recvmsg_into([bytearray(5)], 100, errors),
}
for name, call in cases.items():
    try:
        print(name, call())
    except Exception as error:
        print(name, type(error).__name__, error)
"""


def test_calls_end_as_unpatched():
    before = run_python(PROGRAM)
    assert run_python("import sys; sys.argv.append('patched')" + PROGRAM) == before
    assert before.count("BlockingIOError") > 15 and "recv of all b'half'" in before


def test_others_run_meanwhile():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import socket, struct, syncless
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
turns = 0
def count():
    global turns
    while True:
        turns += 1
        syncless.sleep(0)
counting = syncless.spawn(count)
try:
    one.recv(1)
except BlockingIOError as error:
    print(error.errno, turns > 10)
counting.kill()
other.send(b"x")
print(one.recv(1))
""")
        == f"{errno.EAGAIN} True\nb'x'\n"
    )
    assert socket.SO_RCVTIMEO
