"""The plugin for pytest, in a pytest of its own."""

import os
import pathlib
import subprocess
import sys

from tests.programs import LONGEST

ROOT = pathlib.Path(__file__).parent.parent.parent


def run_pytest(folder, tests, *arguments):
    """(exit status, output). Of other plugins only those that -p names: some take seconds to import."""
    (folder / "test_it.py").write_text(tests)
    plugins = "-p pytest_syncless -p no:cacheprovider".split()
    warnings = "-W error -W ignore::DeprecationWarning".split()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rsE", *plugins, *warnings, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return done.returncode, done.stdout + done.stderr


SERVED = """
import time, urllib.error, urllib.request
import pytest

def app(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("the application's own")
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode()]

def get(server, path):
    with urllib.request.urlopen(server.url.rstrip("/") + path, timeout=60) as answer:
        return answer.read()

def test_good(syncless_server):
    one, two = syncless_server(app), syncless_server(app, idle_seconds=5)
    assert one.port != two.port
    assert get(one, "/a") == b"/a" and get(two, "/b") == b"/b"

def test_bad(syncless_server):
    with pytest.raises(urllib.error.HTTPError):
        get(syncless_server(app), "/fail")

def test_bad_is_expected(syncless_server):
    server = syncless_server(app)
    server.expects_errors = True
    with pytest.raises(urllib.error.HTTPError):
        get(server, "/fail")
    assert "the application's own" in server.errors

def test_hanging(syncless_server):
    import socket, syncless, threading
    begun = threading.Event()
    def hang(environ, start_response):
        begun.set()
        syncless.sleep(30)
    sock = socket.create_connection(("127.0.0.1", syncless_server(hang).port))
    sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    assert begun.wait(60)
    sock.close()

def test_wrong_option(syncless_server):
    with pytest.raises(TypeError, match="argument or limit"):
        syncless_server(app, wrong=1)
"""


def test_server_is_stopped_and_checked(tmp_path):
    for arguments in ([], ["--tasklets"]):
        status, said = run_pytest(tmp_path, SERVED, *arguments)
        assert status == 1 and "5 passed, 2 errors" in said, said
        assert "ERROR test_it.py::test_bad - " in said and "the application failed" in said
        assert "requests were still running when the test ended: 1" in said


TASKLETS = """
import threading, time, unittest
import pytest

def test_tasklet():
    import syncless
    tasklet = syncless.current()
    assert tasklet.name == "test_tasklet" and not tasklet.is_main
    thread = threading.Thread(target=lambda: seen.append(syncless.current()))
    seen = []
    thread.start()
    thread.join()
    assert seen[0] is not tasklet

def test_skipped():
    pytest.skip("for a reason")

def test_failing():
    assert [1, 2] == [1, 3], "as usual"

@pytest.fixture
def number():
    return 5

@pytest.mark.parametrize("other", [5])
def test_arguments(number, other):
    assert number == other

class Test(unittest.TestCase):
    def test_unittest(self):
        import syncless
        self.assertFalse(syncless.current().is_main)
"""


def test_tests_run_in_tasklets_of_a_patched_process(tmp_path):
    status, said = run_pytest(tmp_path, TASKLETS, "--tasklets")
    assert status == 1 and "1 failed, 3 passed, 1 skipped" in said, said
    assert "as usual" in said and "for a reason" in said and "in_a_tasklet" not in said


def test_engine_is_not_imported_unless_it_is_used(tmp_path):
    ours = "[name for name in sys.modules if name.startswith('syncless')]"
    tests = f"import sys\ndef test_it():\n    assert not {ours}\n"
    status, said = run_pytest(tmp_path, tests)
    assert status == 0 and "1 passed" in said, said
