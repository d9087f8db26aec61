"""The access log: its formats, that a client cannot forge lines, and that writing it stops nobody."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import pytest

import syncless
from syncless.apps.wsgi.application import EnvironRequest
from syncless.http.exchange import Exchange
from syncless.http.log import accesslog
from syncless.http.log.accesslog import ATOMS, FORMATS, make_log
from syncless.http.log.loglines import AccessLog
from syncless.io import socket
from syncless.wsgi import Server
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

COMBINED = re.compile(
    r"^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
    r'"(?P<request>[^"]*)" (?P<status>\d{3}|-) (?P<size>\d+|-) '
    r'"(?P<referer>[^"]*)" "(?P<agent>[^"]*)"$'
)


def app(environ, start_response):
    start_response("200 OK", [("X-Made-By", 'me "too"')])
    return [b"hello"] if environ["PATH_INFO"] != "/empty" else []


def entries(stream):
    return [COMBINED.match(line).groupdict() for line in stream.getvalue().splitlines()]


def logged(start, format, path="/a?b=c", headers="", **options):
    """The log line of one request."""
    stream = io.StringIO()
    server = start(app, access_log=stream, access_log_format=format, **options)
    client = start.client(server)
    client.get(path, headers)
    client.close()
    server.stop()
    return stream.getvalue()


def test_combined_format(start):
    log = io.StringIO()
    server = start(app, access_log=log)
    client = start.client(server)
    client.get("/a?b=c", "Referer: http://r/\r\nUser-Agent: me\r\n")
    client.get("/empty")
    client.close()
    server.stop()
    first, second = entries(log)
    assert first == {
        "request": "GET /a?b=c HTTP/1.1",
        "status": "200",
        "size": "5",
        "referer": "http://r/",
        "agent": "me",
    }
    assert second == {
        "request": "GET /empty HTTP/1.1",
        "status": "200",
        "size": "-",
        "referer": "-",
        "agent": "-",
    }


def test_line_that_fails_harms_no_client_and_leaves_nothing_of_itself(start, reports):
    class Unprintable:
        def __str__(self):
            raise LookupError("mine")

    def tells(environ, start_response):
        environ["told"] = Unprintable() if environ["PATH_INFO"] == "/bad" else "well"
        return app(environ, start_response)

    log = io.StringIO()
    server = start(tells, access_log=log, access_log_format="%U was told %{told}e")
    with start.client(server) as client:
        assert [client.get(path)[0] for path in ("/good", "/bad", "/better")] == [200] * 3
    server.stop()
    assert log.getvalue().splitlines() == ["/good was told well", "/better was told well"]
    assert [type(error) for _, error in reports] == [LookupError]


REFUSED = {
    b"BAD\r\n\r\n": (400, "BAD"),
    b"GET /a%20b?c=d HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n": (400, "GET /a%20b?c=d HTTP/1.1"),
    b'GET /\xff"x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n': (400, "GET /%FF%22x HTTP/1.1"),
    b"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000000\r\n\r\n": (413, "POST / HTTP/1.1"),
    b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n": (414, "GET /" + "x" * 2043 + "..."),
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 200 + b"\r\n": (431, "GET / HTTP/1.1"),
    b"GET / HTTP/2.0\r\nHost: a\r\n\r\n": (505, "GET / HTTP/2.0"),
    b'GET "\\\x1b[0m\x00 \xe4"\r\n\r\n': (400, r"GET \x22\x5c\x1b[0m\x00 \xe4\x22"),
    b"\x16\x03\x01 hello": (400, r"\x16\x03\x01 hello"),
    b"GET / HTT": (408, "GET / HTT"),
}


@pytest.mark.parametrize("sent", REFUSED)
def test_refused_request_is_logged_with_its_request_line(start, sent):
    log = io.StringIO()
    server = start(app, access_log=log, head_seconds=0.2, defer_accept=False)
    client = start.client(server)
    client.send(sent)
    assert eventually(lambda: log.getvalue().endswith("\n"))
    client.close()
    server.stop()
    status, line = REFUSED[sent]
    assert [(entry["status"], entry["request"]) for entry in entries(log)] == [(str(status), line)]


def test_refused_request_in_json(start):
    log = io.StringIO()
    server = start(
        app, access_log=log, access_log_format={"line": "%r", "method": "%m", "path": "%U", "status": "%s"}
    )
    for data in (b'BAD "\x01\r\n\r\n', b"GET /a HTTP/1.1\r\n\r\n"):
        client = start.client(server)
        client.send(data)
        assert client.response()[0] == 400
        client.close()
    server.stop()
    assert [json.loads(line) for line in log.getvalue().splitlines()] == [
        {"line": 'BAD "\x01', "method": None, "path": None, "status": 400},
        {"line": "GET /a HTTP/1.1", "method": "GET", "path": "/a", "status": 400},
    ]


HOSTILE = 'User-Agent: a" "b\\\r\nReferer: \x85\xff\r\n'.encode("latin-1").decode("latin-1")


def test_clients_cannot_forge_lines_or_fields(start):
    log = io.StringIO()
    server = start(app, access_log=log)
    client = start.client(server)
    client.send(('GET /%0a%22x%5c%20HTTP?q"\\ HTTP/1.1\r\nHost: a\r\n' + HOSTILE + "\r\n").encode("latin-1"))
    client.response()
    client.close()
    server.stop()
    (entry,) = entries(log)
    assert entry["request"] == "GET /%0A%22x%5C%20HTTP?q\\x22\\x5c HTTP/1.1"
    assert entry["agent"] == "a\\x22 \\x22b\\x5c" and entry["referer"] == "\\x85\\xff"


def test_lines_of_all_lengths():
    """Literals, values and paths, with and without something to escape, beside what Python makes of them."""
    chance = random.Random(1)

    def text():
        return "".join(
            chance.choices(
                'abc/ "\\%\n\xff',
                (20, 20, 20, 20, 1, 1, 1, 1, 1, 1),
                k=chance.choice((0, 1, 7, 15, 16, 17, 40, 9000)),
            )
        )

    for _ in range(300):
        literal, agent, path = "|" * chance.randrange(40), text(), text()
        log = make_log(f"{literal}%{{User-Agent}}i{literal}%U{literal}%>s{literal}%b")
        escaped = re.sub(r'["\\\\\n\xff]', lambda found: f"\\x{ord(found[0]):02x}", agent) or "-"
        quoted = re.sub(r"[^abc/]", lambda found: f"%{ord(found[0]):02X}", path)
        line = f"{literal}{escaped}{literal}{quoted}{literal}200{literal}12\n"
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_USER_AGENT": agent}
        times = chance.choice((1, 2, 50))
        assert log.measure(EnvironRequest(environ), "200 OK", 12, times).decode("ascii") == line * times


def test_json(start):
    line = logged(start, "json", "/%22%0a\u00e9?q=%22", 'User-Agent: a"\\b\r\nReferer: \u00e9\r\n')
    entry = json.loads(line)
    assert line.count("\n") == 1 and line.isascii()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", entry.pop("time"))
    assert entry.pop("duration_us") >= 0
    assert entry == {
        "remote_addr": "127.0.0.1",
        "user": None,
        "method": "GET",
        "path": "/%22%0A%C3%A9",
        "query": "?q=%22",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 5,
        "ending": "+",
        "host": "test",
        "referer": "\u00c3\u00a9",
        "user_agent": 'a"\\b',
    }


def test_mapping_makes_custom_json(start):
    entry = json.loads(
        logged(
            start,
            {"who": "%h", "pid": "%P", 'a"b': "%{X-Made-By}o", "none": "%{X}i", "e": "%{wsgi.url_scheme}e"},
        )
    )
    assert entry == {"who": "127.0.0.1", "pid": os.getpid(), 'a"b': 'me "too"', "none": None, "e": "http"}


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("common", r'127\.0\.0\.1 - - \[.*\] "GET /a\?b=c HTTP/1\.1" 200 5'),
        ("%a %m %U %q %H %s %>s %b %B %p", r"127\.0\.0\.1 GET /a \?b=c HTTP/1\.1 200 200 5 5 \d+"),
        ("%v %V %l %u", r"127\.0\.0\.1 test - -"),
        ("%D %T %{ms}T %{us}T %{s}T", r"\d+ 0 0 \d+ 0"),
        ("%{%Y-%m-%d}t", r"\d{4}-\d\d-\d\d"),
        ("%{x-MADE-by}o %{X-Absent}o", r"me \\x22too\\x22 -"),
        ("%{Host}i %{Content-Type}i %{REQUEST_METHOD}e", "test - GET"),
        pytest.param("100%% %P", f"100% {os.getpid()}", id="percent and process"),
    ],
)
def test_atoms(start, format, expected):
    assert re.fullmatch(expected + "\n", logged(start, format))


def test_atoms_of_an_exchange_are_its_attributes():
    keys = [atom.key for atom in ATOMS.values() if atom.kind == "exchange"]
    assert len(keys) > 3 and all(hasattr(Exchange, key) for key in keys)


@pytest.mark.parametrize(
    "format", ["%Z", "%{x}q", "%", "100%", {"a": "%h %l"}, {"a": "text"}, {"a": "%%"}, "%{h}T"]
)
def test_unknown_atoms_are_told_at_once(format):
    with pytest.raises(ValueError, match=r"atom|single"):
        Server(app, access_log=True, access_log_format=format)


def test_an_application_can_put_anything_into_its_environ():
    log = make_log("%U %u %r")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": None,
        "SCRIPT_NAME": b"x",
        "REMOTE_USER": "\u20ac\udcff\n",
        "QUERY_STRING": 5,
    }
    assert (
        log.measure(EnvironRequest(environ), "200 OK", 1, 1)
        == b"b'x'None U+20ACU+DCFF\\x0a GET b'x'None?5 \n"
    )
    assert make_log("%r %U %h").measure(EnvironRequest({}), "200 OK", 1, 1) == b"- - -\n"


def test_a_value_whose_text_takes_time_tears_no_line():
    """Its code writes a line itself, as others do while it waits."""
    log = make_log("%U %u")

    class User:
        def __str__(self):
            log.log_line(EnvironRequest({"REQUEST_METHOD": "GET", "PATH_INFO": "/other"}), "200 OK", 1, 0)
            return "somebody"

    request = EnvironRequest({"REQUEST_METHOD": "GET", "PATH_INFO": "/a", "REMOTE_USER": User()})
    assert log.measure(request, "200 OK", 1, 2) == b"/other -\n/a somebody\n" * 2


def test_lines_are_written_soon(start, tmp_path):
    path = tmp_path / "log"
    server = start(app, access_log=path)
    start.client(server).get()
    assert eventually(lambda: path.read_text())
    assert COMBINED.match(path.read_text().strip())


def test_reopening_after_a_rename_loses_nothing(start, tmp_path):
    path = tmp_path / "log"
    server = start(app, access_log=path, error_log=tmp_path / "errors")
    client = start.client(server)
    for number in range(10):
        client.get(f"/{number}")
        if number % 3 == 0:
            path.rename(tmp_path / f"log.{number}")
            (tmp_path / "errors").rename(tmp_path / f"errors.{number}")
            server.reopen_logs()
            assert eventually(path.exists) and (tmp_path / "errors").exists()
    client.close()
    server.stop()
    lines = "".join(
        file.read_text() for file in sorted(tmp_path.glob("log*"), key=lambda file: file.stat().st_mtime_ns)
    )
    assert sorted(re.findall(r"GET /(\d)", lines)) == [str(number) for number in range(10)]
    assert len(list(tmp_path.glob("log*"))) == 5


def test_a_log_that_cannot_be_reopened_goes_on_in_the_old_file(start, tmp_path, capfd):
    path = tmp_path / "folder" / "log"
    path.parent.mkdir()
    server = start(app, access_log=path)
    path.parent.rename(tmp_path / "moved")
    server.reopen_logs()
    start.client(server).get("/still")
    assert eventually(lambda: "/still" in (tmp_path / "moved" / "log").read_text())
    server.stop()
    assert "cannot write the access log" in capfd.readouterr().err


@pytest.mark.virtual_time(False)  # another process
def test_sigusr1_reopens_the_logs(tmp_path):
    (tmp_path / "logs.py").write_text("def app(e, s):\n    s('200 OK', [])\n    return [b'x']\n")
    command = [
        sys.executable,
        "-m",
        "syncless",
        "logs:app",
        "--bind",
        "127.0.0.1:0",
        "--access-log",
        "log",
        "--access-log-format",
        "%U",
    ]
    process = subprocess.Popen(
        [*command, "--error-log", "errors"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )

    def get(path):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            while sock.recv(1000):
                pass

    try:
        port = int(re.search(r":(\d+)/", syncless.run_in_thread(process.stdout.readline))[1])
        get("/before")
        assert eventually(lambda: (tmp_path / "log").read_text() == "/before\n")
        (tmp_path / "log").rename(tmp_path / "old")
        (tmp_path / "errors").unlink()
        process.send_signal(signal.SIGUSR1)
        assert eventually(lambda: (tmp_path / "log").exists() and (tmp_path / "errors").exists())
        get("/after")
        assert eventually(lambda: (tmp_path / "log").read_text() == "/after\n")
    finally:
        process.terminate()
        syncless.run_in_thread(process.communicate)
    assert process.returncode == 0 and (tmp_path / "old").read_text() == "/before\n"


def test_pipe_without_a_reader_stops_no_request(start):
    """Its lines wait, and beyond a bound they are dropped and counted."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        server = start(app, access_log=stream, access_log_format="%{User-Agent}i")
        client = start.client(server)
        text = "x" * 20_000
        for _ in range(20):  # a pipe takes 64 kB
            with syncless.Timeout(5):
                assert client.get("/", f"User-Agent: {text}\r\n")[0] == 200
        syncless.sleep(0.7)
        with syncless.Timeout(5):
            assert client.get()[0] == 200
        client.close()

        def read_all():
            seen = 0
            while seen < 20 * (len(text) + 1) + 2:
                seen += len(os.read(reading, 65536))

        syncless.run_in_thread(read_all)
        server.stop()
    os.close(reading)


