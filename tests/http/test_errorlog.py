"""The error log: nothing is lost as long as it is read, and nothing stands still when it is not."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from syncless._core import nonblockingtext
from syncless.http.log import errorlog
from tests.plugin import Client
from tests.programs import run_patched, run_unchecked
from tests.supervised import without_events
from tests.waiting import eventually

APP = """
import sys, syncless
from syncless.wsgi import serve
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fine":
        start_response("200 OK", [])
        return [b"fine"]
    if path == "/tell":
        environ["wsgi.errors"].write("x" * 100_000 + "\\n")
        start_response("200 OK", [])
        return [b"told"]
    if path == "/tasklet":
        syncless.spawn(int, "told by " + environ["QUERY_STRING"]).join()
    raise RuntimeError(f"failure {environ['QUERY_STRING']} ends" + "." * 500)
serve(app, port=0, stop_seconds=float(sys.argv[2]), stop_idle_seconds=0, workers=int(sys.argv[1]))
"""


class Unread:
    """A server whose stderr is a pipe that is read only when the test does it."""

    def __init__(self, workers=0, stop_seconds=5):
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP, str(workers), str(stop_seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = "127.0.0.1", int(re.search(r":(\d+)/", self.process.stdout.readline())[1])

    def get(self, path):
        with Client(self.address) as client:
            return client.get(path)[0]

    def read(self):
        """Reads stderr from now on, in an OS thread."""
        self.lines = []
        self.thread = threading.Thread(target=lambda: self.lines.extend(self.process.stderr))
        self.thread.start()

    def stop(self):
        """Its output, once it has ended."""
        self.process.terminate()
        assert eventually(lambda: self.process.poll() is not None)
        self.thread.join()
        assert self.process.returncode == 0
        return "".join(self.lines)

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def unread():
    running = []

    def start(*arguments):
        running.append(Unread(*arguments))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.mark.parametrize("path", ["/", "/tasklet"])
@pytest.mark.parametrize("workers", [0, 2])
def test_server_goes_on_with_an_unread_stderr(unread, workers, path):
    """And loses no line, if it is read later."""
    server = unread(workers)
    for number in range(300):
        assert server.get(f"{path}?{number}") == 500
    assert server.get("/fine") == 200
    server.read()
    told = list(map(int, re.findall(r"RuntimeError: failure (\d+) ends", server.stop())))
    assert sorted(told) == list(range(300)) and (workers or told == sorted(told))


def test_too_many_lines_for_a_reader_that_stands_still_are_counted(unread):
    server = unread()
    for _ in range(110):
        assert server.get("/tell") == 200
    server.read()
    assert eventually(lambda: any("were dropped" in line for line in server.lines))
    assert server.get("/tell") == 200
    said = without_events(server.stop())
    lines = said.count("x" * 100_000 + "\n")
    (dropped,) = re.findall(r"this stream was not read; (\d+) lines were dropped\n", said)
    assert lines + int(dropped) == 111 and 80 <= lines < 111 and said.endswith("x\n")


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_server_stops_with_an_unread_stderr(unread, workers):
    server = unread(workers, 0.5)
    for number in range(200):
        assert server.get(f"/?{number}") == 500
    server.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: server.process.poll() == 0)


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "sys.exit(3)", "1 / 0"])
def test_text_written_before_a_process_ends_is_not_lost(end):
    program = f"""
import os, sys, syncless
def fail():
    raise RuntimeError("the last words")
