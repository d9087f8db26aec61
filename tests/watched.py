"""Runs modules of unittest in processes of their own, which may hang or end in the middle of a test.

A test that does so counts as failed, and the module goes on behind it in a new process. Used for test-suites
of others: `tests/fidelity.py`, `tests/stackless_suite.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from typing import Any, NamedTuple

CHILD = """
import faulthandler, json, sys, unittest
prelude, module, skipped, seconds = json.loads(sys.argv[1])
sys.argv = [module]
dump_later, out = faulthandler.dump_traceback_later, sys.stdout
exec(prelude, {"__name__": "prelude"})

def tell(*what):
    out.write("\\n@@" + json.dumps(what) + "\\n")
    out.flush()

class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        dump_later(seconds, exit=True)
        tell("begins", test.id())
    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)
    def addSuccess(self, test):
        super().addSuccess(test)
        tell("passes", test.id())
    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        tell("passes", test.id())
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        tell("is skipped", test.id(), reason)
    def addError(self, test, error):
        super().addError(test, error)
        tell("fails", test.id(), self.errors[-1][1])
    def addFailure(self, test, error):
        super().addFailure(test, error)
        tell("fails", test.id(), self.failures[-1][1])
    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            tell("fails", test.id(), (self.errors + self.failures)[-1][1])

def is_named(name, test):
    return test == name or name.endswith(".") and test.startswith(name)

def chosen(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test)
        elif not any(is_named(name, test.id()) for name in skipped):
            yield test

whole = unittest.defaultTestLoader.loadTestsFromName(module)
unittest.TestSuite(chosen(whole)).run(Result())
tell("ends")
"""


class Outcome(NamedTuple):
    passed: set[str]
    failed: dict[str, str]
    """Test -> traceback."""
    skipped: dict[str, str]
    """Test -> the reason that it gave."""
    seconds: float


def run_child(what: list[Any], seconds: float) -> tuple[str, str]:
    """The output of CHILD on stdout and stderr. Processes that it leaves behind are ended with it."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(what)]
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as err,
    ):
        process = subprocess.Popen(
            command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True
        )
        late = ""
        try:
            process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            late = "the module takes too long"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        err.seek(0)
        return out.read(), late or err.read()


def run(
    module: str, prelude: str, left_out: Collection[str], test_seconds: float, module_seconds: float
) -> Outcome:
    """Runs a module after the statements of `prelude`, without the tests of `left_out`; a name that ends with
    a dot stands for all tests below it."""
    begun_before = [*left_out]
    passed: set[str] = set()
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    started = time.monotonic()
    while True:
        output, errors = run_child(
            [prelude, module, begun_before, test_seconds], module_seconds - (time.monotonic() - started)
        )
        begun, ended = "", False
        for line in output.splitlines():
            if line.startswith("@@"):
                what, *about = json.loads(line[2:])
                ended = what == "ends"
                if what == "begins":
                    begun = about[0]
                    begun_before.append(begun)
                elif what == "passes":
                    passed.add(about[0])
                elif what == "is skipped":
                    skipped[about[0]] = about[1]
                elif what == "fails":
                    failed[about[0]] = about[1]
        if not ended and begun in passed | failed.keys() | skipped.keys():
            begun = ""  # between two tests, or behind the last one
        if not ended and begun:
            failed[begun] = f"hangs, or ends its process:\n{errors[-3000:]}"
        if not ended and not begun and not passed:
            failed[module] = errors[-3000:]
        if ended or not begun or time.monotonic() - started > module_seconds:
            return Outcome(passed - failed.keys(), failed, skipped, time.monotonic() - started)
