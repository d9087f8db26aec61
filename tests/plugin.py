"""Fixtures for all rooms: a server in the test's own thread with clients that speak raw bytes, servers in
processes of their own, connected sockets."""

import contextlib
import io
import re

import pytest

import syncless
from syncless.io import socket
from tests.supervised import APP, Program


class Client:
    """A raw connection: send bytes, read responses one at a time."""

    def __init__(self, address, timeout=60, source=None):
        self.sock = (
            socket.create_connection(address, timeout=timeout, source_address=source)
            if isinstance(address, tuple)
            else self._unix(address)
        )
        self.buffer = b""

    @staticmethod
    def _unix(path):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        return sock

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            self.reset = True
            return False
        self.buffer += data
        return bool(data)

    reset = False

    def response(self, head_only=False):
        """(status, headers in lower case, body); body None where the message was cut short. None at the end
        of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                assert not self.buffer, f"half a head: {self.buffer!r}"
                return None
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, _reason = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers.setdefault(name.lower(), value)
        status = int(status)
        if head_only or status in (204, 304) or status < 200:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self._chunks()
        if "content-length" in headers:
            return status, headers, self._exactly(int(headers["content-length"]))
        while self._more():
            pass
        body, self.buffer = self.buffer, b""
        return status, headers, None if self.reset else body

    def _exactly(self, size):
        pieces, missing = [], size - len(self.buffer)
        while missing > 0:
            pieces.append(self.buffer)
            self.buffer = b""
            if not self._more():
                self.buffer = b"".join(pieces)
                return None
            missing -= len(self.buffer)
        whole = b"".join([*pieces, self.buffer])
        self.buffer = whole[size:]
        return whole[:size]

    def _chunks(self):
        body = []
        while True:
            while b"\r\n" not in self.buffer:
                if not self._more():
                    return None
            line, _, self.buffer = self.buffer.partition(b"\r\n")
            data = self._exactly(int(line, 16) + 2)
            if data is None:
                return None
            assert data.endswith(b"\r\n")
            if len(data) == 2:
                return b"".join(body)
            body.append(data[:-2])

    def get(self, path="/", headers=""):
        self.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n".encode())
        return self.response()

    def at_end(self):
        """Whether the server has closed the connection."""
        return not self.buffer and not self._more() and not self.buffer

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@pytest.fixture
def program(tmp_path):
    """program(*options) -> a running Program, which is ended at the end."""
    running = []

    def begin(*arguments, version=1, code=APP, **options):
        (tmp_path / "app.py").write_text(code.format(version=version))
        running.append(Program(tmp_path, arguments, **options))
        return running[-1]

    yield begin
    for started in running:
        started.end()


@pytest.fixture
def seen(tmp_path):
    """seen(*options) -> a running server with its status address, which is ended at the end."""
    from tests.status.seen import APP, Seen

    running = []

    def begin(*arguments, code=APP, **options):
        (tmp_path / "app.py").write_text(code)
        running.append(Seen(tmp_path, arguments, **options))
        assert re.search(r"shows its status on ", running[-1].told), running[-1].said()
        return running[-1]

    yield begin
    for started in running:
        started.end()


@pytest.fixture(scope="module")
def port_of():
    """port_of(server) -> the port of one in tests/patches/servers.py, which the first call starts."""
    from tests.patches.servers import SERVERS

    with contextlib.ExitStack() as stack:
        ports = {None: 0}

        def port_of(server):
            if server not in ports:
                ports[server] = stack.enter_context(SERVERS[server]())
            return ports[server]

        yield port_of


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def background():
    """The loop of asyncio that a thread always has; it ends with the test."""
    from syncless.asyncio.backgroundloop import background_loop

    loop = background_loop()
    yield loop
    loop.close()


@pytest.fixture
def authority(tmp_path):
    from tests.authority import Authority  # skips the test without trustme

    return Authority(tmp_path)


@pytest.fixture
def https(start, authority):
    """https(app, **options) -> a running Server for HTTPS."""
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    return lambda app, **options: start(app, certfile=certfile, keyfile=keyfile, **options)


@pytest.fixture
def errors():
    """A stream for the server's error log."""
    return io.StringIO()


@pytest.fixture
def start():
    """start(app, **options) -> a running Server; start.client(server) -> a Client. All is stopped and counted
    at the end."""
    from syncless.wsgi import Server

    servers, clients = [], []

    def begin(app, **options):
        options.setdefault("port", 0)
        options.setdefault("stop_seconds", 1)
        server = Server(app, **options).start()
        servers.append(server)
        return server

    def client(server, **options):
        made = Client(server.address, **options)
        clients.append(made)
        return made

    begin.client = client
    yield begin
    for made in clients:
        made.close()
    for server in servers:
        for _ in range(200):
            if not any(server.census().values()):
                break
            syncless.sleep(0.005)
        left = server.census()
        server.stop()
        assert not any(left.values()), f"the server still owns {left}"
