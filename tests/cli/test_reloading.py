"""--reload, as a developer meets it: a file is saved, the next answer is the new code's."""

import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.authority import Authority
from tests.cli.test_loading import command, environment
from tests.waiting import eventually

pytest.importorskip("watchfiles", reason="watchfiles is not installed")

APP = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"{answer}"]
"""

ASGI = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for stage in ("startup", "shutdown"):
            await receive()
            print("{answer}:", stage, flush=True)
            await send({{"type": f"lifespan.{{stage}}.{outcome}"}})
    else:
        await send({{"type": "http.response.start", "status": 200}})
        await send({{"type": "http.response.body", "body": b"{answer}"}})
"""
ONE = APP.format(answer="one")


class Developed:
    """A server with --reload, whose output goes to a file."""

    def __init__(self, folder, *arguments, reload=True):
        self.folder = folder
        self.output = folder / "output.txt"
        bytecode = {**environment(), "PYTHONDONTWRITEBYTECODE": ""}  # is written, as a developer's is
        with self.output.open("w") as output:
            line = command(*["--reload"] * reload, "--bind", "127.0.0.1:0", *map(str, arguments), "hello:app")
            self.process = subprocess.Popen(
                line, cwd=folder, env=bytecode, stdout=output, stderr=subprocess.STDOUT
            )
        assert eventually(lambda: "for changes" in self.said or self.process.poll() is not None, 60)

    def write(self, text, name="hello.py"):
        (self.folder / name).write_text(text)

    @property
    def said(self):
        return self.output.read_text()

    def answers(self, expected):
        def condition():
            url = next((word for word in self.said.split() if word.startswith("http://")), None)
            try:
                return url is not None and urllib.request.urlopen(url, timeout=60).read() == expected
            except urllib.error.URLError:
                return False

        return eventually(condition)


@pytest.fixture
def develop(tmp_path):
    begun = []

    def begin(*arguments, source=ONE):
        (tmp_path / "hello.py").write_text(source)
        begun.append(Developed(tmp_path, *arguments))
        return begun[-1]

    yield begin
    for server in begun:
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_saved_file_is_served(develop):
    server = develop()
    assert server.answers(b"one")
    server.write(APP.format(answer="another"))
    assert server.answers(b"another") and "hello.py changed: reloading the application" in server.said
    assert "Warning" not in server.said


def test_second_save_within_a_second_is_served(develop, tmp_path):
    """Though its size and its time in whole seconds are those of the bytecode."""
    server = develop()
    assert server.answers(b"one") and list(tmp_path.glob("__pycache__/hello.*.pyc"))
    saved = (tmp_path / "hello.py").stat().st_mtime_ns
    second = tmp_path / "second"
    second.write_text(APP.format(answer="two"))
    os.utime(second, ns=(saved, saved))
    second.replace(tmp_path / "hello.py")
    assert server.answers(b"two")


def test_file_that_changes_as_soon_as_it_was_imported_is_imported_again(develop):
    changed = f"open(__file__, 'w').write({APP.format(answer='changed at once')!r})\n"
    assert develop(source=ONE + changed).answers(b"changed at once")


def test_broken_file_is_shown_and_the_old_code_goes_on(develop):
    server = develop()
    assert server.answers(b"one")
    server.write("def app(:\n")
    assert eventually(lambda: "SyntaxError" in server.said) and server.answers(b"one")
    server.write(APP.format(answer="mended"))
    assert server.answers(b"mended") and server.said.count("SyntaxError") == 1


def test_file_that_is_broken_from_the_start_is_waited_for(develop):
    server = develop(source="import no_such_module\n")
    assert (
        eventually(lambda: "waiting for a file to change" in server.said) and "serves on" not in server.said
    )
    server.write(APP.format(answer="mended"))
    assert server.answers(b"mended")


