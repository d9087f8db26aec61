"""Tables from results/*.json, in Markdown. ``python -m benchmark report`` prints them; ``--write`` writes
docs/benchmarks.md."""

from __future__ import annotations

import json
import pathlib
import statistics
import textwrap
from collections.abc import Callable
from typing import Any

from benchmark.arena import ARENA
from benchmark.engine import OPERATIONS, THREADS
from benchmark.experiments import EXPERIMENTS
from benchmark.files import OPERATIONS as FILES
from benchmark.files import PAUSES
from benchmark.models import MODELS, TASKS
from benchmark.names import OPERATIONS as NAMES
from benchmark.patched import OPERATIONS as CALLS
from benchmark.scaling import OPERATIONS as SCALING
from benchmark.stackless import OPERATIONS as STACKLESS
from benchmark.stackless import PUBLISHED

RESULTS = pathlib.Path(__file__).parent / "results"
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
PLOTS = PAGE.parent / "plots"
WSGI = [f"wsgi-{each}" for each in ("hello", "json", "big", "sleep", "pipelined", "logged")]
CHAPTERS: tuple[tuple[str, list[str]], ...] = (
    (
        "Hello against Node: the experiment of 2009",
        [
            *("2009", "2009-kept", "backlog", "burst"),
            *("keepalive", "keepalive-1", "keepalive-1000", "keepalive-10000"),
            *("headers", "connections", "pipelined"),
        ],
    ),
    ("Concurrency models", ["models"]),
    ("A slow operation behind a request", ["slowlog", "slowlog-10000", "held-c", "held-python"]),
    (
        "Threads that stand by",
        ["held-two", "held-idle", "standby-keepalive", "standby-connections", "standby-sleep"],
    ),
    ("What it costs to record the waits of each request", ["recorder-hello", "recorder-sleep"]),
    ("A timer after the answer: uWSGI", ["calllater"]),
    ("Several cores: Go", ["cores-hello-1", "cores-hello-2", "cores-fib-1", "cores-fib-2"]),
    (
        "Native handlers",
        [
            *("native", "native-coroutines", "native-pipelined", "native-fib"),
            *("native-threads", "scaling", "native-beside", "native-idle"),
        ],
    ),
    ("WSGI servers", [*WSGI, "idle", "accesslog", "halfsent", "sleep", "sleep-10000", "flask", "django"]),
    (
        "ASGI servers, and WebSockets",
        [f"asgi-{each}" for each in ("hello", "connections", "pipelined", "fastapi", "fastapi-sync")]
        + ["asgi-requests", "asgi-session"]
        + ["websocket-200", "websocket-1000"],
    ),
    ("HTTP/2, and TLS", ["http2-hello", "http2-tls", "http2-big", "tls-hello"]),
    ("Shapes of HttpArena", [experiment.name for experiment in ARENA]),
    (
        "Kernel interfaces that syncless does not use",
        ["uring-keepalive", "uring-keepalive-1000", "uring-connections", "uring-pipelined", "zerocopy"],
    ),
    ("The engine, and what the patch costs", ["engine", "stackless", "asyncio", "names", "files", "patched"]),
)
INTRODUCTION = """# Benchmarks

The tables compare the server's CPU time per request, because rates depend on the load generator. Where a peer
is better, the table says so. [benchmark/README.md](../benchmark/README.md) says how everything is measured,
what the numbers do not say, and how to add a peer. `make bench` repeats the experiments, and
`python -m benchmark report --write` writes this page from the results in `benchmark/results/`.

![CPU time per request: syncless beside Node, bjoern, and gunicorn with gevent](plots/overview.svg)

The experiment of 2009 that this project comes from compared a hello-world server in Stackless Python, which
parsed nothing, with Node.js, and found that it answered 1.925 times as many requests. The first chapter
repeats it with the same raw server and with the complete HTTP server."""


def middle(rounds: list[dict[str, Any]], key: str) -> float:
    return statistics.median(r[key] for r in rounds)


