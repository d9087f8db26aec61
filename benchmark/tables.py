"""A result as a table in Markdown, for readers; and the targets of ours that it misses, for us.

``experiment`` is for those with servers and a load, ``grid`` for those within one process.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmark.engine import DIALECTS, THREADS
from benchmark.engine import OPERATIONS as ENGINE
from benchmark.experiments import EXPERIMENTS
from benchmark.figures import amount, compared, middle, number, of, ratio
from benchmark.files import OPERATIONS as FILES
from benchmark.files import PAUSES
from benchmark.models import MODELS, TASKS
from benchmark.names import OPERATIONS as NAMES
from benchmark.patched import OPERATIONS as CALLS
from benchmark.scaling import OPERATIONS as SCALING
from benchmark.stackless import OPERATIONS as STACKLESS
from benchmark.stackless import PUBLISHED

EXTRAS = {
    # figure of a round: (heading, unit)
    "worst connect": ("slowest connection", "ms"),
    "lost": ("lost connections", ""),
    "all written": ("log written after", "ms"),
    "under way": ("lines written at once", ""),
    "the oldest": ("longest-idle connection served after", "ms"),
    "answered of those due": ("% of the due requests served", ""),
    "readings per request": ("readings per request", ""),
    "bytes per idle connection": ("memory per idle connection", "bytes"),
    "cpu_us alone": ("CPU µs without them", ""),
    "alone": ("median without them", "ms"),
    "bytes per half-sent request": ("memory per half-sent request", "bytes"),
}
"""Columns that only some loads have."""
CONNECTING = ("2009", "backlog", "burst", "connections")
"""Experiments of which the slowest connection is shown."""


def markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


WORDS = {
    ", 1 workers": ", 1 worker",
    "a thread stands by": "--standby 1",
    "two threads stand by": "--standby 2",
}


def label(peer: str) -> str:
    """The name of a row as it is shown."""
    for recorded, words in WORDS.items():
        peer = peer.replace(recorded, words)
    return peer


def is_ours(peer: str) -> bool:
    return peer.startswith(("syncless", "log: tasklet"))


def _latency(peer: dict[str, Any]) -> str:
    """The median, the 99th percentile, the worst. A load generator says 0 for what it cannot tell."""
    found = [middle(peer, key) for key in ("p50", "p99", "max")]
    shown = " / ".join(amount(value, "ms") if value else "-" for value in found)
    return shown if " s" in shown else shown.replace(" ms", "", shown.count(" ms") - 1)


def experiment(result: dict[str, Any]) -> str:
    name, peers = result["name"], result["peers"]
    extras = [
        key
        for key in EXTRAS
        if any(of(peer, key) for peer in peers.values()) and (key != "worst connect" or name in CONNECTING)
    ]
    rows = []
    for each in [*peers, *(peer for peer in EXPERIMENTS[name].peers if peer not in peers)]:
        peer = peers.get(each, {"absent": "not yet"})
        if "absent" in peer:
            reason = peer["absent"].removeprefix("AssertionError: ")
            if "has no application" not in reason:
                rows.append([label(each), "", f"not measured: {reason}"])
            continue
        cpu = of(peer, "cpu_us")
        rows.append(
            [
                f"**{label(each)}**" if is_ours(each) else label(each),
                peer["version"],
                f"{number(statistics.median(cpu))} ({number(min(cpu))} to {number(max(cpu))})",
                " / ".join(f"{ratio(result, each, our):.2f}" for our in compared(result, each)),
                number(middle(peer, "rate") or 0),
                _latency(peer),
                *(amount(middle(peer, key) or 0, EXTRAS[key][1]) for key in extras),
            ]
        )
    headings = ["server", "version or kind", "CPU µs per request", "ratio", "requests/s"]
    headings += ["median / 99 % / worst", *(EXTRAS[key][0] for key in extras)]
    return markdown(headings, (row + [""] * (len(headings) - len(row)) for row in rows))


@dataclass
class Grid:
    """An experiment within one process: operations by libraries."""

    heading: str
    text: str
    rows: dict[str, tuple[str, str]]
    """operation -> its name in the table, and its unit, if that is not the text's"""
    libraries: dict[str, str] = field(default_factory=dict)
    """library -> its name in the table, where that differs"""
    ratios: tuple[str, ...] = ()
    """The peers to which there is a ratio"""
    note: str = ""
    best: Callable[[list[float]], float] = statistics.median
    ours: str = "syncless"
    by_library: bool = False
    """A row for each library"""


def named(rows: dict[str, str], unit: str = "") -> dict[str, tuple[str, str]]:
    return {name: (text, unit) for name, text in rows.items()}


