"""The tutorial, from its first line to its last: files are written, commands run, answers compared."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests.waiting import eventually

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "tutorial" / "shop.md"
BLOCK = re.compile(
    r"^```(\w+)(?: title=\"(?=.*?([\w.]+)\")(at the end of |above \[limits\] in )?[\w.]+\")?\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)


class Reader:
    """A person who follows the tutorial in a folder, on ports of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = {}
        self.ports = {"8000": free_port(), "8001": free_port()}

    def write(self, name, text, adds):
        path = self.folder / name
        if adds and name.endswith(".toml"):
            text = path.read_text().replace("[limits]", f"{text}\n[limits]")
        elif adds:
            text = path.read_text() + text
        path.write_text(self.ported(text))

    def ported(self, text):
        for shown, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{port}")
        return text

    def type(self, lines):
        commands = re.split(r"^\$ ", self.ported(lines), flags=re.MULTILINE)[1:]
        for command, _, expected in (text.partition("\n") for text in commands):
            words = shlex.split(command)
            if words[:2] == ["syncless", "console"]:
                self.look(expected)
            elif "syncless" in words:
                self.serve(words)
            else:
                answer = subprocess.check_output(words, cwd=self.folder, text=True, timeout=60)
                assert answer == expected, command

    def serve(self, words):
        settings = dict(word.split("=") for word in words[: words.index("syncless")])
        arguments = words[words.index("syncless") + 1 :]
        served = arguments[0] if arguments else "shop:app"
        if served in self.servers:
            self.stop(served)
        self.servers[served] = subprocess.Popen(
            [sys.executable, "-m", "syncless", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(PAGE.parent.parent.parent)} | settings,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert "serves on" in self.servers[served].stdout.readline()

    def stop(self, served):
        server = self.servers.pop(served)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)

    def look(self, typed):
        """Types the statements into the console while an order waits for its card."""
        server = self.servers["shop:app"]
        url = self.ported("http://127.0.0.1:8000/order?product=kettle&customer=Edith&card=slow")
        order = subprocess.Popen(["curl", "-s", url], stdout=subprocess.DEVNULL)
        statements = "".join(line[4:] + "\n" for line in typed.splitlines() if line.startswith(">>> "))
        expected = [line for line in typed.splitlines() if not line.startswith(">>> ")]
        pattern = ".*".join(re.escape(part) for part in " ".join(expected).split("...") if part.strip())

        def seen():
            shown = subprocess.run(
                [sys.executable, "-m", "syncless", "console", str(server.pid)],
                input=statements,
                capture_output=True,
                text=True,
                timeout=60,
            )
            return re.search(pattern.strip().replace(r"\ ", " *"), shown.stdout + shown.stderr, re.DOTALL)

        try:
            assert eventually(seen)
        finally:
            order.wait(60)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return str(sock.getsockname()[1])


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tutorial needs curl")
@pytest.mark.slow
def test_tutorial_can_be_followed(tmp_path):
    reader = Reader(tmp_path)
    written = set()
    try:
        for kind, title, adds, text in BLOCK.findall(PAGE.read_text()):
            if title:
                reader.write(title, text, adds)
                written.add(title)
            elif kind == "console":
                reader.type(text)
    finally:
        for served in list(reader.servers):
            with contextlib.suppress(ProcessLookupError):
                reader.stop(served)
    assert written == {"shop.py", "payments.py", "pay.py", "syncless.toml"}
    log = (tmp_path / "access.log").read_text()
    assert '"GET /orders HTTP/1.1" 200' in log
