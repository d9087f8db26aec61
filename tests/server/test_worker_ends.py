"""What a worker's own objects hold is written, and its finalisers run, when it ends. Those of its master are
the master's: see unwritten.py."""

import bz2
import gzip
import os
import pathlib
import signal
import sys

import pytest

from tests.supervised import Program, alive
from tests.waiting import eventually

MADE = """
import bz2, gzip, io, logging.handlers, multiprocessing, os, tempfile, time, weakref

class Thing:
    pass

class Made:
    def __init__(self, name):
        self.text = open(name + ".txt", "a")
        self.bytes = open(name + ".bin", "ab")
        self.both = open(name + ".both", "w+b")
        self.gzip, self.bz2 = gzip.open(name + ".gz", "wt"), bz2.open(name + ".bz2", "wt")
        self.closed = open(name + ".closed", "w")
        self.closed.close()
        self.folder = tempfile.TemporaryDirectory(dir=".", prefix=name)
        self.logger = logging.getLogger(name)
        self.handler = logging.handlers.MemoryHandler(1000, target=logging.FileHandler(name + ".log"))
        self.logger.addHandler(self.handler)
        self.thing = Thing()
        weakref.finalize(self.thing, lambda: os.close(os.open(f"{name}.finalized.{os.getpid()}", os.O_CREAT)))
        self.child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=True)
        self.child.start()
        with open(f"{name}.child", "w") as file:
            file.write(str(self.child.pid))
        self.write("first")

    def write(self, line):
        for file in self.text, self.gzip, self.bz2:
            file.write(line + "\\n")
        for file in self.bytes, self.both:
            file.write(line.encode() + b"\\n")
        self.logger.warning(line)
"""
WORKER = f"""{MADE}
made = []
def app(environ, start_response):
    if not made:
        made.append(Made("worker"))
    for each in made:
        each.write("line")
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    return [b"ok"]
"""
BOTH = f"""{WORKER}
master = Made("master")
def app(environ, start_response, app=app):
    master.write("line")
    return app(environ, start_response)
"""
SERVE = "import app, syncless.wsgi; syncless.wsgi.serve(app.app, port=0, workers=1)"


class Serving(Program):
    """A program that has imported its application before it serves."""

    def __init__(self, folder):
        self.command = (sys.executable, "-c", SERVE)
        super().__init__(folder, [])


def check_worker(folder, pid, lines):
    """It has ended."""
    assert set(made_by("worker", folder).values()) == {lines}
    assert [path.name for path in folder.glob("worker.finalized.*")] == [f"worker.finalized.{pid}"]
    assert not [path for path in folder.iterdir() if path.is_dir() and path.name.startswith("worker")]
    child = int((folder / "worker.child").read_text())
    assert eventually(lambda: not alive(child))


def made_by(name, folder):
    """The lines that are in its files."""
    found = {kind: (folder / f"{name}.{kind}").read_text() for kind in ("txt", "bin", "both", "log")}
    for kind, library in (("gz", gzip), ("bz2", bz2)):
        with library.open(folder / f"{name}.{kind}", "rt") as file:
            found[kind] = file.read()
    return found


@pytest.mark.parametrize("options", [[], ["--preload"], ["--no-patch"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_worker_has_made_is_written_and_finalised(tmp_path, options, number):
    (tmp_path / "app.py").write_text(WORKER)
    running = Program(tmp_path, ["--workers", "1", *options])
    try:
        _, pid, _ = running.get()
        running.get()
        running.process.send_signal(number)
        assert eventually(lambda: not alive(pid))
        check_worker(tmp_path, pid, "first\nline\nline\n")
    finally:
        told = running.end()
    assert "rror" not in told


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="only Linux tells what a process does")
@pytest.mark.parametrize("program", ["preload", "serve"])
def test_what_the_master_has_made_stays_until_the_master_ends(tmp_path, program):
    """A line that it had not yet written is written once."""
    (tmp_path / "app.py").write_text(BOTH)
    running = (
        Program(tmp_path, ["--workers", "1", "--preload"]) if program == "preload" else Serving(tmp_path)
    )
    try:
        _, pid, _ = running.get()
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda: not alive(pid))
        check_worker(tmp_path, pid, "first\nline\n")
        assert running.get()[1] != pid
        assert not [*tmp_path.glob("master.finalized.*")]
        assert [path for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("master")]
        child = int((tmp_path / "master.child").read_text())
        assert "State:\tS" in pathlib.Path(f"/proc/{child}/status").read_text()
    finally:
        told = running.end()
    assert "rror" not in told
    assert {(tmp_path / f"master.{kind}").read_text() for kind in ("txt", "bin")} == {"first\nline\nline\n"}
    assert [path.name for path in tmp_path.glob("master.finalized.*")] == [
        f"master.finalized.{running.process.pid}"
    ]
    assert eventually(lambda: not alive(child))
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("master")]
