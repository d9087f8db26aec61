"""The tool that runs gevent's own tests: what it counts, and one module of them."""

import subprocess
import sys

import pytest

from tests.gevent_suite import KNOWN, PRELUDES, listed


def test_each_known_failure_has_a_reason_and_is_a_test_that_counts():
    tests = listed()
    names = [f"{module}::{test}" for module in tests for test in tests[module]]
    assert len(names) == len(set(names)) == 1212
    assert KNOWN.keys() <= set(names) and PRELUDES.keys() <= tests.keys()
    assert all(len(reason) > 10 for reason in KNOWN.values())


def test_module_of_gevents_tests_is_counted():
    pytest.importorskip("gevent", reason="these tests come with it: pip install gevent")
    command = [sys.executable, "-m", "tests.gevent_suite", "test__local"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "test__local: 16 of 19\n16 of 19 pass, 0 fail for no known reason\n"
