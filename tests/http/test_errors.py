"""Entries of the error log: when, where and about which request; as lines, as JSON, through logging. And what
the access log says of a request's id and of how its response ended."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import threading
import urllib.error

import pytest

import syncless
from syncless.http.log import errorlog
from syncless.wsgi import current_request
from tests.cli.test_loading import command, environment
from tests.cli.test_patch import served
from tests.supervised import without_events
from tests.waiting import eventually

APP = """
import os, signal, sys

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/die":
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "/tell":
        print("told", "twice", file=environ["wsgi.errors"])
        start_response("200 OK", [])
        return [b""]
    if path == "/cut":
        return cut(start_response)
    if path.startswith("/boom"):
        raise ValueError("no " + path)
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]

def cut(start_response):
    start_response("200 OK", [("Content-Length", "10")])
    yield b"half"
    raise ValueError("in the middle")
"""
HEAD = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4})\] \[(\d+)\] \[(\w+)\] (?:\[(\S+) (\S+)\] )?(.*)"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def get(server, path):
    with pytest.raises(OSError, match=r"500|closed|reset") as info:
        server.get(path)
    if isinstance(info.value, urllib.error.HTTPError):
        info.value.close()


# -- as a user runs it --------------------------------------------------------------------------------


def test_entry_has_time_process_level_request_and_client(folder):
    with served(folder) as server:
        get(server, "/boom")
        pid = server.process.pid
    first, second, *_, last = server.said().splitlines()
    when, process, level, request, client, message = HEAD.fullmatch(first).groups()
    assert (int(process), level, client, message) == (pid, "ERROR", "127.0.0.1", "Error in GET /boom:")
    assert when and re.fullmatch(r"[0-9a-f]{8}-1", request)
    assert second == "  Traceback (most recent call last):" and last == "  ValueError: no /boom"


@pytest.mark.parametrize("workers", ["0", "1"])
def test_json_has_an_object_in_each_line(folder, workers):
    with served(folder, "--error-log-format", "json", "--error-log", "log", "--workers", workers) as server:
        get(server, "/boom%0aforged")
        server.get("/tell")
        pid = int(server.get("/"))
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    error, told = (line for line in lines if line["level"] != "INFO")
    assert error["message"] == "Error in GET /boom\\nforged:" and error["level"] == told["level"] == "ERROR"
    assert error["pid"] == told["pid"] == pid and error["client"] == told["client"] == "127.0.0.1"
    assert told["message"] == "told twice" and told["request_id"] != error["request_id"]
    assert error["traceback"].startswith("Traceback") and error["traceback"].endswith(
        "ValueError: no /boom\nforged\n"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}", error["time"])


def test_messages_of_the_master_are_in_the_error_log_and_it_is_opened_anew(folder):
    with served(folder, "--error-log", "log", "--workers", "1") as server:
        for name in ("old", "older"):
            get(server, "/die")
            assert eventually(lambda: "was killed by SIGKILL" in (folder / "log").read_text())
            (folder / "log").rename(folder / name)
            server.process.send_signal(signal.SIGUSR1)
            assert eventually((folder / "log").exists)
    entry = HEAD.match(without_events((folder / "older").read_text()))
    assert entry[2] == str(server.process.pid) and entry[3] == "WARNING" and entry[4] is None
    assert server.said() == ""


LOGGING = """
[logging.formatters.ours]
format = "%(levelname)s %(process)d %(request_id)s %(client)s: %(message)s"
[logging.handlers.file]
class = "logging.FileHandler"
filename = "logged"
formatter = "ours"
[logging.loggers."syncless.error"]
handlers = ["file"]
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_configured_logger_gets_the_entries(folder, workers):
    (folder / "syncless.toml").write_text(LOGGING)
    with served(folder, "--workers", workers) as server:
        get(server, "/boom")
        server.get("/tell")
        pid = server.get("/")
    first, *_, last, told = without_events((folder / "logged").read_text()).splitlines()
    assert re.fullmatch(rf"ERROR {pid} [0-9a-f]{{8}}-1 127.0.0.1: Error in GET /boom:", first)
    assert last == "ValueError: no /boom" and told.endswith("127.0.0.1: told twice")
    assert server.said() == ""


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('logging = "yes"\n', "syncless.toml:1: logging: write a table, not 'yes'"),
        (
            '[logging.handlers.file]\nclass = "no.such.Handler"\n',
            "cannot configure logging: Unable to configure handler 'file'",
        ),
    ],
)
@pytest.mark.parametrize("options", [[], ["--check"], ["--workers", "1"]])
def test_wrong_configuration_of_logging_is_told(folder, table, message, options):
    (folder / "syncless.toml").write_text(table)
    done = subprocess.run(
        command("app:app", "--bind", "127.0.0.1:0", *options),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_printed_configuration_of_logging_can_be_read_again(folder):
    (folder / "syncless.toml").write_text(LOGGING)

    def printed(*options):
        line = command("--print-config", *options)
        done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.replace("other.toml", "syncless.toml")

    first = printed()
    (folder / "other.toml").write_text(first)
    assert '"handlers"."file"."class" = "logging.FileHandler"' in first
    assert [line for line in first.splitlines() if line.startswith('"')] == [
        line for line in printed("--config", "other.toml").splitlines() if line.startswith('"')
    ]


# -- in this process ----------------------------------------------------------------------------------


def failing(environ, start_response):
    raise ValueError(environ["QUERY_STRING"] + "\nfirst line\n[2026-01-01 00:00:00 +0000] [1] [ERROR] forged")


def test_only_entries_begin_at_the_margin(start):
    log = io.StringIO()
    start.client(start(failing, error_log=log)).get("/%0a[forged]%1b[2J")
    first, *others = log.getvalue().splitlines()
    assert HEAD.fullmatch(first) and others and all(line.startswith("  ") for line in others)
    assert "\033" not in log.getvalue()


@pytest.mark.parametrize(
    ("trusted", "given", "expected"),
    [
        (["127.0.0.1"], "from-the-proxy", "from-the-proxy"),
        (["127.0.0.1"], "not one", r"[0-9a-f]{8}-[0-9a-f]+"),
        (["127.0.0.1"], "x" * 201, r"[0-9a-f]{8}-[0-9a-f]+"),
        ([], "from-a-client", r"[0-9a-f]{8}-[0-9a-f]+"),
    ],
)
def test_id_is_the_trusted_proxys_or_our_own_in_all_places(start, trusted, given, expected):
    errors, lines = io.StringIO(), io.StringIO()
    ids = []

    def app(environ, start_response):
        ids.append(current_request().id)
        raise ValueError

    server = start(app, error_log=errors, access_log=lines, access_log_format="%L", trusted=trusted)
    client = start.client(server)
    client.get("/", headers=f"X-Request-ID: {given}\r\n")
    assert re.fullmatch(expected, ids[0])
    assert HEAD.match(errors.getvalue())[4] == ids[0]
    assert eventually(lambda: lines.getvalue() == f"{ids[0]}\n")


def test_ids_of_requests_differ_also_in_one_turn(start):
    ids = []

    def app(environ, start_response):
        ids.append(current_request().id)
        assert current_request().id == ids[-1]
        start_response("200 OK", [])
        return [b""]

    client = start.client(start(app))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
    assert eventually(lambda: len(ids) == 5) and len(set(ids)) == 5


def test_access_log_marks_responses_that_were_cut_off(start):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "10")])
        yield b"half "
        if environ["PATH_INFO"] == "/cut":
            raise ValueError
        yield b"whole"

    lines = io.StringIO()
    server = start(app, access_log=lines, access_log_format="%U %s %B %X", error_log=io.StringIO())
    client = start.client(server)
    client.get("/kept")
    client.get("/closed", headers="Connection: close\r\n")
    client = start.client(server)
    client.send(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
    with pytest.raises(OSError, match="reset"):
        while client.sock.recv(1000):
            pass
    assert eventually(lambda: lines.getvalue().count("\n") == 3)
    assert lines.getvalue().splitlines() == ["/kept 200 10 +", "/closed 200 10 -", "/cut 200 5 X"]


def test_access_log_marks_responses_that_clients_have_left(start):
    left = syncless.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"first"
        left.wait()
        while True:
            yield b"more" * 1000

    lines = io.StringIO()
    server = start(app, access_log=lines, access_log_format="%s %X")
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.sock.recv(1000)
    client.close()
    left.set()
    assert eventually(lambda: lines.getvalue() == "200 X\n")


def test_refused_requests_have_neither_id_nor_ending(start):
    lines = io.StringIO()
    client = start.client(start(failing, access_log=lines, access_log_format={"id": "%L", "ending": "%X"}))
    client.send(b"nonsense\r\n\r\n")
    assert eventually(lambda: lines.getvalue() == '{"id":null,"ending":"-"}\n')


@pytest.fixture
def handler():
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record)

    made = Handler()
    made.records = records
    yield made
    for name in ("syncless", "syncless.error"):
        logging.getLogger(name).removeHandler(made)


