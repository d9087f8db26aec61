"""The cost of an import: CPU time, modules, and instructions if valgrind is there.

``python -m benchmark.imports [MODULE ...]``: by default our server beside gevent's. The modules take turns,
and the smallest of ``--rounds`` figures counts, so a busy machine changes the ratio little. All figures hold
the start of the interpreter, which the first line shows.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys


def run(program: str, *before: str) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def cpu_seconds(program: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(program)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def instructions(program: str) -> float | None:
    """In millions."""
    if shutil.which("valgrind") is None:
        return None
    told = run(program, "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    found = re.search(r"Collected : (\d+)", told)
    return int(found[1]) / 1e6 if found else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmark.imports", description=__doc__)
    parser.add_argument("modules", nargs="*", default=["syncless.wsgi", "gevent.pywsgi"])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    programs = {"(the interpreter)": "pass"} | {name: f"import {name}" for name in options.modules}
    for program in programs.values():
        run(program)  # its bytecode is written
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, program in programs.items():
            times[name].append(cpu_seconds(program))
    print(f"{'import':24} {'CPU ms':>8} {'modules':>8} {'million instructions':>21}")
    for name, program in programs.items():
        modules = int(run(f"{program}\nimport sys; print(len(sys.modules))").split()[-1])
        counted = instructions(program)
        shown = "" if counted is None else f"{counted:.0f}"
        print(f"{name:24} {min(times[name]) * 1e3:8.1f} {modules:8} {shown:>21}")


if __name__ == "__main__":
    main()