def test_asgi_application_is_shut_down_when_new_code_serves(develop):
    server = develop(source=ASGI.format(answer="one", outcome="complete"))
    assert server.answers(b"one")
    server.write(ASGI.format(answer="two", outcome="complete"))
    assert server.answers(b"two")
    assert eventually(lambda: "one: shutdown" in server.said)
    server.write("async def app(:\n")
    assert eventually(lambda: "SyntaxError" in server.said) and server.answers(b"two")
    server.write(ASGI.format(answer="three", outcome="failed"))
    assert eventually(lambda: "three: startup" in server.said) and server.answers(b"two")
    assert "two: shutdown" not in server.said
    server.write(ASGI.format(answer="four", outcome="complete"))
    assert server.answers(b"four") and eventually(lambda: "two: shutdown" in server.said)
    server.process.terminate()
    assert server.process.wait(60) == 0 and "four: shutdown" in server.said
    assert server.said.count(": shutdown") == 3


def test_further_paths_are_watched(develop, tmp_path_factory):
    templates = tmp_path_factory.mktemp("templates")
    server = develop("--reload-path", str(templates))
    assert server.answers(b"one")
    (templates / "page.html").write_text("x")
    assert eventually(lambda: "page.html changed" in server.said)


def test_name_that_only_begins_with_a_path_is_not_watched(develop, tmp_path):
    (tmp_path / "page").mkdir()
    server = develop("--reload-path", "page")
    assert server.answers(b"one")
    server.write("x", "page.html")
    server.write("x", "page/inside.html")
    assert eventually(lambda: "changed: reloading" in server.said)
    assert "inside.html changed" in server.said and "page.html" not in server.said


@pytest.mark.skipif(shutil.which("ps") is None, reason="ps is not installed")
def test_watching_process_ends_with_a_master_that_is_killed(develop):
    server = develop()
    assert server.answers(b"one")
    children = subprocess.check_output(
        ["ps", "-o", "pid=,args=", "--ppid", str(server.process.pid)], text=True
    ).splitlines()
    watcher = next(int(line.split()[0]) for line in children if "syncless.cli.watching" in line)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)

    def gone():
        try:
            os.kill(watcher, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{watcher}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"  # nobody reaps it in a container

    assert eventually(gone)
    server.process.returncode = 0  # the interface of the fixture


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--preload"], "cannot be combined"), (["--reload-path", "no/such/path"], "no/such/path")],
)
def test_path_that_cannot_be_watched_is_reported(tmp_path, arguments, message):
    (tmp_path / "hello.py").write_text(APP.format(answer="one"))
    line = command("--reload", *arguments, "hello:app", "--bind", "127.0.0.1:0")
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2) and message in done.stderr and "Traceback" not in done.stderr


# -- certificates --


def shown(server):
    """The certificate that the server shows to a new client."""
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)/", server.said)[1])
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=60).strip()


@pytest.mark.parametrize(("how", "workers"), [("linked anew", 0), ("written over", 0), ("linked anew", 2)])
def test_new_certificate_is_shown_without_a_signal(tmp_path, how, workers):
    """Linked as certbot does it: fullchain.pem and privkey.pem are symbolic links."""
    live = tmp_path / "live"
    live.mkdir()
    (tmp_path / "archive").mkdir()
    (tmp_path / "hello.py").write_text(ONE)
    authority = Authority(tmp_path / "archive")
    first, second = (authority.files(name) for name in ("first", "second"))
    names = [live / "fullchain.pem", live / "privkey.pem"]
    for name, file in zip(names, first, strict=True):
        name.symlink_to(file)
    options = (
        "--reload-certificates",
        "--certfile",
        names[0],
        "--keyfile",
        names[1],
        "--workers",
        f"{workers}",
    )
    server = Developed(tmp_path, *options, reload=False)
    try:
        assert eventually(lambda: "https://" in server.said)
        old = shown(server)
        for name, file in zip(names, second, strict=True):
            if how == "linked anew":
                (live / "new").symlink_to(file)
                (live / "new").replace(name)
            else:
                shutil.copyfile(file, name)
        assert eventually(lambda: "changed: reloading the certificates" in server.said)
        assert eventually(lambda: old not in [shown(server) for _ in range(1 + 3 * workers)])
    finally:
        server.process.terminate()
        assert server.process.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [("", "--reload-certificates needs a certificate: --certfile FILE, or --certificate")],
)
def test_watching_without_certificates_is_refused(tmp_path, options, said):
    line = command("--reload-certificates", *options.split(), "hello:app")
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr
