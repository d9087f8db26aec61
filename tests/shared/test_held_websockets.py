"""hold() for WebSockets: the server goes on with them when their requests have ended."""

import gc
import socket as blocking
import tracemalloc

import pytest

import syncless
from syncless._core.calls.threads import run_in_thread
from syncless.io import socket
from syncless.shared import TooLarge, publish
from syncless.wsgi import Limits, Server, WebSocketClosed, hold
from tests.http.test_websocket import HANDSHAKE, frame
from tests.waiting import eventually

pytest.importorskip("websockets")

OPENING = HANDSHAKE.encode() + b"\r\n"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@pytest.fixture
def held():
    """Starts servers."""
    servers = []

    def start(on_message=None, application=None, **options):
        if application is None:

            def application(*args):
                return hold("news", "user:*", on_message=on_message)(*args)

        servers.append(Server(application, port=0, **options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop(0)
        assert server.census() == {}


def all_closed(server):
    return not server.census().get("connections")


class Client:
    """Reads frames that are not masked."""

    def __init__(self, server, opening=OPENING, room=None):
        before = server.census().get("held", 0)
        self.sock = socket.socket()
        if room is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.sock.connect(server.address)
        self.sock.sendall(opening)
        self.file = self.sock.makefile("rb")
        self.head = b"".join(iter(self.file.readline, b"\r\n"))
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head
        assert eventually(lambda: server.census().get("held", 0) > before)

    def send(self, opcode, payload=b"", **kinds):
        self.sock.sendall(frame(opcode, payload, **kinds))

    def read(self):
        """The next frame: opcode and payload."""
        first, size = self.file.read(2)
        if size >= 126:
            size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
        assert first & 0x80
        return first & 15, self.file.read(size)

    def closing(self):
        """The code of the next frame, which closes; and nothing follows."""
        opcode, payload = self.read()
        assert opcode == CLOSE and self.file.read() == b""
        return int.from_bytes(payload[:2], "big")

    def close(self):
        self.file.close()
        self.sock.close()


def test_websocket_gets_what_is_published_when_its_request_has_ended(held):
    server = held()
    client = Client(server)
    census = server.census()
    assert census["active"] == 0 and census["held"] == 1
    publish("news", "one")
    publish("other", "x")
    publish("user:7", {"a": [1]})
    publish("news", b"two\xff")
    publish("news", "x" * 10_000)
    assert [client.read() for _ in range(3)] == [(TEXT, b"one"), (TEXT, b'{"a":[1]}'), (BINARY, b"two\xff")]
    assert client.read() == (TEXT, b"x" * 10_000)
    client.close()
    assert eventually(lambda: all_closed(server))


def test_one_view_serves_event_streams_and_websockets(held):
    server = held()
    client = Client(server)
    with socket.create_connection(server.address) as other, other.makefile("rb") as events:
        other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: server.census()["held"] == 2)
        publish("news", "one")
        while (line := events.readline()) != b"data: one\n":
            assert line
    assert client.read() == (TEXT, b"one")
    client.close()


def test_each_message_is_a_call_in_a_tasklet_of_its_own(held):
    found = []

    def on_message(message, client):
        found.append((message, syncless.current().number))
        client.send(message)
        client.send([client.remote_addr])

    server = held(on_message)
    client = Client(server)
    for opcode, payload in ((TEXT, "ä".encode()), (BINARY, b"\xff")):
        client.send(opcode, payload)
        assert [client.read(), client.read()] == [(opcode, payload), (TEXT, b'["127.0.0.1"]')]
    (first, one), (second, other) = found
    assert (first, second) == ("ä", b"\xff") and one != other
    client.close()


def test_messages_of_a_client_are_called_in_their_order_one_at_a_time(held):
    running, gate = [], syncless.Queue()

    def on_message(message, client):
        running.append(message)
        assert len(running) == 1
        gate.get()
        running.remove(message)
        client.send(message)

    server = held(on_message)
    clients = [Client(server), Client(server, OPENING + frame(TEXT, b"early"))]  # with the handshake
    assert eventually(lambda: running == ["early"])
    gate.put(None)
    assert clients[1].read() == (TEXT, b"early")
    clients[0].sock.sendall(b"".join(frame(TEXT, b"%d" % number) for number in range(20)))
    for number in range(20):
        assert eventually(lambda: running == [str(number)])  # noqa: B023
        gate.put(None)
        assert clients[0].read() == (TEXT, b"%d" % number)
    for client in clients:
        client.close()


def test_call_that_waits_holds_up_no_other_client_and_no_message_to_its_own(held):
    gate = syncless.Queue()

    def on_message(message, client):
        if message == "wait":
            gate.get()
        client.send("done")

    server = held(on_message)
    slow, quick = Client(server), Client(server)
    slow.send(TEXT, b"wait")
    quick.send(TEXT, b"go")
    assert quick.read() == (TEXT, b"done")
    publish("news", "meanwhile")
    assert slow.read() == (TEXT, b"meanwhile")
    gate.put(None)
    assert slow.read() == (TEXT, b"done")
    slow.close()
    quick.close()


def test_as_many_calls_run_at_a_time_as_requests_may(held):
    running, gate = [], syncless.Queue()

    def on_message(message, client):
        running.append(message)
        gate.get()
        running.remove(message)
        client.send("done")

    server = held(on_message, requests=2)
    clients = [Client(server) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(TEXT, b"%d" % number)
        assert eventually(lambda: len(running) == min(number + 1, 2))  # noqa: B023
    clients[3].close()
    assert running == ["0", "1"]
    for _ in clients:
        gate.put(None)
    for client in clients[:3] + clients[4:]:
        assert client.read() == (TEXT, b"done")
        client.close()


def test_frames_in_pieces_pings_and_fragments(held):
    server = held(lambda message, client: client.send(message))
    client = Client(server)
    whole = (
        frame(TEXT, b"ab", fin=False) + frame(PING, b"p") + frame(0, b"c\xc3", fin=False) + frame(0, b"\xa4")
    )
    for number in range(len(whole)):
        client.sock.sendall(whole[number : number + 1])
        syncless.sleep(0)
    assert client.read() == (PONG, b"p")
    assert client.read() == (TEXT, "abcä".encode())
    client.send(BINARY, b"x" * 200_000)
    assert client.read() == (BINARY, b"x" * 200_000)
    client.close()


def test_client_without_a_function_is_listened_to_and_ignored(held):
    server = held()
    client = Client(server)
    client.send(TEXT, b"hello")
    client.send(PING)
    assert client.read() == (PONG, b"")
    client.close()


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (frame(TEXT, b"x" * 1001), 1009),
        (frame(TEXT, b"x" * 600, fin=False) + frame(0, b"x" * 600), 1009),
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"x" * 200 + b"\xff" + b"x" * 200)[:300], 1007),  # amid a frame
        (frame(0, b"x"), 1002),
        (frame(TEXT, b"x", masked=False), 1002),
        (frame(3, b"x"), 1002),
        (frame(CLOSE, b"x"), 1002),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ],
)
def test_breach_of_the_protocol_closes(held, broken, code, monkeypatch):
    server = held(lambda message, client: client.send(message), websocket_bytes=1000)
    client = Client(server)
    client.send(TEXT, b"fine")
    assert client.read() == (TEXT, b"fine")
    client.sock.sendall(broken)
    assert client.closing() == code
    client.close()


