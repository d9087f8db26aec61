"""WebSockets over HTTP/2 (RFC 8441), for applications of WSGI and of ASGI."""

import io
import shutil
import struct
import zlib

import pytest

import syncless
from syncless.debug import print_tasklets
from tests import needs
from tests.asgi.test_websocket import BOTH, echoing, speaking
from tests.browser import BROWSER, browse
from tests.http.test_websocket import SCRIPT, closed_with, echo, frame
from tests.http2_client import connector, events
from tests.waiting import eventually

pytestmark = [
    pytest.mark.usefixtures("background"),
    pytest.mark.virtual_time,
    needs.HTTP2,
]
connect = pytest.fixture(connector)

ASK = ((":protocol", "websocket"), ("sec-websocket-version", "13"))
CLOSE = frame(8, struct.pack("!H", 1000))


@pytest.fixture(params=["wsgi", "asgi"])
def echoes(request, connect):
    """echoes(**options) -> (server, function that makes a Client), of an application of either kind."""
    app = echo if request.param == "wsgi" else speaking(echoing)
    return lambda **options: connect(app, **options)


class WebSocket:
    """A stream that asks for one."""

    def __init__(self, client, *fields, path="/ws", ask=ASK):
        self.client = client
        self.stream = client.ask(path, "CONNECT", *ask, *fields, ends=False)
        self.bytes = b""
        self.seen = 0

    def head(self):
        headers = dict(self.client.wait_for(events.ResponseReceived, self.stream).headers)
        return int(headers.pop(":status")), headers

    def send(self, *args, **kwargs):
        self.client.upload(self.stream, frame(*args, **kwargs), ends=False)

    def _exactly(self, size):
        while len(self.bytes) < size:
            if self.seen == len(self.client.events):
                assert self.client.read(), "the connection ended"
                continue
            event = self.client.events[self.seen]
            self.seen += 1
            if getattr(event, "stream_id", None) != self.stream:
                continue
            if isinstance(event, (events.StreamEnded, events.StreamReset)):
                return None
            if isinstance(event, events.DataReceived):
                self.bytes += event.data
        found, self.bytes = self.bytes[:size], self.bytes[size:]
        return found

    def receive(self):
        """(opcode, payload) of the next frame; None at the end."""
        head = self._exactly(2)
        if head is None:
            return None
        size = head[1] & 0x7F
        if size > 125:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        return head[0] & 0x0F, self._exactly(size)

    def close(self):
        self.send(8, struct.pack("!H", 1000))
        assert closed_with(self) == 1000 and self.receive() is None


def test_messages_go_both_ways(echoes):
    _, client = echoes()
    client = client()
    client.wait_for(events.RemoteSettingsChanged)
    assert client.h2.remote_settings[8] == 1  # SETTINGS_ENABLE_CONNECT_PROTOCOL
    websocket = WebSocket(client)
    status, headers = websocket.head()
    assert status == 200 and not {"sec-websocket-accept", "upgrade", "connection"} & set(headers)
    for opcode, payload in [(1, "h\u00e9llo".encode()), (2, b"\0\xff"), (1, b"")]:
        websocket.send(opcode, payload)
        assert websocket.receive() == (opcode, payload)
    websocket.send(9, b"are you there")
    assert websocket.receive() == (10, b"are you there")
    websocket.close()


def test_bytes_behind_the_head_are_read(echoes):
    _, client = echoes()
    client = client()
    stream = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":scheme", "http"), (":authority", "a"), (":path", "/ws"), *ASK]
    client.h2.send_headers(stream, head)
    client.h2.send_data(stream, frame(1, b"early") + CLOSE, end_stream=True)
    client.flush()
    assert client.answer(stream)[2] == b"\x81\x05early\x88\x02\x03\xe8"


def test_large_messages_wait_for_the_windows(echoes):
    _, client = echoes()
    websocket = WebSocket(client())
    message = bytes(range(256)) * 1000
    for _ in range(3):
        websocket.send(2, message)
        assert websocket.receive() == (2, message)
    websocket.close()


def test_client_that_does_not_read_is_waited_for(echoes):
    server, client = echoes()
    client = client()
    client.opens_windows = False
    client.h2.increment_flow_control_window(1_000_000)
    websocket = WebSocket(client)
    websocket.head()
    for _ in range(4):
        websocket.send(2, bytes(30_000))
    assert client.get("/other")[0] in (200, 500)  # the connection goes on
    held = server.census()["buffered bytes"]
    assert held < 500_000
    client.h2.increment_flow_control_window(1_000_000, websocket.stream)
    client.flush()
    for _ in range(4):
        assert websocket.receive() == (2, bytes(30_000))
    websocket.close()


