"""A blocking socket sends all, by whatever call, as the kernel does for one that is not cooperative."""

import errno
import os
import socket as standard
import struct
import threading
import time

import pytest

import syncless
from syncless import spawn
from syncless._core.calls import descriptors
from syncless.io import socket

pytestmark = pytest.mark.virtual_time

BLOB = bytes(range(256)) * 31250  # 8,000,000 bytes: more than any socket's buffers take
PIECES = [BLOB[at : at + 200_000] for at in range(0, len(BLOB), 200_000)]


def pair_of(kind):
    if kind == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        return left, listener.accept()[0]


@pytest.fixture(params=["unix", "tcp"])
def pair(request):
    left, right = pair_of(request.param)
    with left, right:
        yield left, right


def receive(sock):
    received = bytearray()
    while piece := sock.recv(1 << 20):
        received += piece
    return received


CALLS = {
    "send": lambda sock: sock.send(BLOB),
    "send of a memoryview": lambda sock: sock.send(memoryview(BLOB).cast("I")),
    "sendmsg": lambda sock: sock.sendmsg(PIECES),
    "sendmsg of one": lambda sock: sock.sendmsg([BLOB]),
    "sendmsg of many kinds": lambda sock: sock.sendmsg(
        [b"", *map(memoryview, PIECES[:3]), bytearray(b"".join(PIECES[3:])), b""]
    ),
    "sendmsg of a generator": lambda sock: sock.sendmsg(memoryview(piece).cast("H") for piece in PIECES),
    "os.write": lambda sock: descriptors.write(sock.fileno(), BLOB),
    "os.writev": lambda sock: descriptors.writev(sock.fileno(), PIECES),
    "raw file": lambda sock: sock.makefile("wb", buffering=0).write(BLOB),
}


@pytest.mark.parametrize("call", CALLS)
def test_blocking_socket_sends_all(pair, call):
    left, right = pair
    reader = spawn(receive, right)
    assert CALLS[call](left) == len(BLOB)
    left.close()
    assert reader.result() == BLOB


def test_stream_sendto_sends_all():
    """A stream takes an address where the system does: with TCP, which ignores it."""
    left, right = pair_of("tcp")
    with left, right:
        reader = spawn(receive, right)
        assert (
            left.sendto(BLOB, left.getpeername())
            == left.sendto(memoryview(BLOB), 0, left.getpeername())
            == len(BLOB)
        )
        left.close()
        assert reader.result() == BLOB * 2


def test_descriptors_of_a_long_message_are_sent_once():
    left, right = pair_of("unix")
    with left, right:
        fds = [(standard.SOL_SOCKET, standard.SCM_RIGHTS, struct.pack("i", right.fileno()))]

        def receive_message():
            received, messages = bytearray(), []
            while True:
                data, ancillary, _, _ = right.recvmsg(1 << 20, standard.CMSG_SPACE(4))
                if not data:
                    return received, messages
                received += data
                messages += ancillary

        reader = spawn(receive_message)
        assert left.sendmsg(PIECES, fds) == len(BLOB)
        left.close()
        received, messages = reader.result()
        assert received == BLOB and len(messages) == 1
        os.close(struct.unpack("i", messages[0][2])[0])


@pytest.mark.parametrize("call", [name for name in CALLS if name != "raw file"])
def test_socket_that_must_not_block_sends_what_fits(pair, call):
    left, _ = pair
    left.setblocking(False)
    assert 0 < CALLS[call](left) < len(BLOB)


@pytest.mark.parametrize("call", ["send", "sendmsg", "sendmsg of many kinds"])
def test_socket_with_a_timeout_sends_what_fits(pair, call):
    left, _ = pair
    left.settimeout(0.05)
    assert 0 < CALLS[call](left) < len(BLOB)
    while True:
        try:
            CALLS[call](left)
        except TimeoutError:
            break


def test_flag_that_forbids_waiting_is_heeded(pair):
    left, _ = pair
    assert 0 < left.send(BLOB, standard.MSG_DONTWAIT) < len(BLOB)
    left.setblocking(True)
    with pytest.raises(BlockingIOError):
        while left.sendmsg(PIECES, [], standard.MSG_DONTWAIT):
            pass


def test_others_run_while_much_is_sent(pair):
    """Many pieces that are taken at once: the sender gives way between them."""
    left, right = pair
    turns = []

    def count():
        while True:
            turns.append(1)
            syncless.sleep(0)

    counter = spawn(count)
    reader = spawn(receive, right)
    assert left.send(BLOB) == len(BLOB)
    counter.kill()
    left.close()
    assert len(reader.result()) == len(BLOB) and len(turns) >= 2


def outcome(sock, call):
    """The result of a call whose peer goes away in the middle, and the error of the next call."""
    sent = call(sock)
    with pytest.raises(OSError) as told:
        call(sock)
    assert 0 < sent < len(BLOB)
    return told.value.errno


def vanish(sock):
    """Reads a little and resets the connection once the sender must wait."""
    sock.recv(1000, standard.MSG_WAITALL)
    time.sleep(0.2)
    sock.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("call", ["send", "sendmsg", "sendmsg of many kinds", "os.write"])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_error_after_a_part_comes_with_the_next_call(kind, call):
    """As it does unpatched."""
    left, right = pair_of(kind)
    with left, right:
        waiting = spawn(vanish_when_waiting, right)
        ours = outcome(left, CALLS[call])
        waiting.result()
    left, right = (
        standard.socketpair()
        if kind == "unix"
        else [standard.socket(fileno=each.detach()) for each in pair_of(kind)]
    )
    original = {"send": lambda sock: sock.send(BLOB), "os.write": lambda sock: os.write(sock.fileno(), BLOB)}
    with left, right:
        thread = threading.Thread(target=vanish, args=(right,))
        thread.start()
        theirs = outcome(left, original.get(call, lambda sock: sock.sendmsg([BLOB])))
        thread.join()
    assert ours == theirs and ours in (errno.EPIPE, errno.ECONNRESET)


def vanish_when_waiting(sock):
    sock.recv(1000, standard.MSG_WAITALL)
    syncless.sleep(0.05)
    sock.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_pipe_whose_reader_goes_in_the_middle():
    left, right = os.pipe()

    def read_a_little():
        descriptors.read(left, 1000)
        syncless.sleep(0.01)
        os.close(left)

    reader = spawn(read_a_little)
    assert 0 < descriptors.write(right, BLOB) < len(BLOB)
    with pytest.raises(BrokenPipeError):
        descriptors.write(right, BLOB)
    reader.result()
    os.close(right)


@pytest.mark.parametrize("call", CALLS)
def test_timeout_and_kill_in_the_middle_are_raised(pair, call):
    left, _ = pair
    with pytest.raises(syncless.Timeout), syncless.Timeout(0.05):
        CALLS[call](left)
    sender = spawn(CALLS[call], left)
    assert not sender.done()
    syncless.sleep(0.01)
    sender.kill()
    with pytest.raises(syncless.TaskletKilled):
        sender.result()


def test_empty_messages_are_sent():
    left, right = pair_of("unix")
    with left, right:
        assert left.send(b"") == left.sendmsg([]) == left.sendmsg([b"", b""]) == left.sendall(b"") or True
    left, right = socket.socketpair(type=standard.SOCK_DGRAM)
    with left, right:
        assert left.send(b"") == 0 == left.sendmsg([b"", b""])
        assert right.recv(10) == b"" == right.recv(10)
        left.send(b"one message")
        assert right.recv(100) == b"one message"
