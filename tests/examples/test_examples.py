"""Each example is started as its first lines say and visited by a real client."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.cli.terminal import Terminal
from tests.supervised import without_events
from tests.waiting import eventually

ROOT = __file__.rsplit("/tests/", 1)[0]


class Running:
    """A program that says where it listens in its first line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line = self.process.stdout.readline()
        if not self.line:
            raise AssertionError(self.process.communicate()[1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.out, self.err = self.process.communicate(timeout=60)


def need(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


def serving(example, *options):
    running = Running("-m", "syncless", f"examples.{example}", *options, "--bind", "127.0.0.1:0")
    running.port = int(running.line.split(":")[2].split("/")[0])
    return running


def ask(running, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def ended_well(running):
    assert running.process.returncode == 0 and without_events(running.err) == "", running.err


def test_hello():
    with serving("hello") as running:
        assert ask(running, "GET", "/") == (200, "Hello, World!\n")
    ended_well(running)


def test_webpy():
    need("web")
    with serving("webpy_app") as running:
        assert ask(running, "GET", "/web.py") == (200, "Hello, web.py!\n")
        assert ask(running, "POST", "/")[0] == 405
    ended_well(running)


def test_cherrypy():
    need("cherrypy")
    with serving("cherrypy_app") as running:
        assert ask(running, "GET", "/") == (200, "Hello, World!\n")
        assert ask(running, "GET", "/add?a=1&b=2") == (200, "3\n")
        assert ask(running, "GET", "/nothing")[0] == 404


def test_flask():
    need("flask")
    with serving("flask_app") as running:
        assert ask(running, "GET", "/") == (200, "Hello, World!\n")
        status, body = ask(
            running, "POST", "/double", json.dumps([1, 2]), {"Content-Type": "application/json"}
        )
        assert status == 200 and json.loads(body) == {"doubled": [2, 4]}
        assert ask(running, "GET", "/count") == (200, "0\n1\n2\n")
        assert ask(running, "GET", "/nothing")[0] == 404
    ended_well(running)


def test_django():
    need("django")
    with serving("django_app") as running:
        assert ask(running, "GET", "/") == (200, "Hello, World!\n")
        status, body = ask(running, "POST", "/length", b"x" * 100_000)
        assert status == 200 and json.loads(body) == {"bytes": 100_000}


def test_timer_of_an_earlier_request():
    with serving("later") as running:
        assert ask(running, "GET", "/both") == (200, "one two")
        assert ask(running, "GET", "/") == (200, "0 timers of earlier requests have run\n")
        assert running.process.stdout.readline() == "a second elapsed\n"
        assert ask(running, "GET", "/") == (200, "1 timers of earlier requests have run\n")
    ended_well(running)


def test_handler_class():
    with serving("handler_app") as running:
        assert ask(running, "GET", "/any/path?q=1") == (200, "You asked for /any/path?q=1\n")
        assert ask(running, "POST", "/", "shout") == (200, "SHOUT")
        assert ask(running, "DELETE", "/")[0] == 501


@pytest.mark.realtime("how long twenty waits in another process take is measured")
def test_slow_requests_wait_together():
    with serving("slow") as running:
        for _ in range(5):  # a machine may stand still for the second that the slow ones take
            answers = []
            threads = [
                threading.Thread(target=lambda to=answers: to.append(ask(running, "GET", "/slow")))
                for _ in range(20)
            ]
            started = time.monotonic()
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            assert ask(running, "GET", "/") == (200, "fast\n")
            overtaken = not answers
            for thread in threads:
                thread.join()
            assert (
                answers == [(200, "slow\n")] * 20 and time.monotonic() - started < 15
            )  # one after the other: twenty
            if overtaken:
                break
        assert overtaken
    ended_well(running)


def test_demo():
    with serving("demo") as running:
        status, page = ask(running, "GET", "/")
        assert status == 200 and "syncless" in page
        for path in ("/hello", "/slow?seconds=0.01", "/upload", "/tasklets"):
            assert f'href="{path.partition("?")[0]}' in page
            assert ask(running, "GET", path)[0] == 200
        assert ask(running, "POST", "/upload", b"x" * 300_000)[1].startswith("300000 bytes in ")
        assert ask(running, "GET", "/slow?seconds=x")[0] == 400 and ask(running, "GET", "/nothing")[0] == 404
        waiting = threading.Thread(target=ask, args=(running, "GET", "/slow?seconds=1"))
        waiting.start()

        def is_listed():
            tasklets = ask(running, "GET", "/tasklets")[1]
            return "GET /slow" in tasklets and "<td>sleep</td>" in tasklets

        assert eventually(is_listed)
        waiting.join()
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        connection.request("GET", "/stream")
        response = connection.getresponse()
        assert (
            response.readline().startswith(b"line 1 of 10")
            and response.getheader("Transfer-Encoding") == "chunked"
        )
        connection.close()
    ended_well(running)


def test_echo():
    with Running("-m", "examples.echo", "0") as running:
        clients = [
            socket.create_connection(("127.0.0.1", int(running.line.split()[-1])), timeout=60)
            for _ in range(3)
        ]
        for number, client in enumerate(clients):
            client.sendall(b"hello %d" % number)
        for number, client in enumerate(clients):
            assert client.recv(100) == b"hello %d" % number
            client.close()


def test_chat():
    with Running("-m", "examples.chat", "0") as running:
        address = ("127.0.0.1", int(running.line.split()[-1]))
        alice, bob = (socket.create_connection(address, timeout=60) for _ in range(2))
        heard, lines = alice.makefile("r"), bob.makefile("r")
        alice.sendall(b"Alice\n")
        assert heard.readline() == "* Alice is here, 1 in the room\n"
        bob.sendall(b"Bob\n")
        assert heard.readline() == lines.readline() == "* Bob is here, 2 in the room\n"
        bob.sendall("schöne Grüße\n".encode())
        assert heard.readline() == lines.readline() == "Bob: schöne Grüße\n"
        lines.close()
        bob.close()
        assert heard.readline() == "* Bob has left\n"
        heard.close()
        alice.close()


def line_with(lines, text):
    """The first line that has the text."""
    return next(line for line in lines if text in line)


def test_irc():
    with Running("-m", "examples.irc", "0") as running:
        port = running.line.split()[-1]
        with (
            socket.create_connection(("127.0.0.1", int(port)), timeout=60) as raw,
            raw.makefile("rw", newline="") as server,
        ):
            for line in ("NICK Raw", "JOIN #room", "PING 1", "PRIVMSG #none :x", "SING"):
                print(line, end="\r\n", file=server, flush=True)
            for expected in (" 001 Raw", ":Raw JOIN #room", "PONG server 1", " 401 Raw #none", " 421 Raw"):
                assert line_with(server, expected)
            command = [sys.executable, "-m", "examples.irc", "join", port, "Typed", "#room"]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as joined:
                assert joined.stdout.readline() == "* Typed: join #room\n"
                assert line_with(server, "JOIN") == ":Typed JOIN #room\r\n"
                print("PRIVMSG #room :hello, you", end="\r\n", file=server, flush=True)
                assert joined.stdout.readline() == "Raw: hello, you\n"
                print("and you", file=joined.stdin, flush=True)
                assert line_with(server, "PRIVMSG") == ":Typed PRIVMSG #room :and you\r\n"
                print("NICK Typed", end="\r\n", file=server, flush=True)
                assert line_with(server, " 433 ")
                joined.stdin.close()
                assert line_with(server, "PART") == ":Typed PART #room\r\n"
                assert joined.wait(60) == 0


@pytest.mark.parametrize("example", ["irc", "chat", "echo"])
def test_interrupted_server_ends_without_a_traceback(example):
    with Running("-m", f"examples.{example}", "0") as running:
        running.process.send_signal(signal.SIGINT)
        running.process.wait(60)
    assert running.process.returncode == 0 and running.err == ""


def test_irc_says_that_there_is_no_server_and_how_it_is_called():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    for arguments, said in ((("join", port, "a", "#b"), "irc: "), (("join",), "Chat rooms")):
        done = subprocess.run(
            [sys.executable, "-m", "examples.irc", *arguments], capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == 1 and done.stderr.startswith(said) and "Traceback" not in done.stderr


@pytest.mark.parametrize("keys", ["q", " " * 60], ids=["left", "played to its end"])
def test_tetris(keys):
    need("curses")
    command = [sys.executable, "-m", "examples.tetris"]
    with Terminal(command, {**os.environ, "TERM": "xterm"}, cwd=ROOT) as terminal:
        terminal.read("0 lines")
        terminal.press(keys)
        terminal.read("Game over")
        terminal.read()
        assert terminal.process.wait(60) == 0


def test_static_files(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a page.html").write_text("<p>hello")
    (tmp_path / "large").write_bytes(bytes(1_000_000))
    (tmp_path.parent / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path.parent / "secret")
    monkeypatch.setenv("FILES_ROOT", str(tmp_path))
    with serving("files") as running:
        status, listing = ask(running, "GET", "/")
        assert status == 200 and '<a href="/sub/">' in listing
        assert '<a href="/sub/a%20page.html">' in ask(running, "GET", "/sub/")[1]
        assert ask(running, "GET", "/sub/a%20page.html") == (200, "<p>hello")
        assert ask(running, "GET", "/large") == (200, "\0" * 1_000_000)
        for path in ("/none", "/../secret", "/link", "/a%00b"):
            assert ask(running, "GET", path)[0] == 404
        assert ask(running, "POST", "/large")[0] == 405 and ask(running, "HEAD", "/large") == (200, "")
    ended_well(running)


@pytest.mark.parametrize(
    ("example", "arguments", "said"),
    [
        ("pingpong", ["3"], "ping\npong\nping\npong\nping\npong\n"),
        ("hackysack", ["10", "500"], "500 kicks among 10 players"),
        ("factory", ["2000"], "2,000 workers"),
        ("actors", [], "is told: there are"),
    ],
)
def test_stackless_programs(example, arguments, said):
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{example}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 0 and said in done.stdout and not done.stderr, done.stdout + done.stderr


def test_fastapi_beside_flask():
    need("flask", "fastapi")
    with serving("both:flask_app", "--mount", "/api=examples.both:api") as running:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(ask(running, "GET", "/api/next")))
        waiting.start()
        assert ask(running, "GET", "/say/hello") == (200, "said\n")
        waiting.join(60)
        assert answers == [(200, '{"said":"hello"}')]
    ended_well(running)
