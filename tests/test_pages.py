"""Pages can be followed from the first line to the last: files are written, commands run, answers compared.

A block with a title is a file. In `sh` each line is a command, in `console` each line after a `$`, and the
lines below it are the answer. `toml` without a title is a configuration of ours, `text` an example of an
output. tests/test_docs.py runs the blocks of Python without a title.
"""

import contextlib
import getpass
import grp
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from syncless.cli.config import Options
from tests.programs import free_port
from tests.test_docs import DOCS, PAGES, ROOT, names_of, write_certificates
from tests.waiting import eventually

MOST_NOT_RUN = 10
BLOCK = re.compile(
    r"""(?:<!--\ not\ run:\ (?P<reason>[^>]{10,})\ -->\n+)?
    ^```(?P<kind>\w*)
    (?:\ title="(?P<adds>at\ the\ end\ of\ |above\ \[limits\]\ in\ )?(?P<name>[\w./]+)")?\n
    (?P<text>.*?)^```$""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
KINDS = {"python", "sh", "console", "toml", "text", "nginx"}
"""Of blocks without a title that can be run, read or looked at."""
STAND_INS = {
    "myproject/__init__.py": "",
    "myproject/web.py": """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Hello, World!"]
""",
    "myproject/wsgi.py": "from myproject.web import app as application\n",
    "myproject/hooks.py": "def post_fork(*given): pass\nleave_balancer = pre_stop = post_fork\n",
    "program.py": "print('Hello, World!')\n",
    "build/assets/app.js": "let a = 1;\n" * 100,
}
"""Files that a page takes for granted."""
SERVED = re.compile(r"serves on (\S+)|Listening at: (\S+)|Django .*: (http\S+)|running on (\S+)")
"""A server says that it is ready."""


def blocks_of(page):
    return [match.groupdict() for match in BLOCK.finditer(page.read_text())]


class Reader:
    """A person who follows a page in a folder, on ports of their own."""

    def __init__(self, folder):
        self.folder = self.root = folder
        self.servers = {}
        self.background: list[str] = []
        """A command that runs beside each look into a server."""
        self.ports = {}
        for name, text in STAND_INS.items():
            self.write(name, text)
        for name in ("run", "srv", "var/log/app"):
            (folder / name).mkdir(parents=True)
        write_certificates(folder)

    def write(self, name, text, adds=None):
        path = self.folder / name
        if adds and name.endswith(".toml"):
            text = path.read_text().replace("[limits]", f"{text}\n[limits]")
        elif adds:
            text = path.read_text() + text
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.adapted(text))

    def adapted(self, text):
        """The text with ports, paths and users that this process may use."""

        def port(match):
            return match[1] + self.ports.setdefault(match[2], str(free_port()))

        text = re.sub(r"(port=|--port |:)(443|80\d*|9100)\b", port, text)
        text = re.sub(r"(?<![\w/.])/(run|srv|var/log)/", rf"{self.root}/\1/", text)
        group = grp.getgrgid(os.getgid()).gr_name
        return text.replace("www-data:www-data", f"{getpass.getuser()}:{group}").replace(
            "www-data", getpass.getuser()
        )

    def type(self, text, answered):
        text = self.adapted(text)
        if not answered:
            for line in text.replace("\\\n", " ").splitlines():
                self.run(line, None)
            return
        for command, _, expected in (
            part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        ):
            self.run(command, expected)

    def run(self, command, expected):
        words = shlex.split(command, comments=True)
        if not words:
            return
        settings = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        words = words[len(settings) :]
        if words[0] == "cd":
            self.folder /= words[1]
        elif words[:2] == ["syncless", "console"]:
            self.look(expected)
        elif words[-1] == "&":
            self.background = words[:-1]
        elif (
            words[0] in ("syncless", "gunicorn", "uvicorn") and words[1:2] not in (["run"], ["status"])
        ) or ("runsyncless" in words or command.endswith("# serves")):
            self.serve(words, settings)
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment(settings),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert expected is None or done.stdout.rstrip("\n") == expected.rstrip("\n"), command

    def environment(self, settings):
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        buffered = {"PYTHONUNBUFFERED": ""}  # or lines of two threads may be torn, as without us
        return os.environ | {"PYTHONPATH": str(ROOT), "PATH": path} | buffered | settings

    def start(self, words, settings, output):
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment({"PYTHONUNBUFFERED": "1"} | settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a server that reloads is a child of the process
        )

    def serve(self, words, settings):
        """Starts a server and asks it once. It goes on until the page ends or its port is wanted."""
        ports = re.findall(r":(\d{4,5})\b", " ".join(words))
        if not ports and not (self.folder / "syncless.toml").exists():
            settings = {"SYNCLESS_BIND": self.adapted("127.0.0.1:8000")} | settings
        port = ports[0] if ports else self.ports.get("8000", "")
        self.stop(port)
        said = self.root / f"output-{port}"
        with said.open("wb") as output:
            server = self.servers[port] = self.start(words, settings, output)
        assert eventually(lambda: SERVED.search(said.read_text()) or server.poll() is not None)
        found = SERVED.search(said.read_text())
        assert found, (words, said.read_text())
        url = next(filter(None, found.groups())).strip("(),")
        if url.startswith("http:") and "--proxy-protocol" not in words:
            assert eventually(lambda: answers(url.replace("0.0.0.0", "127.0.0.1")))

    def stop(self, port):
        server = self.servers.pop(port, None)
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)

    def look(self, typed):
        """Types the statements into the console of the last server."""
        server = [*self.servers.values()][-1]
        statements = "".join(line[4:] + "\n" for line in typed.splitlines() if line.startswith(">>> "))
        expected = [line for line in typed.splitlines() if not line.startswith(">>> ")]
        pattern = ".*".join(re.escape(part) for part in " ".join(expected).split("...") if part.strip())
        shown, beside = "", None
        console = subprocess.Popen(
            [sys.executable, "-m", "syncless", "console", str(server.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def seen():
            nonlocal shown, beside
            if self.background and (beside is None or beside.poll() is not None):
                beside = self.start(self.background, {}, subprocess.DEVNULL)
            print(statements, "print('shown')", sep="", file=console.stdin, flush=True)
            shown = ""
            while not shown.endswith("shown\n"):
                line = console.stdout.readline()
                assert line, shown
                shown += line
            return re.search(pattern.strip().replace(r"\ ", " *"), shown, re.DOTALL)

        assert eventually(seen), shown
        assert "Traceback" not in shown
        console.communicate()
        assert console.returncode == 0
        if beside:
            beside.wait(60)

    def configure(self, text):
        """A block of our configuration: each option exists and has a value of its kind."""
        path = self.root / "checked.toml"
        path.write_text(text)
        Options().from_file(str(path))

    def check_nginx(self, text):
        if shutil.which("nginx"):
            text = text if text.startswith("upstream") else f"server {{ {text} }}"
            text = (
                f"pid {self.root}/nginx.pid; error_log stderr; events {{}} http {{ access_log off; {text} }}"
            )
            (self.root / "nginx.conf").write_text(self.adapted(text))
            subprocess.run(["nginx", "-t", "-q", "-p", self.root, "-c", self.root / "nginx.conf"], check=True)

    def leave(self):
        for port in [*self.servers]:
            self.stop(port)


def answers(url):
    try:
        urllib.request.urlopen(url, timeout=60).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError:  # it listens soon
        return False
    return True


FOLLOWED = [
    page
    for page in PAGES
    if any(block["name"] or block["kind"] not in ("python", "text") for block in blocks_of(page))
]


def test_few_blocks_are_not_run_and_each_says_why():
    blocks = [(names_of(page), block) for page in PAGES for block in blocks_of(page)]
    assert sum(len(re.findall("^```", page.read_text(), re.MULTILINE)) for page in PAGES) == 2 * len(blocks)
    not_run = [block for _, block in blocks if block["reason"]]
    assert 0 < len(not_run) <= MOST_NOT_RUN
    unknown = [
        (page, block["text"])
        for page, block in blocks
        if not block["reason"] and not block["name"] and block["kind"] not in KINDS
    ]
    assert not unknown


@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages need curl")
@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED, ids=names_of)
def test_page_can_be_followed(page, tmp_path):
    pytest.importorskip("trustme", reason="trustme makes the certificates of the pages: pip install trustme")
    reader = Reader(tmp_path)
    try:
        for block in blocks_of(page):
            if block["reason"]:
                continue
            if block["name"]:
                reader.write(block["name"], block["text"], block["adds"])
            elif block["kind"] in ("sh", "console"):
                reader.type(block["text"], block["kind"] == "console")
            elif block["kind"] == "toml":
                reader.configure(block["text"])
            elif block["kind"] == "nginx":
                reader.check_nginx(block["text"])
    finally:
        reader.leave()
    if page == DOCS / "tutorial" / "shop.md":
        assert '"GET /orders HTTP/1.1" 200' in (tmp_path / "access.log").read_text()
