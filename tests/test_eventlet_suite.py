"""The tool that runs eventlet's tests, with a suite of its own."""

import subprocess
import sys

from tests.eventlet_suite import KNOWN, WANTED

SUITE = """
import unittest
import eventlet
from eventlet import greenthread

class Spawn(unittest.TestCase):
    def test_simple(self):
        assert greenthread is eventlet.greenthread and greenthread.__name__ == "syncless.eventlet.greenthread"
    def test_link(self):
        self.fail("on purpose")
    def test_kill(self):
        self.skipTest("for a reason")
"""


def test_each_known_failure_has_a_reason_and_is_a_test_that_is_wanted():
    assert len(WANTED) == len(set(WANTED)) == 615
    assert KNOWN.keys() <= set(WANTED)
    assert all(len(reason) > 10 for reason in KNOWN.values())


def run(*arguments):
    command = [sys.executable, "-m", "tests.eventlet_suite", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_missing_and_skipped_tests_count_as_failed(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "greenthread_test.py").write_text(SUITE)
    done = run(tmp_path, "greenthread_test")
    assert done.returncode == 1
    assert "| greenthread_test.py | 23 | 1 | 0 | " in done.stdout, done.stdout
    assert "Spawn::test_link, Spawn::test_link_after_exited (missing)" in done.stdout
    assert "| all | 23 | 1 | 0 | 22 |" in done.stdout


def test_folder_with_eventlet_beside_the_tests_is_refused(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "greenthread_test.py").write_text("")
    (tmp_path / "eventlet").mkdir()
    done = run(tmp_path)
    assert done.returncode == 2 and "without eventlet itself" in done.stderr
