"""WebSockets: raw frames, the websockets library as a client, and a real browser."""

import asyncio
import io
import os
import pathlib
import shutil
import ssl
import struct
import sys
import tracemalloc
import urllib.request
import zlib

import pytest

import syncless
from syncless.wsgi import BadRequest, WebSocketClosed
from tests.browser import BROWSER, browse
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

client_library = pytest.importorskip(
    "websockets.sync.client", reason="the websockets library is the client: pip install websockets"
)
from websockets.asyncio import client as asyncio_client  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


def echo(environ, start_response):
    websocket = environ.get("wsgi.websocket")
    if websocket is None:
        start_response("200 OK", [])
        return [b"plain"]
    for message in websocket:
        websocket.send(message)
    return []


def frame(opcode, payload=b"", fin=True, masked=True):
    head = bytes([opcode | (0x80 if fin else 0)])
    size = len(payload)
    bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([size | bit])
    elif size < 65536:
        head += bytes([126 | bit]) + struct.pack("!H", size)
    else:
        head += bytes([127 | bit]) + struct.pack("!Q", size)
    if not masked:
        return head + payload
    mask = b"\x01\x02\x03\x04"
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class Raw:
    """A raw client after its handshake."""

    def __init__(self, start, server, extra="", path="/ws"):
        self.client = start.client(server)
        self.client.send((HANDSHAKE.replace("/ws", path, 1) + extra + "\r\n").encode())
        self.status, self.headers, _ = self.client.response()

    def send(self, *args, **kwargs):
        self.client.send(frame(*args, **kwargs))

    def receive(self):
        """(opcode, payload) of the next frame; None at the end."""
        head = self.client._exactly(2)
        if head is None:
            return None
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.client._exactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.client._exactly(8))
        return head[0] & 0x0F, self.client._exactly(size)


def closed_with(raw):
    opcode, payload = raw.receive()
    assert opcode == 8
    return struct.unpack("!H", payload[:2])[0]


def test_the_handshake_of_the_rfc(start):
    raw = Raw(start, start(echo))
    assert raw.status == 101 and raw.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    raw.send(1, b"hello")
    assert raw.receive() == (1, b"hello")
    raw.send(8, struct.pack("!H", 1000))
    assert closed_with(raw) == 1000 and raw.client.at_end()


def test_every_split_of_the_frames(start):
    data = (
        frame(1, b"one", fin=False)
        + frame(9, b"ping")
        + frame(0, b"two")
        + frame(2, b"\x00" * 300)
        + frame(8, struct.pack("!H", 1000))
    )
    server = start(echo)
    for step in (1, 2, 3, 1000):
        raw = Raw(start, server)
        for i in range(0, len(data), step):
            raw.client.send(data[i : i + step])
            syncless.sleep(0)
        assert [raw.receive() for _ in range(3)] == [(10, b"ping"), (1, b"onetwo"), (2, b"\x00" * 300)]
        assert closed_with(raw) == 1000


@pytest.mark.parametrize("step", [1000, 8192, 70_000, 1_000_000])
@pytest.mark.parametrize("opcode", [1, 2])
def test_long_frames_come_whole_in_any_pieces(start, opcode, step):
    """Each length twice: the second time its head is known. What lies behind a frame stays."""
    payloads = [bytes([65 + n]) * size for n, size in enumerate((126, 8192, 65_535, 65_536, 200_000, 1))]
    data = b"".join(frame(opcode, payload) + frame(9, b"ping") for payload in payloads * 2)
    raw = Raw(start, start(echo))
    sender = syncless.spawn(
        lambda: [
            (raw.client.send(data[at : at + step]), syncless.sleep(0)) for at in range(0, len(data), step)
        ]
    )
    for payload in payloads * 2:
        assert sorted(raw.receive() for _ in range(2)) == sorted([(opcode, payload), (10, b"ping")])
    sender.result()


@pytest.mark.virtual_time(False)  # it computes for longer than a client waits
def test_message_of_many_frames_takes_the_memory_of_one(start):
    """Text and binary, in frames of a byte and without any."""
    size = 10_000
    peaks = []

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        for message in websocket:
            websocket.send(str(message.count("x" if isinstance(message, str) else b"x")))
        return []

    raw = Raw(start, start(app))
    for opcode in (1, 2):
        data = frame(opcode, b"x", fin=False) + (frame(0, b"x", fin=False) + frame(0, fin=False)) * size
        tracemalloc.start()
        try:
            sending = syncless.spawn(raw.client.send, data)
            sending.join()
            raw.send(0, b"x")
            assert raw.receive() == (1, str(size + 2).encode())
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert max(peaks) < 40 * size


