"""The entry for HttpArena, served by its own command: each profile of its meta.json gets the requests of
HttpArena's validation (scripts/validate.sh), and gives the answers that this wants."""

import concurrent.futures
import contextlib
import email.message
import json
import os
import random
import re
import socket
import ssl
import time
import zlib

import pytest

from tests import needs
from tests.examples.test_entries import ENTRIES, Served
from tests.patches import servers
from tests.test_docs import write_certificates

pytestmark = needs.HTTP2
FOLDER = ENTRIES / "httparena" / "syncless"
META = json.loads((FOLDER / "meta.json").read_text())
CODINGS = "br;q=1, gzip;q=0.8"
ITEMS = [
    {
        "id": number,
        "name": f"Widget {number}",
        "category": "electronics",
        "price": 10 + number,
        "quantity": number % 7,
        "active": number % 2 == 0,
        "tags": ["fast", "new"],
        "rating": {"score": number % 50, "count": 127},
    }
    for number in range(1, 51)
]
STATIC = {"reset.css": "text/css", "app.js": "text/javascript", "manifest.json": "application/json"}
SCHEMA = """
    CREATE TABLE items (
        id integer PRIMARY KEY, name text NOT NULL, category text NOT NULL, price integer NOT NULL,
        quantity integer NOT NULL, active boolean NOT NULL, tags jsonb NOT NULL,
        rating_score integer NOT NULL, rating_count integer NOT NULL
    )
"""


