"""Things that one request leaves to the next: the environ for the same head, the response head of the same
objects. Nobody can tell."""

import gc
import weakref

import pytest

import syncless
from syncless.wsgi import Server
from tests.plugin import Client
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def plain(environ):
    return {key: value for key, value in environ.items() if key != "wsgi.input"}


def answer(start_response, body=b"ok"):
    start_response("200 OK", [])
    return [body]


SPOILERS = {
    "nothing": lambda environ: None,
    "set": lambda environ: environ.__setitem__("app.value", 1),
    "replace": lambda environ: environ.__setitem__("PATH_INFO", "/spoilt"),
    "delete": lambda environ: environ.__delitem__("HTTP_HOST"),
    "pop": lambda environ: environ.pop("HTTP_COOKIE"),
    "popitem": lambda environ: environ.popitem(),
    "clear": lambda environ: environ.clear(),
    "update": lambda environ: environ.update(REMOTE_ADDR="spoilt"),
    "union": lambda environ: environ.__ior__({"SCRIPT_NAME": "/spoilt"}),
    "setdefault": lambda environ: environ.setdefault("app.default", []),
    "set and delete": lambda environ: (environ.__setitem__("app.value", 1), environ.__delitem__("app.value")),
    "replace the input": lambda environ: environ.__setitem__("wsgi.input", None),
}


@pytest.mark.parametrize("name", SPOILERS)
def test_changes_to_an_environ_do_not_reach_other_requests(start, name):
    seen, inputs = [], []

    def app(environ, start_response):
        seen.append(plain(environ))
        inputs.append(type(environ["wsgi.input"]))
        SPOILERS[name](environ)
        return answer(start_response)

    client = start.client(start(app))
    for _ in range(6):
        assert client.get("/path?query", "Cookie: a=b\r\n")[2] == b"ok"
    assert seen == [seen[0]] * 6 and set(inputs) == {inputs[0]}
    assert (seen[0]["PATH_INFO"], seen[0]["HTTP_COOKIE"]) == ("/path", "a=b")


def environ_ids(client_list, seen):
    """id() of the environ that each got: that of its own, as long as all that are remembered are alive."""
    for client in client_list:
        client.get("/", "Cookie: a\r\n")
    ids, seen[:] = list(seen), []
    return ids


def remembering(start, **options):
    seen, fillers = [], []

    def app(environ, start_response):
        seen.append(id(environ))
        fillers.append(
            {"its": "own"}
        )  # takes the place of one that has been freed, so that no number comes twice
        return answer(start_response)

    return start(app, **options), seen


def test_each_active_connection_has_its_last_head_remembered(start):
    """Far more connections than the 64 descriptors that there once was room for."""
    server, seen = remembering(start)
    clients = [start.client(server) for _ in range(150)]
    rounds = [environ_ids(clients, seen) for _ in range(4)]
    assert len(set(rounds[2])) == 150 and rounds[2] == rounds[3]
    assert server.census()["remembered"] == 150
    for client in clients[:100]:
        client.close()
    assert eventually(lambda: server.census()["remembered"] == 50)
    assert environ_ids(clients[100:], seen) == rounds[2][100:]


def test_memory_of_active_connection_is_not_taken_away(start):
    server, seen = remembering(start, remembered=2)
    first, second, third = (start.client(server) for _ in range(3))
    before = [environ_ids([first, second], seen) for _ in range(3)][-1]
    rounds = [environ_ids([first, second, third], seen) for _ in range(5)]
    assert [ids[:2] for ids in rounds] == [before] * 5 and len({ids[2] for ids in rounds}) == 5
    assert server.census()["remembered"] == 2


def test_memory_of_silent_connection_is_given_to_active_one(start):
    server, seen = remembering(start, remembered=2)
    first, second, third = (start.client(server) for _ in range(3))
    before = [environ_ids([first, second], seen) for _ in range(3)]
    syncless.sleep(1.1)
    ids = environ_ids([second, third] * 3, seen)
    assert ids[0::2] == [before[2][1]] * 3 and ids[3] == ids[5] not in before[2]
    assert [len(set(environ_ids([first] * 3, seen))), server.census()["remembered"]] == [1, 2]
    first.close()
    third.close()
    assert eventually(lambda: server.census()["remembered"] == 1)
    assert environ_ids([second], seen) == [before[2][1]]


def test_nothing_is_remembered_if_so_asked(start):
    server, seen = remembering(start, remembered=0)
    client = start.client(server)
    assert all(environ_ids([client], seen) for _ in range(3)) and server.census()["remembered"] == 0