LEAST = "CPU time in ns, the least of {rounds} rounds."
GRIDS = {
    "models": Grid(
        "Ten clients at once",
        "Seconds until all have their responses, the least of {rounds} rounds.",
        named({name: f"each {text}" for name, text in TASKS.items()}),
        MODELS,
        best=min,
        by_library=True,
    ),
    "engine": Grid(
        "Engine",
        "CPU time per operation in ns, memory in bytes; medians of {rounds} rounds.",
        named({name: operation.text for name, operation in ENGINE.items()}),
        ratios=("gevent",),
        note=f"{THREADS:,} threads sleep instead of 10,000 and 100,000, because some systems allow no more. "
        "Names and files have tables of their own.",
    ),
    "patched": Grid(
        "Calls that need not wait, and two threads", LEAST, named(CALLS), {}, ("unpatched", "gevent")
    ),
    "asyncio": Grid(
        "Event loops of asyncio",
        f"{LEAST} An echo is 1 KiB there and back, client and server together.",
        {},
        {},
        ("asyncio", "uvloop"),
        best=min,
    ),
    "files": Grid(
        "Files in memory",
        f"{LEAST[:-1]}; pauses: the median.",
        {name: (text, "ms" if name in PAUSES else "") for name, text in FILES.items()},
        {},
        ("unpatched", "gevent"),
        "Unpatched: the pauses are those of threads. asyncio and uvloop have no files and use "
        "`asyncio.to_thread()`.",
        min,
    ),
    "names": Grid("Looking up names", "Medians of {rounds} rounds.", NAMES),
    "stackless": Grid(
        "Stackless's operations",
        "CPU time in ns, medians of {rounds} rounds. goless is Go's channels in Python, on Stackless's API "
        "or on gevent.",
        {name: (text, "") for name, (text, _) in STACKLESS.items()},
        note=PUBLISHED,
    ),
    "scaling": Grid(
        "The cost of a request in two native threads",
        "Medians of {rounds} rounds. Each thread has a core, which it shares with its clients.",
        {name: (text, "") for name, (text, _) in SCALING.items()},
        {},
        ("one thread",),
        ours="two threads",
    ),
}


def grid(result: dict[str, Any]) -> str:
    """A row for each operation, a column for each library, or the other way round."""
    given = GRIDS[result["name"]]
    measured = {library: values for library, values in result["libraries"].items() if values}
    rows = given.rows or named({name: name for name in measured[given.ours]})
    found = {
        library: {
            name: (statistics.median if name in PAUSES else given.best)(values[name])
            for name in rows
            if name in values
        }
        for library, values in measured.items()
    }
    lines = []
    for name, (text, unit) in rows.items():
        if not any(name in each for each in found.values()):  # added since
            continue
        cells = [amount(each[name], unit) if name in each else "-" for each in found.values()]
        for peer in given.ratios:
            ours, theirs = (found.get(library, {}).get(name) for library in (given.ours, peer))
            cells.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "-")
        lines.append([text, *cells])
    headings = ["", *(given.libraries.get(library, library) for library in found)]
    headings += [f"{given.ours} : {peer}" for peer in given.ratios]
    table = [headings, *lines]
    if given.by_library:
        table = [list(line) for line in zip(*table, strict=True)]
    return markdown(table[0], table[1:])


def missed(result: dict[str, Any]) -> list[str]:
    """The targets of ours that a result misses, a sentence each."""
    name, found = result["name"], []
    if name in EXPERIMENTS:
        wanted = EXPERIMENTS[name]
        for peer in result["peers"]:
            for our in compared(result, peer):
                part, most = ratio(result, peer, our), wanted.targets.get(peer)
                if most and part > most:
                    found.append(f"{our} needs {part:.2f} of the CPU time of {peer}, at most {most:.2f}")
                times, least = ratio(result, peer, our, "rate"), wanted.rates.get(peer)
                if least and times < least:
                    found.append(
                        f"{our} serves {times:.0f} times as many requests as {peer}, at least {least}"
                    )
    values = result.get("libraries", {})
    pairs = {
        "engine": [
            *((each, "syncless", operation.peer, operation.most) for each, operation in ENGINE.items()),
            *DIALECTS,
        ],
        "scaling": [(each, "two threads", "one thread", most) for each, (_, most) in SCALING.items() if most],
    }
    for operation, ours, theirs, most in pairs.get(name, ()):
        if all(operation in values.get(each, {}) for each in (ours, theirs)):
            part = statistics.median(values[ours][operation]) / statistics.median(values[theirs][operation])
            if part > most:
                found.append(f"{operation}: {ours} needs {part:.2f} of {theirs}, at most {most:.2f}")
    return [f"{name}: target missed: {each}" for each in found]
