"""Datagrams, ancillary data, and the addresses of socket calls."""

import array
import os
import socket as standard
import subprocess
import sys

import pytest

from syncless import sleep, spawn
from syncless.io import socket

pytestmark = pytest.mark.virtual_time


def test_datagrams():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b,
    ):
        a.bind(("127.0.0.1", 0))
        b.bind(("localhost", 0))
        receiving = spawn(a.recvfrom, 100)
        sleep(0)
        assert b.sendto(b"one", a.getsockname()) == 3
        assert receiving.result() == (b"one", b.getsockname())
        b.sendto(b"two", 0, ("localhost", a.getsockname()[1]))
        buffer = bytearray(10)
        assert a.recvfrom_into(buffer) == (3, b.getsockname()) and buffer[:3] == b"two"
        a.settimeout(0.01)
        with pytest.raises(TimeoutError):
            a.recvfrom(10)
        assert a.gettimeout() == 0.01
        with pytest.raises(TypeError):
            b.sendto(b"x")


def test_messages_carry_descriptors(pair):
    a, b = pair
    reading, writing = os.pipe()
    receiving = spawn(b.recvmsg, 10, socket.CMSG_SPACE(4))
    sleep(0)
    a.sendmsg([b"fd", b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writing]))])
    data, ancillary, _, _ = receiving.result()
    passed = array.array("i", ancillary[0][2])[0]
    os.write(passed, b"through")
    assert data == b"fd!" and os.read(reading, 10) == b"through"
    a.send(b"abcd")
    first, second = bytearray(1), bytearray(10)
    assert b.recvmsg_into([first, second])[0] == 4 and (first, second[:3]) == (b"a", b"bcd")
    for fd in (reading, writing, passed):
        os.close(fd)


def told(receiver, sender, *sends):
    """The result of recvmsg() for a message that is sent."""
    heard = []
    for method, arguments in sends:
        getattr(sender, method)(*arguments)
        heard.append(receiver.recvmsg(3))
    return heard


@pytest.mark.parametrize("kind", ["internet", "internet 6", "path", "abstract", "nameless", "stream", "pair"])
def test_messages_are_told_as_by_the_standard_library(kind, tmp_path):
    outcomes = []
    for module in standard, socket:
        if kind in ("stream", "pair"):
            a, b = module.socketpair(type=module.SOCK_STREAM if kind == "stream" else module.SOCK_SEQPACKET)
            sends = [("sendmsg", ([b"ab"],)), ("sendmsg", ([b"", b"c"],))]
        else:
            family = {"internet": module.AF_INET, "internet 6": module.AF_INET6}.get(kind, module.AF_UNIX)
            a, b = (module.socket(family, module.SOCK_DGRAM) for _ in range(2))
            a.bind(
                {"internet": ("127.0.0.1", 0), "internet 6": ("::1", 0)}.get(
                    kind, str(tmp_path / f"a {module.__name__}")
                )
            )
            if kind in ("path", "abstract"):
                b.bind(str(tmp_path / "\xfc b") if kind == "path" else b"\0syncless abstract")
            sends = [
                ("sendto", (b"abcdef", a.getsockname())),
                ("sendto", (b"", 0, a.getsockname())),
                ("sendmsg", ([b"x"], (), 0, a.getsockname())),
            ]
        with a, b:
            heard = told(a, b, *sends)
            if kind.startswith("internet"):
                assert {each[3][1] for each in heard} == {b.getsockname()[1]}
                heard = [(*each[:3], each[3][0], *each[3][2:]) for each in heard]  # another port each time
            outcomes.append(heard)
        (tmp_path / "\xfc b").unlink(missing_ok=True)
    assert outcomes[0] == outcomes[1]


PORTS = [-1, 9, 65536, "80", 9.0, True, None]
ADDRESSES = [
    *(("127.0.0.1", port) for port in PORTS),
    ("127.0.0.1",),
    ("127.0.0.1\0", 9),
    ("\udc80", 9),
    ("127.1", 9),
    (b"127.0.0.1", 0),
    "x",
    None,
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_are_taken_or_refused_as_by_the_standard_library(address):
    outcomes = []
    for module in standard, socket:
        with module.socket(module.AF_INET, module.SOCK_DGRAM) as sock:
            try:
                outcomes.append(sock.sendto(b"xy", address))
            except Exception as error:
                outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


def test_sending_is_audited():
    """As sys.addaudithook() documents for socket.sendto() and socket.sendmsg()."""
    program = """if True:
        import sys
        from syncless.io import socket
        events = []
        def note(name, arguments):
            if name.startswith("socket.send"):
                events.append((name, arguments[1]))
        sys.addaudithook(note)
        a, b = socket.socketpair()
        with a, b, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", 0))
            address = datagrams.getsockname()
            datagrams.sendto(b"x", address)
            datagrams.sendto(bytearray(b"x"), address)
            a.sendmsg([b"x"])
        assert events == [*[("socket.sendto", address)] * 2, ("socket.sendmsg", None)], events
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