def test_messages_are_compressed_if_the_client_offers_it(echoes):
    _, client = echoes()
    websocket = WebSocket(client(), ("sec-websocket-extensions", "permessage-deflate"))
    assert websocket.head()[1]["sec-websocket-extensions"].startswith("permessage-deflate")
    packer = zlib.compressobj(wbits=-15)
    data = (packer.compress(b"text" * 10_000) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    packed = frame(1, data)
    websocket.client.upload(websocket.stream, bytes([packed[0] | 0x40]) + packed[1:], ends=False)
    opcode, payload = websocket.receive()
    assert opcode == 1 and len(payload) < 1000
    assert zlib.decompressobj(wbits=-15).decompress(payload + b"\0\0\xff\xff") == b"text" * 10_000
    websocket.close()


def test_many_websockets_of_one_connection_speak_at_once(echoes):
    server, client = echoes()
    client = client()
    websockets = [WebSocket(client, path=f"/{i}") for i in range(80)]
    for turn in range(40):  # small frames are no flood
        for i, websocket in enumerate(websockets):
            websocket.send(1, b"%d %d" % (turn, i))
        for i, websocket in enumerate(websockets):
            assert websocket.receive() == (1, b"%d %d" % (turn, i))
    assert server.census()["active"] == 80
    for websocket in websockets:
        websocket.close()
    assert eventually(lambda: server.census()["active"] == 0)


def test_reset_amid_a_message_is_a_client_that_has_left(connect):
    codes = []

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        assert websocket.receive() is None
        codes.append(websocket.close_code)
        return []

    async def speak(scope, receive, send):
        assert scope["http_version"] == "2"
        await receive()
        await send({"type": "websocket.accept"})
        codes.append((await receive())["code"])

    for application in (app, speaking(speak)):
        server, client = connect(application)
        websocket = WebSocket(client())
        websocket.client.upload(websocket.stream, frame(2, bytes(1000))[:500], ends=False)
        assert eventually(lambda server=server: server.census()["active"] == 1)
        websocket.client.h2.reset_stream(websocket.stream)
        websocket.client.flush()
        assert eventually(lambda server=server: server.census()["active"] == 0)
    assert codes == [1006, 1006]


def test_client_that_ends_its_half_has_left(echoes):
    server, client = echoes()
    websocket = WebSocket(client())
    websocket.head()
    websocket.client.h2.end_stream(websocket.stream)
    websocket.client.flush()
    assert websocket.receive() is None
    assert eventually(lambda: server.census()["active"] == 0)


def test_silent_client_is_pinged_and_then_closed(echoes):
    _, client = echoes(ping_seconds=0.3)
    websocket = WebSocket(client())
    for _ in range(3):
        assert websocket.receive() == (9, b"")
        websocket.send(10)
    assert websocket.receive() == (9, b"")
    assert websocket.receive() is None  # it has not answered


def test_stop_says_goodbye_on_the_stream_and_the_connection(echoes):
    server, client = echoes()
    websocket = WebSocket(client())
    websocket.head()
    stopping = syncless.spawn(server.stop)
    rest = b""
    while data := websocket.client.sock.recv(65536):  # the library h2 takes no more after GOAWAY
        rest += data
    goaway = b"\0\0\x08\x07\0\0\0\0\0"
    assert b"\x88\x12\x03\xe9the server stops" in rest and goaway in rest
    stopping.join()


@pytest.mark.parametrize("offered", [True, False])
def test_subprotocol_is_agreed_on_and_origin_is_told(connect, offered):
    origins = []

    def app(environ, start_response):
        websocket = environ["wsgi.websocket"]
        origins.append((websocket.origin, environ["REQUEST_METHOD"], environ["SERVER_PROTOCOL"]))
        websocket.accept(subprotocol="chat" if "chat" in websocket.subprotocols else None)
        return []

    _, client = connect(app)
    fields = [("sec-websocket-protocol", "news, chat")] if offered else []
    websocket = WebSocket(client(), ("origin", "https://a"), *fields)
    assert websocket.head()[1].get("sec-websocket-protocol") == ("chat" if offered else None)
    assert closed_with(websocket) == 1000
    assert origins == [("https://a", "GET", "HTTP/2.0")]


def test_application_that_knows_no_websockets_does_not_open_one(connect, tmp_path):
    """Its 200 would say that it does."""
    log = tmp_path / "log"

    def app(environ, start_response):
        start_response("200 OK", [])
        return [b"plain"]

    _, client = connect(app, access_log=str(log))
    client = client()
    websocket = WebSocket(client)
    assert websocket.head()[0] == 501 and websocket.receive() is None
    assert client.get()[2] == b"plain"
    assert eventually(lambda: '"GET /ws HTTP/2.0" 501' in log.read_text())


def test_application_may_refuse(connect):
    def app(environ, start_response):
        start_response("403 Forbidden", [])
        return [b"no"]

    _, client = connect(app)
    client = client()
    websocket = WebSocket(client)
    assert client.answer(websocket.stream)[0] == 403


@BOTH
def test_stream_stays_until_its_client_has_closed_too(connect, app):
    server, client = connect(app)
    websocket = WebSocket(client(), path="/ws?close")
    assert closed_with(websocket) == 4000
    for _ in range(3):
        syncless.sleep(1)
        websocket.send(1, b"on its way already")
    assert server.census()["active"] == 1
    websocket.send(8, struct.pack("!H", 4000))
    assert websocket.receive() is None
    assert eventually(lambda: server.census()["active"] == 0)


def test_error_of_the_application_closes_with_1011(connect, errors):
    def app(environ, start_response):
        environ["wsgi.websocket"].accept()
        raise ValueError("meant by the test")

    _, client = connect(app, error_log=errors)
    assert closed_with(WebSocket(client())) == 1011
    assert "meant by the test" in errors.getvalue()


@pytest.mark.parametrize(
    ("ask", "fields", "status"),
    [
        ((), (), None),  # CONNECT of RFC 9113 has no path
        (((":protocol", "connect-udp"), ASK[1]), (), 501),
        (((":protocol", "WebSocket"), ASK[1]), (), 501),
        (ASK[:1], (), 426),
        ((ASK[0], ("sec-websocket-version", "12")), (), 426),
        (ASK, (("content-length", "5"),), 400),
        (ASK, (("transfer-encoding", "chunked"),), None),
        (ASK, (("upgrade", "websocket"),), None),
        ((*ASK[:1], *ASK), (), None),  # twice
    ],
)
def test_malformed_handshake_is_refused(echoes, ask, fields, status):
    _, client = echoes()
    client = client()
    websocket = WebSocket(client, *fields, ask=ask)
    if status is None:
        client.wait_for(events.StreamReset, websocket.stream)
    else:
        assert websocket.head()[0] == status
    good = WebSocket(client)
    good.send(1, b"hello")
    assert good.receive() == (1, b"hello")


def test_connect_to_an_authority_is_refused(echoes):
    _, client = echoes()
    client = client()
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "CONNECT"), (":authority", "a:443")], end_stream=True)
    client.flush()
    assert client.answer(stream)[0] == 501


