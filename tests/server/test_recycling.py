"""Workers that are replaced: after many requests, with age, with too much memory, or because they hang."""

import contextlib
import http.client
import os
import socket
import threading
from collections import Counter

import pytest

from syncless.server.program.worker import most_requests
from syncless.wsgi import Limits
from tests.supervised import APP, Load, alive
from tests.waiting import eventually


def test_a_worker_that_wants_to_be_replaced_is_in_the_end(program):
    """Although its first successors cannot start."""
    running = program("--workers", "1", "-l", "worker_seconds=0.5")
    assert running.get()[0] == 200
    (running.folder / "app.py").write_text("raise RuntimeError('new code is broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    assert eventually(lambda: running.said().count("the old one keeps serving; a new one starts in") >= 2)
    assert running.get()[2] == "1"
    (running.folder / "app.py").write_text(APP.format(version=2))
    os.utime(running.folder / "app.py", (6000, 6000))
    assert eventually(lambda: running.get()[2] == "2")


@pytest.mark.parametrize(("jitter", "seen"), [(0, {50}), (3, {50, 51, 52, 53})])
def test_workers_ask_to_be_replaced_at_different_numbers_of_requests(jitter, seen):
    limits = Limits(worker_requests=50, worker_requests_jitter=jitter)
    assert {most_requests(limits) for _ in range(1000)} == seen
    assert most_requests(Limits(worker_requests_jitter=3)) == 0


def test_recycling_by_number_of_requests(program):
    running = program("--workers", "2", "-l", "worker_requests=50", "-l", "worker_requests_jitter=20")
    first = running.pids(2)
    with Load(running) as load:
        assert eventually(lambda: len({pid for pid, _ in list(load.answers)}) >= 5)
    assert load.failures == [] and eventually(lambda: not any(alive(pid) for pid in first))
    assert running.said() == ""


class Pipelined:
    """A client that sends all its requests at once, and those without an answer once more."""

    def __init__(self, program):
        self.program = program
        self.connections = []
        """Of each, the processes that have answered there, in order."""

    def ask(self, number):
        """Waits until this many have been answered."""
        while sum(map(len, self.connections)) < number:
            self.connections.append(self._ask_once(number - sum(map(len, self.connections))))

    def _ask_once(self, number):
        """Sends all of them, and reads until the server closes or has answered."""
        pids = []
        with socket.create_connection(("127.0.0.1", self.program.port), timeout=60) as client:
            sending = threading.Thread(target=self._send, args=(client, number))
            sending.start()
            with client.makefile("rb") as answers:
                closes = False
                while len(pids) < number and answers.readline():
                    assert not closes, "an answer after Connection: close"
                    fields = dict(line.split(b": ", 1) for line in iter(answers.readline, b"\r\n"))
                    assert answers.read(int(fields[b"Content-Length"])) == b"1"
                    pids.append(int(fields[b"X-Pid"]))
                    closes = fields.get(b"Connection", b"") == b"close\r\n"
                assert closes or len(pids) == number, "closed without a word"
            sending.join()
        return pids

    @staticmethod
    def _send(client, number):
        with contextlib.suppress(OSError):  # the server has closed
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * number)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_worker_answers_no_further_pipelined_request_than_its_number(program, workers):
    running = program("--workers", workers, "-l", "worker_requests=50")
    client = Pipelined(running)
    client.ask(1000)
    assert sum(map(len, client.connections)) == 1000
    assert all(len(set(pids)) == 1 for pids in client.connections)
    first_of = {}
    for pids in client.connections:
        first_of.setdefault(pids[0], len(pids))
    assert set(list(first_of.values())[:3]) == {50}
    # a worker that has had its number answers one request of a connection that comes all the same
    assert all(len(pids) in (50, 1) for pids in client.connections[:-1])
    assert running.said() == ""


def test_jitter_is_exact_with_pipelining(program):
    running = program("--workers", "2", "-l", "worker_requests=50", "-l", "worker_requests_jitter=10")
    client = Pipelined(running)
    client.ask(1500)
    numbers = [len(pids) for pids in client.connections[:-1] if len(pids) > 1]
    assert len(numbers) > 10 and set(numbers) <= set(range(50, 61)) and len(set(numbers)) > 1


def test_two_workers_answer_their_number_and_nothing_more(program):
    """While one of them has had its number, new connections are the other's."""
    patient = "from syncless.server.program import worker; worker.ASIDE = 60\n"
    running = program("--workers", "2", "-l", "worker_requests=20", code=patient + APP)
    answered = Counter()

    def replaced():
        answered[running.get()[1]] += 1
        return [number for pid, number in answered.items() if not alive(pid)]

    assert eventually(lambda: len(replaced()) >= 5)
    assert set(replaced()) == {20}


def test_other_connections_of_a_full_worker_close_after_their_next_answer(program):
    running = program("--workers", "1", "-l", "worker_requests=5")
    kept = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    other = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)

    def ask(connection):
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        return int(response.headers["X-Pid"]), response.headers["Connection"]

    first = ask(kept)[0]
    assert [ask(other) for _ in range(4)] == [(first, None)] * 3 + [(first, "close")]
    assert ask(kept) == (first, "close")
    kept.close()
    other.close()


def test_full_worker_goes_on_while_no_successor_can_start(program):
    running = program("--workers", "2", "-l", "worker_requests=5")
    (running.folder / "app.py").write_text("raise RuntimeError('new code is broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    for _ in range(30):
        assert running.get()[2] == "1"


def test_recycling_by_age_and_by_memory(program):
    running = program("--workers", "1", "-l", "worker_seconds=0.5")
    (first,) = running.pids(1)
    assert eventually(lambda: running.get()[1] != first)
    running.end()
    running = program("--workers", "1", "-l", "worker_memory_bytes=100000000")
    (first,) = running.pids(1)
    for _ in range(3):
        running.get("/eat")
    assert eventually(lambda: running.get()[1] != first)


def test_worker_with_a_stalled_loop_is_killed_and_its_stack_logged(program):
    running = program("--no-patch", "--workers", "1", "-l", "worker_stuck_seconds=0.6")
    (first,) = running.pids(1)
    with pytest.raises((http.client.HTTPException, OSError)):
        running.get("/block?30")
    assert eventually(lambda: running.get()[1] != first)
    said = running.said()
    line = APP.splitlines().index("        time.sleep(float(query))") + 1
    assert (
        "has been blocked for 0.6 s; its stack is on stderr" in said
        and "Fatal Python error: Aborted" in said
        and f'app.py", line {line} in app' in said
    )