def test_environ_that_the_application_keeps_is_not_reused(start):
    kept = []
    keepers = [
        lambda environ: environ,
        lambda environ: environ.items(),
        lambda environ: lambda: environ,
        lambda environ: environ["wsgi.input"],
    ]

    def app(environ, start_response):
        kept.append(keepers[len(kept) // 3](environ))
        return answer(start_response)

    client = start.client(start(app))
    for _ in range(12):
        client.get("/")
    dicts, views, closures, inputs = kept[:3], kept[3:6], kept[6:9], kept[9:]
    for number, environ in enumerate([*dicts, *(closure() for closure in closures)]):
        assert environ.setdefault("app.mine", number) == number
    assert not any("app.mine" in dict(view) for view in views)
    assert len({id(one) for one in inputs}) == 3


def test_an_environ_in_use_elsewhere_is_not_given_away(start):
    """A tasklet that goes on after the response, and a request that waits while the same head comes on
    another connection."""
    go_on, seen = syncless.Event(), []

    def later(environ):
        go_on.wait(10)
        seen.append((environ["PATH_INFO"], environ.get("app.mark")))

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/spawn":
            syncless.spawn(later, environ)
        elif environ["PATH_INFO"] == "/wait":
            later(environ)
        elif len(seen) == 0:
            environ["app.mark"] = environ["PATH_INFO"]
        return answer(start_response, plain(environ).get("app.mark", "-").encode())

    server = start(app)
    first, second = start.client(server), start.client(server)
    for _ in range(3):
        first.get("/spawn")
    second.send(b"GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
    for _ in range(3):
        assert first.get("/mark")[2] == b"/mark"
    go_on.set()
    assert second.response()[2] == b"-"
    assert eventually(lambda: len(seen) == 4)
    assert sorted(seen) == [("/spawn", None)] * 3 + [("/wait", None)]


HEADS = [
    (b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /a  HTTP/1.1 - - "),
    (b"GET /a?q HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /a q HTTP/1.1 - - "),
    (b"GET /%61 HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /a  HTTP/1.1 - - "),
    (b"PUT /a HTTP/1.1\r\nHost: t\r\n\r\n", b"PUT /a  HTTP/1.1 - - "),
    (b"GET /a HTTP/1.1\r\nHost: t\r\nX: 1\r\n\r\n", b"GET /a  HTTP/1.1 1 - "),
    (b"GET /a HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab", b"GET /a  HTTP/1.1 - 2 ab"),
    (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /" + b"a" * 300 + b"  HTTP/1.1 - - "),
    (b"GET /a HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n\r\n", b"GET /a  HTTP/1.0 - - "),
    (b"\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /a  HTTP/1.1 - - "),
]

OTHERS = HEADS * 2 + [pair for other in HEADS for pair in (HEADS[0], other, HEADS[0], HEADS[0])]


def tell(environ, start_response):
    told = [environ[key] for key in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL")]
    told += [environ.get(key, "-") for key in ("HTTP_X", "CONTENT_LENGTH")]
    return answer(start_response, " ".join([*told, environ["wsgi.input"].read().decode()]).encode())


def test_other_heads_get_other_environs(start):
    server = start(tell)
    clients = [start.client(server) for _ in range(3)]
    for head, expected in OTHERS:
        for times in (1, 2, 5):
            for client in clients:
                client.send(head * times)
            for client in clients:
                assert [client.response()[2] for _ in range(times)] == [expected] * times


def first_requests(server, heads):
    """For each of these, on a connection of its own, the response body and the client's address."""
    for head in heads:
        client = Client(server.address)
        client.send(head)
        yield client.response()[2], client.sock.getsockname()
        client.close()


def test_other_heads_of_first_requests_get_other_environs(start):
    server = start(tell)
    for head, expected in OTHERS:
        assert [body for body, _ in first_requests(server, [head] * 4)] == [expected] * 4
    bodies = [body for body, _ in first_requests(server, [head for head, _ in OTHERS])]
    assert bodies == [expected for _, expected in OTHERS]


@pytest.mark.parametrize("name", SPOILERS)
def test_first_requests_with_the_same_fields_are_read_once(start, name):
    """The fields' values are the same objects then. Nothing else is another request's."""
    seen = []

    def app(environ, start_response):
        seen.append(plain(environ))
        SPOILERS[name](environ)
        return answer(start_response)

    head = b"GET /%d HTTP/1.1\r\nHost: t\r\nCookie: a=b\r\nX: value %d\r\n\r\n"
    heads = [head % (i, i // 5) for i in range(15)]
    addresses = [address for _, address in first_requests(start(app), heads)]
    assert [each.pop("PATH_INFO") for each in seen] == [f"/{i}" for i in range(15)]
    assert [(each.pop("REMOTE_ADDR"), int(each.pop("REMOTE_PORT"))) for each in seen] == addresses
    values = [each.pop("HTTP_X") for each in seen]
    assert values == [f"value {i // 5}" for i in range(15)] and len(set(map(id, values))) == 6
    for each in seen:
        del each["REQUEST_URI"], each["RAW_URI"]
    assert seen == [seen[0]] * 15


def test_trusted_peers_share_no_first_requests(start):
    """What is believed of them is not believed of others."""

    def app(environ, start_response):
        told = f"{environ['REMOTE_ADDR']} {environ.get('HTTP_X_FORWARDED_FOR')}"
        return answer(start_response, told.encode())

    server = start(app, trusted="127.0.0.2")
    for host, told in [("127.0.0.1", b"127.0.0.1 None"), ("127.0.0.2", b"6.6.6.6 6.6.6.6")] * 2:
        for _ in range(4):
            client = Client(server.address, source=(host, 0))
            assert client.get("/", "X-Forwarded-For: 6.6.6.6\r\n")[2] == told
            client.close()


def test_closed_connection_leaves_nothing_to_the_next_one_with_its_descriptor(start):
    waiting, go_on, ports = [], syncless.Event(), []

    def app(environ, start_response):
        ports.append(environ["REMOTE_PORT"])
        if len(ports) == 3:
            waiting.append(True)
            go_on.wait(10)
        return answer(start_response, environ["REMOTE_PORT"].encode())

    server = start(app)
    leaver = start.client(server)
    for _ in range(2):
        leaver.get("/")
    leaver.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
    while not waiting:
        syncless.sleep(0.001)
    leaver.close()
    others = [start.client(server) for _ in range(5)]
    for other in others:
        assert other.get("/")[2] == other.get("/")[2]
    go_on.set()
    for other in others * 2:
        assert other.get("/")[2].decode() == str(other.sock.getsockname()[1])


def test_kept_requests_end_with_the_server():
    class App:
        def __call__(self, environ, start_response):
            return answer(start_response)

    app = App()
    gone = weakref.ref(app)
    server = Server(app, port=0).start()
    client = Client(server.address)
    for _ in range(3):
        client.get("/")
    server.stop(1)
    client.close()
    del app, server
    gc.collect()
    assert gone() is None


def test_memory_of_a_vanished_client_is_released(start):
    """Not in the environs that were kept for it, either: a password may be in them."""

    def kept():
        return sum(
            type(found) is dict and found.get("HTTP_AUTHORIZATION") == "Basic c2VjcmV0"
            for found in gc.get_objects()
        )

    server = start(lambda environ, start_response: answer(start_response))
    client = start.client(server)
    for _ in range(4):
        client.get("/", "Authorization: Basic c2VjcmV0\r\n")
    assert kept()
    client.close()
    while server.census()["connections"]:
        syncless.sleep(0.001)
    assert not kept()


REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: t\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
]


@pytest.mark.parametrize(
    "extra", [[], [("Content-Length", "2")], [("Connection", "close")], [("X-Long", "x" * 3000)]]
)
@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("parts", [[b"ok"], [b"o", b"k"], []])
def test_head_of_the_same_objects_is_framed_for_each_request(start, status, extra, parts):
    """It does not matter which answer the head is remembered from."""
    headers = [("Content-Type", "text/plain"), *extra]
    if ("Content-Length", "2") in extra:
        parts = parts or [b"", b"ok"]  # as promised

    def app(environ, start_response):
        start_response(status, list(headers))
        return list(parts) if status == "200 OK" else []

    def ask(server, request):
        client = start.client(server)
        client.send(request)
        code, fields, body = client.response(head_only=request.startswith(b"HEAD"))
        if fields.get("connection", "keep-alive" if b"HTTP/1.1" in request else "close") == "keep-alive":
            client.send(request)
            assert client.response(head_only=request.startswith(b"HEAD"))[2] == body
        else:
            assert client.at_end()
        client.close()
        del fields["date"]
        return code, fields, body

    def alone(request):
        return ask(start(app), request)

    expected = [alone(request) for request in REQUESTS]
    shared = start(app)
    for before in range(len(REQUESTS)):
        for after in range(len(REQUESTS)):
            assert ask(shared, REQUESTS[before]) == expected[before]
            assert ask(shared, REQUESTS[after]) == expected[after]
