"""A server goes on when something on its loop needs what a parked tasklet holds: a module that is being
imported, a lock, a handler of logging."""

import importlib.util
import textwrap

import pytest

from tests.programs import SLOW_IMPORT, check

PRELUDE = """
import importlib.machinery, io, logging, os, socket, sys, threading
import syncless
from syncless import spawn
from syncless.http.websocket import websocket as websocket_module
from syncless.wsgi import Server

def ask(path, more=""):
    client = socket.create_connection(server.address)
    client.sendall(f"GET {path} HTTP/1.1\\r\\nHost: a\\r\\n{more}\\r\\n".encode())
    return client

def status(client):
    got = b""
    while b"\\r\\n\\r\\n" not in got:
        piece = client.recv(1000)
        assert piece, got
        got += piece
    return int(got.split()[1])

HANDSHAKE = ("Upgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\n"
    "Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\\r\\n")

def answers():
    "The server answers, and so it has dealt with all that came before."
    for _ in range(3):
        with ask("/plain") as client:
            assert status(client) == 200

class Holds(logging.Handler):
    "A handler that keeps its lock until go is set."
    entries = []
    def emit(self, record):
        self.entries.append(record.getMessage())
        if len(self.entries) == 1:
            parked.set()
            go.wait()

lock = threading.Lock()

class NeedsLock:
    def __del__(self):
        with lock:
            pass
    def __str__(self):
        with lock:
            return "text"

def wsgi(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/import":
        import websockets.server
    elif path == "/raise":
        raise ValueError("x")
    elif path == "/hold":
        with lock:
            parked.set()
            go.wait()
    elif path == "/forget":
        environ["needs"] = NeedsLock()
    elif path == "/log":
        environ["REMOTE_USER"] = NeedsLock()
    elif path == "/slow":
        import slow
    websocket = environ.get("wsgi.websocket")
    if websocket is not None:
        for message in websocket:
            websocket.send(message)
        return []
    start_response("200 OK", [])
    return [b"fine"]

async def asgi(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    if scope["path"].endswith("/slow"):
        import slow
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine"})

errors = io.StringIO()
access = io.StringIO()
def serving(**options):
    global server
    server = Server({"/": wsgi, "/a": asgi}, port=0, error_log=errors, access_log=access, **options)
    return server
"""


def check_serves(program):
    check(SLOW_IMPORT + PRELUDE + textwrap.dedent(program), timeout=60)


needs_websockets = pytest.mark.skipif(
    importlib.util.find_spec("websockets") is None, reason="the websockets library is needed"
)


@needs_websockets
@pytest.mark.parametrize("module", ["syncless.http.websocket.library", "websockets.server"])
@pytest.mark.parametrize("paths", [("/ws", "/a/ws"), ("/a/ws", "/ws"), ("/a/ws", "/a/ws")])
def test_first_websockets_may_come_while_the_library_is_imported(paths, module):
    check_serves(f"""
    with serving():
        slow_import("{module}")
        clients = [ask({paths[0]!r}, HANDSHAKE)]
        clients[0].sendall(b"\\x81\\x81\\0\\0\\0\\0x")     # its application receives it
        parked.wait()
        clients.append(ask({paths[1]!r}, HANDSHAKE))
        clients[1].sendall(b"\\x81\\x81\\0\\0\\0\\0x")
        answers()
        go.set()
        assert [status(client) for client in clients] == [101, 101]
        for client in clients:
            client.close()
    assert errors.getvalue() == ""
    """)


@needs_websockets
def test_websocket_may_come_while_a_view_imports_the_library():
    check_serves("""
    with serving():
        slow_import("websockets.server")
        view = ask("/import")
        parked.wait()
        client = ask("/a/ws", HANDSHAKE)
        answers()
        go.set()
        assert status(view) == 200 and status(client) == 101
        client.close()
    assert errors.getvalue() == ""
    """)


def test_first_step_of_an_asgi_application_may_import_what_another_tasklet_imports():
    check_serves("""
    with serving():
        sys.modules.pop("slow", None)
        slow_import("slow", made=True)
        first = ask("/slow")
        parked.wait()
        others = [ask("/a/slow"), ask("/slow"), ask("/a/slow")]
        answers()
        go.set()
        assert [status(client) for client in (first, *others)] == [200] * 4
    assert errors.getvalue() == ""
    """)


@pytest.mark.parametrize("part", ["handler", "filter", "handler's filter"])
def test_entry_of_the_loop_itself_waits_for_a_handler_of_logging(part):
    """A WebSocket for WSGI without the library is told of on the loop itself."""
    check_serves(f"""
    websocket_module.find_spec = lambda name: None
    handler, part = Holds(), "{part}"
    if part != "handler":
        def waits(record):
            held.emit(record)
            return True
        held, handler = handler, logging.StreamHandler(io.StringIO())
        (handler if part == "handler's filter" else logging.getLogger("syncless.error")).addFilter(waits)
    logging.getLogger("syncless").addHandler(handler)
    with serving():
        failing = ask("/raise")
        parked.wait()
        client = ask("/ws", HANDSHAKE)
        assert status(client) == 200
        answers()
        go.set()
        assert status(failing) == 500
        while len(Holds.entries) < 2:
            syncless.sleep(0)
    assert "Error in GET /raise" in Holds.entries[0] and "pip install" in Holds.entries[1]
    assert errors.getvalue() == ""
    """)


@pytest.mark.parametrize("path", ["/forget", "/log"])
def test_object_of_an_application_that_needs_the_lock_of_a_parked_request(path):
    """In its finaliser, or when it is written to the access log."""
    check_serves(f"""
    unraisable = []
    sys.unraisablehook = lambda found: unraisable.append(found.exc_value)
    with serving(access_log_format="%u %U"):
        holding = ask("/hold")
        parked.wait()
        clients = [ask("{path}") for _ in range(3)]
        answers()
        go.set()
        assert status(holding) == 200
        assert [status(client) for client in clients] == [200] * 3
        answers()
    assert all("which <WSGIExchange GET /hold" in str(error) for error in unraisable), unraisable
    if "{path}" == "/log":
        assert access.getvalue().count("text /log") == 3, access.getvalue()
    assert errors.getvalue() == ""
    """)
