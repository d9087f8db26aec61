"""syncless.io.socket beside the standard module: the same results, errors and timeouts, without stopping the
others."""

import array
import contextlib
import errno
import inspect
import os
import socket as standard
import sys
import threading
import time

import pytest

import syncless
from syncless import sleep, spawn
from syncless._core.calls import filesystems
from syncless.io import socket

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


class Ticker:
    """Notes the longest pause between two of its turns, 5 ms apart, while a block runs."""

    def __enter__(self):
        self.longest = 0.0
        self._tasklet = spawn(self._tick)
        sleep(0)
        return self

    def _tick(self):
        last = time.monotonic()
        while True:
            sleep(0.005)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    def __exit__(self, *error):
        self._tasklet.kill()


def test_the_module_has_every_public_name():
    assert set(standard.__all__) <= set(dir(socket))
    assert issubclass(socket.socket, standard.socket) and socket.AF_INET is standard.AF_INET
    for name in (
        "create_connection",
        "create_server",
        "fromfd",
        "socketpair",
        "getaddrinfo",
        "gethostbyname",
    ):
        assert getattr(socket, name) is not getattr(standard, name)
    assert list(inspect.signature(socket.create_connection).parameters)[:3] == [
        "address",
        "timeout",
        "source_address",
    ]


def test_stream_round_trip(pair):
    a, b = pair
    echo = spawn(lambda: [b.sendall(data) for data in iter(lambda: b.recv(100), b"")])
    for number in range(50):
        a.sendall(b"%d" % number)
        assert a.recv(100) == b"%d" % number
    a.shutdown(socket.SHUT_WR)
    echo.join()
    b.close()
    assert a.recv(1) == b""


def test_a_large_transfer_is_whole_and_fair(pair):
    a, b = pair
    data = os.urandom(1 << 20) * 8
    with Ticker() as ticker:
        sender = spawn(a.sendall, data)
        received = bytearray()
        while len(received) < len(data):
            received += b.recv(1 << 16)
        sender.join()
    assert bytes(received) == data
    assert ticker.longest < 0.5


def test_recv_into_and_flags(pair):
    a, b = pair
    a.send(b"abcdef")
    buffer = bytearray(10)
    assert b.recv_into(buffer, 2) == 2 and buffer[:2] == b"ab"
    assert b.recv(2, socket.MSG_PEEK) == b"cd"
    assert b.recv_into(memoryview(buffer)[4:]) == 4 and buffer[4:8] == b"cdef"
    spawn(lambda: [(sleep(0.005), a.send(b"xy")) for _ in range(3)])
    assert b.recv(6, socket.MSG_WAITALL) == b"xyxyxy"
    a.send(b"array")
    numbers = array.array("B", bytes(5))
    assert b.recv_into(numbers) == 5 and numbers.tobytes() == b"array"
    for bad in (lambda: b.recv(-1), lambda: b.recv_into(buffer, -1), lambda: b.recv_into(buffer, 11)):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError):
        a.send("text")
    with pytest.raises((BufferError, TypeError)):
        b.recv_into(b"read-only")


def test_timeouts_are_those_of_the_socket(pair):
    a, _ = pair
    a.settimeout(0.02)
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="timed out"):
        a.recv(1)
    assert time.monotonic() - started == pytest.approx(0.02, abs=1e-6)
    a.settimeout(0)
    with pytest.raises(BlockingIOError) as info:
        a.recv(1)
    assert info.value.errno == errno.EAGAIN
    a.setblocking(True)
    assert a.gettimeout() is None and a.getblocking() is True
    a.settimeout(0.02)
    with pytest.raises(TimeoutError):
        a.sendall(bytes(1 << 24))


def test_default_timeout_applies():
    socket.setdefaulttimeout(0.02)
    try:
        with socket.socket() as sock:
            assert sock.gettimeout() == 0.02
    finally:
        socket.setdefaulttimeout(None)


def test_accept_connect_and_addresses(listener):
    accepting = spawn(listener.accept)
    with socket.create_connection(listener.getsockname(), timeout=60) as client:
        server, address = accepting.result()
        with server:
            assert address == client.getsockname() and isinstance(server, socket.socket)
            assert server.gettimeout() is None and os.get_inheritable(server.fileno()) is False
            client.sendall(b"hello")
            assert server.recv(10) == b"hello"


def test_accept_timeout_and_nonblocking(listener):
    listener.settimeout(0.01)
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("call", ["accept", "recv", "recvfrom", "recvmsg", "sendall"])
def test_call_that_must_wait_parks_at_once(pair, listener, call):
    """However long its turn has been: the order of turns must not tell how slow the machine is."""
    on, arguments = (
        (listener, ()) if call == "accept" else (pair[0], (bytes(5_000_000) if call == "sendall" else 1,))
    )
    with syncless.Timeout(0.05, False):
        pair[0].sendall(bytes(5_000_000))
    for _ in range(4):  # the clock is not read at each turn
        waits = spawn(
            lambda: (time.sleep(0.001), getattr(on, call)(*arguments))
        )  # the thread sleeps: a poll is due
        sleep(0)
        assert "socket" in str(waits.waiting_for)
        waits.kill()