def test_frames_after_the_handshake_in_one_packet_are_read(start):
    client = start.client(start(echo))
    client.send((HANDSHAKE + "\r\n").encode() + frame(1, b"early"))
    assert client.response()[0] == 101
    assert client._exactly(7) == b"\x81\x05early"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("Version: 13", "Version: 12"), 426),
        (("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        (("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), 400),
        (("Connection: Upgrade", "Connection: close"), 400),
        (("GET /ws", "POST /ws"), 400),
    ],
)
def test_malformed_handshakes(start, change, status):
    client = start.client(start(echo))
    client.send((HANDSHAKE.replace(*change) + "\r\n").encode())
    found, headers, _ = client.response()
    assert found == status
    if status == 426:
        assert headers["sec-websocket-version"] == "13"
        assert (headers["upgrade"], headers["connection"]) == ("websocket", "Upgrade")


def test_a_request_that_asks_for_no_websocket(start):
    client = start.client(start(echo))
    assert client.get()[2] == client.get("/", "Upgrade: h2c\r\nConnection: Upgrade\r\n")[2] == b"plain"


def test_without_the_library_the_log_says_once_what_to_install(start, errors, monkeypatch):
    monkeypatch.setattr("syncless.http.websocket.websocket.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "simple_websocket", raising=False)
    client = start.client(start(echo, error_log=errors))
    for _ in range(2):
        client.send(f"{HANDSHAKE}\r\n".encode())
        assert client.response()[2] == b"plain"
    assert errors.getvalue().count("pip install 'syncless[websocket]'") == 1


@pytest.mark.parametrize("takes", [True, False])
def test_library_of_the_application_is_not_told_to_install_another(start, errors, monkeypatch, takes):
    """It takes the socket, or refuses a client."""
    monkeypatch.setattr("syncless.http.websocket.websocket.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "simple_websocket", raising=False)
    if not takes:
        monkeypatch.setitem(sys.modules, "simple_websocket", sys)

    def app(environ, start_response):
        if takes:
            environ["werkzeug.socket"].sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        start_response("403 Forbidden", [])
        return []

    server = start(app, error_log=errors)
    for _ in range(2):
        assert Raw(start, server).status == (101 if takes else 403)
    assert eventually(lambda: server.census()["active"] == 0)
    assert errors.getvalue() == ""


def test_an_application_may_refuse(start):
    def app(environ, start_response):
        assert environ["wsgi.websocket"].origin == "http://evil"
        start_response("403 Forbidden", [])
        return [b"no"]

    client = start.client(start(app))
    client.send((HANDSHAKE + "Origin: http://evil\r\n\r\n").encode())
    assert client.response()[0] == 403
    assert (
        client.get("/", "Origin: http://evil\r\nUpgrade: websocket\r\n")[0] == 403
    )  # the connection goes on


def test_response_of_a_framework_after_its_websocket_is_dropped(start):
    """Flask's view must return something; it is dropped, and so is a late start_response()."""

    def app(environ, start_response):
        environ["wsgi.websocket"].send("hello")
        start_response("200 OK", [("Content-Length", "5")])(b"never")
        return [b"sent"]

    raw = Raw(start, start(app))
    assert raw.receive() == (1, b"hello")
    assert closed_with(raw) == 1000
    raw.send(8, struct.pack("!H", 1000))
    assert raw.client.at_end()


def test_protocol_errors_close_with_their_code(start):
    server = start(echo, websocket_bytes=1000)
    for sent, code in (
        (frame(1, b"unmasked", masked=False), 1002),
        (frame(3, b"reserved opcode"), 1002),
        (frame(1, b"\xff\xfe"), 1007),
        (frame(0, b"continues nothing"), 1002),
        (frame(9, b"x" * 126), 1002),
        (frame(8, b"\x00"), 1002),
        (frame(1, b"x" * 1001), 1009),
        (frame(1, b"x" * 600, fin=False) + frame(0, b"x" * 600), 1009),
        (bytes([0xF1, 0x80]) + bytes(4), 1002),  # bits of extensions that were not agreed on
    ):
        raw = Raw(start, server)
        raw.client.send(sent)
        assert closed_with(raw) == code, sent
        assert raw.client.at_end()


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize(
    ("before", "opcode"),
    [(b"", 1), (frame(1, "é".encode()[:1], fin=False), 0), (frame(1, b"", fin=False), 0)],
)
def test_text_that_is_no_utf8_is_refused_amid_its_frame(start, before, opcode, pause):
    """RFC 6455, 8.1; cases 6.4.3 and 6.4.4 of Autobahn|Testsuite."""
    raw = Raw(start, start(echo))
    good = "éé".encode() if len(before) < 7 else "éé".encode()[1:]
    sent = before + frame(opcode, good + b"\xf4\x90" + b"x" * 300)[:-299]
    raw.client.send(sent[:-3])
    if pause:
        syncless.sleep(1)  # in virtual time: the server has looked at it
    raw.client.send(sent[-3:])
    assert closed_with(raw) == 1007 and raw.client.at_end()


@pytest.mark.parametrize("packed", [False, True])
def test_frames_that_come_in_two_parts_are_whole(start, packed):
    """No part of a message is taken for text that is not UTF-8, wherever it ends."""
    text = "aé\u20ac\U0001f600" * 2
    data = text.encode()
    if packed:  # RFC 7692, 7.2.1
        packer = zlib.compressobj(wbits=-15)
        data = (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    first = frame(1, data[:2], fin=False)
    first = bytes([first[0] | (0x40 if packed else 0)]) + first[1:]
    sent = first + frame(9, b"\xff") + frame(0, data[2:]) + frame(2, b"\xff\xfe")
    server = start(echo)
    for at in range(1, len(sent)):
        raw = Raw(start, server, "Sec-WebSocket-Extensions: permessage-deflate\r\n" if packed else "")
        raw.client.send(sent[:at])
        syncless.sleep(1)  # in virtual time
        raw.client.send(sent[at:])
        assert raw.receive() == (10, b"\xff")
        opcode, payload = raw.receive()
        assert opcode == 1 and (packed or payload == text.encode())
        opcode, payload = raw.receive()
        assert opcode == 2 and (packed or payload == b"\xff\xfe")
        raw.client.close()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("failure", [syncless.Timeout, syncless.TaskletExit])
def test_send_that_is_interrupted_leaves_no_half_of_a_message(start, packed, failure):
    """The client reads the interrupted messages whole or not at all, and those after them."""
    texts = [str(number) + os.urandom(1_000_000).hex() for number in range(4)]

    def send(websocket, text):
        if failure is syncless.Timeout:
            with syncless.Timeout(1, False):
                websocket.send(text)
        else:
            sender = syncless.spawn(websocket.send, text)
            syncless.sleep(1)
            sender.kill()

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        for text in texts:
            send(websocket, text)
        read.set()
        websocket.send("the last")
        return []

    read = syncless.Event()
    server = start(app, websocket_bytes=10_000_000)
    raw = Raw(start, server, "Sec-WebSocket-Extensions: permessage-deflate\r\n" if packed else "")
    assert read.wait(60)
    unpacker = zlib.decompressobj(wbits=-15)
    received = []
    while "the last" not in received:
        opcode, payload = raw.receive()
        assert opcode == 1
        received.append((unpacker.decompress(payload + b"\0\0\xff\xff") if packed else payload).decode())
    assert [*received[:-1]] == [text for text in texts if text in received]
    assert received[0] == texts[0]  # it had begun


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 100_000])
def test_long_message_is_compressed_in_pieces_between_which_others_run(start, size):
    text = os.urandom(size // 2 + 1).hex()[:size]
    turns = []

    def count():
        while True:
            turns[-1] += 1
            syncless.sleep(0)

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        websocket.accept()
        for _ in range(3):
            turns.append(0)
            counter = syncless.spawn(count)
            websocket.send(text)
            counter.kill()
        return []

    raw = Raw(start, start(app), "Sec-WebSocket-Extensions: permessage-deflate\r\n")
    unpacker = zlib.decompressobj(wbits=-15)
    for _ in range(3):
        opcode, payload = raw.receive()
        assert (opcode, unpacker.decompress(payload + b"\0\0\xff\xff")) == (1, text.encode())
    assert closed_with(raw) == 1000
    assert min(turns) >= max(0, size - 1) // 16_384


def test_errors_of_the_application(start):
    log = io.StringIO()

    def app(environ, start_response):
        environ["wsgi.websocket"].accept()
        raise RuntimeError("boom")

    raw = Raw(start, start(app, error_log=log))
    assert closed_with(raw) == 1011
    raw.send(8, struct.pack("!H", 1011))
    assert raw.client.at_end() and "boom" in log.getvalue()


def test_websocket_without_a_close_frame_ends_with_1006(start):
    seen = []

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        seen.append(websocket.receive())
        seen.append(websocket.close_code)
        with pytest.raises(WebSocketClosed):
            websocket.send("too late")
        return []

    server = start(app)
    client = start.client(server)
    client.send((HANDSHAKE + "\r\n").encode())
    assert client.response()[0] == 101
    client.close()
    for _ in range(200):
        if len(seen) == 2:
            break
        syncless.sleep(0.005)
    assert seen == [None, 1006]


def test_silent_clients_are_pinged_and_then_closed(start):
    server = start(echo, ping_seconds=0.3)
    raw = Raw(start, server)
    for _ in range(3):
        assert raw.receive() == (9, b"")
        raw.send(10)
    assert raw.receive() == (9, b"")
    assert raw.client.at_end()  # it has not answered


def test_one_tasklet_receives_while_others_send(start):
    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        websocket.accept()

        def many(name):
            for number in range(50):
                websocket.send(f"{name}{number}" + "x" * 5000)

        senders = [syncless.spawn(many, name) for name in "abc"]
        messages = list(websocket)
        syncless.join_all(senders)
        assert messages == ["bye"]
        return []

    raw = Raw(start, start(app))
    syncless.sleep(0.05)  # the socket's buffers are full: they wait for one another
    seen = [raw.receive()[1].decode().rstrip("x") for _ in range(150)]
    for name in "abc":
        assert [text for text in seen if text[0] == name] == [f"{name}{number}" for number in range(50)]
    raw.send(1, b"bye")
    raw.send(8, struct.pack("!H", 1000))
    assert closed_with(raw) == 1000


def test_stopping_the_server_says_goodbye(start):
    server = start(echo)
    raw = Raw(start, server)
    server.stop(0.05)
    assert closed_with(raw) == 1001


def test_application_has_time_left_when_a_stopping_server_closes_its_websocket(start):
    ended, may_end = [], syncless.Event()

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        websocket.send("hello")
        for message in websocket:
            ended.append(message)
        may_end.wait()
        ended.append(websocket.close_code)
        return []

    server = start(app, stop_seconds=3600, stop_notice_seconds=0.1)
    raw = Raw(start, server)
    assert raw.receive() == (1, b"hello")
    stopping = syncless.spawn(server.stop)
    assert closed_with(raw) == 1001
    raw.send(8, struct.pack("!H", 1001))
    may_end.set()
    stopping.join()
    assert ended == [1001]


def test_misuse_is_told(start):
    seen = []

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        with pytest.raises(ValueError, match="did not offer"):
            websocket.accept(subprotocol="other")
        with pytest.raises(ValueError, match="forbidden characters"):
            websocket.accept(headers=[("X", "a\r\nb")])
        with pytest.raises(ValueError, match="header X has forbidden characters: '\u20ac'"):
            websocket.accept(headers=[("X", "\u20ac")])
        with pytest.raises(TypeError, match="str or bytes"):
            websocket.send(5)
        websocket.accept(headers=[("X-Made", "yes")], subprotocol="chat")
        with pytest.raises(RuntimeError, match="already been accepted"):
            websocket.accept()
        assert websocket.subprotocol == "chat"
        websocket.close(4000, "enough")
        websocket.close()
        seen.append((websocket.close_code, websocket.close_reason, websocket.receive()))
        return []

    log = io.StringIO()
    raw = Raw(start, start(app, error_log=log), "Sec-WebSocket-Protocol: news, chat\r\n")
    assert raw.headers["x-made"] == "yes" and raw.headers["sec-websocket-protocol"] == "chat"
    assert raw.receive() == (8, struct.pack("!H", 4000) + b"enough")
    raw.send(8, struct.pack("!H", 4000))
    assert raw.client.at_end()
    assert seen == [(4000, "enough", None)] and not log.getvalue()


def test_an_upgrade_after_the_response_has_begun(start):
    def app(environ, start_response):
        start_response("200 OK", [])(b"begun")
        with pytest.raises(RuntimeError, match="already begun"):
            environ["wsgi.websocket"].accept()
        return [b" and ended"]

    client = start.client(start(app))
    client.send((HANDSHAKE + "\r\n").encode())
    assert client.response()[2] == b"begun and ended"


def in_thread(function):
    return syncless.run_in_thread(function)


@pytest.mark.parametrize("compression", ["deflate", None])
def test_the_websockets_library(start, compression):
    server = start(echo)

    def visit():
        url = f"ws://127.0.0.1:{server.port}/"
        with client_library.connect(url, compression=compression, max_size=None) as connection:
            for message in (
                "",
                "hello",
                "\u00fc\u20ac" * 1000,
                b"",
                os.urandom(100_000),
                "x" * 900_000,
                ["a", "b", "c"],
            ):
                connection.send(message)
                assert connection.recv() == ("".join(message) if isinstance(message, list) else message)
            assert connection.ping().wait(5)
            assert (
                "permessage-deflate" in connection.response.headers.get("Sec-WebSocket-Extensions", "")
            ) is (compression == "deflate")

    in_thread(visit)


def test_decompressed_message_is_bounded(start):
    server = start(echo, websocket_bytes=100_000)

    def visit():
        with client_library.connect(f"ws://127.0.0.1:{server.port}/", compression="deflate") as connection:
            connection.send("x" * 50_000_000)
            with pytest.raises(ConnectionClosed) as info:
                connection.recv()
            return info.value.rcvd.code

    assert in_thread(visit) == 1009


def test_over_tls(start):
    trustme = pytest.importorskip(
        "trustme", reason="trustme makes the certificate of this test: pip install trustme"
    )
    authority = trustme.CA()
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(trusting)
    server = start(echo, ssl_context=context)

    async def visit():
        # not the client with threads: two of them use one SSL object at the same time, which is locked since
        # Python 3.13 only
        async with asyncio_client.connect(f"wss://localhost:{server.port}/", ssl=trusting) as connection:
            await connection.send("x" * 200_000)
            assert await connection.recv() == "x" * 200_000

    in_thread(lambda: asyncio.run(visit()))


def test_a_refusal_reaches_the_client(start):
    def app(environ, start_response):
        raise BadRequest("not here")

    server = start(app)

    def visit():
        with pytest.raises(InvalidStatus):
            client_library.connect(f"ws://127.0.0.1:{server.port}/").__enter__()

    in_thread(visit)


SCRIPT = b"""<!doctype html><script>
const log = [], socket = new WebSocket(location.origin.replace("http", "ws") + "/ws");
const big = "\\u00fc".repeat(200000);
socket.binaryType = "arraybuffer";
socket.onopen = () => { log.push("open " + socket.extensions); socket.send("hello"); };
socket.onmessage = event => {
  if (typeof event.data !== "string") {
    log.push("binary " + new Uint8Array(event.data).join());
    socket.close(1000, "done");
  }
  else if (event.data === "hello") { log.push("hello"); socket.send(big); }
  else { log.push("big " + (event.data === big)); socket.send(new Uint8Array([1, 2, 255])); }
};
socket.onerror = () => log.push("error");
socket.onclose = event => {
  log.push("closed " + event.code + " " + event.wasClean);
  fetch("/report", {method: "POST", body: log.join("\\n")});
};
</script>"""


@pytest.mark.slow
@pytest.mark.virtual_time(False)  # another process
def test_a_real_browser(start):
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    reported = syncless.Queue()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/ws":
            return echo(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/html")])
        if environ["PATH_INFO"] == "/report":
            reported.put(environ["wsgi.input"].read().decode())
        return [SCRIPT]

    server = start(app)
    browser, folder = browse(server.url)
    try:
        lines = reported.get(timeout=45).split("\n")
    finally:
        browser.terminate()
        in_thread(browser.wait)
        shutil.rmtree(folder, ignore_errors=True)
    assert lines[0].startswith("open permessage-deflate")
    assert lines == [lines[0], "hello", "big true", "binary 1,2,255", "closed 1000 true"]


def test_the_chat_page(start):
    """examples/webchat.py with two clients, and its page."""
    from examples import webchat

    server = start(webchat.app)
    page = in_thread(lambda: urllib.request.urlopen(server.url, timeout=60).read())
    assert b"new WebSocket" in page and pathlib.Path(webchat.__file__).name == "webchat.py"

    def visit():
        url = f"ws://127.0.0.1:{server.port}/room"
        with client_library.connect(url, subprotocols=["chat"]) as anna, client_library.connect(url) as ben:
            assert anna.subprotocol == "chat"
            anna.send("Anna")
            assert "Anna is here, 1" in anna.recv()
            ben.send("Ben")
            assert "Ben is here, 2" in anna.recv() and "Ben is here, 2" in ben.recv()
            ben.send("hello")
            assert "Ben: hello" in anna.recv() and "Ben: hello" in ben.recv()
            ben.close()
            assert "Ben has left" in anna.recv()
        with pytest.raises(InvalidStatus):
            client_library.connect(url, origin="http://evil.example").__enter__()

    in_thread(visit)
    assert not webchat.members
