"""gevent's own tests of its public API, with gevent on our loop.

``python -m tests.gevent_suite [MODULE ...]`` runs the tests that come with the installed gevent, each module
in a process of its own, in which `syncless.contrib.gevent` is installed, as in each process that they start.
gevent_suite.txt has the tests that pass on gevent's own loop: they are all that is counted, and one that is
missing or skipped has failed. Those of gevent_known.json cannot pass, with reasons; any other failure gives
the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from tests import watched

HERE = pathlib.Path(__file__).parent
KNOWN: dict[str, str] = json.loads((HERE / "gevent_known.json").read_text())
"""Test, or module, -> the reason why it cannot pass."""

SCRIPT = "(script)"
"""In the place of a test: a module that is no test case passes if it ends with status 0."""

CUSTOMIZE = """
import sys
sys.path.insert(0, {root!r})
from syncless.tools.imports import when_executed

def patch(monkey):
    import syncless.contrib.gevent.monkey
    syncless.contrib.gevent.monkey.install(monkey)

def install(gevent):
    import syncless.contrib.gevent
    syncless.contrib.gevent.install()

def point(util):
    def search(*_, **__):
        if not {source!r}:
            raise util.NoSetupPyFound("no --source is given")
        return {source!r}
    util.search_for_setup_py = search

when_executed("gevent.monkey", patch)
when_executed("gevent", install)
when_executed("gevent.testing.util", point)
"""


PRELUDES = {
    "test__threading_native_before_monkey": """
import gevent.tests.test__threading_native_before_monkey as tests
tests.native_thread = tests.NativeThread()
tests.native_thread.daemon = True
tests.native_thread.start()
from gevent import monkey
tests.monkey = monkey
monkey.patch_all()
""",
}
"""What a module does only when it is run itself."""


def listed() -> dict[str, list[str]]:
    """Module -> the tests of it that count."""
    tests = collections.defaultdict(list)
    for line in (HERE / "gevent_suite.txt").read_text().split("\n"):
        module, _, test = line.partition("::")
        if test:
            tests[module].append(test)
    return tests


def passed(module: str, tests: list[str], seconds: float) -> dict[str, str]:
    """What each of these tests has to say against passing; "" for those that pass."""
    name = f"gevent.tests.{module}"
    if tests == [SCRIPT]:
        try:
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return {SCRIPT: "takes too long"}
        return {SCRIPT: ended.stderr[-3000:] or "has a status" if ended.returncode else ""}
    outcome = watched.run(name, PRELUDES.get(module, ""), [], 60, seconds)
    good = {test.removeprefix(f"{name}.") for test in outcome.passed}
    bad = {test.removeprefix(f"{name}."): why for test, why in (outcome.skipped | outcome.failed).items()}
    return {test: "" if test in good else bad.get(test, "is missing") for test in tests}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gevent_suite", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as test__pool (default: all)")
    parser.add_argument("--source", default="", help="gevent's unpacked sdist, which alone has its examples")
    parser.add_argument("--seconds", type=float, default=300, help="that a module may take (default 300)")
    parser.add_argument("--verbose", "-v", action="store_true", help="show why a test fails")
    options = parser.parse_args()
    if importlib.util.find_spec("gevent") is None:
        parser.error("gevent, whose tests these are, is not installed: pip install gevent")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
    counts: collections.Counter[str] = collections.Counter()
    new = []
    with tempfile.TemporaryDirectory() as folder:
        source = options.source and os.path.abspath(options.source)
        customize = CUSTOMIZE.format(root=str(HERE.parent), source=source)
        pathlib.Path(folder, "sitecustomize.py").write_text(customize)
        found = importlib.util.find_spec("gevent.tests")
        os.chdir(os.path.dirname(found.origin))  # tests import others, and start programs, from there
        os.environ |= {"PYTHONPATH": folder, "GEVENTTEST_USE_RESOURCES": "all,-network"}
        for module, tests in listed().items():
            if options.modules and module not in options.modules:
                continue
            verdicts = passed(module, tests, options.seconds)
            if any(why and f"{module}::{test}" not in KNOWN for test, why in verdicts.items()):
                again = passed(
                    module, tests, options.seconds
                )  # many of them depend on the time that they take
                verdicts = {test: why and again[test] for test, why in verdicts.items()}
            fresh = [
                test
                for test, why in verdicts.items()
                if why and not {module, f"{module}::{test}"} & KNOWN.keys()
            ]
            counts["tests"] += len(tests)
            counts["pass"] += sum(not why for why in verdicts.values())
            new += fresh
            print(
                f"{module}: {sum(not why for why in verdicts.values())} of {len(tests)}", *fresh, flush=True
            )
            for test in fresh if options.verbose else ():
                print(f"=== {test}\n{verdicts[test]}")
    if path := os.environ.get("SYNCLESS_TEST_COUNTS"):  # of `tests/parts.py`
        with open(path, "a") as file:
            print(
                json.dumps({"passed": counts["pass"], "failed": len(new), "skipped": 0, "flaky": {}}),
                file=file,
            )
    print(f"{counts['pass']} of {counts['tests']} pass, {len(new)} fail for no known reason")
    return 1 if new or not counts["tests"] else 0


if __name__ == "__main__":
    sys.exit(main())