def test_get_with_a_protocol_is_refused(echoes):
    _, client = echoes()
    client = client()
    client.wait_for(events.StreamReset, client.ask("/ws", "GET", *ASK, ends=False))


def test_key_that_a_client_sends_all_the_same_is_ignored(echoes):
    _, client = echoes()
    websocket = WebSocket(client(), ("sec-websocket-key", "short"))
    status, headers = websocket.head()
    assert status == 200 and "sec-websocket-accept" not in headers


def test_trailers_reset_a_websocket(echoes):
    server, client = echoes()
    websocket = WebSocket(client())
    websocket.head()
    websocket.client.h2.send_headers(websocket.stream, [("a", "b")], end_stream=True)
    websocket.client.flush()
    websocket.client.wait_for(events.StreamReset, websocket.stream)
    assert eventually(lambda: server.census()["active"] == 0)


def test_breach_of_the_protocol_closes_with_its_code(echoes):
    _, client = echoes(websocket_bytes=1000)
    client = client()
    for sent, code in (
        (frame(1, b"unmasked", masked=False), 1002),
        (frame(1, b"\xff\xfe"), 1007),
        (frame(1, b"x" * 1001), 1009),
    ):
        websocket = WebSocket(client)
        client.upload(websocket.stream, sent, ends=False)
        assert closed_with(websocket) == code and websocket.receive() is None


def test_flood_of_empty_frames_ends_the_connection(echoes):
    _, client = echoes()
    client = client()
    websocket = WebSocket(client)
    websocket.head()
    for _ in range(5000):
        client.h2.send_data(websocket.stream, b"")
    client.flush()
    while client.read():
        pass
    assert any(isinstance(event, events.ConnectionTerminated) for event in client.events)


def test_library_that_brings_its_own_websockets_speaks(connect, errors):
    """simple-websocket, as Flask-Sock uses it: it writes a 101 itself."""
    simple_websocket = pytest.importorskip("simple_websocket", reason="pip install simple-websocket")

    def app(environ, start_response):
        websocket = simple_websocket.Server(environ, thread_class=Thread, event_class=syncless.Event)
        while (message := websocket.receive()) != "bye":
            websocket.send(message)
        websocket.close()
        return []

    class Thread:
        name = "receiver"

        def __init__(self, target):
            self.start = lambda: syncless.spawn(target)

    _, client = connect(app, error_log=errors)
    websocket = WebSocket(client())
    status, headers = websocket.head()
    assert status == 200 and "sec-websocket-accept" not in headers
    for size in (1, 200, 100_000):
        websocket.send(1, b"x" * size)
        assert websocket.receive() == (1, b"x" * size)
    websocket.send(1, b"bye")
    assert closed_with(websocket) == 1000 and websocket.receive() is None
    assert not errors.getvalue()


