"""A server with workers in a process of its own, and clients that keep it busy."""

import concurrent.futures
import contextlib
import functools
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent


APP = """
import os, time, syncless
VERSION = {version}
def app(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/sleep":
        syncless.sleep(float(query))
    elif path == "/wait":
        open("begun", "w").close()
        while not os.path.exists("end"):
            syncless.sleep(0.01)
    elif path == "/burn":
        end = time.perf_counter() + float(query)
        while time.perf_counter() < end:
            pass
    elif path == "/block":
        time.sleep(float(query))
    elif path == "/die":
        os._exit(7)
    elif path == "/eat":
        globals().setdefault("eaten", []).append(bytearray(60_000_000))
    start_response("200 OK", [("X-Pid", str(os.getpid())), ("X-Parallel", str(environ["wsgi.multiprocess"]))])
    return [f"{{VERSION}}".encode()]
"""


def without_events(text):
    """An error log but for the events in the life of the server."""
    return "".join(line for line in text.splitlines(keepends=True) if not re.search(r"\[INFO\]|^INFO", line))


class Program:
    command = (sys.executable, "-m", "syncless")

    def __init__(
        self, folder, arguments, bind="127.0.0.1:0", stderr=None, serves=True, application="app:app"
    ):
        """Returns when it serves; with `serves=False` at once."""
        self.folder = folder
        command = [*self.command, application, "--bind", bind, *arguments]
        self.errors = open(folder / "errors", "w+")  # noqa: SIM115  (closed by end())
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr or self.errors, text=True
        )
        if serves:
            self.line

    @functools.cached_property
    def line(self):
        """The first line of its output that is no event: it serves now."""
        return next((line for line in iter(self.process.stdout.readline, "") if "[INFO]" not in line), "")

    @property
    def port(self):
        found = re.search(r":(\d+)/", self.line)
        return int(found[1]) if found else None

    def get(self, path="/"):
        """(status, pid, body) by a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, int(response.headers["X-Pid"] or 0), response.read().decode()
        finally:
            connection.close()

    def said(self):
        return without_events((self.folder / "errors").read_text())

    def events(self):
        """(process, event) of each in its life."""
        lines = (self.folder / "errors").read_text().splitlines()
        found = (re.search(r"\[(\d+)\] \[INFO\] (.*)", line) for line in lines)
        return [(int(each[1]), each[2]) for each in found if each]

    def tells(self, event):
        """Waits for an event that matches this pattern as a whole: (its process, the match)."""

        def seen():
            matches = ((pid, re.fullmatch(event, text)) for pid, text in self.events())
            return next((each for each in matches if each[1]), None)

        assert eventually(seen), (event, self.events())
        return seen()

    def pids(self, number):
        """The processes that answer, once there are `number`. A request holds its worker's loop, so that
        another worker takes the next."""
        seen = set()

        def all_seen():
            seen.update(pid for _, pid, _ in pool.map(self.get, ["/burn?0.01"] * number))
            return len(seen) >= number

        with concurrent.futures.ThreadPoolExecutor(number) as pool:
            assert eventually(all_seen), seen
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
        """Sends it, and waits until the process has obeyed: it was running then, and sleeps now."""
        self.process.send_signal(number)
        assert eventually(self.sleeps)

    def sleeps(self):
        """Whether it waits for something, or has ended."""
        if self.process.poll() is not None:
            return True
        status = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        return status.rpartition(") ")[2][0] == "S"

    def sleeps_again(self, times):
        """Waits until it has slept that many times more; a master that stops looks around each 0.1 s."""

        def slept():
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[1])

        before = slept()
        assert eventually(lambda: slept() >= before + times)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            out = "" if self.process.stdout.closed else self.process.communicate(timeout=60)[0]
            self.process.wait(60)
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


@contextlib.contextmanager
def halted(pid):
    """The process stands still meanwhile, with all its threads."""
    os.kill(pid, signal.SIGSTOP)
    try:
        assert eventually(lambda: states(pid) == {"T"})
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def states(pid):
    """Those of the process's threads: S, R, T, ..."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(") ")[2][0] for task in tasks}


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
    """A request that has begun, and lasts until it is told to end."""

    def __init__(self, program):
        self.answer = None
        self.begun, self.told = program.folder / "begun", program.folder / "end"
        for sign in (self.begun, self.told):
            sign.unlink(missing_ok=True)
        self.thread = threading.Thread(target=self._ask, args=(program,))
        self.thread.start()
        assert eventually(self.begun.exists)

    def _ask(self, program):
        self.answer = program.get("/wait")

    def end(self):
        """Its answer, once it has been told to end."""
        assert self.thread.is_alive()
        self.told.touch()
        return self.result()

    def result(self):
        self.thread.join()
        return self.answer
