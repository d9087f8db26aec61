"""Runs tests: ``python -m tests [ARGUMENTS OF PYTEST]``, which is what `make test` does. Three steps:

1. The tests that are marked neither `slow` nor `wide`; where pytest-xdist is installed, in five processes for
   two processors, because tests wait for half their time.
2. Those marked `realtime`, which measure real time: in order, while nothing else runs.
3. Each test that failed, again, alone and in a fresh process, up to twice. A test that passes then is flaky:
   the run goes on, and the summary names the test and its log. With more than five failures the run has
   failed, so none is tried again.

``-m``, ``-k`` and paths choose other tests. Of a path all are run that are not `slow`. Arguments do not reach
the third step, but PYTEST_ADDOPTS does.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

from tests.wide import is_wide, leaves_out

MOST_FLAKY = 5
"""Tests that may be flaky in one run."""

MOST_REASONS = 10
"""Lines that tell why tests were skipped."""

TRIES = 2
"""How often a test that failed is tried again."""

NO_TESTS = 5
"""Pytest's exit status if it finds no test to run."""

IN_ORDER = {"-s", "--pdb", "--trace", "--collect-only", "--co", "--capture=no", "--setup-show"}
"""Options that need one process."""


FEW = 30
"""Files of tests that are not worth a process of their own to be read."""