def test_client_closes(held):
    server = held(lambda message, client: client.send(message))
    client = Client(server)
    client.sock.sendall(frame(TEXT, b"last") + frame(CLOSE, b"\x0f\xa0bye") + frame(TEXT, b"ignored"))
    assert client.read() == (TEXT, b"last")
    assert client.read() == (CLOSE, b"\x0f\xa0bye")
    assert client.file.read() == b"" and server.census().get("held", 0) == 0
    client.close()


def test_function_closes_and_sends_no_more(held):
    outcomes = []

    def on_message(message, client):
        client.close(4000, "ä" * 100)
        client.close()
        outcomes.append(client.closed)
        with pytest.raises(WebSocketClosed):
            client.send("too late")
        outcomes.append(client)

    server = held(on_message)
    client = Client(server)
    client.send(TEXT, b"x")
    assert client.closing() == 4000 and outcomes[0] is True
    client.close()
    assert eventually(lambda: all_closed(server))
    late = outcomes[1]
    late.close()
    assert late.closed and late.remote_addr is None
    with pytest.raises(WebSocketClosed):
        late.send("x")


def test_function_that_fails_is_logged_and_closes_with_1011(held, capfd):
    def on_message(message, client):
        raise ValueError("no such room")

    client = Client(held(on_message))
    client.send(TEXT, b"x")
    assert client.closing() == 1011
    client.close()
    assert "no such room" in capfd.readouterr().err


