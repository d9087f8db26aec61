"""Test-suites that were written for Stackless Python's API, run against `syncless.stackless`.

``python -m tests.stackless_suite FOLDER [MODULE ...]`` runs every test module below the folder, each in a
process of its own. The folder is your copy of one of the suites of SUITES, which are not part of syncless.
stackless_known.json has the tests that cannot pass, with reasons; any other failure gives the exit status 1.
A test that hangs or ends its process counts as failed, and its module goes on behind it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
from typing import NamedTuple

from tests import watched

KNOWN: dict[str, dict[str, str]] = json.loads(
    (pathlib.Path(__file__).parent / "stackless_known.json").read_text()
)
"""Suite -> test -> the reason why it cannot pass. A name stands for all variants of a test, and for all tests
below it if it ends with a dot."""

IMPORT = """
import sys
sys.path[:0] = [{root!r}, {folder!r} + "/python"]
import syncless.stackless
sys.modules["stackless"] = syncless.stackless
if not hasattr(sys, "getcheckinterval"):  # it is gone since Python 3.9
    sys.getcheckinterval, sys.setcheckinterval = lambda: 100, lambda number: None
if not hasattr(sys, "exc_clear"):  # it is gone since Python 3.0
    sys.exc_clear = lambda: None
syncless.stackless._test_nostacklesscall = lambda function, *args, **kwargs: function(*args, **kwargs)
sys.executable = {python!r}
"""

PYTHON = """#!/bin/sh
# An interpreter in which `import stackless` means ours, even if it is told to leave out what is installed.
while case "$1" in -[EsS]) true ;; *) false ;; esac; do shift; done
PYTHONPATH={path} exec {python} "$@"
"""
"""Of the processes that tests start. Its path has a folder with a module `stackless`."""

TREE = (
    IMPORT
    + """
import test.support
if not hasattr(test.support, "run_unittest"):  # it is gone since Python 3.11.5, and only named, never called
    test.support.run_unittest = None
syncless.stackless.test_cframe_nr = None
sys.modules["_teststackless"] = type(sys)("_teststackless")  # C functions, which only tests of the C API use
import support
support.get_tasklets_with_cstate = list  # there are no C states that a test could leave behind
"""
)

SCHEDULER = (
    IMPORT
    + """
import gc, types
from syncless.stackless import getcurrent, getruncount

def run_n_tasklets(number):
    for _ in range(number):
        one, rest = getcurrent().next, []
        while one.next is not getcurrent():
            rest.append(one.next.remove())
        one.run()
        again = one.scheduled and not one.blocked
        for other in rest + ([one.remove()] if again else []):
            other.insert()

def channels_waited_for():
    return [one for one in gc.get_objects() if isinstance(one, syncless.stackless.channel) and one.balance]

def unblock_all_channels():
    for one in channels_waited_for():
        while one.balance:
            one.queue.kill()

managers = [object()]

class Module(types.ModuleType):
    calculateruncount = staticmethod(getruncount)
    run_n_tasklets = staticmethod(run_n_tasklets)
    unblock_all_channels = staticmethod(unblock_all_channels)
    get_number_of_active_channels = staticmethod(lambda: len(channels_waited_for()))
    get_number_of_active_schedule_managers = staticmethod(lambda: 1)
    get_schedule_manager = staticmethod(lambda: managers[0])
    get_use_nested_tasklets = staticmethod(lambda: True)
    set_use_nested_tasklets = staticmethod(lambda flag: None)
    def __getattr__(self, name):
        return getattr(syncless.stackless, name)
    def __dir__(self):
        fresh = {"current", "main", "runcount", "threads"}
        return sorted({*dir(type(self)), *syncless.stackless.__all__} - fresh)

sys.modules["_scheduler"] = Module("_scheduler")
import scheduler
scheduler.__class__ = type("Names", (types.ModuleType,), {"__getattr__": Module.__getattr__})
"""
)


class Suite(NamedTuple):
    mark: str
    """A file that no other suite has."""
    prelude: str
    """Statements that run before each module: names besides `stackless` that the suite expects."""


SUITES = {
    "stackless-testsuite": Suite("stackless_testsuite/stackless_api.py", IMPORT),
    "Stackless/unittests": Suite("test_tpflags_have_stackless_call.py", TREE),
    "carbonengine/scheduler": Suite("test_queuechannel.py", SCHEDULER),
}


def module_of(file: pathlib.Path) -> tuple[pathlib.Path, str]:
    """The folder from which it is imported, and its name there."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return root, ".".join(file.relative_to(root).with_suffix("").parts)


