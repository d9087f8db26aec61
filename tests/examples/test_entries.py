"""The entries for public benchmarks, served by their own commands: each path has the answer wanted."""

import contextlib
import http.client
import os
import pathlib
import re
import shlex
import ssl
import subprocess
import sys

from tests.waiting import eventually

PLAIN = 3000, 8080, 8082
ENTRIES = pathlib.Path(__file__).parent.parent.parent / "benchmark" / "entries"


class Served:
    """The command of an entry, with two workers, on ports that the system chooses: `ports` has them by those
    of the command."""

    def __init__(self, command, folder, tmp_path, **environment):
        self.wanted = [int(port) for port in re.findall(r"0\.0\.0\.0:(\d+)", command)]
        command = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", command)
        command = re.sub(r"--workers \S+", "--workers 2", command)
        words = shlex.split(re.sub(r"--log-level \w+", "", command))
        self.said = tmp_path / "said"
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words, "--app-dir", str(folder)],
                cwd=tmp_path,
                stdout=output,
                env={**os.environ, **environment},
            )

    def __enter__(self):
        def addresses():
            return re.findall(r"://127\.0\.0\.1:(\d+)/.*\n", self.said.read_text())

        assert eventually(lambda: len(addresses()) == len(self.wanted) or self.process.poll() is not None), (
            self.said
        )
        self.ports = dict(zip(self.wanted, map(int, addresses()), strict=True))
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        self.process.wait(60)

    def ask(self, method, path, body=None, port=8080, **headers):
        """Status, header fields and body of an answer; by TLS but on PLAIN ports."""
        address = "127.0.0.1", self.ports[port]
        if port in PLAIN:
            client = http.client.HTTPConnection(*address, timeout=60)
        else:
            context = ssl._create_unverified_context()
            client = http.client.HTTPSConnection(*address, context=context, timeout=60)
        with contextlib.closing(client):
            client.request(method, path, body, {name.replace("_", "-"): headers[name] for name in headers})
            response = client.getresponse()
            return response.status, response.headers, response.read()


def test_entry_for_web_frameworks(tmp_path):
    folder = ENTRIES / "web-frameworks" / "python"
    (command,) = re.findall(r"command: (syncless .*)$", (folder / "config.yaml").read_text(), re.MULTILINE)
    command = command.replace("${PYTHON_APP}", "server:app")
    with Served(command, folder / "syncless", tmp_path) as served:
        for method, path, answer in (("GET", "/", b""), ("GET", "/user/0", b"0"), ("POST", "/user", b"")):
            status, fields, body = served.ask(method, path, port=3000)
            assert (status, fields["Content-Type"], body) == (200, "text/plain", answer)
        assert served.ask("PUT", "/user", port=3000)[0] == 404
