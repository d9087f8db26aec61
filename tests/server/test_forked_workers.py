"""Workers and libraries that do something in each child of a fork, before the worker begins: they wait there,
or never return."""

import http.client
import importlib.util
import pathlib
import re
import signal
import sys

import pytest

from tests.supervised import APP, Program, alive
from tests.waiting import eventually

LIBRARY = """
import os
from concurrent.futures import ThreadPoolExecutor
def look():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(os.getpid).result()
os.register_at_fork(after_in_child=look)
"""
STUCK = """
import os, _thread
lock = _thread.allocate_lock()
lock.acquire()
def stop():
    open("stuck-%d" % os.getpid(), "w").close()
    lock.acquire()
os.register_at_fork(after_in_child=stop)
"""
STARTS = "import library, runpy; runpy.run_module('syncless', run_name='__main__', alter_sys=True)"


def start(folder, library, *arguments):
    """A program that imports the library before syncless."""
    (folder / "library.py").write_text(library)
    (folder / "app.py").write_text(APP.format(version=1))

    class Early(Program):
        command = (sys.executable, "-c", STARTS)

    return Early(folder, arguments, serves=library is LIBRARY)


@pytest.mark.parametrize("options", [[], ["--preload"], ["--preload", "--no-patch"]])
def test_a_library_that_waits_in_each_child_keeps_no_worker_from_serving(tmp_path, options):
    running = start(tmp_path, LIBRARY, "--workers", "2", *options)
    try:
        assert len(running.pids(2)) == 2
    finally:
        running.end()
    assert running.process.returncode == 0


@pytest.mark.parametrize("options", [[], ["--preload"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_that_a_library_never_lets_begin_end_with_their_master(tmp_path, number, options):
    """The master does not wait for requests that such a worker cannot have."""
    running = start(tmp_path, STUCK, "--workers", "2", "--limit", "stop_seconds=3600", *options)
    try:
        assert eventually(lambda: len([*tmp_path.glob("stuck-*")]) == 2)
        workers = [int(path.name.partition("-")[2]) for path in tmp_path.glob("stuck-*")]
        running.process.send_signal(number)
        assert running.process.wait(60) == (-number if number == signal.SIGKILL else 0)
        assert eventually(lambda: not any(map(alive, workers)))
    finally:
        running.end()


NEEDED = ["flask", "opentelemetry.distro", "opentelemetry.instrumentation.flask"]
TRACED = """
from flask import Flask
app = Flask(__name__)
@app.route("/r<int:number>")
def answer(number):
    return f"{number}"
"""
CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


@pytest.mark.skipif(
    not all(map(is_there, NEEDED)), reason=f"{', '.join(NEEDED)}: pip install --group clients"
)
@pytest.mark.parametrize("options", [["--preload"], [], ["--preload", "--no-patch"]])
def test_opentelemetry_that_instruments_the_program_has_a_span_of_each_request(
    tmp_path, monkeypatch, options
):
    """Its threads look for resources, in each child, too. The workers stop long before its next export."""
    for name, value in CONSOLE.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "app.py").write_text(TRACED)
    instrument = pathlib.Path(sys.executable).with_name("opentelemetry-instrument")

    class Instrumented(Program):
        command = (instrument, *Program.command)

    running = Instrumented(tmp_path, ["--workers", "2", *options])
    try:
        for number in range(12):
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
            connection.request("GET", f"/r{number}")
            assert connection.getresponse().read() == f"{number}".encode()
            connection.close()
    finally:
        told = running.end()
    assert sorted(re.findall(r'"http.target": "/r(\d+)"', told), key=int) == [f"{n}" for n in range(12)]