def test_several_tasklets_accept_on_one_listener(listener):
    tasklets = [spawn(lambda: listener.accept()[0].close()) for _ in range(3)]
    sleep(0)
    for _ in range(3):
        socket.create_connection(listener.getsockname()).close()
    syncless.join_all(tasklets)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses connections")
def test_connect_waits_for_room_in_a_backlog_without_a_timeout_and_raises_one_that_is_thrown(
    tmp_path, reports
):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        with socket.socket(socket.AF_UNIX) as second:
            second.settimeout(0.01)
            assert second.connect_ex(path) == errno.EAGAIN
            with pytest.raises(BlockingIOError):  # as Python's socket, whose timeout is not for this
                second.connect(path)
            second.settimeout(None)
            for connect in (second.connect, second.connect_ex):
                waiting = syncless.spawn(connect, path)
                sleep(0)
                waiting.kill(TimeoutError("thrown"))
                assert str(waiting.exception()) == "thrown"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses connections")
def test_timeout_that_is_thrown_is_not_taken_for_that_of_one_address(listener, monkeypatch, reports):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        targets = [sock.getsockname() for sock in (full, listener)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", target) for target in targets]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: found)
        with socket.create_connection(targets[0]):
            waiting = spawn(socket.create_connection, targets[0])
            sleep(0)
            waiting.kill(TimeoutError("thrown"))
            assert str(waiting.exception()) == "thrown"


def test_connection_errors():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with socket.socket() as sock:
            assert sock.connect_ex(address) == errno.ECONNREFUSED
    with (
        socket.socket() as sock,
        pytest.raises(TypeError, match=r"connect\(\): AF_INET address must be tuple"),
    ):
        sock.connect("no tuple")
    with socket.socket() as sock, pytest.raises(OverflowError, match=r"connect\(\): port must be"):
        sock.connect(("127.0.0.1", 70000))


def test_a_connect_that_hangs_times_out():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        held = []
        try:
            with Ticker() as ticker, pytest.raises(TimeoutError):
                for _ in range(8):
                    sock = socket.socket()
                    held.append(sock)
                    sock.settimeout(1)
                    sock.connect(full.getsockname())
            assert ticker.longest < 0.7
        finally:
            for sock in held:
                sock.close()


def test_a_unix_socket_with_a_full_backlog(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        connecting = [spawn(client.connect, path) for client in clients]
        sleep(0.02)
        assert not all(tasklet.done() for tasklet in connecting)
        accepted = [server.accept()[0] for _ in clients]
        syncless.join_all(connecting)
        assert all(tasklet.exception() is None for tasklet in connecting)
        late = socket.socket(socket.AF_UNIX)
        for sock in [*accepted, *clients, late]:
            sock.close()


def test_makefile(listener):
    def serve():
        client, _ = listener.accept()
        with client, client.makefile("rwb") as file:
            for line in file:
                file.write(line.upper())
                file.flush()

    serving = spawn(serve)
    with socket.create_connection(listener.getsockname()) as client, client.makefile("rwb") as file:
        file.write(b"one\ntwo\n")
        file.flush()
        assert [file.readline(), file.readline()] == [b"ONE\n", b"TWO\n"]
        client.shutdown(socket.SHUT_WR)
        assert file.read() == b""
    serving.join()


@pytest.mark.parametrize("offset", [0, 1000])
def test_sendfile(pair, tmp_path, offset):
    a, b = pair
    data = os.urandom(3_000_000)
    path = tmp_path / "file"
    path.write_bytes(data)
    with open(path, "rb") as file:
        sending = spawn(a.sendfile, file, offset)
        received = bytearray()
        while len(received) < len(data) - offset:
            received += b.recv(1 << 16)
        assert sending.result() == len(data) - offset and file.tell() == len(data)
        assert bytes(received) == data[offset:]
        sending = spawn(a.sendfile, file, 10, 20)
        assert b.recv(100) == data[10:30] and sending.result() == 20
        with pytest.raises(ValueError):
            a.sendfile(file, 0, 0)
        a.settimeout(0)
        with pytest.raises(ValueError):
            a.sendfile(file)


def test_sendfile_goes_on_where_only_its_first_part_had_to_be_read(pair, tmp_path, monkeypatch):
    a, b = pair
    path = tmp_path / "file"
    path.write_bytes(b"x" * 300_000)
    answers = iter([True, False])
    monkeypatch.setattr(socket, "must_read_first", lambda *part: next(answers))

    def cannot(*args):
        raise OSError(errno.EINVAL, "no file for sendfile")

    monkeypatch.setattr(socket.sockets, "sendfile", cannot)
    with open(path, "rb") as file:
        sending = spawn(a.sendfile, file)
        assert b.recv(300_000, socket.MSG_WAITALL) == b"x" * 300_000
        assert sending.result() == file.tell() == 300_000


def test_sendfile_ignores_the_position_of_a_file_on_a_slow_disk(pair, tmp_path):
    a, b = pair
    data = os.urandom(1_000_000)
    path = tmp_path / "file"
    path.write_bytes(data)
    before = filesystems.set_mode("pool")
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            sending = spawn(a.sendfile, file)
            received = b.recv(len(data), socket.MSG_WAITALL)
            assert sending.result() == len(data) and received == data and file.tell() == len(data)
            file.seek(5)
            assert a.sendfile(file, 10, 20) == 20 and b.recv(100) == data[10:30] and file.tell() == 30
    finally:
        filesystems.set_mode(before)


def test_closing_ends_a_wait_in_another_tasklet(pair, reports):
    a, _ = pair
    waiting = spawn(a.recv, 1)
    sleep(0.01)
    a.close()
    assert isinstance(waiting.exception(), OSError) and waiting.exception().errno == errno.EBADF


def test_a_socket_forgotten_without_close_does_not_spoil_its_number():
    for _ in range(5):
        a, b = socket.socketpair()
        waiting = spawn(a.recv, 1)
        sleep(0)
        waiting.kill()
        del waiting
        holder, a = [a], None
        with pytest.warns(ResourceWarning):
            holder.clear()
        b.close()
        c, d = socket.socketpair()
        with c, d:
            waiting = spawn(c.recv, 1)
            sleep(0)
            d.send(b"x")
            assert waiting.result() == b"x"


def test_detach_dup_and_fromfd(pair):
    a, b = pair
    copy = a.dup()
    again = socket.fromfd(a.fileno(), a.family, a.type)
    with copy, again:
        copy.send(b"1")
        again.send(b"2")
        assert b.recv(2, socket.MSG_WAITALL) == b"12" and isinstance(again, socket.socket)
    fd = a.detach()
    os.write(fd, b"3")
    assert b.recv(1) == b"3"
    os.close(fd)


def test_peer_resets():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"data nobody reads")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            sleep(0.01)
            with pytest.raises(ConnectionError):
                for _ in range(3):
                    accepted.sendall(b"more")
                    accepted.recv(1)


def test_names():
    with Ticker() as ticker:
        found = socket.getaddrinfo("localhost", "http", type=socket.SOCK_STREAM)
    assert any(entry[4][:2] in (("127.0.0.1", 80), ("::1", 80)) for entry in found) and ticker.longest < 0.5
    assert socket.getaddrinfo("127.0.0.1", 5)[0][4] == ("127.0.0.1", 5)
    assert socket.gethostbyname("localhost") == "127.0.0.1"
    assert socket.gethostbyname_ex("localhost")[2] == ["127.0.0.1"]
    assert isinstance(socket.getfqdn(), str) and socket.getnameinfo(("127.0.0.1", 80), 3) == (
        "127.0.0.1",
        "80",
    )
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("no such name.invalid", 1)


def test_ipv6():
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with server:
        accepting = spawn(server.accept)
        with socket.create_connection(server.getsockname()[:2]) as client:
            accepted, address = accepting.result()
            accepted.close()
            assert address == client.getsockname()


def test_standard_library_clients_take_these_sockets(listener):
    """A plain blocking client in a real thread talks to a tasklet."""
    answers = []

    def client():
        with standard.create_connection(listener.getsockname()) as sock:
            sock.sendall(b"ping")
            answers.append(sock.recv(10))

    thread = threading.Thread(target=client)
    thread.start()
    accepted, _ = listener.accept()
    with accepted:
        assert accepted.recv(10) == b"ping"
        accepted.sendall(b"pong")
    while thread.is_alive():
        sleep(0.001)
    assert answers == [b"pong"]


def test_selectable_backend(in_backend):
    def body():
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve():
                while True:
                    client, _ = server.accept()
                    spawn(lambda client=client: (client.sendall(client.recv(10).upper()), client.close()))

            serving = spawn(serve)

            def ask(number):
                with socket.create_connection(server.getsockname()) as sock:
                    sock.sendall(b"n%d" % number)
                    return sock.recv(10)

            assert [t.result() for t in [spawn(ask, n) for n in range(50)]] == [b"N%d" % n for n in range(50)]
            serving.kill()

    in_backend(body)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses connections")
def test_connect_of_a_socket_that_is_closed_meanwhile_fails():
    """Its number may be another's by then, which is connected."""
    outcome = []

    def connect(sock):
        try:
            outcome.append(sock.connect(full.getsockname()))
        except OSError as error:
            outcome.append(error.errno)

    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as clients:
        for _ in range(3):
            client = clients.enter_context(standard.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        sock = socket.socket()
        tasklet = spawn(connect, sock)
        sleep(0)
        number = sock.fileno()
        sock.close()
        pair = standard.socketpair()
        assert number in [each.fileno() for each in pair]
        tasklet.join()
        for each in pair:
            each.close()
    assert outcome == [errno.EBADF]
