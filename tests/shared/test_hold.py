"""hold(): streams that the server goes on with when their requests have ended."""

import resource
import socket as blocking
import subprocess
import sys
import tracemalloc

import pytest

import syncless
from syncless._core.calls.threads import run_in_thread
from syncless.http import running
from syncless.io import socket
from syncless.shared import InvalidName, publish
from syncless.wsgi import Limits, Server, hold
from tests.waiting import eventually

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def app(environ, start_response):
    return hold("news", "user:*")(environ, start_response)


@pytest.fixture
def held():
    """Starts servers."""
    servers = []

    def start(application=app, **options):
        servers.append(Server(application, port=0, **options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop(0)
        assert server.census() == {}


def all_closed(server):
    return not server.census().get("connections")


class Client:
    """Reads the lines of a stream."""

    def __init__(self, server, request=REQUEST, room=None, source=None):
        before = server.census().get("held", 0)
        self.sock = socket.socket()
        if room is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        if source is not None:
            self.sock.bind((source, 0))
        self.sock.connect(server.address)
        self.sock.sendall(request)
        self.file = self.sock.makefile("rb")
        self.head = b"".join(iter(self.file.readline, b"\r\n"))
        assert eventually(lambda: server.census().get("held", 0) > before)

    def lines(self, number):
        """The next lines of events, without chunks, retry and empty lines."""
        found = []
        while len(found) < number:
            line = self.file.readline()
            assert line, "the stream has ended"
            if line.startswith((b"data", b"id", b"event", b":")):
                found.append(line.decode().strip())
        return found

    def texts(self, number):
        """The texts of the next events."""
        return [line[6:] for line in self.lines(2 * number) if line.startswith("data")]

    def close(self):
        self.file.close()
        self.sock.close()


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_stream_gets_what_is_published_when_its_request_has_ended(held, version):
    server = held()
    client = Client(server, REQUEST.replace(b"1.1", version))
    assert b"200 OK" in client.head and b"Content-Type: text/event-stream" in client.head
    assert (b"chunked" in client.head) == (version == b"1.1")
    assert server.census()["active"] == 0 and server.census()["held"] == 1
    publish("news", "one")
    publish("other", "x")
    publish("user:7", {"a": [1]})
    publish("news", b"two\r\nthree")
    got = client.lines(7)
    assert [line for line in got if line[0] == "d"] == [
        "data: one",
        'data: {"a":[1]}',
        "data: two",
        "data: three",
    ]
    assert [line.partition("-")[2] for line in got if line[0] == "i"] == ["1", "3", "4"]
    client.close()


def test_streams_get_the_messages_in_their_order(held):
    server = held()
    clients = [Client(server) for _ in range(20)]
    for number in range(1000):
        publish("news" if number % 3 else "user:1", str(number))
        if number % 100 == 0:
            syncless.sleep(0)
    for client in clients:
        assert client.texts(1000) == [str(number) for number in range(1000)]
        client.close()


def test_message_comes_once_to_a_stream_that_holds_several_topics_with_it(held):
    server = held(lambda *args: hold("news", "n*", "*", "news")(*args))
    client = Client(server)
    publish("news", "one")
    publish("n", "two")
    publish("x", "three")
    assert client.texts(3) == ["one", "two", "three"]
    client.close()


def test_stream_hears_what_is_published_while_its_view_runs(held):
    def view(environ, start_response):
        response = hold("news")
        publish("news", "meanwhile")
        return response(environ, start_response)

    publish("news", "before")
    client = Client(held(view))
    publish("news", "later")
    assert client.texts(2) == ["meanwhile", "later"]
    client.close()


def with_id(last):
    return REQUEST.replace(b"Host", b"Last-Event-ID: " + last + b"\r\nHost")


def test_stream_goes_on_behind_the_last_event_of_its_client(held, region):
    server = held()
    for number in range(10):
        publish("news" if number % 2 else "other", str(number))
    client = Client(server, with_id(region.mark + b"-4"))
    publish("news", "live")
    assert client.texts(4) == ["5", "7", "9", "live"]
    client.close()
    for foreign in (b"00000000-4", b"nonsense", b"-1", region.mark + b"-99"):
        assert eventually(lambda: all_closed(server))
        client = Client(server, with_id(foreign))
        publish("news", "live")
        expected = ["1"] if foreign.count(b"-") and foreign != b"-1" else ["live"]
        assert client.texts(2 if expected == ["1"] else 1)[-1:] == expected, foreign
        client.close()


def test_client_is_told_of_messages_that_are_overwritten(held, region):
    server = held()
    for number in range(1000):
        publish("news", f"{number:4}" * 50)
    client = Client(server, with_id(region.mark + b"-100"))
    event, missed, number = client.lines(3)
    first = int(number.partition("-")[2])
    assert event == "event: lagged" and int(missed[6:]) == first - 101 and 600 < first < 900
    client.close()


def test_history_is_no_longer_than_what_may_wait_for_a_client(held, region, monkeypatch):
    monkeypatch.setattr(running, "_limits", Limits(event_bytes=2000))
    server = held()
    for number in range(100):
        publish("news", f"{number:4}" * 25)
    client = Client(server, with_id(region.mark + b"-50"))
    event, missed = client.lines(2)
    assert event == "event: lagged" and int(missed[6:]) > 20
    client.close()


def test_hang_up_frees_a_stream_at_once(held, region):
    server = held()
    clients = [Client(server) for _ in range(3)]
    clients[0].close()
    assert eventually(lambda: server.census()["held"] == 2)
    clients[1].sock.shutdown(socket.SHUT_WR)
    assert eventually(lambda: server.census()["held"] == 1)
    clients[2].sock.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)  # is thrown away
    publish("news", "one")
    assert clients[2].texts(1) == ["one"]
    clients[2].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    clients[2].close()
    assert eventually(lambda: all_closed(server))
    assert eventually(lambda: region.owners_of_places() == [])  # its loop is not woken any more
    clients[1].close()


def test_slow_client_is_dropped_and_counted_and_holds_up_no_other(held):
    server = held(event_bytes=20_000)
    slow, quick = Client(server, room=4096), Client(server)
    for number in range(3000):
        publish("news", f"{number:4}" * 1000)
        assert quick.texts(1) == [f"{number:4}" * 1000]
        if server.census()["held"] == 1:
            break
    assert server.census()["held"] == 1
    figures = server.lanes[0].figures()
    assert figures["held_dropped"] == 1 and figures["held_streams"] == 1
    with pytest.raises(OSError):
        while slow.file.readline():
            pass
        raise AssertionError("the stream ended as if it were whole")
    slow.close()
    quick.close()


def test_client_that_comes_up_again_goes_on(held):
    server = held(event_bytes=1 << 20)
    client = Client(server, room=4096)
    while not server.census().get("slow"):
        publish("news", "x" * 10_000)
        syncless.sleep(0)
    publish("news", "last")
    while client.texts(1) != ["last"]:
        pass
    publish("news", "then")
    assert client.texts(1) == ["then"] and server.census()["slow"] == 0
    client.close()


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_stop_ends_streams_in_order(held, version):
    """At once, not after stop_notice_seconds."""
    server = held(stop_seconds=1000, stop_notice_seconds=500)
    client = Client(server, REQUEST.replace(b"1.1", version))
    publish("news", "one")
    assert client.texts(1) == ["one"]
    server.stop()
    assert client.file.read() == (b"\n\r\n0\r\n\r\n" if version == b"1.1" else b"\n")
    client.close()


def test_stream_shows_that_it_lives(held):
    server = held(ping_seconds=0.02)
    client = Client(server)
    assert client.lines(3) == [":"] * 3
    client.close()


def test_head_has_no_stream(held):
    server = held()
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        for _ in range(2):
            client.sendall(REQUEST.replace(b"GET", b"HEAD"))
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
            assert b"Content-Type: text/event-stream\r\n" in list(iter(answer.readline, b"\r\n"))
        assert "held" not in {name for name, number in server.census().items() if number}
    assert eventually(lambda: all_closed(server))


def test_stream_through_tls(held, authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    server = held(certfile=certfile, keyfile=keyfile)

    def client():
        sock = blocking.create_connection(server.address, timeout=60)
        tls = authority.context.wrap_socket(sock, server_hostname="localhost")
        with tls, tls.makefile("rb") as file:
            tls.sendall(REQUEST)
            while not file.readline().startswith(b"retry"):
                pass
            publish("news", "one")
            publish("news", "two")
            found = []
            while len(found) < 2:
                line = file.readline()
                if line.startswith(b"data"):
                    found.append(line)
            return found

    assert run_in_thread(client) == [b"data: one\n", b"data: two\n"]
    assert eventually(lambda: all_closed(server))


def test_stream_whose_bytes_are_changed_on_their_way_is_not_held(held):
    def shouting(environ, start_response):
        return (part.upper() + b" " for part in app(environ, start_response))

    server = held(shouting)
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        client.sendall(REQUEST)
        while not answer.readline().startswith(b"RETRY"):
            pass
        publish("news", "one")
        while answer.readline() != b"DATA: ONE\n":
            pass
        assert server.census()["active"] == 1 and server.census()["held"] == 0


def test_request_that_fails_after_it_has_begun_to_hold_is_cut_off(held):
    def failing(environ, start_response):
        yield from app(environ, start_response)
        raise RuntimeError

    server = held(failing)
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        client.sendall(REQUEST)
        with pytest.raises(OSError):
            while answer.readline():
                pass
            raise AssertionError("the stream ended as if it were whole")
    assert eventually(lambda: all_closed(server))


def test_topics_that_cannot_be_held_are_refused():
    with pytest.raises(InvalidName, match="at least one"):
        hold()
    with pytest.raises(InvalidName, match="topic"):
        hold("news", "")


def test_flask_view_returns_it(held):
    flask = pytest.importorskip("flask")
    site = flask.Flask(__name__)

    @site.get("/")
    def view():
        return hold("news")

    server = held(site)
    client = Client(server)
    publish("news", "one")
    assert client.texts(1) == ["one"] and b"text/event-stream" in client.head
    with socket.create_connection(server.address) as other, other.makefile("rb") as answer:
        other.sendall(REQUEST.replace(b"GET", b"HEAD").replace(b"Host", b"Connection: close\r\nHost"))
        assert answer.read().endswith(b"\r\n\r\n")
    client.close()


def test_elsewhere_it_is_an_iterable_that_goes_on(region):
    publish("news", "before")
    response = hold("news", after=f"{region.mark.decode()}-0")
    parts = iter(response)
    assert next(parts).startswith(b"retry: ")
    assert next(parts) == b"id: %b-1\ndata: before\n\n" % region.mark
    publish("news", [1])
    assert next(parts) == b"id: %b-2\ndata: [1]\n\n" % region.mark
    parts.close()
    assert region.owners_of_places() == []


CLIENTS = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
port, number = int(sys.argv[1]), int(sys.argv[2])
request = b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"

def read_to(client, word):
    got = b""
    while word not in got:
        part = client.recv(10_000)
        assert part, "the stream has ended"
        got += part
    return got

clients = []
for each in range(number):
    client = socket.socket()
    client.bind((f"127.0.{each // 40_000}.{each // 200 % 200 + 1}", 0))
    client.connect(("127.0.0.1", port))
    client.sendall(request)
    read_to(client, b"retry")
    clients.append(client)
print("held", flush=True)
sys.stdin.readline()
print(sum(read_to(client, b"data: two").count(b"data: ") for client in clients), flush=True)
"""
"""A process of its own: one alone has too few descriptors for the connections and the clients."""


@pytest.mark.slow
def test_twenty_thousand_streams_cost_600_bytes_each_at_most(held):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(20_000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    users = iter(range(-1, number))
    server = held(lambda *args: hold("news", f"user:{next(users)}")(*args), defer_accept=False)
    Client(server).close()
    assert eventually(lambda: all_closed(server))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    command = [sys.executable, "-c", CLIENTS, str(server.port), str(number)]
    clients = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert run_in_thread(clients.stdout.readline) == "held\n"
        assert server.census()["held"] == number
        each = (tracemalloc.get_traced_memory()[0] - before) / number
        tracemalloc.stop()
        assert 100 < each < 850, each  # 250 of them are the connection's
        for text in ("one", "two"):
            publish("news", text)
        clients.stdin.write("\n")
        clients.stdin.flush()
        assert run_in_thread(clients.stdout.readline) == f"{2 * number}\n"
    finally:
        clients.stdin.close()
        assert run_in_thread(clients.wait) == 0
        clients.stdout.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert eventually(lambda: all_closed(server))


def addresses(number):
    """So many connections have no ports left on one."""
    return [f"127.0.{number // 200 // 200}.{number // 200 % 200 + 1}" for number in range(number)]


def test_many_streams_cost_little_and_all_get_each_message(held):
    """Each holds a topic of its own, too. The memory is that of the server, in this process. Requests come
    one at a time: else the server keeps buffers for the responses of many, how many depends on the load."""
    number = 500
    users = iter(range(-1, number))
    server = held(lambda *args: hold("news", f"user:{next(users)}")(*args), defer_accept=False)
    Client(server).close()  # what the first one imports
    assert eventually(lambda: all_closed(server))
    clients = []
    for source in addresses(number):
        clients.append(socket.socket())
        clients[-1].bind((source, 0))
        clients[-1].connect(server.address)
    assert eventually(lambda: server.census()["connections"] == number)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for client in clients:
        client.sendall(REQUEST)
        while b"retry" not in client.recv(10_000):
            pass
    assert eventually(lambda: server.census().get("held") == number)
    each = (tracemalloc.get_traced_memory()[0] - before) / number
    tracemalloc.stop()
    assert 100 < each < 350, each  # 250 more are the connection's
    for text in ("one", "two"):
        publish("news", text)
    publish(f"user:{number - 1}", "you")
    for client in clients:
        got = b""
        while b"data: two" not in got:
            got += client.recv(10_000)
        assert got.count(b"data: ") == 2 or b"data: you" in got
    for client in clients:
        client.close()
    assert eventually(lambda: all_closed(server))