VARIANT = re.compile(r"(_[CP]\d)?(_H)?$")
"""Of a test: with each pickler and protocol, and without soft switching."""


def known_reason(suite: str, test: str) -> str | None:
    known = KNOWN[suite]
    test = VARIANT.sub("", test)
    if test in known:
        return known[test]
    return next((why for name, why in known.items() if name.endswith(".") and test.startswith(name)), None)


def make_interpreter(folder: pathlib.Path) -> str:
    """Puts an interpreter of PYTHON into the folder. Returns its path."""
    here = pathlib.Path(__file__).parent.parent
    prelude = IMPORT.replace('{root!r}, {folder!r} + "/python"', "").replace(
        "{python!r}", repr(sys.executable)
    )
    (folder / "stackless.py").write_text(prelude)
    path = folder / "python"
    variable = shlex.quote(os.pathsep.join(map(str, (folder, here))))
    path.write_text(PYTHON.format(path=variable, python=shlex.quote(sys.executable)))
    path.chmod(0o755)
    return str(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.stackless_suite", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=pathlib.Path, help="your copy of a suite: " + ", ".join(SUITES))
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="of the suite, by the end of its name")
    parser.add_argument("--jobs", type=int, default=1, help="modules at a time (default 1)")
    parser.add_argument("--test-seconds", type=float, default=20, help="that a test may take (default 20)")
    parser.add_argument("--seconds", type=float, default=300, help="that a module may take (default 300)")
    parser.add_argument("--verbose", "-v", action="store_true", help="show the traceback of each new failure")
    options = parser.parse_args()
    folder = options.folder.resolve()
    suite = next((name for name, suite in SUITES.items() if any(folder.rglob(suite.mark))), None)
    if suite is None:
        marks = ", ".join(f"{name} ({suite.mark})" for name, suite in SUITES.items())
        parser.error(f"{folder} holds none of the suites that are known: {marks}")
    files = [module_of(file) for file in sorted(folder.rglob("test_*.py"))]
    if options.modules:
        files = [each for each in files if each[1].endswith(tuple(options.modules))]

    def run(each: tuple[pathlib.Path, str]) -> watched.Outcome:
        root, module = each
        names = {"{root!r}": str(root), "{folder!r}": str(folder), "{python!r}": python}
        prelude = SUITES[suite].prelude
        for name, value in names.items():
            prelude = prelude.replace(name, repr(value))
        return watched.run(module, prelude, (), options.test_seconds, options.seconds)

    print(f"| {suite} on Python {sys.version.split()[0]} | tests | passed | skipped | known | new failures |")
    print("|---|---|---|---|---|---|")
    new: dict[str, str] = {}
    tests = passed = skipped = known = 0
    with (
        tempfile.TemporaryDirectory() as made,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        python = make_interpreter(pathlib.Path(made))
        outcomes = []
        for (_, module), outcome in zip(files, pool.map(run, files), strict=True):
            outcomes.append(outcome)
            fresh = {
                test: trace for test, trace in outcome.failed.items() if known_reason(suite, test) is None
            }
            count = len(outcome.passed) + len(outcome.failed) + len(outcome.skipped)
            if not count:
                continue
            new.update(fresh)
            tests, passed = tests + count, passed + len(outcome.passed)
            skipped, known = skipped + len(outcome.skipped), known + len(outcome.failed) - len(fresh)
            told = ", ".join(sorted(test.removeprefix(f"{module}.") for test in fresh)) or "none"
            print(
                f"| {module} | {count} | {len(outcome.passed)} | {len(outcome.skipped)}"
                f" | {len(outcome.failed) - len(fresh)} | {told} |",
                flush=True,
            )
    ended = {test for outcome in outcomes for test in outcome.passed}
    stale = ", ".join(sorted(ended & KNOWN[suite].keys()))
    print(f"| all | {tests} | {passed} | {skipped} | {known} | {len(new)} |")
    reasons = collections.Counter(
        known_reason(suite, test) for outcome in outcomes for test in outcome.failed
    )
    print("\n| tests | the reason why they cannot pass |\n|---|---|")
    for reason, count in reasons.most_common():
        print(f"| {count} | {reason or 'none is known'} |")
    if stale:
        print(f"\nThese are known to fail, and pass: {stale}")
    if options.verbose:
        for test, trace in sorted(new.items()):
            print(f"\n=== {test}\n{trace}")
    return 1 if new or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