def ratio(result: dict[str, Any], peer: str, our: str = "syncless") -> float:
    """Our CPU time per request divided by the peer's: the median over the rounds, as both ran in each."""
    ours, theirs = result["peers"][our]["rounds"], result["peers"][peer]["rounds"]
    return statistics.median(a["cpu_us"] / b["cpu_us"] for a, b in zip(ours, theirs))  # noqa: B905


def compared_rows(result: dict[str, Any], peer: str) -> list[str]:
    """Our rows that are compared with this peer."""
    rows = EXPERIMENTS[result["name"]].compared(peer) if "rounds" in result["peers"].get(peer, {}) else ()
    return [our for our in rows if "rounds" in result["peers"].get(our, {})]


def needs_of(result: dict[str, Any], peer: str) -> str:
    """The CPU ratios of our rows that are compared with this peer."""
    found = compared_rows(result, peer)
    named = [f"{our.rpartition(', ')[2]}: " if our != found[0] else "" for our in found]
    pairs = zip(named, found, strict=True)
    return "; ".join(f"{name}{ratio(result, peer, our):.2f}" for name, our in pairs)


def goal_of(result: dict[str, Any], peer: str) -> str:
    """The largest CPU ratio that we want, and whether it is exceeded."""
    target = EXPERIMENTS[result["name"]].targets.get(peer)
    if target is None:
        return ""
    missed = any(ratio(result, peer, our) > target for our in compared_rows(result, peer))
    return f"{target:.2f}" + (" (missed)" if missed else "")


def median_of(peer: dict[str, Any], figure: Callable[[dict[str, Any], dict[str, Any]], float]) -> float:
    """The median of figure(round, its latencies)."""
    return statistics.median(figure(r, r["latency_ms"]) for r in peer["rounds"])


def latency_of(peer: dict[str, Any], key: str) -> float:
    return median_of(peer, lambda _, latency: latency[key])


COLUMNS = (
    *("server", "CPU µs per request (least..most)", "requests/s", "p50 / p99 / worst, ms"),
    *("CPU ratio, syncless : peer", "target, at most"),
)


