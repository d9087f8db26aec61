"""A server with workers in a process of its own, and clients that keep it busy."""

import http.client
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent.parent


APP = """
import os, time, syncless
VERSION = {version}
def app(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/sleep":
        syncless.sleep(float(query))
    elif path == "/wait":
        open("begun", "w").close()
        syncless.sleep(float(query))
    elif path == "/block":
        time.sleep(float(query))
    elif path == "/die":
        os._exit(7)
    elif path == "/eat":
        globals().setdefault("eaten", []).append(bytearray(60_000_000))
    start_response("200 OK", [("X-Pid", str(os.getpid())), ("X-Parallel", str(environ["wsgi.multiprocess"]))])
    return [f"{{VERSION}}".encode()]
"""


class Program:
    def __init__(self, folder, arguments, bind="127.0.0.1:0", stderr=None):
        self.folder = folder
        command = [sys.executable, "-m", "syncless", "app:app", "--bind", bind, *arguments]
        self.errors = open(folder / "errors", "w+")  # noqa: SIM115  (closed by end())
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr or self.errors, text=True
        )
        self.line = self.process.stdout.readline()
        found = re.search(r":(\d+)/", self.line)
        self.port = int(found[1]) if found else None

    def get(self, path="/"):
        """(status, pid, body) by a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, int(response.headers["X-Pid"] or 0), response.read().decode()
        finally:
            connection.close()

    def said(self):
        return (self.folder / "errors").read_text()

    def pids(self, number):
        """The processes that answer, once there are so many."""
        seen = set()
        deadline = time.monotonic() + 20
        while len(seen) < number and time.monotonic() < deadline:
            seen.add(self.get("/sleep?0.01")[1])
        return seen

    def children(self):
        return set(
            map(
                int,
                pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
                .read_text()
                .split(),
            )
        )

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            out = "" if self.process.stdout.closed else self.process.communicate(timeout=20)[0]
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.errors.close()
        return out


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Load:
    """Clients that ask all the time; every request must be answered."""

    def __init__(self, program, path="/sleep?0.005", clients=4):
        self.failures, self.answers = [], []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(program, path)) for _ in range(clients)]

    def _ask(self, program, path):
        while not self.stop.is_set():
            try:
                self.answers.append(program.get(path)[1:])
            except Exception as error:
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        for thread in self.threads:
            thread.join()


class InFlight:
    def __init__(self, program, seconds):
        """A request that takes so long, and has begun."""
        self.answer = None
        self.thread = threading.Thread(target=self._ask, args=(program, seconds))
        self.thread.start()
        assert eventually((program.folder / "begun").exists)

    def _ask(self, program, seconds):
        self.answer = program.get(f"/wait?{seconds}")

    def end(self):
        self.thread.join()
        return self.answer