@pytest.mark.parametrize("name", ["syncless", "syncless.error"])
def test_logger_with_a_handler_gets_records_instead(start, handler, name):
    logging.getLogger(name).addHandler(handler)
    log = io.StringIO()
    start.client(start(failing, error_log=log)).get("/there?my")
    (record,) = handler.records
    assert (
        record.getMessage() == "Error in GET /there:" and record.client == "127.0.0.1" and record.request_id
    )
    assert record.exc_info[0] is ValueError and record.name == "syncless.error" and log.getvalue() == ""


def test_handler_of_the_root_changes_nothing(start, handler):
    logging.getLogger().addHandler(handler)
    try:
        log = io.StringIO()
        start.client(start(failing, error_log=log)).get()
    finally:
        logging.getLogger().removeHandler(handler)
    assert not handler.records and "Error in GET /:" in log.getvalue()


def test_log_that_fails_harms_no_request(start, handler):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, os.strerror(28))

    assert start.client(start(failing, error_log=Full())).get()[0] == 500


def test_unfinished_lines_wait_for_their_end_in_json():
    stream = io.StringIO()
    log = errorlog.ErrorLog(stream, "json")
    log.write("one ")
    assert stream.getvalue() == ""
    log.writelines(["line\n", "another\n"])
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["one line", "another"]


def test_text_of_other_threads_has_no_request():
    stream = io.StringIO()
    log = errorlog.ErrorLog(stream, "json")
    thread = threading.Thread(target=log.write, args=("told\n",))
    thread.start()
    thread.join()
    assert "request_id" not in json.loads(stream.getvalue())


def test_unknown_log_format_is_refused(start):
    with pytest.raises(ValueError, match="must be one of text, json, not 'xml'"):
        start(failing, error_log_format="xml")
