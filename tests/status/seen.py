"""A server that runs as a user runs it, with its status address."""

import http.client
import json
import socket

from tests.supervised import Program
from tests.waiting import eventually

APP = """
import ctypes, os, time, syncless
told = lambda: ctypes.CDLL(None).access(b"end", os.F_OK) == 0  # by the client; os.access() lets others run
def tell(event):
    while not told():
        syncless.sleep(0.02)
    event.set()
def app(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path.startswith("/sleep"):
        syncless.sleep(float(query))
    elif path.startswith("/event"):
        syncless.spawn(tell, event := syncless.Event())
        event.wait()
    elif path == "/burn":
        while not told():
            pass
    elif path == "/die":
        os._exit(7)
    elif path == "/stop":
        os.kill(os.getpid(), 19)
    elif path == "/fork":
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    elif path == "/fail":
        raise ValueError("on purpose")
    start_response("404 Not Found" if path == "/missing" else "200 OK", [("X-Pid", str(os.getpid()))])
    return [b"hello"]
"""
WAITS_AT = f"app.py:{1 + APP[: APP.index('event.wait()')].count(chr(10))} in app"


class Seen(Program):
    """A Program with a status address of its own; ``bind`` is for its requests."""

    def __init__(self, folder, arguments, **options):
        self.path = str(folder / "status")
        status = [] if "--status" in arguments else ["--status", f"unix:{self.path}"]
        super().__init__(folder, [*status, *arguments], **options)
        self.told = self.process.stdout.readline()

    def ask(self, path="/status.json", **headers):
        """(status, headers, body) of the status server."""
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(self.path)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def status(self):
        status, headers, body = self.ask()
        assert status == 200 and headers["Content-Type"] == "application/json"
        return json.loads(body)

    def health(self, path):
        return self.ask(path)[0]


def in_flight(status):
    return [request for worker in status["workers"] for request in worker["requests"]]


def status_when(running, condition):
    """The first status for which it holds: a worker that is slow to answer is shown as it was before."""
    found = []

    def holds():
        found[:] = [running.status()]
        return condition(found[0])

    assert eventually(holds), found
    return found[0]
