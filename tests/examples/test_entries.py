"""The entries for public benchmarks, served by their own commands: each path has the answer wanted."""

import gzip
import http.client
import json
import pathlib
import re
import shlex
import ssl
import subprocess
import sys

import pytest

from tests.test_docs import write_certificates
from tests.waiting import eventually

ENTRIES = pathlib.Path(__file__).parent.parent.parent / "benchmark" / "entries"


class Served:
    """The command of an entry, with two workers, on ports that the system chooses."""

    def __init__(self, command, folder, tmp_path):
        command = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", command).replace("$(nproc)", "2")
        words = shlex.split(re.sub(r"--log-level \w+", "", command))
        self.said = tmp_path / "said"
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words, "--app-dir", str(folder)], cwd=tmp_path, stdout=output
            )

    def __enter__(self):
        assert eventually(lambda: self.said.read_text().endswith("\n") or self.process.poll() is not None)
        found = re.findall(r"(https?)://127\.0\.0\.1:(\d+)/", self.said.read_text())
        self.ports = {scheme: int(port) for scheme, port in found}
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        self.process.wait(60)

    def ask(self, method, path, body=None, secure=False, **headers):
        if secure:
            context = ssl._create_unverified_context()
            client = http.client.HTTPSConnection(
                "127.0.0.1", self.ports["https"], context=context, timeout=60
            )
        else:
            client = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=60)
        client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = client.getresponse()
        content = response.read()
        client.close()
        return (
            response.status,
            response.getheader("Content-Encoding") or response.getheader("Content-Type"),
            content,
        )


def test_entry_for_httparena(tmp_path, monkeypatch):
    pytest.importorskip("trustme", reason="trustme makes the certificate: pip install trustme")
    folder = ENTRIES / "httparena" / "syncless"
    write_certificates(tmp_path)
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "app.js").write_text("let a = 1;")
    (tmp_path / "dataset.json").write_text(json.dumps([{"price": 3, "quantity": 2, "name": "x" * 2000}] * 9))
    monkeypatch.setenv("DATASET_PATH", str(tmp_path / "dataset.json"))
    (command,) = re.findall(
        r'^CMD \["sh", "-c", "exec (.*)"\]$', (folder / "Dockerfile").read_text(), re.MULTILINE
    )
    command = command.replace("=/data/static", f"={tmp_path}/static")
    command = command.replace("${TLS_CERT:-/certs/server.crt}", "cert.pem")
    command = command.replace("${TLS_KEY:-/certs/server.key}", "key.pem")
    assert json.loads((folder / "meta.json").read_text())["tests"]
    with Served(command, folder, tmp_path) as served:
        assert served.ask("GET", "/pipeline") == (200, "text/plain", b"ok")
        assert served.ask("GET", "/baseline11?a=13&b=42")[2] == b"55"
        assert served.ask("POST", "/baseline11?a=13&b=42", b"20")[2] == b"75"
        assert served.ask("GET", "/delay/1")[2] == b"1"
        found = json.loads(served.ask("GET", "/json/2?m=4", secure=True)[2])
        assert found["count"] == 2 and found["items"][0]["total"] == 24
        _, coding, packed = served.ask("GET", "/json-comp/5?m=1", Accept_Encoding="gzip")
        assert coding == "gzip" and len(json.loads(gzip.decompress(packed))["items"]) == 5
        assert served.ask("POST", "/echo", b"e" * 10_000, secure=True)[2] == b"e" * 10_000
        assert served.ask("GET", "/static/app.js", secure=True)[2] == b"let a = 1;"
        assert served.ask("GET", "/missing")[0] == 404


def test_entry_for_web_frameworks(tmp_path):
    folder = ENTRIES / "web-frameworks" / "python"
    (command,) = re.findall(r"command: (syncless .*)$", (folder / "config.yaml").read_text(), re.MULTILINE)
    command = command.replace("${PYTHON_APP}", "server:app")
    with Served(command, folder / "syncless", tmp_path) as served:
        assert served.ask("GET", "/") == (200, "text/plain", b"")
        assert served.ask("GET", "/user/0") == (200, "text/plain", b"0")
        assert served.ask("POST", "/user") == (200, "text/plain", b"")
        assert served.ask("PUT", "/user")[0] == 404
