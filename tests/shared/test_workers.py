"""Real servers with four workers: what they share is exact whatever becomes of single workers."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import threading

import pytest

from tests.supervised import Load, Program, alive, halted
from tests.waiting import eventually

CODE = """
import os, syncless
from syncless.shared import Counter, Lagged, Lock, Mapping, figures, publish, subscribe
from syncless.wsgi import hold
VERSION = {version}

def stream(topic):
    with subscribe(topic) as subscription:
        yield b"begin\\n"
        while not subscription.ended:
            try:
                for message in subscription:
                    yield f"{{message.data}}\\n".encode()
            except Lagged as lagged:
                yield f"lagged {{lagged.missed}}\\n".encode()
    yield b"end\\n"

def answer(environ):
    path, query = environ["PATH_INFO"][1:], environ["QUERY_STRING"]
    if path == "add":
        return Counter(query).add()
    if path == "get":
        return Counter(query).get()
    if path == "loop":
        for _ in range(1000):
            Counter("all").add()
            Mapping("values").set("k", "x" * 3000)
        return 1000
    if path == "set":
        return Mapping("values").set("kept", query)
    if path == "value":
        return Mapping("values").get("kept")
    if path == "publish":
        topic, number, name = query.split(":")
        for each in range(int(number)):
            publish(topic, f"{{name}} {{each}}")
        return number
    if path == "flood":
        for each in range(int(query)):
            publish("flood", "x" * 10_000)
        return publish("news", "flooded")
    if path == "lock":
        taken = Lock("import").acquire(timeout=float(query))
        if taken:
            publish("locks", os.getpid())
        while taken and not os.path.exists("end"):
            syncless.sleep(0.01)
        return taken
    if path == "burn":
        return syncless.sleep(0.01)
    if path == "figures":
        return figures()["overwritten"]
    return VERSION

def app(environ, start_response):
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    if environ["PATH_INFO"] == "/stream":
        return stream(environ["QUERY_STRING"])
    if environ["PATH_INFO"] == "/held":
        return hold(environ["QUERY_STRING"])
    return [str(answer(environ)).encode()]
