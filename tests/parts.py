"""The parts of what is checked: ``python3 -m tests.parts``. Needs nothing but Python.

`.ci/run` runs the parts of the gate. `make check` runs every part, and `make check FROM=part` goes on at
one of them. Parts run beside one another unless they are alone. Those that are aside give way to the
others. A part that fails does not stop the others.
At the end stands a table. The status is 1 if a part failed, or if all parts together have more flaky tests
than one run of tests may have (``python -m tests``).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from tests.__main__ import MOST_FLAKY, processors

LOGS = pathlib.Path("build", "parts")

SKIPPED = 77
"""The exit status of a part that cannot run here and has said why."""

SECONDS = 2400.0
"""That most parts may take before they are ended."""

NICE = 5
"""What parts that are aside leave to others: beside those they have a quarter of a processor, and so even
their tests end in time."""

LAST_LINES = 150
"""Of the log of a part that failed, which are shown."""

OLDEST, NEWEST = "3.10", "3.15"

IN_ROOT = ("3.13", "3.14", "3.15")
"""Which Debian has in its newest micro releases: a micro release can change what is in no header."""

PAGE = pathlib.Path("docs", "reference", "platforms.md")
"""It says which micro releases were tried."""

# the engine, the layouts of objects that are read, the patch
SELECTION = (
    *("tests/core", "tests/tools", "tests/patches", "tests/asyncio", "tests/stackless", "tests/testing"),
    "tests/asgi/test_firststep.py",
    *(f"--ignore tests/patches/test_{name}.py" for name in ("cooperation", "serving", "clients")),
    "--ignore tests/core/test_builds.py",  # the part itself builds on that Python
)
WIDE_SELECTION = (
    *SELECTION,
    "tests/console",
    "tests/http/units",
    "tests/http/test_phases.py",
    "tests/http2",
    "tests/io",
    "tests/server/test_sockets.py",
    "tests/status/test_counters.py",
    "tests/wsgi/test_reuse.py",
)
QUICK_SELECTION = (
    "tests/core/test_layouts.py",
    *(
        f"tests/patches/test_{name}.py"
        for name in ("unknown_pythons", "locks", "loop_locks", "conditions", "threads", "locals")
    ),
    "tests/asyncio/test_without_policies.py",
)


QUICK = "not slow and not realtime and not wide"
"""Tests on another Python in the gate: what tries combinations is tried on one (tests/wide.py)."""


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    does: str
    commands: str
    """Of bash, in the root of the repository; the first that fails ends the part."""
    gate: bool = False
    alone: bool = False
    """Nothing else runs beside it, but one that is aside."""
    aside: bool = False
    """Others go first, and it measures nothing."""
    after: tuple[str, ...] = ("build",)
    """Parts without which it cannot run."""
    seconds: float | None = None
    """After which it is ended; None: SECONDS."""
    begins_within: float = math.inf
    """Seconds from the start of all parts; later it is skipped."""
    needed: str = ""
    """Commands; if they fail the part is skipped."""
    covers: tuple[str, ...] = ()
    """Parts that need not run once it has begun, because it tries the same, and more."""


ROOT = f"""
    mkdir -p build
    exec 9>build/root.lock && flock 9 # two parts may want to make it
    wanted=(sid gcc make libc6-dev libnghttp2-dev pkg-config python3.{{13,14,15}}{{,-dev,-venv}})
    [ "$(cat build/root/.made 2>/dev/null)" = "${{wanted[*]}}" ] ||
        .ci/root make build/root "${{wanted[@]}}" || exit {SKIPPED}
    exec 9>&-
"""
"""Commands: there is a root of Debian's unstable suite."""


def interpreter(version: str) -> str:
    """A command that sets $python to that Python, or to nothing."""
    return f"""
        installed="${{PYENV_ROOT:-$HOME/.pyenv}}/versions/{version}"
        python=$(ls "$installed".*/bin/python 2>/dev/null | sort -V | tail -n 1 || true)
        [ -n "$python" ] || python=$(command -v python{version} || true)
        [ -z "$python" ] || "$python" -c 'import venv' || python=
    """