def test_function_fails_whose_client_was_dropped_before_it_began(held, capfd):
    handles = []

    def on_message(message, client):
        handles.append(client)
        assert message == "first", f"closed: {client.closed}"

    server = held(on_message, event_bytes=1000)
    client = Client(server, room=4096)
    client.send(TEXT, b"first")
    assert eventually(lambda: handles)
    client.send(TEXT, b"second")
    count = len(syncless.tasklets())
    while len(syncless.tasklets()) == count:
        syncless.sleep(0)
    with pytest.raises(WebSocketClosed, match="too slow"):  # before the first turn of the second call
        for _ in range(1000):
            handles[0].send(b"x" * 10_000)
    assert eventually(lambda: len(handles) == 2)
    assert "closed: True" in capfd.readouterr().err
    client.close()


def test_unfit_messages_are_refused_where_they_are_sent(held):
    errors = []

    def on_message(message, client):
        try:
            client.send("x" * (Limits().shared_message_bytes + 1))
        except TooLarge as error:
            errors.append(error)
        try:
            run_in_thread(lambda: client.send("x"))
        except RuntimeError as error:
            errors.append(error)
        client.send("fine")

    client = Client(held(on_message))
    client.send(TEXT, b"x")
    assert client.read() == (TEXT, b"fine")
    assert "shared_message_bytes" in str(errors[0]) and "another thread" in str(errors[1])
    client.close()


def test_hang_up_frees_a_websocket_at_once(held, region):
    server = held()
    clients = [Client(server) for _ in range(2)]
    clients[0].close()
    assert eventually(lambda: server.census()["held"] == 1)
    clients[1].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    clients[1].close()
    assert eventually(lambda: all_closed(server))
    assert eventually(lambda: region.owners_of_places() == [])


def test_messages_before_a_hang_up_are_called(held):
    found, gate = [], syncless.Queue()

    def on_message(message, client):
        gate.get()
        found.append((message, client.closed))

    server = held(on_message)
    client = Client(server)
    client.sock.sendall(frame(TEXT, b"one") + frame(TEXT, b"two"))
    client.close()
    gate.put(None)
    gate.put(None)
    assert eventually(lambda: all_closed(server))
    assert [message for message, _ in found] == ["one", "two"]


def test_slow_client_is_dropped_and_counted_and_holds_up_no_other(held):
    server = held(event_bytes=20_000)
    slow, quick = Client(server, room=4096), Client(server)
    for number in range(3000):
        publish("news", f"{number:4}" * 1000)
        assert quick.read() == (TEXT, f"{number:4}".encode() * 1000)
        if server.census()["held"] == 1:
            break
    figures = server.lanes[0].figures()
    assert figures["held_dropped"] == 1 and figures["held_streams"] == 1
    with pytest.raises(OSError):
        while slow.file.read(1000):
            pass
        raise AssertionError("the stream ended as if it were whole")
    slow.close()
    quick.close()


def test_stop_tells_clients_at_once(held):
    server = held(stop_seconds=1000, stop_notice_seconds=500)
    client = Client(server)
    server.stop()
    assert client.closing() == 1001
    client.send(CLOSE, b"\x03\xe9")
    client.close()


def test_stop_waits_for_a_call(held):
    gate, found = syncless.Queue(), []

    def on_message(message, client):
        found.append(message)
        gate.get()
        found.append(client.closed)

    server = held(on_message, stop_seconds=1000)
    client = Client(server)
    client.send(TEXT, b"x")
    assert eventually(lambda: found)
    stopping = syncless.spawn(server.stop)
    assert client.read()[0] == CLOSE
    assert found == ["x"] and server.census()["held"] == 1
    gate.put(None)
    assert client.file.read() == b""
    client.close()
    stopping.join()
    assert found == ["x", True]


