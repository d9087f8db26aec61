"""The interpreter's own tests under patch_all(), beside the unpatched baseline: what passes without the patch must pass with it.

``python -m tests.fidelity [MODULE ...]`` runs each module of Lib/test twice, in processes of their own, and prints per module what differs.
`make fidelity` runs all of MODULES. What is known to differ stands in fidelity_known.json with a reason; anything else is exit status 1.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

KNOWN: dict[str, dict[str, Any]] = json.loads((pathlib.Path(__file__).parent / "fidelity_known.json").read_text())
"""Test -> {"reason": ..., "hangs": true where it must not even be begun}. A name that ends with a dot stands for all tests below it."""

MODULES = [
    "test_time",
    "test_epoll",
    "test_select",
    "test_poll",
    "test_queue",
    "test_thread",
    "test_threading_local",
    "test_socketserver",
    "test_ssl",
    "test_smtplib",
]

CHILD = """
import json, sys, unittest
patched, module, skipped = json.loads(sys.argv[1])
sys.argv = [module]
if patched:
    from syncless.patches import patch_all
    patch_all()

class Result(unittest.TestResult):
    passed, failed = [], {}
    def startTest(self, test):
        super().startTest(test)
        print("BEGIN", test.id(), flush=True)
    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test.id())

def chosen(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test)
        elif not any(test.id() == name or name.endswith(".") and test.id().startswith(name) for name in skipped):
            yield test


result = Result()
whole = unittest.defaultTestLoader.loadTestsFromName("test." + module)
unittest.TestSuite(chosen(whole)).run(result)
for test, trace in result.errors + result.failures:
    result.failed[test.id()] = trace
print("RESULT" + json.dumps([result.passed, result.failed]), flush=True)
"""


def run(module: str, patched: bool, seconds: float) -> tuple[set[str], dict[str, str], str]:
    """(passed, failed with tracebacks, what went wrong with the whole) of a module."""
    skipped = [name for name, about in KNOWN.items() if patched and about.get("hangs")]
    command = [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps([patched, module, skipped])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        begun = [line for line in (error.stdout or b"").decode(errors="replace").splitlines() if line.startswith("BEGIN ")]
        return set(), {}, f"hangs in {begun[-1][6:]}" if begun else "hangs at its import"
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            passed, failed = json.loads(line[6:])
            return set(passed), failed, ""
    return set(), {}, f"ended with status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"


def is_known(test: str) -> bool:
    return test in KNOWN or any(name.endswith(".") and test.startswith(name) for name in KNOWN)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="MODULE", help=f"of Lib/test (default: {' '.join(MODULES)})")
    parser.add_argument("--seconds", type=float, default=120, help="that a module may take (default 120)")
    parser.add_argument("--verbose", "-v", action="store_true", help="show the traceback of each new difference")
    options = parser.parse_args()
    print(f"| Python {sys.version.split()[0]} | passes unpatched | patched, too | known differences | new differences | seconds |")
    print("|---|---|---|---|---|---|")
    new: dict[str, str] = {}
    all_before = all_kept = 0
    for module in options.modules:
        before, _, trouble = run(module, False, options.seconds)
        if not before:
            print(f"| {module} | {trouble or 'has no tests'} | | | | |", flush=True)
            continue
        started = time.monotonic()
        after, failed, trouble = run(module, True, options.seconds)
        lost = before - after
        fresh = {test for test in lost if not is_known(test)}
        new.update({test: failed.get(test, trouble or "it was skipped") for test in fresh})
        all_before += len(before)
        all_kept += len(before & after)
        told = trouble or ", ".join(sorted(fresh)) or "none"
        seconds = time.monotonic() - started
        print(f"| {module} | {len(before)} | {len(before & after)} | {len(lost) - len(fresh)} | {told} | {seconds:.0f} |", flush=True)
    if all_before:
        print(f"\n{all_kept} of {all_before} ({100 * all_kept / all_before:.1f} %) pass as they do without the patch.")
    if options.verbose:
        for test, trace in sorted(new.items()):
            print(f"\n{test}\n{trace}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
