"""Faults that this project has had: whether schedules find them.

``python -m tests.testing.faults [NAME ...]`` takes one row of the table after another. It puts the old text
back in a copy of the checkout, and runs a program that a user could have written, under up to 200 schedules:
they must find the fault there, and none in the present code. With `--write` the results become the table of
the guide.

A fault in a Python file needs no copy: the program's process reads the file with the old text. The rows are
in pastfaults.py.
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time

from tests.testing.pastfaults import FAULTS, USED

ROOT = pathlib.Path(__file__).parents[2]
TREE = ROOT / "build" / "faults"
PAGE = ROOT / "docs" / "howto" / "concurrent-tests.md"
BEGIN, END = "<!-- faults: by python -m tests.testing.faults --write -->\n", "<!-- end of faults -->\n"
SCHEDULES = 200

RUN = """
import json, sys, time
from syncless.testing.search import Search, Run
from syncless.testing.virtualtime import clocks_replaced

def attempt(run):
    try:
        run.call(test)
    except BaseException as error:
        run.error = error
    return run.error is not None

search = Search(attempt, {count})
began = time.perf_counter()
with clocks_replaced():
    found = search.find(shortens=False)
seconds = time.perf_counter() - began
error = type(search.last.error).__name__ if found else None
print(json.dumps({{"seed": search.seed, "runs": search.runs, "seconds": seconds, "error": error}}))
"""


class OldText(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module of syncless, and reads it with the text of before its mend."""

    def __init__(self, file, new, old):
        path = str(ROOT / file)
        name = file.removesuffix(".py").replace("/", ".")
        super().__init__(name, path)
        self._new, self._old = new, old

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path).decode(), self.path)

    def source_to_code(self, text, path):
        assert text.count(self._new) == 1, f"{self.path} has changed: {self._new!r}"
        return super().source_to_code(text.replace(self._new, self._old), path)


def missing(fault):
    """What the fault needs and is not here, or None."""
    for package in "httpx", "redis":
        if f"import {package}" in fault.program and importlib.util.find_spec(package) is None:
            return package
    name = "_wait_for_tstate_lock"  # until Python 3.13; later ends of threads are told elsewhere
    concerned = name in fault.new or "thread_has_ended" in fault.new
    return name if concerned and not hasattr(threading.Thread, name) else None


def look(fault, is_old, tree=ROOT):
    """What schedules find: the seed or None, runs and seconds."""
    program = USED + fault.program + RUN.format(count=SCHEDULES)
    if is_old and fault.file.endswith(".py"):
        finder = "from tests.testing.faults import OldText\nimport sys\n"
        program = f"{finder}sys.meta_path.insert(0, OldText(*{fault[2:5]!r}))\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{fault.name}: {done.stderr or done.stdout}")
    return json.loads(done.stdout.splitlines()[-1])


def build():
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.DEVNULL)


def look_in_copy(fault):
    """As look() with the old text, which is compiled."""
    file = TREE / fault.file
    text = file.read_text()
    assert text.count(fault.new) == 1, f"{fault.file} has changed: {fault.name}"
    try:
        file.write_text(text.replace(fault.new, fault.old))
        build()
        return look(fault, True, TREE)
    finally:
        file.write_text(text)


def copy():
    """The checkout with what is built of it."""
    TREE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tests/copy.sh", TREE], cwd=ROOT, check=True)
    for file in {fault.file for fault in FAULTS if not fault.file.endswith(".py")}:
        (TREE / file).touch()  # an earlier run may have left what it built of a fault
    build()


def table(rows):
    lines = ["| fault | fixed in | found by seed | runs | ms |", "|---|---|---:|---:|---:|"]
    for fault, found in rows:
        mend = f"`{fault.commit}`" if fault.commit else ""
        line = (
            f"| {fault.name} | {mend} | {found['seed']} | {found['runs']} | {1000 * found['seconds']:.1f} |"
        )
        lines.append(line)
    return f"CPython {platform.python_version()}:\n\n" + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.testing.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--python-only", action="store_true", help="none in compiled files")
    parser.add_argument("--write", action="store_true", help="write the table of the guide")
    given = parser.parse_args()
    chosen = [
        fault
        for fault in FAULTS
        if (not given.names or any(name in fault.name for name in given.names))
        and (fault.file.endswith(".py") or not given.python_only)
        and missing(fault) is None
    ]
    if not all(fault.file.endswith(".py") for fault in chosen):
        copy()
    rows, missed = [], 0
    for fault in chosen:
        began = time.monotonic()
        present = look(fault, False)
        found = look(fault, True) if fault.file.endswith(".py") else look_in_copy(fault)
        good = found["seed"] is not None and present["seed"] is None
        missed += not good
        rows.append((fault, found))
        print(f"{'found' if good else 'WRONG'} | {fault.name} | {found} | present: {present}", end=" ")
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    if given.write and not missed:
        text = PAGE.read_text()
        before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
        PAGE.write_text(f"{text[:before]}\n{table(rows)}\n{text[after:]}")
    print(f"{len(rows) - missed} of {len(rows)} were found, with nothing in the present code")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
