"""The tool that runs Stackless's suites, with a suite of its own."""

import subprocess
import sys

from tests.stackless_suite import KNOWN, SUITES, known_reason

SUITE = """
import os
import subprocess
import sys
import unittest
import stackless

class Test(unittest.TestCase):
    def test_passes(self):
        stackless.schedule()
    def test_fails(self):
        self.fail("on purpose")
    def test_ends_its_process(self):
        os._exit(3)
    def test_skips(self):
        self.skipTest("for a reason")
    def test_then_another_one_passes(self):
        pass
    def test_starts_another_interpreter(self):
        code = "import stackless; print(stackless.main is stackless.current, stackless.tasklet)"
        command = [sys.executable, "-s", "-S", "-E", "-c", code]
        self.assertIn(b"True <class 'syncless.", subprocess.check_output(command))
"""


def test_each_known_failure_has_a_reason_and_belongs_to_a_suite():
    assert KNOWN.keys() == SUITES.keys()
    for known in KNOWN.values():
        assert all(len(reason) > 10 for reason in known.values())
    assert known_reason("stackless-testsuite", "any.other") is None


def run(*arguments):
    command = [sys.executable, "-m", "tests.stackless_suite", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_new_failures_are_named_and_counted(tmp_path):
    package = tmp_path / "stackless_testsuite"
    package.mkdir()
    for name in ("__init__.py", "stackless_api.py"):
        (package / name).write_text("")
    (package / "test_some.py").write_text(SUITE)
    done = run(tmp_path, "-v")
    assert done.returncode == 1
    failed = "Test.test_ends_its_process, Test.test_fails"
    assert f"| stackless_testsuite.test_some | 6 | 3 | 1 | 0 | {failed} |" in done.stdout, done.stdout
    assert "| 2 | none is known |" in done.stdout
    assert "on purpose" in done.stdout and "hangs, or ends its process" in done.stdout


def test_folder_without_a_known_suite_is_refused(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2 and "holds none of the suites" in done.stderr