def built(version: str) -> str:
    """Commands: a build with assertions on the newest micro release of that Python that can be had, and what
    its tests need."""
    root = f"""
        if ( {ROOT} ); then
            run=".ci/root in build/root" python=python{version} venv=.venv-{version}-root
        fi
    """
    return f"""
        run= python= venv=.venv-{version}
        {root if version in IN_ROOT else ""}
        if [ -z "$run" ]; then
            {interpreter(version)}
        fi
        [ -n "$python" ] || {{ echo "there is no Python {version} here"; exit {SKIPPED}; }}
        with=(VENV="$venv" PYTHON="$python")
        SYNCLESS_BUILD=debug $run make "$venv/.tested" "${{with[@]}}"
    """


def on_python(version: str, *arguments: str, marks: str = "not slow and not realtime") -> str:
    """Commands: that build, and its tests, but for those that must be alone."""
    return f"""
        {built(version)}
        $run make test "${{with[@]}}" ARGS="-m '{marks}' {" ".join(arguments)}"
    """


# of the same Python as the part build, so that nothing is compiled again
WHEEL = """
    empty=$(mktemp -d)
    trap 'rm -rf "$empty"' EXIT
    .venv/bin/python -m venv "$empty/tools"
    .ci/wheels "$empty/tools/bin/python" "$empty"
    git ls-files -z | grep -zv '^syncless/' | xargs -0 cp --parents -t "$empty"
    cd "$empty"
    PYTHONWARNINGS=ignore venv/bin/python -m pip install --quiet --no-compile --group test
    venv/bin/python -m tests tests/stackless tests/http/units -m "not slow and not realtime"
"""

OF_USERS = "README.md Makefile setup.py pyproject.toml .ci tests/conftest.py tests/plugin.py"
"""What a user meets first: the files of which a change can break README.md's commands."""

BARE = f"""
    [ "$(id -u)" = 0 ] || {{ echo "only root can make a root"; exit {SKIPPED}; }}
    .ci/bare build/bare
"""

