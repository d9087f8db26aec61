"""Two servers of two workers on one Redis, which is killed and started in the midst."""

import contextlib
import pathlib
import threading

import pytest

from tests.shared.daemon import Daemon
from tests.shared.test_workers import CODE, Stream
from tests.supervised import Program
from tests.waiting import eventually

CODE = CODE.replace(
    "    start_response(",
    """    from syncless.shared import SharedError
    if environ["PATH_INFO"] == "/tell":
        try:
            text = str(Counter("told").add())
        except SharedError as error:
            text = f"{{type(error).__name__}} {{error}}"
        start_response("200 OK", [("X-Pid", str(os.getpid()))])
        return [text.encode()]
    start_response(""",
    1,
)
PATCH = pytest.mark.parametrize("options", [[], ["--no-patch"]], ids=["patched", "unpatched"])


@pytest.fixture
def daemon():
    made = Daemon()
    yield made
    made.end()


@pytest.fixture
def servers(tmp_path, daemon):
    """servers(*options): two running servers."""
    opened = contextlib.ExitStack()

    def begin(*options):
        made = []
        for name in ("one", "two"):
            folder = pathlib.Path(tmp_path / name)
            folder.mkdir()
            (folder / "app.py").write_text(CODE.format(version=1))
            given = ["--workers", "2", "--shared", daemon.url, "-l", "shared_seconds=2", *options]
            made.append(Program(folder, given))
            opened.callback(made[-1].end)
        return made

    with opened:
        yield begin


@PATCH
def test_servers_share_counters_and_messages(servers, options):
    one, two = servers(*options)
    streams = [Stream(server, "news") for server in (one, two) for _ in range(4)]

    def ask(server):
        for _ in range(25):
            server.get("/add?all")

    threads = [threading.Thread(target=ask, args=(server,)) for server in (one, two) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.get("/get?all")[2] == two.get("/get?all")[2] == "100"
    one.get("/publish?news:20:1")
    two.get("/publish?news:20:2")
    for stream in streams:
        heard = [stream.line() for _ in range(40)]
        assert heard == [f"{name} {number}" for name in (1, 2) for number in range(20)]
        stream.close()


@PATCH
def test_redis_away_is_told_and_stops_nothing_else(servers, daemon, options):
    """Streams go on, and the lines of the error log tell of no failure of the server."""
    server, _ = servers(*options)
    stream = Stream(server, "news")
    assert server.get("/tell")[2] == "1"
    daemon.kill()
    assert server.get("/tell")[2].startswith("Unavailable Redis at 127.0.0.1")
    assert server.get("/")[2] == "1"
    daemon.start()
    assert stream.line() == "lagged 0"

    def published():
        return server.get("/publish?news:1:again")[0] == 200

    assert eventually(published)
    assert stream.line() == "again 0" and server.get("/tell")[2] == "1"
    stream.close()


@PATCH
def test_request_that_waits_for_redis_holds_up_no_other(servers, daemon, options):
    server, _ = servers(*options)
    server.get("/tell")
    answers = []
    with daemon.halted():
        waiting = [threading.Thread(target=lambda: answers.append(server.get("/tell")[2])) for _ in range(10)]
        for thread in waiting:
            thread.start()
        while not answers:
            assert server.get("/")[2] == "1"
        for thread in waiting:
            thread.join()
    assert all("not answered within shared_seconds, 2 s" in answer for answer in answers)


def test_check_tells_what_is_wrong_with_a_url(tmp_path):
    (tmp_path / "app.py").write_text(CODE.format(version=1))
    for url, text in {
        "localhost": "shared: write redis://host:6379/0",
        "redis://me:secret@localhost/abc": "its path is not the number of a database",
    }.items():
        running = Program(tmp_path, ["--check", "--shared", url], serves=False)
        assert running.process.wait(60) == 2
        assert text in running.said() and "secret" not in running.said()
        running.end()


def test_url_comes_from_the_environment_and_from_a_file(tmp_path, daemon, monkeypatch):
    (tmp_path / "app.py").write_text(CODE.format(version=1))
    with contextlib.ExitStack() as opened:
        monkeypatch.setenv("SYNCLESS_SHARED", daemon.url)
        one = Program(tmp_path, [])
        opened.callback(one.end)
        monkeypatch.delenv("SYNCLESS_SHARED")
        (tmp_path / "syncless.toml").write_text(f'shared = "{daemon.url}"\nworkers = 1\n')
        two = Program(tmp_path, [])
        opened.callback(two.end)
        assert (one.get("/tell")[2], two.get("/tell")[2], one.get("/tell")[2]) == ("1", "2", "3")
