"""``python -m tests.simulate --seconds 60 --seed N``: see the package."""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests import virtualtime

FAILING_CALLS = pathlib.Path(__file__).parents[1] / "failing_calls.c"
PATIENCE = 60 if "ASAN_OPTIONS" in os.environ else 10
"""Seconds of a processor's time that an episode may take, and for which it may use none: it takes a tenth of
one, and the machine may have others to run."""
ADDR_NO_RANDOMIZE = 0x0040000
LAST_LINES = 60
"""Of a finding's standard error, which are printed."""


def cpu_seconds(pid):
    """That a process has used up to now."""
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Stem:
    """The warmed process (forks.py), and the episode that runs."""

    def __init__(self, folder, plain):
        command = [sys.executable, "-m", "tests.simulate.forks", folder, *(["--plain"] if plain else [])]
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **virtualtime.with_library(FAILING_CALLS), "PYTHONHASHSEED": "0"},
            preexec_fn=lambda: ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE),
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.buffer = b""
        if self.line(10 * PATIENCE) != "warm":
            sys.exit("the simulator cannot begin: see above")

    def line(self, seconds):
        """The next one; None if there is none in that time."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0, end - time.monotonic())):
                return None
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return ""
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def run(self, seed):
        """What the episode told, with "found" if that is a finding; and its standard error."""
        self.process.stdin.write(b"%d\n" % seed)
        self.process.stdin.flush()
        told, pid, ends = (
            {},
            self.process.pid,
            [signal.SIGKILL, signal.SIGABRT],
        )  # the last shows where it stands
        used = 0.0
        while True:
            line = self.line(PATIENCE)
            if line is None:
                before, used = used, cpu_seconds(pid)
                if before < used < PATIENCE and not told:
                    continue  # others have the processors
                told = {"found": "it stands still"}
                os.kill(pid, ends.pop())
            elif not line:
                sys.exit("the warmed process has ended: see above")
            elif line.startswith("{"):
                told = told or json.loads(line)
            elif line.startswith("pid "):
                pid = int(line[4:])
            elif line.startswith("end "):
                break
        status = int(line[4:])
        errors = pathlib.Path(self.folder, str(seed))
        text = errors.read_text(errors="replace") if errors.exists() else ""
        errors.unlink(missing_ok=True)
        if not told:
            told = {"found": f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"}
            if summary := re.search(r"SUMMARY: (.*)|runtime error: .*", text):
                told["found"] += f", {summary.group()}"
        at = re.search(r'^  File "(.*)", line \d+ in (\w+)', text, re.M)  # where faulthandler has found it
        if "found" in told and at:
            told["found"] += f", in {at.group(2)} of {pathlib.Path(at.group(1)).name}"
        return told, text

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def kind(found):
    """What findings of one cause have in common."""
    return re.sub(r"0x[0-9a-f]+|[-\d.]+", "N", found)[:100]


def show(seed, began, episodes, told, text, repeats):
    print(f"{time.monotonic() - began:6.1f} s, episode {episodes}: {told['found'][:500]}")
    print("\n".join(f"    {line}" for line in text.splitlines()[-LAST_LINES:]))
    print(f"  to repeat ({repeats}): python -m tests.simulate --seed {seed} --episodes 1", flush=True)


def simulate(given, folder):
    """How many kinds of findings there were."""
    began = time.monotonic()
    stem = Stem(folder, given.plain)
    warm = time.monotonic()
    totals, findings = collections.Counter(), {}
    different = []
    seed = given.seed
    while totals["episodes"] < given.episodes and time.monotonic() - warm < given.seconds:
        told, text = stem.run(seed)
        totals["episodes"] += 1
        if given.verbose:
            print(seed, told, flush=True)
        if "found" in told:
            findings.setdefault(kind(told["found"]), []).append(seed)
            if len(findings[kind(told["found"])]) == 1:
                again, _ = stem.run(seed)
                repeats = "it did when tried again" if again == told else f"the second time: {again}"
                show(seed, began, totals["episodes"], told, text, repeats)
                if given.first:
                    break
        else:
            if given.twice and stem.run(seed)[0] != told:
                different.append(seed)
            told.pop("digest")
            totals.update(told)
        seed += 1
    stem.close()
    if not totals["decisions"] and not given.plain and not findings:
        sys.exit("nothing was explored: SYNCLESS_BUILD=debug python setup.py build_ext --inplace")
    took = time.monotonic() - warm
    print(
        f"{took:.0f} s from seed {given.seed}: {totals['episodes']} episodes, {totals['requests']} "
        f"requests of good clients, {totals['answers']} checked answers, {totals['decisions']} decisions, "
        f"{totals['faults']} faults injected, {len(findings)} kinds of findings"
    )
    for name, seeds in findings.items():
        print(f"  {len(seeds)} times, seeds {seeds[:6]}: {name}")
    if different:
        print(f"seeds that did not go the same way twice: {different}")
    return len(findings) + len(different)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for which to look")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 30), help="the first (default: random)"
    )
    parser.add_argument("--episodes", type=float, default=float("inf"), help="at most")
    parser.add_argument("--plain", action="store_true", help="the same load, with the usual schedule")
    parser.add_argument("--twice", action="store_true", help="each one runs twice and must go the same way")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument("--verbose", action="store_true", help="tell of each episode")
    given = parser.parse_args()
    if given.seconds == given.episodes:
        given.seconds = 60
    if not virtualtime.AVAILABLE:
        sys.exit("the virtual clock needs Linux and glibc")
    folder = tempfile.mkdtemp(prefix="simulate")
    try:
        return 1 if simulate(given, folder) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