PARTS = [
    Part(
        "root",
        f"Python {', '.join(IN_ROOT)} of Debian",
        ROOT,
        gate=True,
        aside=True,
        after=(),
    ),
    Part(
        "build",
        "the package, and what the tests need",
        """
            make .venv/.tools
            make .venv/.clients .venv/.linted & # one after the other: both install
            make .venv/.compiled
            wait $!
            make .venv/.built
        """,
        gate=True,
        alone=True,
        after=(),
    ),
    Part(
        "bare-quick",
        "README.md's commands on a machine with nothing else, if what users meet first has changed",
        BARE,
        gate=True,
        aside=True,
        after=("root", "build"),  # either makes a root
        begins_within=140,  # only on a quick machine: it takes minutes beside others, and the gate has twenty
        # a landing has the commits of less than a day
        needed=f"""[ -n "$(git log --since='1 day ago' --format=%h -- {OF_USERS})" ]""",
        covers=("3.13-build", "3.13-quick", "wheel"),  # on a 3.13, from `pip install .`
    ),
    Part("lint", "style and types", "make lint", gate=True, aside=True),
    Part("oldest-build", f"a build for Python {OLDEST}", built(OLDEST), gate=True, aside=True),
    Part("3.13-build", "one for 3.13", built("3.13"), gate=True, aside=True, after=("build", "root")),
    Part("newest-build", f"one for {NEWEST}", built(NEWEST), gate=True, aside=True, after=("build", "root")),
    Part("test", "all tests that are not slow", "make test ARGS=\"-m 'not slow'\"", gate=True, alone=True),
    Part(
        "sanitize-quick", "HTTP and the engine under sanitizers", "make sanitize ARGS='--quick'", gate=True
    ),  # it takes the longest
    Part(
        "newest",
        f"what differs between Pythons, on {NEWEST}",
        on_python(NEWEST, *SELECTION, marks=QUICK),
        gate=True,
        after=("newest-build",),
    ),
    Part(
        "oldest",
        f"the same on {OLDEST}",
        on_python(OLDEST, *SELECTION, marks=QUICK),
        gate=True,
        after=("oldest-build",),
    ),
    Part(
        "simulate-quick",
        "seeded schedules and faults under sanitizers, by seeds that are known to be good, each twice",
        "make simulate SEED=1 SECONDS=30 ARGS='--episodes 60 --twice'",
        gate=True,
        after=("build", "sanitize-quick"),  # whose tree it uses
    ),
    Part(
        "3.13-quick",
        "locks and threads on the newest 3.13, whose locks are not those of its first release",
        on_python("3.13", *QUICK_SELECTION),
        gate=True,
        after=("root", "3.13-build"),
    ),
    Part("wheel", "the wheel, tested in an empty directory without our sources", WHEEL, gate=True),
    Part(
        "fidelity-quick",
        "the interpreter's own tests, patched",
        "make fidelity ARGS='-j3 --quick'",
        gate=True,
    ),
    Part(
        "slow",
        "the tests that are marked slow, with other releases of greenlet",
        """
        install=".venv/bin/python -m pip install --quiet --no-deps --upgrade --target"
        for release in 3.1.1 3.2.5 3.3.2; do
            $install "build/greenlet-$release" "greenlet==$release"
            export SYNCLESS_TEST_GREENLETS=${SYNCLESS_TEST_GREENLETS:-}$PWD/build/greenlet-$release:
        done
        make test ARGS="-m slow"
        make test ARGS=tests/core/test_interpreter_ends.py
        """,
        alone=True,
    ),
    Part(
        "bare",
        "README.md's commands on a machine with nothing else, and with libnghttp2",
        f"""
            {BARE}
            .ci/bare build/bare-http2 libnghttp2-dev
        """,
    ),
    *(
        Part(version, f"what differs between Pythons, on {version}", on_python(version, *WIDE_SELECTION))
        for version in ("3.12", "3.13", "3.14")
    ),
    Part(
        "without-policies",
        "asyncio and ASGI as on Python 3.16",
        # but not with asgiref, which itself asks for what is removed there
        "make test ARGS='-p tests.without_policies tests/asyncio tests/asgi"
        " tests/http2/test_asgi.py tests/http2/test_websocket.py tests/server/test_kinds.py"
        " --ignore tests/asgi/test_asgiref.py'",
    ),
    Part("portable", "a build without the facilities of Linux", "make portable"),
    Part("sanitize", "all tests of native code under sanitizers; fuzzing", "make sanitize"),
    Part(
        "simulate",
        "an hour of seeded schedules and faults under sanitizers",
        "make simulate SECONDS=3600",
        aside=True,
        after=("build", "sanitize"),  # whose tree it uses
        seconds=2 * 3600,
    ),
    Part(
        "schedules",
        "whether users' schedules find faults that the project has had",
        ".venv/bin/python -m tests.testing.faults",
        aside=True,
    ),
    Part(
        "docs",
        "the documentation site, every link of it",
        "make docs && .venv/bin/python -m pytest -q tests/test_benchmark_pages.py",
    ),
    Part(
        "fidelity", "all of the interpreter's own tests, patched", "make fidelity ARGS='--jobs 2'", alone=True
    ),
    Part(
        "gevent",
        "gevent's own tests on our loop, and programs that were written for it and for eventlet",
        """
        # in no environment of tests: a plugin for pytest is among them, which makes gevent's patch
        .venv/bin/python -m pip install --quiet --upgrade --target build/programs \
            locust nameko oslo.service oslo.messaging os-ken
        export SYNCLESS_TEST_PROGRAMS=$PWD/build/programs
        make test ARGS="tests/contrib/test_gevent_programs.py tests/contrib/test_eventlet_programs.py"
        make gevent-suite
        """,
    ),
    Part(
        "soak",
        "good and bad clients, kills and reloads; threads that are relieved",
        "make soak SECONDS=25; make soak SECONDS=25 ARGS='--takeovers 10000'",
        alone=True,
    ),
    Part(
        "hostile",
        "instructions for each byte of hostile clients, by valgrind",
        ".venv/bin/python -m benchmark.hostile",
    ),
    Part(
        "instructions",
        "instructions of a request within their budgets, by valgrind",
        f"""
        case $(.venv/bin/python --version) in *" 3.11."*) ;;
            *) echo the budgets are those of CPython 3.11; exit {SKIPPED};;
        esac
        .venv/bin/python -m benchmark instructions
        """,
    ),
    Part("bench", "whether the benchmarks work", "make bench ARGS=--quick", alone=True),
]