def read_once(arguments: list[str], marks: str) -> None:
    """Pytest rewrites the assertions of a file that it reads for the first time, which takes longer than all
    else of it. Once, and not in each of the processes that will run the tests."""
    files = [
        file
        for path in paths_of(arguments) or [pathlib.Path("tests")]
        for file in (path.rglob("test_*.py") if path.is_dir() else [path])
        if not (leaves_out(marks) and is_wide(file.absolute()))
    ]
    version = f"{sys.implementation.cache_tag}-pytest-*.pyc"
    new = [
        str(file)
        for file in files
        if not any(
            made.stat().st_mtime >= file.stat().st_mtime
            for made in file.parent.glob(f"__pycache__/{file.stem}.{version}")
        )
    ]
    if len(new) < FEW:
        return
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:xdist"]
    count = processors()
    running = [
        subprocess.Popen([*command, *new[first::count]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for first in range(count)
    ]
    for process in running:
        process.wait()


def paths_of(arguments: list[str]) -> list[pathlib.Path]:
    """That pytest would look for tests in."""
    paths = (pathlib.Path(each.partition("::")[0]) for each in arguments if not each.startswith("-"))
    return [path for path in paths if path.exists()]


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


PACKAGE = re.compile(r"could not import '(\w+)|pip install (?!-)([\w-]+)|^(\w+) is not installed$")
"""In the reason of a test that needs a package which is not installed."""


def grouped(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """(reason, how many tests), the most common first, in at most MOST_REASONS lines."""
    counts = collections.Counter(reasons)
    packages = {
        reason: found[1] or found[2] or found[3] for reason in counts if (found := PACKAGE.search(reason))
    }
    if len(packages) > 1:
        names = ", ".join(sorted(set(packages.values()), key=str.lower))
        needs = f"they need packages that are not installed (`pip install --group clients`): {names}"
        counts[needs] = sum(counts.pop(reason) for reason in packages)
    first = counts.most_common()
    if len(first) > MOST_REASONS:
        first, others = first[: MOST_REASONS - 1], first[MOST_REASONS - 1 :]
        total = sum(count for _, count in others)
        first.append((f"of {len(others)} other reasons: `make test ARGS=-rs` names them", total))
    return first


class Run:
    """One run of tests, in several steps."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.outcomes = folder / "outcomes"
        self.apart = folder / "apart"
        self.broken: list[str] = []
        """Failures that belong to no test."""
        self.passed: set[str] = set()
        self.failed: dict[str, str] = {}
        """Test -> what it printed."""
        self.skipped: dict[str, str] = {}
        """Test -> the reason."""
        self.flaky: dict[str, str] = {}
        """Test -> the file with what it printed."""

    def pytest(self, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "tests.outcomes", f"--outcomes={self.outcomes}"]
        self.outcomes.write_text("")
        return subprocess.run([*command, *arguments], text=True, **options)  # type: ignore[call-overload]

    def step(self, *arguments: str) -> None:
        """Runs tests and takes down how they ended."""
        status = self.pytest(*arguments).returncode
        lines = self.outcomes.read_text().splitlines()
        if status not in (0, 1, NO_TESTS) or (status == 1 and not any('"failed"' in line for line in lines)):
            self.broken.append(f"pytest ended with status {status}")
        for line in lines:
            outcome = json.loads(line)
            test, text = outcome["test"], outcome["text"]
            if outcome["outcome"] == "failed":
                self.failed[test] = f"{self.failed.get(test, '')}{text}\n"
            elif outcome["outcome"] == "skipped":
                self.skipped[test] = text
            else:
                self.passed.add(test)
        self.passed -= self.failed.keys()  # a test whose end fails has passed before

    def first_steps(self, arguments: list[str]) -> None:
        self.step(*arguments, f"--apart={self.apart}")
        if self.apart.exists() and (apart := self.apart.read_text().splitlines()):
            print(f"\nalone, because they measure real time: {len(apart)}", flush=True)
            self.step("-p", "no:xdist", *map(json.loads, apart))

    def try_again(self) -> None:
        if not 0 < len(self.failed) <= MOST_FLAKY:
            return
        print(f"\nagain, each alone, because they failed: {len(self.failed)}", flush=True)
        logs = pathlib.Path("build", "flaky")
        logs.mkdir(parents=True, exist_ok=True)
        for test in list(self.failed):
            name = "".join(letter if letter.isalnum() else "_" for letter in test)[-80:]
            log = logs / f"{name}-{os.getpid()}.log"
            log.write_text(self.failed[test])
            for number in range(1, TRIES + 1):
                done = self.pytest("-p", "no:xdist", test, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                with log.open("a") as file:
                    file.write(f"\n=== tried again, {number} of {TRIES}\n{done.stdout}")
                print(f"{test}: {'failed again' if done.returncode else 'passed'}", flush=True)
                if done.returncode == 0:
                    del self.failed[test]
                    self.passed.add(test)
                    self.flaky[test] = str(log)
                    break

    def status(self) -> int:
        """Of this program."""
        if self.broken or self.failed:
            return 1
        return 0 if self.passed or self.skipped else NO_TESTS

    def summary(self, seconds: float) -> None:
        print()
        for reason, count in grouped(self.skipped.values()):
            print(f"skipped: {count:4} because {reason}")
        for test, log in self.flaky.items():
            print(f"flaky: {test}, see {log}")
        for line in (*(f"failed: {test}" for test in self.failed), *self.broken):
            print(line)
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        print(f"{counts} in {seconds:.0f} s")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests",
        description="Runs the tests; all other arguments are pytest's.",
        epilog=__doc__.partition("\n\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument("-m", metavar="MARKS", help="of the tests to run (default: neither slow nor wide)")
    parser.add_argument("-n", metavar="N", help="processes (default: five for two processors)")
    options, others = parser.parse_known_args(arguments)
    # of tests/parts.py: where the numbers of this run go, and how many processes it may have
    told, processes = (os.environ.pop(f"SYNCLESS_TEST_{name}", None) for name in ("COUNTS", "PROCESSES"))
    marks = options.m
    if marks is None:  # a test that is named is run
        named = any("::" in argument for argument in others)
        marks = "" if named else "not slow" if paths_of(others) else "not slow and not wide"
    chosen = ["-m", marks] if marks else []
    if importlib.util.find_spec("xdist") and not IN_ORDER & set(others):
        read_once(others, marks)
        chosen += ["-n", options.n or processes or str(processors() * 5 // 2), "--dist", "worksteal"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(pathlib.Path(folder))
        run.first_steps([*chosen, *others])
        run.try_again()
    run.summary(time.monotonic() - began)
    status = run.status()
    if told:
        counts = {name: len(getattr(run, name)) for name in ("passed", "skipped", "failed")}
        with open(told, "a") as file:
            python = platform.python_version()
            print(json.dumps({**counts, "flaky": run.flaky, "python": python}), file=file)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