@pytest.mark.virtual_time
def test_call_that_a_stop_cuts_off_before_it_begins_leaves_its_place_to_others(held):
    gate, found = syncless.Event(), []

    def on_message(message, client):
        found.append(message)
        gate.wait()

    server, other = (held(on_message, limits=Limits(requests=1)) for _ in range(2))
    one, two, three = Client(server), Client(server), Client(other)
    one.send(TEXT, b"1")
    assert eventually(lambda: found)
    two.send(TEXT, b"2")
    syncless.sleep(1)  # it has come, and waits for its turn

    @syncless.spawn
    def stop():
        gate.wait()
        server.stop(0)

    syncless.sleep(0)
    syncless.spawn(gate.set)
    stop.join()
    assert found == ["1"]
    three.send(TEXT, b"3")
    assert eventually(lambda: found == ["1", "3"])
    for client in (one, two, three):
        client.close()


@pytest.mark.virtual_time
def test_silent_client_is_pinged_and_one_that_does_not_answer_is_closed(held):
    server = held()
    alive, dead = Client(server), Client(server)

    def answer():
        for _ in range(5):
            assert alive.read() == (PING, b"")
            alive.send(PONG)

    answering = syncless.spawn(answer)
    assert dead.read() == (PING, b"")
    assert dead.file.read() == b""
    answering.join()
    assert server.census()["held"] == 1
    alive.close()
    dead.close()


def test_malformed_handshake_is_refused(held):
    server = held()
    for wrong, status in ((b"13", b"426"), (b"dGhl", b"400")):
        with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
            client.sendall(OPENING.replace(wrong, b"1"))
            assert answer.readline().split()[1] == status
    assert eventually(lambda: all_closed(server))


def test_websocket_through_tls(held, authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    server = held(lambda message, client: client.send(message + "!"), certfile=certfile, keyfile=keyfile)

    def client():
        sock = blocking.create_connection(server.address, timeout=60)
        tls = authority.context.wrap_socket(sock, server_hostname="localhost")
        with tls, tls.makefile("rb") as file:
            tls.sendall(OPENING + frame(TEXT, b"one"))
            while file.readline() != b"\r\n":
                pass
            first = file.read(6)
            publish("news", "two")
            return first + file.read(5)

    assert run_in_thread(client) == b"\x81\x04one!\x81\x03two"
    assert eventually(lambda: all_closed(server))


def test_flask_view_returns_it(held):
    flask = pytest.importorskip("flask")
    site = flask.Flask(__name__)

    @site.route("/<path>", websocket=True)
    def view(path):
        return hold("news", on_message=lambda message, client: client.send([path, message]))

    client = Client(held(application=site))
    publish("news", "one")
    assert client.read() == (TEXT, b"one")
    client.send(TEXT, b"x")
    assert client.read() == (TEXT, b'["ws","x"]')
    client.close()


def test_view_that_fails_after_it_has_begun_to_hold(held):
    def failing(environ, start_response):
        yield from hold("news")(environ, start_response)
        raise RuntimeError

    server = held(application=failing)
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        client.sendall(OPENING)
        assert b" 101 " in answer.readline()
        client.sendall(frame(CLOSE, b"\x03\xf3"))
        assert answer.read().endswith(b"\x88\x02\x03\xf3")
    assert eventually(lambda: all_closed(server))


def test_websocket_costs_little_while_its_client_is_silent(held):
    """Memory of the server, in this process."""
    number = 200

    def on_message(message, client):
        client.send(message)

    server = held(on_message, defer_accept=False)
    first = Client(server)  # what the first one imports and fills
    first.send(TEXT, b"x")
    assert first.read() == (TEXT, b"x")
    first.close()
    assert eventually(lambda: all_closed(server))
    clients = [socket.create_connection(server.address) for _ in range(number)]
    assert eventually(lambda: server.census()["connections"] == number)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for client in clients:  # one at a time, so that nothing is kept for many
        client.sendall(OPENING + frame(TEXT, b"x" * 1000))
        got = b""
        while b"x" * 1000 not in got:
            got += client.recv(10_000)
    gc.collect()  # handshakes leave cycles of the library's
    each = (tracemalloc.get_traced_memory()[0] - before) / number
    tracemalloc.stop()
    assert 100 < each < 350, each  # 250 more are the connection's
    publish("news", "one")
    for client in clients:
        assert client.recv(10_000) == b"\x81\x03one"
        client.close()
    assert eventually(lambda: all_closed(server))