"""

PRELOADED = pytest.mark.parametrize("options", [[], ["--preload"]], ids=["imported", "preloaded"])


class Stream:
    """A client that reads lines as they come."""

    path, first = "/stream", "begin"

    def __init__(self, running, topic):
        self.connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
        self.connection.request("GET", f"{self.path}?{topic}")
        self.answer = self.connection.getresponse()
        self.pid = int(self.answer.headers["X-Pid"])
        assert self.line().startswith(self.first)

    def line(self):
        return self.answer.readline().decode().strip()

    def close(self):
        self.connection.close()


class Held(Stream):
    """The texts of events."""

    path, first = "/held", "retry"

    def line(self):
        line = super().line()
        while not line.startswith(("retry", "data")) and not self.answer.isclosed():
            line = super().line()
        return line.removeprefix("data: ")


@contextlib.contextmanager
def streams_of_all(running, number, topic, kind=Stream):
    """Streams until each of that many workers has one."""
    made = []
    try:

        def everywhere():
            made.append(kind(running, topic))
            return len({each.pid for each in made}) == number

        assert eventually(everywhere)
        yield made
    finally:
        for each in made:
            each.close()


@PRELOADED
def test_counter_is_exact_over_workers(program, options):
    running = program("--workers", "4", *options, code=CODE)

    def ask():
        for _ in range(25):
            running.get("/add?all")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert running.get("/get?all")[2] == "200"
    with streams_of_all(running, 4, "none"):  # each worker has the same
        assert running.get("/get?all")[2] == "200"


def test_killed_worker_leaves_counter_and_store_whole(program):
    """Each answer was counted. Those that were killed have counted a part."""
    running = program("--workers", "4", code=CODE)
    with Load(running, "/loop") as load:
        for _ in range(5):
            before = len(load.answers)
            assert eventually(lambda before=before: len(load.answers) > before + 2)
            pid = load.answers[-1][0]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            assert eventually(lambda pid=pid: not alive(pid))
    counted = int(running.get("/get?all")[2])
    finished = 1000 * len(load.answers)
    assert finished <= counted <= finished + 1000 * len(load.failures)
    assert int(running.get("/add?all")[2]) == counted + 1


def test_lock_of_a_killed_worker_goes_to_another(program):
    running = program("--workers", "4", code=CODE)

    def ask():
        with contextlib.suppress(OSError, http.client.HTTPException):  # its worker is killed
            return running.get("/lock?60")[2]

    with streams_of_all(running, 4, "locks") as streams:
        holding = threading.Thread(target=ask)
        holding.start()
        holder = int(streams[0].line())
        waiting = [threading.Thread(target=ask) for _ in range(8)]
        for thread in waiting:
            thread.start()
        os.kill(holder, signal.SIGKILL)
        other = next(stream for stream in streams[1:] if stream.pid != holder)
        assert int(other.line()) == holder
        assert int(other.line()) != holder  # while nobody has released it
        (running.folder / "end").touch()
        for thread in [holding, *waiting]:
            thread.join()


def test_messages_reach_all_workers_in_the_order_of_each_publisher(program):
    running = program("--workers", "4", code=CODE)
    with streams_of_all(running, 4, "news") as streams:
        publishers = [
            threading.Thread(target=running.get, args=(f"/publish?news:50:{name}",)) for name in range(4)
        ]
        for thread in publishers:
            thread.start()
        for stream in streams:
            heard = {}
            for _ in range(200):
                name, number = map(int, stream.line().split())
                heard.setdefault(name, []).append(number)
            assert heard == {name: list(range(50)) for name in range(4)}
        for thread in publishers:
            thread.join()


def test_flood_by_one_worker_is_bounded_and_reported(program):
    """A worker that is stopped meanwhile blocks nobody, and is told what it has missed."""
    running = program("--workers", "4", "-l", "shared_ring_bytes=1M", code=CODE)
    with streams_of_all(running, 4, "news") as streams:
        late = streams[0].pid
        with halted(late):

            def flooded():
                return running.get("/flood?1000")[0] == 200

            assert flooded()  # the connection may wait in the halted worker: it accepts none
            assert int(running.get("/figures")[2]) > 500
        for stream in streams:
            missed = 0
            while (line := stream.line()).startswith("lagged"):
                missed += int(line.split()[1])
            assert line == "flooded" and (stream.pid != late or missed > 500)


def test_stop_ends_subscriptions_of_all_workers_at_once(program):
    """Long before stop_notice_seconds: the streams have their last line."""
    running = program("--workers", "4", "-l", "stop_seconds=1000", "-l", "stop_notice_seconds=500", code=CODE)
    with streams_of_all(running, 4, "news") as streams:
        running.process.send_signal(signal.SIGTERM)
        assert [stream.line() for stream in streams] == ["end"] * len(streams)
    running.process.wait(60)


def test_reload_keeps_values_and_ends_subscriptions(program):
    running = program("--workers", "4", code=CODE)
    running.get("/set?mine")
    assert running.get("/add?all")[2] == "1"
    with streams_of_all(running, 4, "news") as streams:
        (running.folder / "app.py").write_text(CODE.format(version=2))
        os.utime(running.folder / "app.py", (6000, 6000))
        running.process.send_signal(signal.SIGHUP)
        assert [stream.line() for stream in streams] == ["end"] * len(streams)
    assert eventually(lambda: not any(alive(stream.pid) for stream in streams))
    assert running.get("/value")[2] == "mine" and running.get("/add?all")[2] == "2"
    with streams_of_all(running, 4, "news") as streams:
        running.get("/publish?news:1:me")
        assert all(stream.line().endswith(" 0") for stream in streams)


def test_killed_worker_ends_its_subscriptions_and_no_others(program):
    running = program("--workers", "4", code=CODE)
    with streams_of_all(running, 4, "news") as streams:
        dead = streams[0].pid
        os.kill(dead, signal.SIGKILL)
        assert eventually(lambda: not alive(dead))
        running.get("/publish?news:1:me")
        for stream in streams:
            if stream.pid != dead:
                assert stream.line().endswith(" 0")
            else:
                with contextlib.suppress(ConnectionError, http.client.IncompleteRead):
                    assert stream.line() == ""


def test_held_streams_of_two_workers_hear_all_publishers_and_end_in_order_at_a_reload(program):
    running = program("--workers", "2", code=CODE)
    with streams_of_all(running, 2, "news", Held) as streams:
        for name in "abc":
            running.get(f"/publish?news:100:{name}")
        expected = [f"{name} {number}" for name in "abc" for number in range(100)]
        for stream in streams:
            assert [stream.line() for _ in range(300)] == expected
        running.process.send_signal(signal.SIGHUP)
        for stream in streams:
            assert stream.line() == "" and stream.answer.isclosed()
    assert eventually(lambda: not any(alive(stream.pid) for stream in streams))
    with streams_of_all(running, 2, "news", Held) as streams:
        running.get("/publish?news:1:d")
        assert [stream.line() for stream in streams] == ["d 0"] * len(streams)


PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "howto" / "shared.md"


def test_chat_of_all_workers(tmp_path):
    """The one of the page."""
    pytest.importorskip("flask", reason="flask is not installed")
    found = re.search(r'^```python title="chat.py"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "chat.py").write_text(found[1])
    with contextlib.ExitStack() as opened:
        running = Program(tmp_path, ["--workers", "4"], application="chat:app")
        opened.callback(running.end)

        def connected():
            client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
            return opened.enter_context(contextlib.closing(client))

        listeners = []
        for _ in range(8):
            client = connected()
            client.request("GET", "/lines")
            listeners.append(opened.enter_context(contextlib.closing(client.getresponse())))
            assert listeners[-1].readline() == f"data: hello, number {len(listeners)}\n".encode()
            assert listeners[-1].readline() == b"\n"
        speaker = connected()
        statuses = []
        for number in range(30):
            speaker.request("POST", "/say", f"line\n{number}")
            response = speaker.getresponse()
            response.read()
            statuses.append(response.status)
        said = [n for n, status in enumerate(statuses) if status == 204]
        assert statuses[:20] == [204] * 20
        for listener in listeners:
            for number in said:
                assert listener.readline() == f"data: line {number}\n".encode()
                listener.readline()
