"""--app-dir, --env-file, --root-path, --lifespan and --log-level, by a server that is asked."""

import json
import socket
import subprocess
import sys

import pytest

from tests.cli.test_loading import command, environment, refused
from tests.cli.test_patch import Served
from tests.waiting import eventually

WSGI = """
import json, os
def app(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("its own fault")
    start_response("200 OK", [])
    seen = [environ["SCRIPT_NAME"], environ["PATH_INFO"], os.environ.get("COLOUR"), os.environ.get("HOME")]
    return [json.dumps(seen).encode()]
"""
ASGI = """
import json
began = []
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for stage in ("startup", "shutdown"):
            began.append((await receive())["type"])
            await send({"type": f"lifespan.{stage}.complete"})
        return
    seen = [scope["root_path"], scope["path"], scope["raw_path"].decode(), began]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})
"""
WITHOUT_LIFESPAN = ASGI.replace(
    'if scope["type"] == "lifespan":', 'assert scope["type"] == "http"\n    if 0:'
)
WORKERS = pytest.mark.parametrize("workers", [[], ["--workers", "1"]])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "wsgi_app.py").write_text(WSGI)
    (tmp_path / "below" / "asgi_app.py").write_text(ASGI)
    (tmp_path / "below" / "without.py").write_text(WITHOUT_LIFESPAN)
    return tmp_path


def serve(folder, name, *options):
    return Served(folder, command(name, "--bind", "127.0.0.1:0", "--app-dir", "below", *options))


@WORKERS
def test_variables_of_a_file_are_set_unless_the_environment_has_them(folder, workers):
    pytest.importorskip("dotenv", reason="python-dotenv is not installed")
    (folder / "env").write_text("# a comment\nCOLOUR='dark blue'\nHOME=/nowhere\n")
    with serve(folder, "wsgi_app:app", "--env-file", "env", *workers) as server:
        _, _, colour, home = json.loads(server.get("/"))
    assert colour == "dark blue" and home != "/nowhere"
    line = refused(folder, "--env-file", "none", "wsgi_app:app")
    assert line == "syncless: --env-file none: No such file or directory\n"


def test_env_file_without_its_library_says_what_to_install(folder, monkeypatch):
    from syncless.cli.serving import set_variables

    monkeypatch.setitem(sys.modules, "dotenv", None)
    with pytest.raises(ValueError, match="needs python-dotenv: pip install"):
        set_variables("env")


@WORKERS
def test_root_path_is_put_before_the_path(folder, workers):
    with serve(folder, "wsgi_app:app", "--root-path", "/a b/ü/", *workers) as server:
        script_name, path, _, _ = json.loads(server.get("/c"))
        assert script_name.encode("latin-1").decode() == "/a b/ü" and path == "/c"
    with serve(folder, "asgi_app:app", "--root-path", "/a b/ü/", *workers) as server:
        root, path, raw, _ = json.loads(server.get("/c%20d"))
        assert (root, path, raw) == ("/a b/ü", "/a b/ü/c d", "/a%20b/%C3%BC/c%20d")


def test_root_path_must_be_a_path(folder):
    line = refused(folder, "--app-dir", "below", "--root-path", "api", "wsgi_app:app")
    assert line == "syncless: --root-path must be a path such as /api, not 'api'\n"


def test_root_path_stands_before_that_of_a_mount(folder):
    options = ("--root-path", "/top", "--mount", "/asgi=asgi_app:app")
    with serve(folder, "wsgi_app:app", *options) as server:
        assert json.loads(server.get("/x"))[:2] == ["/top", "/x"]
        assert json.loads(server.get("/asgi/x"))[:2] == ["/top/asgi", "/top/asgi/x"]


@WORKERS
@pytest.mark.parametrize(("lifespan", "began"), [("auto", 1), ("on", 1), ("off", 0)])
def test_lifespan_is_chosen(folder, workers, lifespan, began):
    with serve(folder, "asgi_app:app", "--lifespan", lifespan, *workers) as server:
        assert json.loads(server.get("/"))[3] == ["lifespan.startup"] * began


def test_lifespan_on_refuses_an_application_without_one(folder):
    line = refused(folder, "--app-dir", "below", "--lifespan", "on", "--bind", "127.0.0.1:0", "without:app")
    assert 'lifespan is "on", but the application does not support lifespan events' in line
    with serve(folder, "without:app") as server:
        assert json.loads(server.get("/"))[3] == []


@WORKERS
def test_log_level_leaves_out_less_severe_entries(folder, workers):
    for level, written in (("error", True), ("critical", False)):
        log = folder / f"{level}.log"
        options = (
            "--log-level",
            level,
            "--error-log",
            str(log),
            "--bind",
            f"unix:{folder / level}",
            *workers,
        )
        arguments = command("wsgi_app:app", "--app-dir", "below", *options)
        with Silent(folder, arguments, folder / level) as server:
            assert b" 500 " in server.get("/fail")
        assert ("its own fault" in log.read_text()) is written


class Silent(Served):
    """A server that prints no address, on a UNIX socket."""

    def __init__(self, folder, arguments, path):
        self.path = path
        self.process = subprocess.Popen(arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE)

    def get(self, path):
        client = socket.socket(socket.AF_UNIX)
        with client:
            assert eventually(lambda: client.connect_ex(str(self.path)) == 0)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: client.recv(65536), b""))

    def __exit__(self, *exc_info):
        self.process.terminate()
        assert self.process.communicate(timeout=60)[0] == b""
