"""A Server in a program: addresses, several of them, and the tasklet of each request."""

import gc
import queue
import socket as blocking
import threading
import weakref

import pytest

import syncless
from syncless.io import socket
from syncless.wsgi import Server, serve
from tests.plugin import Client
from tests.waiting import eventually
from tests.wsgi.applications import HELLO, plain

pytestmark = pytest.mark.virtual_time


def test_environ_flags(start):
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        start_response("200 OK", [])
        return []

    server = start(app)
    client = start.client(server)
    client.get()
    assert (
        seen["wsgi.version"] == (1, 0)
        and seen["wsgi.url_scheme"] == "http"
        and seen["wsgi.input_terminated"] is True
    )
    assert (
        seen["wsgi.multithread"] is True
        and seen["wsgi.multiprocess"] is False
        and seen["wsgi.run_once"] is False
    )
    assert seen["REMOTE_ADDR"] == "127.0.0.1" and seen["REMOTE_PORT"] == str(client.sock.getsockname()[1])
    assert seen["SERVER_PORT"] == str(server.port) and seen["SCRIPT_NAME"] == ""


def test_each_request_has_a_context_and_a_tasklet_of_its_own(start):
    import contextvars

    variable = contextvars.ContextVar("variable", default="unset")
    names = []

    def app(environ, start_response):
        found = variable.get()
        variable.set("set")
        names.append((syncless.current().name, syncless.current().status))
        syncless.sleep(0)
        start_response("200 OK", [])
        return [(found + variable.get()).encode()]

    client = start.client(start(app))
    assert client.get("/a")[2] == client.get("/b")[2] == b"unsetset"
    assert names == [("GET /a", "running"), ("GET /b", "running")]


def test_several_servers_in_one_process(start):
    servers = [start(plain(str(number).encode())) for number in range(3)]
    assert len({server.port for server in servers}) == 3
    assert [start.client(server).get()[2] for server in servers] == [b"0", b"1", b"2"]


def test_several_binds_and_unix_sockets(start, tmp_path):
    path = tmp_path / "socket"
    server = start(plain(HELLO), bind=["127.0.0.1:0", f"unix:{path}"])
    assert server.addresses[1] == str(path) and server.url.startswith("http://127.0.0.1:")
    assert start.client(server).get()[2] == HELLO
    with Client(str(path)) as client:
        assert client.get()[2] == HELLO


def test_socket_file_that_another_server_has_made_meanwhile_stays(start, tmp_path):
    path = tmp_path / "socket"
    first = start(plain(b"first"), bind=f"unix:{path}")
    path.unlink()
    second = start(plain(HELLO), bind=f"unix:{path}")
    first.stop()
    with Client(str(path)) as client:
        assert client.get()[2] == HELLO
    second.stop()
    assert not path.exists()


def test_port_in_use_is_refused(start):
    server = start(plain(HELLO))
    with pytest.raises(OSError, match=f"cannot listen on http://127.0.0.1:{server.port}/: .*another program"):
        start(plain(HELLO), port=server.port)


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="unknown argument or limit 'nonsense'"):
        Server(plain(), nonsense=1)
    with pytest.raises(TypeError, match="'workers' is an argument of serve, not of Server"):
        Server(plain(), workers=2)
    with pytest.raises(ValueError, match="must be positive"):
        Server(plain(), head_seconds=0)
    with pytest.raises(TypeError, match="must be a number"):
        Server(plain(), backlog="5")
    with pytest.raises(ValueError, match="invalid address"):
        Server(plain(), bind="non sense")
    with pytest.raises(TypeError, match="cannot serve 5"):
        serve(5)
    with pytest.raises(OSError, match=r"localhost:80: .*; pass host and port as two arguments"):
        serve(plain(), "localhost:80")
    server = Server(plain(), port=0)
    server.stop()  # never started
    with server, pytest.raises(RuntimeError, match="already been started"):
        server.start()


def test_the_tasklet_of_a_request_can_be_joined_and_killed(start):
    running, ended = [], []

    def app(environ, start_response):
        tasklet = syncless.current()
        tasklet.add_done_callback(ended.append)
        running.append(tasklet)
        syncless.sleep(0.02 if environ["PATH_INFO"] == "/short" else 60)
        start_response("200 OK", [])
        return [HELLO]

    server = start(app)
    first, second = start.client(server), start.client(server)
    first.send(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n")
    second.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: len(running) == 2)
    assert running[0].join(5) and running[0].exception() is None
    assert running[1].kill(timeout=5) is True
    assert isinstance(running[1].exception(), syncless.TaskletExit) and ended == running
    assert first.response()[0] == 200 and second.response()[0] == 503


# -- servers that are not stopped ----------------------------------------------------------------------------

NOT_STOPPED = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the listening socket
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def stubborn(environ, start_response):
    while True:
        try:
            syncless.sleep(1000)
        except syncless.TaskletExit:
            pass


@NOT_STOPPED
@pytest.mark.parametrize(
    ("app", "sent", "status"),
    [
        (plain(), GET, b"200 OK"),
        (plain(), GET + b"GET / HT", b"200 OK"),
        (lambda *_: syncless.sleep(1000), GET, b"503 Service Unavailable"),
        (stubborn, GET, None),
    ],
    ids=["idle", "half a head", "killed", "stubborn"],
)
def test_thread_that_ends_takes_its_server_along(app, sent, status):
    refs, servers, go = {}, queue.SimpleQueue(), threading.Event()

    def body():
        server = Server(app, "127.0.0.1", 0).start()
        refs.update(server=weakref.ref(server), loop=weakref.ref(syncless.current_loop()))
        servers.put(server.address)
        syncless.run_in_thread(go.wait)

    thread = threading.Thread(target=body)
    thread.start()
    with socket.create_connection(syncless.run_in_thread(servers.get)) as client:
        client.settimeout(10)
        client.sendall(sent)
        if status == b"200 OK":
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
        else:
            assert eventually(lambda: refs["server"]().requests)
        go.set()
        syncless.run_in_thread(thread.join)
        if status is None:
            with pytest.raises(ConnectionResetError):
                client.recv(1000)
        else:
            rest = b"" if status == b"200 OK" else b"HTTP/1.1 " + status
            assert client.recv(1000)[: len(rest) or 1] == rest
    gc.collect()
    assert refs["server"]() is None and (refs["loop"]() is None or app is stubborn)


@NOT_STOPPED
def test_server_that_is_dropped_hears_nothing_more_of_its_socket():
    server = Server(plain(), "127.0.0.1", 0).start()
    address = server.address
    copy = blocking.socket(fileno=blocking.dup(server._opened[0][0].fileno()))
    del server
    gc.collect()
    with copy, socket.create_connection(address) as client:
        syncless.sleep(0.01)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
