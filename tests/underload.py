"""Runs tests while the machine is busy: ``python -m tests.underload [ARGUMENTS OF THE TESTS]``.

Four busy loops run beside the tests, and their process group is stopped for 300 ms at random moments. A test
that fails only here hangs on time: mend it. ``--command`` runs something else than ``python -m tests``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def halted_in(group: int) -> list[int]:
    """Its processes that are stopped."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if state == "T" and int(its_group) == group:
                found.append(int(stat.parent.name))
    return found


def stop_now_and_then(process: subprocess.Popen[bytes], moments: list[float], pause: float) -> int:
    """Returns how often it was stopped until it ended."""
    began = time.monotonic()
    for count, moment in enumerate(moments):
        if has_ended(process, max(0, began + moment - time.monotonic())):
            return count
        halted = halted_in(process.pid)  # by a test
        signal_group(process, signal.SIGSTOP)
        try:
            time.sleep(pause)
        finally:
            signal_group(process, signal.SIGCONT)
            for pid in halted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
    process.wait()
    return len(moments)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.underload",
        description="Runs tests while the machine is busy; all other arguments go to the tests.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--command", help="words parted by spaces, to be run instead of `python -m tests`")
    add("--seed", type=int, help="brings a run back (default: $SEED, or random)")
    add("--loops", type=int, default=4, metavar="N", help="busy loops (default: %(default)s)")
    add("--stops", type=int, default=50, metavar="N", help="how many there are (default: %(default)s)")
    add("--pause", type=float, default=0.3, metavar="SECONDS", help="length of a stop (default: %(default)s)")
    add("--over", type=float, default=240, metavar="SECONDS", help="with stops (default: %(default)s)")
    options, others = parser.parse_known_args(arguments)
    seed = options.seed
    if seed is None:
        seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0, options.over) for _ in range(options.stops))
    print(f"SEED={seed}", flush=True)
    command = options.command.split() if options.command else [sys.executable, "-m", "tests"]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    busy, process = [], None
    try:
        busy += [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.loops)]
        process = subprocess.Popen([*command, *others], start_new_session=True)
        count = stop_now_and_then(process, moments, options.pause)
        print(f"SEED={seed}: stopped {count} times for {options.pause} s, beside {options.loops} busy loops")
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for each in busy:
            each.kill()
        if process is not None:
            signal_group(process, signal.SIGTERM)
            if not has_ended(process, 10):
                signal_group(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