def test_head_that_a_library_sends_in_parts_is_one(connect, errors):
    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        for part in (b"HTTP/1.1 101 x\r", b"\nUpgrade: websocket\r\nx-a: b\r\n", b"\r\nhello"):
            sock.sendall(part)
        with pytest.raises(OSError, match="closed"):
            sock.getpeername()
        reader = syncless.spawn(sock.recv, 10)
        syncless.sleep(0.01)
        sock.close()
        assert reader.result() == b""
        return []

    _, client = connect(app, error_log=errors)
    client = client()
    websocket = WebSocket(client)
    status, headers, body = client.answer(websocket.stream)
    assert (status, headers, body) == (200, {"x-a": "b"}, b"hello")
    assert not errors.getvalue()


@pytest.mark.parametrize("early", [True, False])
def test_library_can_wait_for_a_descriptor(connect, errors, early):
    """simple-websocket does with a ping_interval."""
    got = []

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        if early:
            assert sock.fileno() >= 0
        sock.sendall(b"HTTP/1.1 101 x\r\n\r\n")
        while True:
            syncless.select([sock.fileno()])
            data = sock.recv(100_000)
            if not data:
                break
            got.append(data)
        sock.close()
        return []

    server, client = connect(app, error_log=errors)
    websocket = WebSocket(client())
    websocket.head()
    for size in (1, 200_000, 5):
        websocket.client.upload(websocket.stream, b"x" * size, ends=size == 5)
    assert websocket.receive() is None
    assert len(b"".join(got)) == 200_006 and not errors.getvalue()
    assert eventually(lambda: server.census()["active"] == 0)


@pytest.mark.parametrize("how", ["closes", "returns"])
def test_descriptor_ends_with_its_request(connect, errors, how):
    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        sock.sendall(b"HTTP/1.1 101 x\r\n\r\n")
        assert sock.fileno() >= 0
        reader = syncless.spawn(sock.recv, 10)
        readers.append(reader)
        syncless.sleep(0.01)
        if how == "closes":
            sock.close()
            assert reader.result() == b"" and sock.fileno() == -1
        return []

    readers = []
    _, client = connect(app, error_log=errors)
    websocket = WebSocket(client())
    assert websocket.head()[0] == 200 and websocket.receive() is None
    assert readers[0].result() == b""
    assert not errors.getvalue()


def test_websockets_are_told_apart_and_counted(connect, tmp_path):
    log = tmp_path / "log"
    names = []

    def app(environ, start_response):
        names.append(syncless.current().name)
        return echo(environ, start_response)

    _, client = connect(app, access_log=str(log))
    client = client()
    for _ in range(2):
        WebSocket(client).close()
    assert names == ["GET /ws (stream 1)", "GET /ws (stream 3)"]
    assert eventually(lambda: log.read_text().count('"GET /ws HTTP/2.0" 101 ') == 2)
    out = io.StringIO()
    websocket = WebSocket(client)
    websocket.head()
    print_tasklets(out)
    assert "GET /ws (stream 5)" in out.getvalue()


@pytest.mark.slow
@pytest.mark.virtual_time(False)  # another process
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
def test_real_browser_has_page_and_websocket_on_one_connection(https):
    seen = syncless.Queue()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/ws":
            seen.put((environ["SERVER_PROTOCOL"], environ["REMOTE_PORT"]))
            return echo(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/html")])
        if environ["PATH_INFO"] == "/report":
            seen.put(environ["wsgi.input"].read().decode())
        elif environ["PATH_INFO"] == "/":
            seen.put(environ["REMOTE_PORT"])
        return [SCRIPT.replace(b"log = []", b"log = [performance.getEntries()[0].nextHopProtocol]")]

    server = https(app)
    browser, folder = browse(server.url, "--ignore-certificate-errors")
    try:
        port = seen.get(timeout=45)
        assert seen.get(timeout=45) == ("HTTP/2.0", port)
        lines = seen.get(timeout=45).split("\n")
    finally:
        browser.terminate()
        syncless.run_in_thread(browser.wait)
        shutil.rmtree(folder, ignore_errors=True)
    assert lines[1].startswith("open permessage-deflate")
    assert lines == ["h2", lines[1], "hello", "big true", "binary 1,2,255", "closed 1000 true"]