@pytest.mark.virtual_time(False)  # the kernel has a thread for what is written to a terminal
def test_lines_appear_at_once_on_a_terminal(start, monkeypatch):
    monkeypatch.setattr(accesslog, "FLUSH_SECONDS", 3600)
    main, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        server = start(app, access_log=stream)
        start.client(server).get("/typed")
        assert b"GET /typed" in syncless.run_in_thread(os.read, main, 1000)
        server.stop()
    os.close(main)


def test_dropped_lines_are_told_with_their_number(start, capfd):
    class Slow(io.StringIO):
        """Its first block takes until it is told to go on."""

        def write(self, text):
            begun.set()
            go_on.wait(20)
            return super().write(text)

    begun, go_on, log = threading.Event(), threading.Event(), Slow()
    server = start(app, access_log=log, access_log_format="%{User-Agent}i")
    client = start.client(server)
    requests = 600
    for number in range(requests):  # of 20 kB each, where 8 MiB are held
        assert client.get("/", f"User-Agent: {'x' * 20_000}\r\n")[0] == 200
        if number == 0:
            assert eventually(begun.is_set)
    go_on.set()
    client.close()
    server.stop()
    written = log.getvalue().count("\n")
    assert 400 < written < requests
    assert f"the access log was too slow; {requests - written} lines were dropped" in capfd.readouterr().err


def test_log_that_cannot_be_written_is_told_in_the_error_log_of_its_server(start):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError("no space left")

    mine, others = io.StringIO(), io.StringIO()
    server = start(app, access_log=Full(), error_log=mine)
    start(app, error_log=others)
    start.client(server).get()
    assert eventually(lambda: "no space left" in mine.getvalue())
    assert others.getvalue() == ""


def test_memory_for_unwritten_lines_is_bounded():
    log = make_log("%{User-Agent}i")
    long = EnvironRequest({"HTTP_USER_AGENT": "x" * 10_000})
    line = len(log.measure(long, "200 OK", 0, 1))
    assert len(log.measure(long, "200 OK", 0, 2000)) <= (1 << 23) + line
    assert log.dropped == 2000 - ((1 << 23) // line + 1)


def test_the_formats_that_have_names_are_all_there():
    assert set(FORMATS) == {"combined", "common", "json"} and all(
        isinstance(make_log(name), AccessLog) for name in FORMATS
    )


@pytest.mark.parametrize("number", [0, 9, 10, 12345, 2**31 - 1, -1, -(2**31)])
def test_numbers(number):
    assert make_log("%B").measure(EnvironRequest({}), "200 OK", number, 1) == b"%d\n" % number