def experiment_table(result: dict[str, Any]) -> str:
    lines = [
        f"### {result['title']}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---|---|",
    ]
    for name, peer in result["peers"].items():
        if "absent" in peer:
            lines.append(f"| {name} | absent: {peer['absent']} | | | | |")
            continue
        rounds = peer["rounds"]
        cpu = [r["cpu_us"] for r in rounds]
        latency = " / ".join(f"{latency_of(peer, key):.3g}" for key in ("p50", "p99", "max"))
        shown = f"**{name}** " if name in ("syncless", "syncless (ASGI)") else f"{name} {peer['version']}"
        cells = [
            shown,
            f"{statistics.median(cpu):.2f} ({min(cpu):.2f}..{max(cpu):.2f})",
            f"{middle(rounds, 'rate'):,.0f}",
            latency,
            needs_of(result, name),
            goal_of(result, name),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    ran = {name: peer for name, peer in result["peers"].items() if "rounds" in peer}
    experiment = EXPERIMENTS[result["name"]]
    for name, least in experiment.rates.items():
        for our in compared_rows(result, name):
            times = middle(ran[our]["rounds"], "rate") / middle(ran[name]["rounds"], "rate")
            missed = "" if times >= least else ", missed"
            lines.append(
                f"\n{our} answers {times:.0f} times as many requests as {name} (at least {least}{missed})."
            )
    if experiment.note:
        lines.append(f"\n{experiment.note}")
    if result["name"] in ("idle", "native-idle"):
        for name, peer in ran.items():
            each = latency_of(peer, "bytes per idle connection")
            kept = median_of(peer, lambda r, ms: ms["cpu_us alone"] / r["cpu_us"])
            lines.append(
                f"\n{name}: {each:,.0f} bytes of private memory for each idle connection; "
                f"the active connections are {kept:.2f} times as fast as without them (CPU)."
            )
    if result["name"] == "halfsent":
        for name, peer in ran.items():
            each = latency_of(peer, "bytes per half-sent request")
            times = median_of(peer, lambda _, ms: ms["p50"] / ms["alone"])
            goal = " (at most 2)" if name == "syncless" else ""
            lines.append(
                f"\n{name}: a hello takes {times:.2f} times as long as without half-sent requests{goal}; "
                f"{each:,.0f} bytes for each half-sent request."
            )
    for key, text in EXTRAS.items():
        if key == "worst connect" and result["name"] not in CONNECTING:
            continue
        for name, peer in ran.items():
            if key in peer["rounds"][0]["latency_ms"]:
                values = [measured["latency_ms"][key] for measured in peer["rounds"]]
                lines.append(f"\n{name}: {text.format(statistics.median(values), min(values), max(values))}")
    if result["name"] == "accesslog":
        logged = result["peers"]["syncless, access log"]
        if "rounds" in logged:
            pairs = zip(logged["rounds"], result["peers"]["syncless"]["rounds"])  # noqa: B905
            more = statistics.median(a["cpu_us"] - b["cpu_us"] for a, b in pairs)
            lines.append(
                f"\nThe access log costs {more:.2f} µs of CPU per request (at most 1.0), "
                "including its writing thread."
            )
    return "\n".join(lines)


EXTRAS = {
    "worst connect": "the slowest connection took {0:,.0f} ms ({1:,.0f}..{2:,.0f}).",
    "lost": "{0:,.0f} connections were reset or got no answer ({1:,.0f}..{2:,.0f}).",
    "all written": "all lines were in the log after {0:,.0f} ms.",
    "under way": "{0:,.0f} lines were under way at once.",
    "the oldest": "the connection that had been idle for longest had its answer after {0:.0f} ms.",
    "answered of those due": "{0:.1f} % of the other requests that were due were answered.",
    "readings per request": "{0:.0f} reading(s) per request were done.",
}
"""Further figures of some loads -> a sentence for each."""
CONNECTING = ("2009", "backlog", "burst", "connections")


def models_table(result: dict[str, Any]) -> str:
    measured = f"Seconds until all have their answers, the least of {result['rounds']} rounds"
    lines = [
        "### Ten clients at once",
        "",
        f"{measured}.",
        "",
        "| model | " + " | ".join(f"each {text}" for text in TASKS.values()) + " |",
        "|---|" + "---|" * len(TASKS),
    ]
    for name, text in MODELS.items():
        values = result["libraries"][name]
        absent = f"absent: {result['absent'].get(name)}"
        cells = [f"{min(values[task]):.1f}" if task in values else absent for task in TASKS]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def engine_table(result: dict[str, Any]) -> str:
    libraries = {name: values for name, values in result["libraries"].items() if values}
    shown = [name for name in libraries if name != "greenlet"]
    versions = {"asyncio": result["versions"]["python"], **result["versions"]}
    lines = [
        "### Engine",
        "",
        f"CPU ns per operation, memory in bytes; medians of {result['rounds']} rounds.",
        "",
        "| operation | "
        + " | ".join(f"{name} {versions.get(name, '')}".strip() for name in shown)
        + " | ratio, syncless : peer | target, at most |",
        "|---|" + "---|" * len(shown) + "---|---|",
    ]
    for name, operation in OPERATIONS.items():
        measured = {library: values[name] for library, values in libraries.items() if name in values}
        middles = {library: statistics.median(values) for library, values in measured.items()}
        cells = [f"{middles[library]:,.0f}" if library in middles else "" for library in shown]
        needs = goal = ""
        if operation.peer in middles:
            part = middles["syncless"] / middles[operation.peer]
            needs = f"{part:.2f} (to {operation.peer})"
            goal = f"{operation.most:.2f}" + ("" if part <= operation.most else " (missed)")
        lines.append(f"| {operation.text} | {' | '.join(cells)} | {needs} | {goal} |")
    lines += [f"\n{library}: absent: {reason}" for library, reason in result["absent"].items()]
    lines.append(
        f"\nThreads: {THREADS:,} sleep in place of 10,000 and 100,000, because some systems allow no more. "
        "Names and files have tables of their own. Empty: the library has no such operation."
    )
    return "\n".join(lines)


def patched_table(result: dict[str, Any]) -> str:
    measured = f"CPU ns, the least of {result['rounds']} rounds; gevent {result['versions']['gevent']}"
    lines = [
        "### Calls where nothing has to wait, and between two threads",
        "",
        f"{measured}.",
        "",
        "| call | unpatched | syncless | gevent | syncless : unpatched | syncless : gevent |",
        "|---|---|---|---|---|---|",
    ]
    for name, text in CALLS.items():
        least = {library: min(values[name]) for library, values in result["libraries"].items()}
        before, ours, theirs = (least[library] for library in ("unpatched", "syncless", "gevent"))
        figures = f"{before:,.0f} | {ours:,.0f} | {theirs:,.0f}"
        lines.append(f"| {text} | {figures} | {ours / before:.2f} | {ours / theirs:.2f} |")
    return "\n".join(lines)


def asyncio_table(result: dict[str, Any]) -> str:
    measured = f"CPU ns, the least of {result['rounds']} rounds; uvloop {result['versions'].get('uvloop')}"
    lines = [
        "### Event loops of asyncio",
        "",
        f"{measured}. An echo is 1 KiB there and back, client and server together.",
        "",
        "| operation | asyncio | uvloop | syncless | syncless : asyncio | syncless : uvloop |",
        "|---|---|---|---|---|---|",
    ]
    least = {
        library: {name: min(numbers) for name, numbers in values.items()}
        for library, values in result["libraries"].items()
        if values
    }
    for name, ours in least["syncless"].items():
        cells = [
            f"{least[library][name]:,.0f}" if library in least else "-" for library in result["libraries"]
        ]
        shares = [
            f"{ours / least[peer][name]:.2f}" if peer in least else "-" for peer in ("asyncio", "uvloop")
        ]
        lines.append(f"| {' | '.join([name, *cells, *shares])} |")
    return "\n".join(lines)


def files_table(result: dict[str, Any]) -> str:
    libraries = result["libraries"]
    measured = f"CPU ns, the least of {result['rounds']} rounds; of pauses the median"
    lines = [
        "### Files in memory",
        "",
        f"{measured}; gevent {result['versions']['gevent']}.",
        "",
        f"| call | {' | '.join(libraries)} | syncless : unpatched | syncless : gevent |",
        "|---|" + "---|" * (len(libraries) + 2),
    ]
    for name, text in FILES.items():
        best, form = (statistics.median, "{:,.1f} ms") if name in PAUSES else (min, "{:,.0f}")
        found = {library: best(values[name]) for library, values in libraries.items() if name in values}
        cells = [form.format(found[library]) if library in found else "-" for library in libraries]
        peers = ("unpatched", "gevent")
        ratios = [f"{found['syncless'] / found[peer]:.2f}" if peer in found else "" for peer in peers]
        lines.append(f"| {text} | {' | '.join(cells)} | {' | '.join(ratios)} |")
    lines.append(
        "\nUnpatched: the pauses are those of threads. asyncio and uvloop have no files and use "
        "`asyncio.to_thread()`."
    )
    lines += [f"\n{library}: absent: {reason}" for library, reason in result["absent"].items()]
    return "\n".join(lines)


def names_table(result: dict[str, Any]) -> str:
    libraries = result["libraries"]
    lines = [
        "### Looking up names",
        "",
        f"Medians of {result['rounds']} rounds.",
        "",
        "| | " + " | ".join(libraries) + " |",
        "|---|" + "---|" * len(libraries),
    ]
    for name, (text, unit) in NAMES.items():
        found = [values.get(name) for values in libraries.values()]
        shown = [f"{statistics.median(values):,.2f} {unit}" if values else "-" for values in found]
        lines.append(f"| {text} | {' | '.join(shown)} |")
    lines += [f"\n{library}: absent: {reason}" for library, reason in result["absent"].items()]
    return "\n".join(lines)


def stackless_table(result: dict[str, Any]) -> str:
    libraries = result["libraries"]
    goless, gevent = (result["versions"][name] for name in ("goless", "gevent"))
    measured = f"CPU ns, medians of {result['rounds']} rounds"
    lines = [
        "### Stackless's operations",
        "",
        f"{measured}. goless {goless} is Go's channels in Python, on Stackless's API or on gevent {gevent}.",
        "",
        "| | " + " | ".join(libraries) + " |",
        "|---|" + "---|" * len(libraries),
    ]
    for name, (text, _) in STACKLESS.items():
        found = [values.get(name) for values in libraries.values()]
        shown = [f"{statistics.median(values):,.0f}" if values else "-" for values in found]
        lines.append(f"| {text} | {' | '.join(shown)} |")
    lines += [f"\n{library}: absent: {reason}" for library, reason in result["absent"].items()]
    return "\n".join([*lines, "", PUBLISHED])


def scaling_table(result: dict[str, Any]) -> str:
    libraries = result["libraries"]
    measured = f"Medians of {result['rounds']} rounds; a ratio is the median of the rounds' ratios."
    lines = [
        "### What a request costs in two native threads beside one",
        "",
        f"{measured} Each thread has a core, which it shares with its clients.",
        "",
        f"| | {' | '.join(libraries)} | two : one | target, at most |",
        "|---|" + "---|" * (len(libraries) + 2),
    ]
    for name, (text, most) in SCALING.items():
        found = [values[name] for values in libraries.values()]
        cells = [f"{statistics.median(values):,.2f}".removesuffix(".00") for values in found]
        needs = goal = ""
        if name in ("cpu", "instructions", "calls"):
            part = statistics.median(two / one for one, two in zip(*found, strict=True))
            needs = f"{part:.2f}"
            goal = f"{most:.2f}" + ("" if part <= most else " (missed)") if most else ""
        elif name == "waits":
            goal = "0" if not any(map(sum, found)) else "0 (missed)"
        lines.append(f"| {' | '.join([text, *cells, needs, goal])} |")
    return "\n".join(lines)


def table(result: dict[str, Any]) -> str:
    special = {
        "scaling": scaling_table,
        "stackless": stackless_table,
        "models": models_table,
        "engine": engine_table,
        "patched": patched_table,
        "asyncio": asyncio_table,
        "names": names_table,
        "files": files_table,
    }
    return special.get(result["name"], experiment_table)(result)


def shown(name: str) -> str:
    """The table of an experiment's last results, with its plot and its origin. Empty without results."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    machine = result["machine"]
    plot = f"![{name}](plots/{name}.svg)\n\n" if (PLOTS / f"{name}.svg").exists() else ""
    origin = (
        f"<small>`{result['command']}`, {result['date']}, {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['system']} {machine['kernel']}, Python {result['versions']['python']}{run_of(result)}; "
        f"raw: `benchmark/results/{name}.json`</small>"
    )
    return wrapped(f"{table(result)}\n\n{plot}{origin}")


def run_of(result: dict[str, Any]) -> str:
    """The commit, and the processors that others used before. Older results have neither."""
    if "conditions" not in result:
        return ""
    return f", commit {result['commit']}, load before {result['conditions']['load_before']:.2f}"


def wrapped(text: str) -> str:
    """Lines of prose, at most 118 columns wide. The rows of a table stay as they are."""
    return "\n".join(
        line
        if line.startswith("|")
        else textwrap.fill(line, 118, break_on_hyphens=False, break_long_words=False)
        for line in text.splitlines()
    )


def tables(names: list[str] | None = None) -> str:
    """The tables of some experiments, by default of all."""
    parts = [shown(name) for name in names or [name for _, names in CHAPTERS for name in names]]
    return "\n\n".join(filter(None, parts)) or "There are no results yet: `make bench` makes them."


def page() -> str:
    """docs/benchmarks.md: every experiment that has results."""
    parts = [INTRODUCTION]
    for title, names in CHAPTERS:
        found = [text for name in names if (text := shown(name))]
        if found:
            parts += [f"## {title}", *found]
    return "\n\n".join(parts) + "\n"


def write_page() -> None:
    PAGE.write_text(page())
