"""Bar charts of the results, as SVG for light and dark pages: the least, the median and the most of the
rounds; of some experiments the distribution of the latencies. Drawn with matplotlib, where that is
installed."""

from __future__ import annotations

import io
import json
import statistics
from typing import Any

from benchmark.report import PLOTS, RESULTS

OURS, OTHERS = "#c2410c", "#64748b"
DARK = """ <style>
@media (prefers-color-scheme: dark) {
#figure_1 [id^=text_] { fill: #e2e8f0 }
#figure_1 [style*="#000000"], #figure_1 [style*="#1e293b"] { stroke: #e2e8f0 !important }
}
 </style>
"""
"""Light text and lines where the reader has set that, as in picture.py."""
THEN = {"node": 1.0, "Stackless Python": 1.925}
"""Requests per second in 2009, node's being 1, from the article."""


def _bars(axes: Any, rows: list[tuple[str, list[float]]], unit: str) -> None:
    """Horizontal, the median as the bar, the rest as a line over it."""
    middles = [statistics.median(values) for _, values in rows]
    errors = [
        [middle - min(values) for middle, (_, values) in zip(middles, rows, strict=True)],
        [max(values) - middle for middle, (_, values) in zip(middles, rows, strict=True)],
    ]
    colors = [OURS if name.startswith(("syncless", "log: tasklet")) else OTHERS for name, _ in rows]
    axes.barh([name for name, _ in rows], middles, xerr=errors, color=colors, ecolor="#1e293b", height=0.7)
    for place, (middle, (_, values)) in enumerate(zip(middles, rows, strict=True)):
        axes.text(max(values), place, f"  {middle:,.4g}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _distributions(axes: Any, result: dict[str, Any]) -> None:
    """Latency by percentile, the median of the rounds; a line for each server."""
    for name, rounds in _measured(result, "distribution"):
        middles = [statistics.median(values) for values in zip(*rounds, strict=True)]
        (line,) = axes.plot(range(101), middles, label=name, linewidth=1)
        if name.startswith("syncless"):
            line.set_linewidth(2)
    axes.set_yscale("log")
    axes.set_xlabel("percent of the requests")
    axes.set_ylabel("ms, at most")
    axes.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _measured(result: dict[str, Any], key: str) -> list[tuple[str, list[Any]]]:
    return [
        (name, [each[key] for each in peer["rounds"]])
        for name, peer in result["peers"].items()
        if "rounds" in peer
    ]


def draw(name: str, result: dict[str, Any], figures: Any) -> Any:
    """The chart of one experiment, or None if it has none."""
    if "peers" not in result:
        return None
    if name == "2009":
        figure, (then, now) = figures.subplots(1, 2, figsize=(9, 2.6))
        _bars(then, [(server, [value]) for server, value in THEN.items()], "requests per second, node = 1")
        then.patches[1].set_color(OURS)
        then.set_title("2009, as published", fontsize=10)
        node = statistics.median(each["cpu_us"] for each in result["peers"]["node"]["rounds"])
        rows = [
            (peer, [node / cpu for cpu in values]) for peer, values in _measured(result, "cpu_us")
        ]  # ab is what bounds the rates today
        _bars(now, sorted(rows, key=lambda row: row[0] != "node"), "requests per second of CPU, node = 1")
        now.set_title(f"now, {result['date'][:4]}", fontsize=10)
    elif any("distribution" in each for peer in result["peers"].values() for each in peer.get("rounds", ())):
        figure, axes = figures.subplots(figsize=(8, 3.2))
        _distributions(axes, result)
    else:
        rows = sorted(_measured(result, "cpu_us"), key=lambda row: statistics.median(row[1]))
        figure, axes = figures.subplots(figsize=(8, 0.6 + 0.32 * len(rows)))
        _bars(axes, rows, "CPU \u00b5s per request (less is better)")
    figure.tight_layout()
    return figure


def on_any_ground(svg: str) -> str:
    """The drawing without its white ground."""
    figure = ' <g id="figure_1">'
    return svg.replace("fill: #ffffff", "fill: none").replace(figure, DARK + figure, 1)


def write_all() -> None:
    """docs/plots/*.svg, from all results. Says so and goes on where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("The plots are not drawn: pip install matplotlib")
        return
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "syncless", "font.size": 9})
    from matplotlib import pyplot

    PLOTS.mkdir(exist_ok=True)
    for path in sorted(RESULTS.glob("*.json")):
        figure = draw(path.stem, json.loads(path.read_text()), pyplot)
        if figure is not None:
            drawn = io.StringIO()
            figure.savefig(drawn, metadata={"Date": None})
            (PLOTS / f"{path.stem}.svg").write_text(on_any_ground(drawn.getvalue()))
            pyplot.close(figure)