syncless.spawn(fail)
syncless.sleep(0)
{end}
"""
    done = run_unchecked(program)
    assert done.stderr.startswith("Exception in ") and "RuntimeError: the last words\n" in done.stderr


def plain(fd):
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(fd, "w")), encoding="utf-8", write_through=False)


def test_outlet_keeps_the_order_of_what_the_stream_holds_back():
    reading, writing = os.pipe()
    with plain(writing) as stream, open(reading) as reader:
        out = nonblockingtext.NonblockingText(stream)
        stream.write("one ")
        out.writelines(["two ", "three\n"])
        assert reader.readline() == "one two three\n"
        out.close()


def test_outlet_does_not_touch_the_flags_of_the_file_that_others_share():
    reading, writing = os.pipe()
    with plain(writing) as stream, open(reading):
        out = nonblockingtext.NonblockingText(stream)
        out.write("x")
        assert os.get_blocking(writing)
        out.close()


@pytest.mark.parametrize("blocks", [False, True])
def test_outlet_of_a_full_pipe_or_socket_goes_on_when_it_is_read(blocks, monkeypatch):
    if blocks:  # as where /proc cannot be opened
        monkeypatch.setattr(
            nonblockingtext, "_open_fd", lambda *args: (_ for _ in ()).throw(PermissionError())
        )
    reading, writing = os.pipe()
    with plain(writing) as stream, open(reading) as reader:
        out = nonblockingtext.NonblockingText(stream)
        lines = [f"{number} {'y' * 1000}\n" for number in range(500)]
        out.writelines(lines)
        assert out.pending
        assert [reader.readline() for _ in lines] == lines
        assert eventually(lambda: not out.pending)
        out.write("last\n")
        assert reader.readline() == "last\n"
        assert eventually(lambda: not out.pending)
        out.close()


def test_outlet_follows_its_descriptor_and_leaves_numbers_of_others_alone(tmp_path):
    with open(tmp_path / "log", "w") as stream:
        out = nonblockingtext.NonblockingText(stream)
        out.write("first\n")
        with open(tmp_path / "other", "w") as other:
            os.dup2(other.fileno(), stream.fileno())  # as a daemon does
            os.dup2(other.fileno(), out._fd)
        out.write("second\n")
        out.close()
    assert (tmp_path / "log").read_text() == "first\n" and (tmp_path / "other").read_text() == "second\n"


def test_streams_that_are_no_plain_files_get_what_is_written(start):
    class Log(io.StringIO):
        pass

    def app(environ, start_response):
        environ["wsgi.errors"].write("told\n")
        raise RuntimeError("boom")

    log = Log()
    assert start.client(start(app, error_log=log)).get()[0] == 500
    told, entry, *_, last = log.getvalue().splitlines()
    assert told == "told" and entry.endswith("] Error in GET /:") and last == "  RuntimeError: boom"


def test_error_log_file_has_lines_at_once_and_is_opened_anew(start, tmp_path):
    def app(environ, start_response):
        print(environ["PATH_INFO"], file=environ["wsgi.errors"])
        start_response("200 OK", [])
        return [b""]

    server = start(app, error_log=tmp_path / "log")
    client = start.client(server)
    client.get("/one")
    assert (tmp_path / "log").read_text() == "/one\n"
    (tmp_path / "log").rename(tmp_path / "old")
    server.reopen_logs()
    client.get("/two")
    assert (tmp_path / "old").read_text() == "/one\n" and (tmp_path / "log").read_text() == "/two\n"


def test_outlet_writes_when_no_descriptor_is_left(monkeypatch):
    def refuse(*args):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    reading, writing = os.pipe()
    with plain(writing) as stream, open(reading) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(nonblockingtext, "_open_fd", refuse)
            patch.setattr(nonblockingtext, "_dup", refuse)
            out = nonblockingtext.NonblockingText(stream)
            out.write("one\n")
            assert reader.readline() == "one\n" and out._fd == writing
            assert eventually(lambda: not out.pending)
        out.write("two\n")
        assert reader.readline() == "two\n" and out._fd != writing
        out.close()


class Broken(io.StringIO):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), LookupError("a mistake")])
@pytest.mark.parametrize("debug", [False, True])
def test_mistake_in_writing_an_entry_is_raised_in_debug_builds_only(monkeypatch, error, debug):
    monkeypatch.setattr(errorlog, "checked", debug)
    log = errorlog.ErrorLog(Broken(error))
    if debug and not isinstance(error, OSError):
        with pytest.raises(LookupError, match="a mistake"):
            log.warning("x")
    else:
        log.warning("x")


SPINNING = """
import io, os, socket, sys
import syncless
from syncless.http.log.errorlog import ErrorLog

to, format = sys.argv[1:]
if to == "pipe":
    reading, writing = os.pipe()
    read = lambda size: os.read(reading, size)
elif to == "socket":
    near, far = socket.socketpair()
    writing, read = near.detach(), far.recv
stream = {"stderr": None, "file": "log"}.get(to, "")
if stream == "":
    stream = io.TextIOWrapper(io.BufferedWriter(io.FileIO(writing, "w")), encoding="utf-8")
log = ErrorLog(stream, format)
turns = 0
def spin():
    global turns
    while True:
        turns += 1
        syncless.sleep(0)
def failure():
    try:
        raise LookupError("x" * 100)
    except LookupError as error:
        return error
def drain():
    while to in ("pipe", "socket"):
        read(1 << 20)
spinner, drainer = syncless.spawn(spin), syncless.spawn(drain)
syncless.sleep(0.001)
let_run = []
for number in range(3000):
    before = turns
    log.error(f"entry {number}", failure() if number % 5 == 0 else None)
    if stream is not None and to != "file":
        stream.write("half a line ")
    if turns != before:
        let_run.append(number)
    if number % 50 == 0:
        syncless.sleep(0)
assert turns > 60, turns
spinner.kill()
drainer.kill()
assert not let_run, let_run
"""


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("to", ["stderr", "file", "pipe", "socket"])
def test_entry_lets_no_other_tasklet_run(tmp_path, monkeypatch, to, format):
    monkeypatch.chdir(tmp_path)
    done = run_patched(SPINNING, to, format)
    assert done.returncode == 0, done.stderr[-1000:]
