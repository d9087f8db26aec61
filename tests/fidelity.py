"""The interpreter's own tests under patch_all(), beside the unpatched baseline: a test that passes without
the patch must pass with it.

``python -m tests.fidelity [MODULE ...]`` runs each module of Lib/test twice, in separate processes, and
prints the differences per module. `make fidelity` runs all of fidelity_modules.json. fidelity_known.json has
the known differences with their reasons; for any other the exit status is 1. A test that hangs or ends its
process counts as failed, and the module goes on behind it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import textwrap
from typing import Any

from tests import watched
from tests.__main__ import TRIES
from tests.watched import Outcome

KNOWN: dict[str, dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parent / "fidelity_known.json").read_text()
)
"""Test -> {"reason": ..., "hangs": true if it must not be started, "baseline": true if it cannot be run
without the patch either}. A name that ends with a dot stands for all tests below it."""

MODULES: dict[str, list[str]] = json.loads(
    (pathlib.Path(__file__).parent / "fidelity_modules.json").read_text()
)
"""Those of Lib/test that are run: "quick" ones, a second or ten each, by CI, too, and "slow" ones. Any other
key is the reason why modules that seem to wait are not run."""

PATCHES = {
    "": "",
    "syncless": "from syncless.patches import patch_all; patch_all()",
    "gevent": "from gevent.monkey import patch_all; patch_all()",
}
"""Whose patch -> the statement that makes it."""


def run(module: str, patch: str, test_seconds: float, module_seconds: float) -> Outcome:
    left_out = [
        name
        for name, about in KNOWN.items()
        if about.get("baseline") or (patch == "syncless" and about.get("hangs"))
    ]
    return watched.run(f"test.{module}", PATCHES[patch], left_out, test_seconds, module_seconds)


def is_known(test: str) -> bool:
    return test in KNOWN or any(name.endswith(".") and test.startswith(name) for name in KNOWN)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__.splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="of Lib/test (default: all of the list in this file)"
    )
    parser.add_argument("--quick", action="store_true", help="the modules that take seconds")
    parser.add_argument(
        "--peer", default="syncless", choices=["syncless", "gevent"], help="whose patch (default: ours)"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, help="modules at a time (default 1)")
    parser.add_argument("--test-seconds", type=float, default=60, help="that a test may take (default 60)")
    parser.add_argument("--seconds", type=float, default=600, help="that a module may take (default 600)")
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="show the traceback of each new difference"
    )
    options = parser.parse_args()
    modules = options.modules or [*MODULES["quick"], *([] if options.quick else MODULES["slow"])]
    columns = ("passes unpatched", "also patched", "known differences", "new differences", "seconds")
    print(f"| Python {sys.version.split()[0]} | {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|")

    new: dict[str, str] = {}
    flaky: dict[str, str] = {}

    def reason(outcome: Outcome, test: str) -> str:
        return outcome.failed.get(test, "it was skipped, or never begun")

    def both(module: str) -> tuple[Outcome, Outcome]:
        limits = (options.test_seconds, options.seconds)
        before = run(module, "", *limits)
        after = run(module, options.peer, *limits) if before.passed else before
        for _ in range(TRIES):  # as a test of ours is tried again
            lost = {test for test in before.passed - after.passed if not is_known(test)}
            if not lost:
                break
            back = lost & run(module, options.peer, *limits).passed
            after.passed.update(back)
            flaky.update({test: reason(after, test) for test in back})
        return before, after

    all_before = all_kept = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for module, (before, after) in zip(modules, pool.map(both, modules), strict=True):
            if not before.passed:
                print(f"| {module} | {'; '.join(before.failed) or 'is not installed'} | | | | |", flush=True)
                continue
            lost = before.passed - after.passed
            fresh = {test for test in lost if not is_known(test)}
            new.update({test: reason(after, test) for test in fresh})
            all_before += len(before.passed)
            all_kept += len(before.passed & after.passed)
            told = ", ".join(sorted(test.removeprefix(f"test.{module}.") for test in fresh)) or "none"
            kept = len(before.passed & after.passed)
            times = f"{before.seconds:.0f}, {after.seconds:.0f}"
            print(
                f"| {module} | {len(before.passed)} | {kept} | {len(lost) - len(fresh)} | {told} | {times} |",
                flush=True,
            )
    if all_before:
        share = f"{all_kept} of {all_before} ({100 * all_kept / all_before:.1f} %)"
        print(f"\n{share} pass as they do without the patch.")
    for test, trace in sorted(flaky.items()):
        print(f"flaky: {test}, which passed when it was tried again\n{textwrap.indent(trace, '    ')}")
    if path := os.environ.get("SYNCLESS_TEST_COUNTS"):  # of `tests/parts.py`
        counts = {"passed": all_kept, "failed": len(new), "skipped": 0}
        with open(path, "a") as file:
            print(json.dumps({**counts, "flaky": dict.fromkeys(flaky, "the log of this part")}), file=file)
    if options.verbose:
        for test, trace in sorted(new.items()):
            print(f"\n=== {test}\n{trace}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
