"""``python -m benchmark [EXPERIMENT ...]``: measures, keeps the raw output under results/ if the machine was
quiet, prints tables with the ratios."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import platform
import signal
import subprocess
import sys
import time
from typing import Any

from benchmark import applications, blocking, instructions, quiet, report, tables
from benchmark.engine import LIBRARIES
from benchmark.experiments import EXPERIMENTS, Experiment, Scale
from benchmark.measure import CORES, SERVER_CORE, machine
from benchmark.models import MODELS, TASKS
from benchmark.rounds import in_rounds, say
from benchmark.scaling import PARTS, THREADS
from benchmark.servers import PEERS, Running
from benchmark.stackless import LIBRARIES as STACKLESS

OURS = (":/setup.py", ":/syncless")
"""What is measured, as paths of git."""


def measured(server: Running, experiment: Experiment, scale: Scale) -> dict[str, Any]:
    """The load of an experiment, and what the server needed for it."""
    server.measured_from = server.cpu_ns
    load = experiment.load(server, scale)
    used = server.cpu_ns - server.measured_from
    return {
        "cpu_us": used / load.requests / 1000 if load.requests else 0.0,
        "rate": load.requests / load.seconds,
        "requests": load.requests,
        "errors": load.errors,
        "latency_ms": load.latency_ms,
        **({"distribution": load.distribution} if load.distribution else {}),
        "raw": load.raw,
    }


def run_experiment(experiment: Experiment, scale: Scale, only: list[str] | None) -> dict[str, Any]:
    """All peers, in rounds."""
    peers = [PEERS[name] for name in experiment.peers if not only or name in (*experiment.ours, *only)]
    found = in_rounds(
        experiment.name,
        peers,
        experiment.application,
        scale.rounds,
        lambda server: measured(server, experiment, scale),
    )
    return {"name": experiment.name, "title": experiment.title, "peers": found}


def rounds_of(name: str, rounds: int) -> int:
    return min(2, rounds) if name == "models" else rounds  # of which one takes three minutes


def run_calls(
    name: str, libraries: list[str], parts: list[str], scale: Scale, divisor: int
) -> dict[str, Any]:
    """An experiment within one process (engine, patched): the libraries take turns, each in processes of its
    own."""
    found: dict[str, dict[str, list[float]]] = {library: {} for library in libraries}
    absent: dict[str, str] = {}
    rounds = rounds_of(name, scale.rounds)
    cores = ",".join(map(str, CORES)) if name in ("models", "scaling") else str(SERVER_CORE)
    for number in range(rounds):
        for library, values in found.items():
            if library in absent:
                continue
            say(f"{name}: round {number + 1} of {rounds}, {library}")
            for part in parts:
                command = [
                    "taskset",
                    "-c",
                    cores,
                    sys.executable,
                    "-m",
                    f"benchmark.{name}",
                    library,
                    part,
                    str(divisor),
                ]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode or not done.stdout:
                    reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
                    say(f"{name}: {library} cannot be measured: {reason}")
                    absent[library] = reason
                    continue
                for operation, value in json.loads(done.stdout).items():
                    values.setdefault(operation, []).append(value)
    return {"name": name, "rounds": rounds, "libraries": found, "absent": absent}


CALLS: dict[str, tuple[list[str], list[str]]] = {
    "engine": (LIBRARIES, ["time", "schedule", "memory 10k", "memory"]),
    "stackless": (list(STACKLESS), ["time"]),
    "patched": (["unpatched", "syncless", "gevent"], ["time"]),
    "files": (["unpatched", "syncless", "gevent", "eventlet", "asyncio", "uvloop", "go"], ["time"]),
    "asyncio": (["asyncio", "uvloop", "syncless"], ["time"]),
    "models": (list(MODELS), list(TASKS)),
    "scaling": (list(THREADS), PARTS),
    "names": (
        ["syncless", "in threads", "gevent", "eventlet", "asyncio", "uvloop", "threads", "go"],
        ["time"],
    ),
}
"""Experiments within one process -> the libraries, and the parts that need a process each."""


GROUPS = {
    name: [each for each in EXPERIMENTS if each.startswith(prefixes)]
    for name, prefixes in {
        "asgi": ("asgi-", "websocket-"),
        "http2": ("http2-",),
        "httparena": ("httparena-",),
        "native": ("native",),
        "standby": ("held-", "standby-"),
        "kernel": ("uring-", "zerocopy"),
        "wsgi": ("wsgi-",),
    }.items()
}
"""Names for several experiments."""
GROUPS["native"].append("scaling")
GROUPS["applications"] = list(applications.SITES)

ATTEMPTS = 3
"""How often a run may try an experiment: what noise has spoilt is measured again after the rest."""

QUICK = [
    "keepalive",
    "slowlog-10000",
    "cores-fib-2",
    "wsgi-json",
    "asgi-hello",
    "websocket-200",
    "models",
    "engine",
    "patched",
    "files",
    "names",
    "blocking",
    "applications-flask",
]
"""The choice of --quick if nothing is chosen: one of each kind."""


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in (
        "syncless",
        "greenlet",
        "gevent",
        "eventlet",
        "uvloop",
        "bjoern",
        "flask",
        "django",
        "goless",
    ):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def is_recorded(name: str, rounds: int) -> bool:
    """Whether the kept result of an experiment is of this code of ours, with as many rounds."""
    path = report.RESULTS / f"{name}.json"
    if not path.exists():
        return False
    result = json.loads(path.read_text())
    peers = result.get("peers", {}).values()
    counts = {len(peer["rounds"]) for peer in peers if "rounds" in peer} or {result.get("rounds")}
    commit = result.get("commit", "")
    return counts == {rounds_of(name, rounds)} and commit != "" and quiet.is_as_in(commit, *OURS)


def is_measured(name: str, scale: Scale, options: argparse.Namespace) -> bool:
    """Measures one experiment, and keeps its result unless the run is quick. False, with the reason on
    stderr, if the result would mislead."""
    watch = None if options.quick else quiet.Watch()
    if watch and (reasons := quiet.refusals({"load_before": watch.load_before})):
        say(f"{name}: not measured: {reasons[0]}")
        return False
    if name in CALLS:
        libraries, parts = CALLS[name]
        some = parts[:1] if name == "engine" and options.quick else parts
        result = run_calls(name, libraries, some, scale, 20 if options.quick else 1)
    elif name in applications.SITES:
        result = applications.run(name, scale, options.peers, options.quick)
    else:
        result = run_experiment(EXPERIMENTS[name], scale, options.peers)
    result.update(
        command="python -m benchmark " + " ".join(sys.argv[1:]),
        date=datetime.date.today().isoformat(),
        commit=quiet.commit(),
        machine=machine(),
        versions=versions(),
    )
    reasons = []
    if watch:
        peers = result.get("peers")
        one = EXPERIMENTS.get(name)
        ours = () if peers is None else one.ours if one else applications.OURS
        result["conditions"] = watch.end(result, ours, one.agrees if one else "cpu_us")
        reasons = quiet.refusals(result["conditions"])
        if peers is not None:
            reasons += ["only some peers were measured"] if options.peers else []
            reasons += [] if any("rounds" in each for each in peers.values()) else ["there is no server"]
        if not reasons:
            report.RESULTS.mkdir(exist_ok=True)
            (report.RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
            return True
        say(f"{name}: not recorded: {'; '.join(reasons)}")
    print(table_of(result), end="\n\n", flush=True)
    return not reasons


def table_of(result: dict[str, Any]) -> str:
    name = result["name"]
    if name in applications.SITES:
        return applications.table(result)
    return "\n\n".join([f"## {report.heading(name)}", report.table(result), *tables.missed(result)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmark", description=__doc__)
    choices = [*EXPERIMENTS, *CALLS, *applications.SITES, "blocking", "instructions", "report"]
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"{', '.join([*choices, *GROUPS])}; default: all"
    )
    parser.add_argument("--peers", action="append", help="only this peer beside syncless; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--seconds", type=int, default=4, help="of each wrk run (default 4)")
    parser.add_argument("--requests", type=int, default=100_000, help="of each ab run (default 100000)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two minutes, to see that it works: by default one experiment of each kind; the figures mean "
        "little and are not kept",
    )
    parser.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="leave out what is recorded already with as many rounds of the same code of syncless",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write docs/benchmarks.md, its chapters and the plots, from the last results",
    )
    options = parser.parse_args()
    named = [each for name in options.experiments for each in GROUPS.get(name, [name])]
    unknown = [name for name in named if name not in choices]
    if unknown:
        parser.error(f"unknown experiment {unknown[0]!r}; choose from {', '.join(choices)}")
    if len(CORES) < 2:
        say("The machine has only one core, which server and load share, so the figures mean little.")
    scale = (
        Scale(1, 3000, 1, 500) if options.quick else Scale(options.seconds, options.requests, options.rounds)
    )
    chosen = named or (QUICK if options.quick else [*EXPERIMENTS, *CALLS, "blocking"])
    if options.go_on:
        chosen = [name for name in chosen if not is_recorded(name, scale.rounds)]
    started = time.monotonic()
    within_budget = "instructions" not in chosen or instructions.within_budget()
    left = [name for name in chosen if name not in ("report", "blocking", "instructions")]
    refused: list[str] = []
    for _ in range(1 if options.peers else ATTEMPTS):
        refused = []
        for number, name in enumerate(left, 1):
            if not is_measured(name, scale, options):
                refused.append(name)
            say(f"{name}: ended after {time.monotonic() - started:.0f} s, {len(left) - number} left")
        left = refused
    if "blocking" in chosen:
        blocking.table(options.quick)
    kept = [name for name in chosen if name not in ("report", "blocking", "instructions", *refused)]
    if not options.quick and (kept or "report" in chosen):
        sites = [name for name in kept if name in applications.SITES]
        for name in sites:
            print(applications.table(json.loads((report.RESULTS / f"{name}.json").read_text())), end="\n\n")
        if kept != sites or not kept:
            print(report.tables_of([name for name in kept if name not in sites] or None))
    if options.write:
        report.write()
    return 1 if refused or not within_budget else 0


if __name__ == "__main__":
    # as Ctrl-C does: the server that is measured ends, too
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
