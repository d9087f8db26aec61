"""The pages of the benchmarks, from results/*.json: ``python -m benchmark report`` prints the tables, with
``--write`` it writes docs/benchmarks.md, docs/benchmarks/ and docs/plots/.

chapters.py says what is on which page, tables.py and bars.py how a result is shown.
"""

from __future__ import annotations

import json
import pathlib
import re
import textwrap
from typing import Any

from benchmark import tables
from benchmark.bars import Panel, Row, draw
from benchmark.chapters import CHAPTERS, INTRODUCTION, LEGEND, LOADS, OVERVIEW, PEERS, THEN, Chapter, Load
from benchmark.experiment import P99
from benchmark.experiments import EXPERIMENTS
from benchmark.figures import amount, compared, middle, number, ratio

RESULTS = pathlib.Path(__file__).parent / "results"
DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
LEAST_ROWS = 3
"""Of a table that also has a picture."""
BETTER = 1.05
"""A peer is better if our figure is so many times its own, or more."""


def recorded(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def heading(name: str) -> str:
    return EXPERIMENTS[name].heading if name in EXPERIMENTS else tables.GRIDS[name].heading


def anchor(name: str) -> str:
    """The table of an experiment, from the first page; the page alone without results."""
    page = next(each.slug for each in CHAPTERS if name in each.experiments)
    slug = re.sub(r"[^\w\- ]", "", heading(name).lower()).replace(" ", "-")
    return f"benchmarks/{page}.md" + (f"#{slug}" if recorded(name) else "")


def table(result: dict[str, Any]) -> str:
    """What is measured, the table, and what it does not say."""
    name = result["name"]
    if name in EXPERIMENTS:
        one = EXPERIMENTS[name]
        return "\n\n".join(filter(None, [f"Load: {one.load_text}.", tables.experiment(result), one.note]))
    one = tables.GRIDS[name]
    absent = [f"{library} is not measured: {why}." for library, why in result["absent"].items()]
    text = one.text.format(rounds=result["rounds"])
    return "\n\n".join(filter(None, [text, tables.grid(result), one.note, *absent]))


def origins(results: list[dict[str, Any]]) -> str:
    """When, where and of which code the results are; one sentence if they are of one run."""
    found: dict[str, list[str]] = {}
    for result in results:
        machine, versions = result["machine"], result["versions"]
        text = f"{result['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['system']} "
        text += f"{machine['kernel']}, Python {versions['python']}"
        text += f", commit {result['commit']}" if result.get("commit") else ""
        found.setdefault(text, []).append(result["name"])
    load = max((result.get("conditions", {}).get("load_before", 0) for result in results), default=0)
    lines = [f"{', '.join(names)}: {text}" if len(found) > 1 else text for text, names in found.items()]
    return (
        f"<small>Measured {'; '.join(lines)}; load before at most {load:.2f}. The commands and the raw "
        "output are in `benchmark/results/`.</small>"
    )


def panel(name: str, title: str = "") -> Panel:
    """The bars of an experiment, the best first."""
    result, measure = recorded(name) or {}, EXPERIMENTS[name].measure
    rows = [
        Row(tables.label(peer), value, amount(value, measure.unit), tables.is_ours(peer))
        for peer, entry in result.get("peers", {}).items()
        if (value := middle(entry, measure.key)) is not None
    ]
    return Panel(title, measure.note, _best_first(name, rows))


def _best_first(name: str, rows: list[Row]) -> list[Row]:
    sign = -1 if EXPERIMENTS[name].measure.more_is_better else 1
    return sorted(rows, key=lambda row: (row.value is None, sign * (row.value or 0)))


def picture(name: str) -> str:
    """docs/plots/NAME.svg; empty if the table says it all."""
    result = recorded(name)
    if result is None or name not in EXPERIMENTS:
        return ""
    shown = panel(name)
    if name == "2009":
        node = next(row.value or 1 for row in shown.rows if row.label == "node")
        now = [
            Row(row.label, node / value, number(node / value), row.is_ours)
            for row in shown.rows
            if (value := row.value)
        ]
        then = [Row(server, rate, number(rate), server != "node") for server, rate in THEN.items()]
        note = "requests per second of CPU time, node = 1; more is better"
        return draw(Panel("2009, as published", note, then), Panel(f"{result['date'][:4]}", note, now))
    return draw(shown) if len(shown.rows) >= LEAST_ROWS else ""


def chosen(load: Load, result: dict[str, Any], label: str) -> str:
    """The row of a result that stands for syncless or a peer; empty if none was measured."""
    names, key = {**load.ours, **PEERS}[label], EXPERIMENTS[load.experiment].measure.key
    return next((each for each in names if middle(result["peers"].get(each, {}), key) is not None), "")


def summary(load: Load, title: str = "") -> Panel:
    """syncless and the six peers under one load, with those that cannot serve it, or were not measured."""
    result, measure = recorded(load.experiment) or {"peers": {}}, EXPERIMENTS[load.experiment].measure
    rows = []
    for label in [*load.ours, *PEERS]:
        row = chosen(load, result, label)
        value = middle(result["peers"].get(row, {}), measure.key)
        text = load.without.get(label, "not measured") if value is None else amount(value, measure.unit)
        shown = row.partition(" (")[0] if label == "bjoern" and row else label
        rows.append(Row(shown, value, text, label in load.ours))
    return Panel(title, measure.note, _best_first(load.experiment, rows))


def sentence(load: Load) -> str:
    """How the first row of ours compares with the best of the peers."""
    result, measure = recorded(load.experiment), EXPERIMENTS[load.experiment].measure
    peers = [row.label for row in summary(load).rows if row.value and not row.is_ours]
    if result is None or not peers:
        return "Not measured yet."
    ours, peer = next(iter(load.ours)), peers[0]
    rows = [chosen(load, result, label) for label in (ours, "bjoern" if peer == "fastpysgi" else peer)]
    times = ratio(result, rows[1], rows[0], measure.key)
    part = f"{times:.3g} times" if times > 1 else f"{times:.0%} of".replace("%", " %")
    if times < 1 if measure.more_is_better else times > 1:
        return f"**{peer} is better.** {ours} {measure.verb} {part} its {measure.what}."
    return f"{ours} {measure.verb} {part} {peer}'s {measure.what}."


def better() -> list[str]:
    """A line for each peer that is better somewhere: where, and our figure divided by its own."""
    found: dict[str, list[str]] = {}
    for name, one in EXPERIMENTS.items():
        result = recorded(name) or {"name": name, "peers": {}}
        for peer, label in {peer: label for label, names in PEERS.items() for peer in names}.items():
            if not (ours := compared(result, peer)):
                continue
            if ours == ["syncless"]:
                ours += [row for row in result["peers"] if "stands by" in row]
            times = ratio(result, peer, ours[-1] if one.measure is P99 else ours[0], one.measure.key)
            if (1 / times if one.measure.more_is_better else times) >= BETTER:
                shown = peer.partition(" (")[0] if label == "bjoern" else label
                found.setdefault(shown, []).append(f"[{one.heading}]({anchor(name)}) {times:.2f}")
    return [f"**{peer}**: {', '.join(places)}." for peer, places in found.items()]


def card(*parts: str) -> str:
    """An item of a grid: the parts are paragraphs."""
    return textwrap.indent("\n\n".join(parts), "    ").replace("    ", "-   ", 1)


def first_page() -> str:
    cards = []
    for load in LOADS:
        rows = [row for row in summary(load).rows if row.value]
        figures = ", ".join(f"{row.label} {row.text}" for row in rows)
        alt = f"{EXPERIMENTS[load.experiment].measure.text}: {figures}"
        shown = [f"![{alt}](plots/summary-{load.experiment}.svg)"] if rows else []
        head = f"**[{load.title}]({anchor(load.experiment)})**: {load.text}"
        cards.append(card(head, *shown, sentence(load)))
    cards.append(card("**Where peers are better**, and ours : theirs.", *better()))
    chapters = [f"- [{each.title}](benchmarks/{each.slug}.md): {each.text}" for each in CHAPTERS]
    grid = "\n\n".join(['<div class="grid cards" markdown>', *cards, "</div>"])
    return "\n\n".join([INTRODUCTION, grid, "## All measurements", "\n".join(chapters)])


def section(name: str, folder: str = "plots") -> str:
    """An experiment with its heading and its picture. Empty without results."""
    result = recorded(name)
    if result is None:
        return ""
    alt = f"{heading(name)}: {EXPERIMENTS[name].measure.note}" if name in EXPERIMENTS else ""
    shown = f"![{alt}]({folder}/{name}.svg)" if picture(name) else ""
    return "\n\n".join(filter(None, [f"## {heading(name)}", shown, table(result)]))


def chapter(given: Chapter) -> str:
    results = [result for name in given.experiments if (result := recorded(name))]
    legend = LEGEND if any(name in EXPERIMENTS for name in given.experiments) else ""
    sections = [section(name, "../plots") for name in given.experiments]
    parts = [f"# {given.title}", given.introduction, legend, *sections, origins(results)]
    return "\n\n".join(filter(None, parts))


def tables_of(names: list[str] | None = None) -> str:
    """For the terminal: some experiments, by default all, with the targets that they miss."""
    results = [
        result
        for name in names or [name for each in CHAPTERS for name in each.experiments]
        if (result := recorded(name))
    ]
    if not results:
        return "There are no results yet: `make bench` makes them."
    parts = [f"## {heading(result['name'])}\n\n{table(result)}" for result in results]
    parts += [*(line for result in results for line in tables.missed(result)), origins(results)]
    return wrapped("\n\n".join(parts))


def wrapped(text: str) -> str:
    """Lines of prose, at most 118 columns wide. Tables and HTML stay as they are."""
    lines = []
    for line in text.splitlines():
        indent = re.match(r"(?:-   |- | )*", line)[0]  # type: ignore[index]
        keeps = line.startswith(("|", "<div"))
        options = {"break_on_hyphens": False, "break_long_words": False, "initial_indent": indent}
        options["subsequent_indent"] = " " * len(indent)
        lines.append(line if keeps else textwrap.fill(line[len(indent) :], 118, **options))
    return "\n".join(lines)


def files() -> dict[pathlib.Path, str]:
    """Path -> text of each page and picture."""
    pages = {PAGE: first_page()}
    pages |= {DOCS / "benchmarks" / f"{each.slug}.md": chapter(each) for each in CHAPTERS}
    found = {path: wrapped(text) + "\n" for path, text in pages.items()}
    pictures = {name: text for name in EXPERIMENTS if (text := picture(name))}
    loads = [load for load in LOADS if recorded(load.experiment)]
    pictures |= {f"summary-{load.experiment}": draw(summary(load)) for load in loads}
    pictures["overview"] = draw(*(summary(load, load.title) for load in loads if load.experiment in OVERVIEW))
    return found | {DOCS / "plots" / f"{name}.svg": text for name, text in pictures.items()}


def write() -> None:
    """All of them anew, and nothing else in their folders."""
    wanted = files()
    for path in [*DOCS.glob("benchmarks/*.md"), *DOCS.glob("plots/*.svg")]:
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