OF_MAKE = ("MAKEFLAGS", "ARGS", "FROM")


@dataclasses.dataclass
class Result:
    part: Part
    outcome: str = "not run"
    seconds: float = 0.0
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    flaky: dict[str, str] = dataclasses.field(default_factory=dict)
    python: str = ""
    """The micro release on which its tests ran."""

    @property
    def log(self) -> pathlib.Path:
        return LOGS / f"{self.part.name}.log"


def run(part: Part) -> Result:
    result = Result(part)
    counts = LOGS / f"{part.name}.counts"
    counts.unlink(missing_ok=True)
    seconds = part.seconds or SECONDS
    began = time.monotonic()
    say(f"{part.name}: {part.does}")
    # `make check ARGS=...` would give its variables to each make of a part, by both of its ways
    surroundings = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    # another part may run beside it
    processes = {} if part.alone else {"SYNCLESS_TEST_PROCESSES": str(processors() * 3 // 2)}
    with result.log.open("wb") as log:
        priority = ["nice", "-n", str(NICE)] if part.aside else []
        process = subprocess.Popen(
            [*priority, "bash", "-euo", "pipefail", "-c", part.commands],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**surroundings, "SYNCLESS_TEST_COUNTS": str(counts.absolute()), **processes},
            start_new_session=True,
        )
        if part.aside:  # where Linux weighs sessions, a process is nice only to the others of its own
            with contextlib.suppress(OSError):
                pathlib.Path(f"/proc/{process.pid}/autogroup").write_text(str(NICE))
        running.add(process)
        if stopping.is_set():  # it has begun meanwhile
            end(process)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            log.write(f"\nended, because it took longer than {seconds:.0f} s\n".encode())
            end(process)
            status = -1
        running.discard(process)
    result.seconds = time.monotonic() - began
    result.outcome = {0: "passed", SKIPPED: "skipped"}.get(status, "FAILED")
    if counts.exists():
        for line in counts.read_text().splitlines():
            found = json.loads(line)
            result.flaky |= found.pop("flaky")
            result.python = found.pop("python", "")
            result.counts += collections.Counter(found)
    lines = result.log.read_text(errors="replace").splitlines()
    shown = lines[-LAST_LINES:] if result.outcome == "FAILED" else lines[-1:]
    say(f"{part.name}: {result.outcome} after {result.seconds:.0f} s", *(f"    {line}" for line in shown))
    return result


running: set[subprocess.Popen[bytes]] = set()
stopping = threading.Event()
told: list[int] = []
"""Signals that have come. An exception could come while a lock of the pool is held, and leave it so."""


def end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def ended_at_last() -> Iterator[None]:
    """Ends what still runs after SIGTERM or Ctrl-C, which `told` has; the pool would wait for it."""
    stopping.clear()
    told.clear()
    numbers = [
        each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN
    ]
    before = {each: signal.signal(each, lambda number, frame: told.append(number)) for each in numbers}
    try:
        yield
    finally:
        stopping.set()
        for process in list(running):
            end(process)
        for number, handler in before.items():
            signal.signal(number, handler)


started = time.monotonic()


def say(*lines: str) -> None:
    print(f"[{time.monotonic() - started:5.0f} s]", "\n".join(lines), flush=True)


def run_all(parts: list[Part]) -> list[Result]:
    """Each part in the order of the list, those that are not alone beside one another."""
    results = {part.name: Result(part) for part in parts}
    waiting = list(parts)
    begun: list[Part] = []
    with concurrent.futures.ThreadPoolExecutor(processors() + ASIDE) as pool, ended_at_last():
        tasks: dict[concurrent.futures.Future[Result], Part] = {}
        while waiting or tasks:
            for part in list(waiting):
                if not may_begin(part, list(tasks.values()), waiting[: waiting.index(part)]):
                    continue
                waiting.remove(part)
                if any(
                    results[name].outcome in ("FAILED", "not run") for name in part.after if name in results
                ):
                    say(f"{part.name}: not run, because {' and '.join(part.after)} failed")
                elif reason := reason_to_skip(part, begun):
                    results[part.name].outcome = "skipped"
                    say(f"{part.name}: skipped, because {reason}")
                else:
                    begun.append(part)
                    tasks[pool.submit(run, part)] = part
            first = concurrent.futures.FIRST_COMPLETED
            done, _ = concurrent.futures.wait(tasks, timeout=0.2, return_when=first)
            if told:
                raise KeyboardInterrupt if told[0] == signal.SIGINT else SystemExit(128 + told[0])
            for task in done:
                results[tasks.pop(task).name] = task.result()
    return list(results.values())


def reason_to_skip(part: Part, begun: list[Part]) -> str:
    """Empty if it must run."""
    for other in begun:
        if part.name in other.covers:
            return f"{other.name} tries the same"
    if time.monotonic() - started > part.begins_within:
        return f"{part.begins_within:.0f} s are over, and the gate has 20 minutes"
    if part.needed and subprocess.run(["bash", "-c", part.needed]).returncode:
        return "nothing has changed that it tries"
    return ""


ASIDE = 2
"""Parts that may run at a time while others do."""


def may_begin(part: Part, beside: list[Part], ahead: list[Part]) -> bool:
    """`beside`: those that run; `ahead`: those before it that have not begun."""
    if any(other.name in part.after for other in (*beside, *ahead)):
        return False
    if part.aside:
        return sum(other.aside for other in beside) < ASIDE
    others = [other for other in beside if not other.aside]
    alone = part.alone or any(other.alone for other in others)
    return all(other.aside for other in ahead) and len(others) < (1 if alone else processors())


def table(results: list[Result]) -> str:
    rows = [("part", "outcome", "seconds", "passed", "failed", "skipped", "flaky", "Python", "log")]
    for each in results:
        numbers = [str(each.counts[name]) if each.counts else "" for name in ("passed", "failed", "skipped")]
        flaky = str(len(each.flaky)) if each.counts else ""
        numbers += [flaky, each.python]
        rows.append((each.part.name, each.outcome, f"{each.seconds:.0f}", *numbers, str(each.log)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def main(arguments: list[str]) -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="python3 -m tests.parts", description=__doc__.partition(":")[0])
    parser.add_argument("--gate", action="store_true", help="the parts that a change must pass to land")
    parser.add_argument("--from", dest="first", choices=names, metavar="PART", help="go on at this part")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help="these parts")
    parser.add_argument("--complete", action="store_true", help="a part that cannot run here has failed")
    parser.add_argument("--list", action="store_true", help="name the parts, and run none")
    options = parser.parse_args(arguments)
    parts = [part for part in PARTS if part.gate or not options.gate]
    if not options.gate:  # the whole has these tests, too
        parts = [part for part in parts if not part.name.endswith("-quick")]
    if options.first:
        parts = parts[[part.name for part in parts].index(options.first) :]
    if options.only:
        parts = [part for part in PARTS if part.name in options.only]
    if options.complete:  # whatever time it takes
        parts = [dataclasses.replace(part, begins_within=math.inf, needed="", covers=()) for part in parts]
    if options.list:
        for part in parts:
            print(f"{part.name:16} {'gate ' if part.gate else '     '} {part.does}")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    results = run_all(parts)
    flaky = {test: log for each in results for test, log in each.flaky.items()}
    print("", table(results), *(f"flaky: {test}, see {log}" for test, log in flaky.items()), "", sep="\n")
    counts = sum((each.counts for each in results), collections.Counter[str]())
    bad = ("FAILED", "not run", *(("skipped",) if options.complete else ()))
    failed = [each.part.name for each in results if each.outcome in bad]
    for release in sorted({each.python for each in results if each.python}):
        if PAGE.exists() and f"| {release} |" not in PAGE.read_text():
            print(f"{PAGE} does not name {release} yet, which was tried here")
    if failed:
        print(f"failed: {', '.join(failed)}")
    if len(flaky) > MOST_FLAKY:
        print(f"failed: {len(flaky)} tests were flaky, and {MOST_FLAKY} may be")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if failed or len(flaky) > MOST_FLAKY else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