def command(folder):
    """The Dockerfile's, with paths of this folder."""
    (words,) = re.findall(r"^CMD (\[.*?\])$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE | re.DOTALL)
    replaced = {"/certs/server.crt": "cert.pem", "/certs/server.key": "key.pem"}
    words = [replaced.get(word, word) for word in json.loads(words.replace("\\\n", ""))]
    return " ".join(words).replace("=/data/static", f"={folder}/static")


def write_data(folder):
    write_certificates(folder)
    (folder / "dataset.json").write_text(json.dumps(ITEMS))
    (folder / "static").mkdir()
    for name in STATIC:
        plain = name.encode() * 2000
        (folder / "static" / name).write_bytes(plain)
        packed = zlib.compressobj(wbits=31)
        (folder / "static" / f"{name}.gz").write_bytes(packed.compress(plain) + packed.flush())


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    needs.module("trustme", "it makes the certificate")
    folder = tmp_path_factory.mktemp("httparena")
    write_data(folder)
    with Served(command(folder), FOLDER, folder, DATASET_PATH=str(folder / "dataset.json")) as server:
        server.folder = folder
        yield server


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same with a database, and a cache."""
    for name in ("psycopg_pool", "redis", "trustme"):
        needs.module(name, "the entry's profiles with a database need it")
    import psycopg

    folder = tmp_path_factory.mktemp("stored")
    write_data(folder)
    with contextlib.ExitStack() as stack:
        url = f"postgres://postgres@127.0.0.1:{stack.enter_context(servers.postgresql())}/postgres"
        cache = f"redis://127.0.0.1:{stack.enter_context(servers.redis())}"
        with psycopg.connect(url) as connection:
            connection.execute(SCHEMA)
            for item in ITEMS:
                score, count = item["rating"]["score"], item["rating"]["count"]
                values = {**item, "tags": json.dumps(item["tags"]), "score": score, "count": count}
                connection.execute(
                    "INSERT INTO items VALUES (%(id)s, %(name)s, %(category)s, %(price)s, %(quantity)s,"
                    " %(active)s, %(tags)s, %(score)s, %(count)s)",
                    values,
                )
        environment = {"DATABASE_URL": url, "DATABASE_MAX_CONN": "256", "REDIS_URL": cache}
        yield stack.enter_context(Served(command(folder), FOLDER, folder, **environment))


def text(answer):
    status, fields, body = answer
    assert (status, fields["Content-Type"]) == (200, "text/plain")
    return body


def listed(answer):
    status, fields, body = answer
    assert (status, fields["Content-Type"]) == (200, "application/json")
    if fields["Content-Encoding"] == "br":
        import brotli

        body = brotli.decompress(body)
    elif fields["Content-Encoding"] == "gzip":
        body = zlib.decompress(body, wbits=31)
    found = json.loads(body)
    assert found["count"] == len(found["items"])
    return found["items"]


def wanted(count, factor):
    return [{**item, "total": item["price"] * item["quantity"] * factor} for item in ITEMS[:count]]


def in_two(served, request, places):
    """The answers to a request that comes in two pieces, one for each place between them. All first pieces
    are sent before any second one."""
    address = "127.0.0.1", served.ports[8080]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in places]
        for client, place in zip(clients, places, strict=True):
            client.sendall(request[:place])
        for client, place in zip(clients, places, strict=True):
            client.sendall(request[place:])
        for client in clients:
            yield b"".join(iter(lambda client=client: client.recv(65536), b""))


def baseline(served):
    one, two, body = (random.randrange(100, 1000) for _ in range(3))
    path = f"/baseline11?a={one}&b={two}"
    assert text(served.ask("GET", path)) == str(one + two).encode()
    assert text(served.ask("POST", path, str(body))) == str(one + two + body).encode()
    assert text(served.ask("POST", path, iter([b"2", b"0"]))) == str(one + two + 20).encode()  # in chunks
    for fields in (b"Content-Length: 2\r\n\r\n20", b"transfer-encoding: chunked\r\n\r\n2\r\n20\r\n0\r\n\r\n"):
        head = b"POST /baseline11?a=13&b=42 HTTP/1.1\r\nhost: localhost\r\nConnection: close\r\n"
        request = head + fields
        for answer in in_two(served, request, range(1, len(request))):
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n75")


def pipelined(served):
    assert text(served.ask("GET", "/pipeline")) == b"ok"
    with socket.create_connection(("127.0.0.1", served.ports[8080]), timeout=60) as client:
        client.sendall(b"GET /pipeline HTTP/1.1\r\nHost: localhost\r\n\r\n" * 16)
        answers = b""
        while answers.count(b"\r\n\r\nok") < 16:
            more = client.recv(65536)
            assert more
            answers += more


def delayed(served):
    def asked(milliseconds):
        started = time.monotonic()
        assert text(served.ask("GET", f"/delay/{milliseconds}")) == str(milliseconds).encode()
        assert time.monotonic() - started >= milliseconds / 1000 * 0.9

    asked(0)
    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        list(threads.map(asked, range(100, 100 + 32 * 13, 13)))


def json_of(port):
    def check(served):
        for _ in range(4):
            count, factor = random.randrange(1, 51), random.randrange(2, 98)
            assert listed(served.ask("GET", f"/json/{count}?m={factor}", port=port)) == wanted(count, factor)

    return check


def compressed(served):
    json_of(8080)(served)
    path = "/json/50?m=3"
    assert served.ask("GET", path)[1]["Content-Encoding"] is None
    for accepted in ("gzip, br", "gzip"):
        answer = served.ask("GET", path, Accept_Encoding=accepted)
        assert answer[1]["Content-Encoding"] in accepted.split(", ")
        assert listed(answer) == wanted(50, 3)


def tls(served, port, protocol):
    """The certificate is the mounted one, and TLS is 1.3."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols([protocol])
    mounted = (served.folder / "cert.pem").read_text()
    first = mounted[: mounted.index("-----END") + len("-----END CERTIFICATE-----\n")]
    with (
        socket.create_connection(("127.0.0.1", served.ports[port]), timeout=60) as client,
        context.wrap_socket(client, server_hostname="localhost") as secure,
    ):
        assert secure.getpeercert(True) == ssl.PEM_cert_to_DER_cert(first)
        assert secure.version() == "TLSv1.3"
        assert secure.selected_alpn_protocol() == protocol


def json_tls(served):
    tls(served, 8081, "http/1.1")
    json_of(8081)(served)


def echoed(served):
    tls(served, 8081, "http/1.1")
    for size in (0, 1, 1024, 10_240, 102_400):
        body = os.urandom(size)
        status, _, answer = served.ask("POST", "/echo", body, port=8081)
        assert (status, answer) == (200, body)
        chunks = iter([body[: size // 2], body[size // 2 :]])
        assert served.ask("POST", "/echo", chunks, port=8081)[2] == body


def static(served):
    tls(served, 8081, "http/1.1")
    for name, kind in STATIC.items():
        path = f"/static/{name}"
        content = (served.folder / "static" / name).read_bytes()
        status, fields, body = served.ask("GET", path, port=8081)
        assert (status, fields.get_content_type(), body) == (200, kind, content)
        _, fields, packed = served.ask("GET", path, port=8081, Accept_Encoding=CODINGS)
        assert (fields["Content-Encoding"], fields.get_content_type()) == ("gzip", kind)
        assert zlib.decompress(packed, wbits=31) == content
    assert served.ask("GET", "/static/missing.txt", port=8081)[0] == 404
    for coding, suffix in (("identity", ""), (CODINGS, ".gz")):  # a file that is replaced is sent at once
        file = served.folder / "static" / f"app.js{suffix}"
        other = os.urandom(file.stat().st_size)
        (served.folder / "new").write_bytes(other)
        os.replace(served.folder / "new", file)
        assert served.ask("GET", "/static/app.js", port=8081, Accept_Encoding=coding)[2] == other


def by_http2(served, path, port, secure=False):
    """The answer to a request by HTTP/2: with prior knowledge, or TLS."""
    from tests.http2_client import Client

    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.create_connection(("127.0.0.1", served.ports[port]), timeout=60))
        if secure:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(["h2"])
            sock = stack.enter_context(context.wrap_socket(sock))
        status, head, body = Client.over(sock).get(path)
    fields = email.message.Message()
    for name, value in head.items():
        fields[name] = value
    return status, fields, body


def baseline_h2(served):
    tls(served, 8443, "h2")
    assert text(by_http2(served, "/baseline2?a=13&b=42", 8443, secure=True)) == b"55"


def static_h2(served):
    for name, kind in STATIC.items():
        status, fields, body = by_http2(served, f"/static/{name}", 8443, secure=True)
        assert (status, fields.get_content_type()) == (200, kind) and body
    assert by_http2(served, "/static/missing.txt", 8443, secure=True)[0] == 404


def baseline_h2c(served):
    assert text(by_http2(served, "/baseline2?a=13&b=42", 8082)) == b"55"


def json_h2c(served):
    for count, factor in ((1, 96), (7, 5), (50, 2)):
        assert listed(by_http2(served, f"/json/{count}?m={factor}", 8082)) == wanted(count, factor)


def websockets(served):
    needs.module("websockets", "the client and the server of WebSockets need it")
    from websockets.sync.client import connect

    address = f"ws://127.0.0.1:{served.ports[8080]}/ws"
    for _ in range(2):
        with connect(address, open_timeout=60, close_timeout=60) as client:
            for message in ("text", os.urandom(256)):
                client.send(message)
                assert client.recv(60) == message
            sent = [f"message {number}" for number in range(16)]
            for message in sent:
                client.send(message)
            assert [client.recv(60) for _ in sent] == sent
    assert served.ask("GET", "/ws")[0] == 426


def rows(stored):
    for limit in (5, 20):
        found = listed(stored.ask("GET", f"/async-db?min=10&max=50&limit={limit}"))
        assert found == [item for item in ITEMS if 10 <= item["price"] <= 50][:limit]
    assert len(listed(stored.ask("GET", "/async-db?min=1&max=99&limit=500"))) == 50
    assert listed(stored.ask("GET", "/async-db?min=9999&max=9999&limit=50")) == []


def crud(stored):
    """The requests of a profile that is no longer: see the entry's README."""
    _, _, body = stored.ask("GET", "/crud/items?category=electronics&page=2&limit=5")
    assert json.loads(body) == {"items": ITEMS[5:10], "total": 5, "page": 2, "limit": 5}
    status, fields, body = stored.ask("GET", "/crud/items/42")
    assert (status, fields["X-Cache"], json.loads(body)) == (200, "MISS", ITEMS[41])
    assert stored.ask("GET", "/crud/items/999999")[0] == 404
    new = {"id": 200001, "name": "New", "category": "test", "price": 25, "quantity": 10}
    assert stored.ask("POST", "/crud/items", json.dumps(new))[0] == 201
    assert stored.ask("POST", "/crud/items", json.dumps(new))[0] == 201
    assert json.loads(stored.ask("GET", "/crud/items/200001")[2])["price"] == 25
    change = {"name": "Changed", "price": 30, "quantity": 5}
    assert stored.ask("PUT", "/crud/items/200001", json.dumps(change))[0] == 200
    status, fields, body = stored.ask("GET", "/crud/items/200001")
    assert (fields["X-Cache"], json.loads(body)["price"]) == ("MISS", 30)
    assert stored.ask("PUT", "/crud/items/999999", json.dumps(change))[0] == 404


CHECKS = {
    "baseline": baseline,
    "limited-conn": baseline,
    "latency-1m": baseline,
    "latency-10k": baseline,
    "pipelined": pipelined,
    "async": delayed,
    "json-comp": compressed,
    "json-tls": json_tls,
    "8gbit": echoed,
    "static-tls": static,
    "baseline-h2": baseline_h2,
    "static-h2": static_h2,
    "baseline-h2c": baseline_h2c,
    "json-h2c": json_h2c,
    "echo-ws": websockets,
    "echo-ws-pipeline": websockets,
    "echo-ws-limited": websockets,
    "async-db": rows,
}


def test_each_profile_has_a_check():
    assert set(META["tests"]) == set(CHECKS)


@pytest.mark.parametrize("check", [check for check in dict.fromkeys(CHECKS.values()) if check is not rows])
def test_profile(served, check):
    check(served)


@pytest.mark.parametrize("check", [rows, crud])
def test_profile_with_a_database(stored, check):
    check(stored)
