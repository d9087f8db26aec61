"""docs/plots/overview.svg, the picture of the README: CPU time per request in four experiments.

Drawn from the results that are kept, without a drawing library, so a test can compare it with them.
"""

from __future__ import annotations

import html
import json
import statistics

from benchmark.report import PLOTS, RESULTS

PICTURE = PLOTS / "overview.svg"
PANELS = (
    # experiment, title, {peer: label}
    (
        "keepalive",
        "Hello, beside Node",
        {"syncless": "syncless", "bjoern": "bjoern", "node": "Node"},
    ),
    (
        "wsgi-hello",
        "Hello, WSGI servers",
        {"syncless": "syncless", "bjoern": "bjoern", "gunicorn, gevent": "gunicorn + gevent"},
    ),
    ("flask", "Flask", {"syncless": "syncless", "bjoern": "bjoern", "gevent": "gevent"}),
    ("django", "Django", {"syncless": "syncless", "bjoern": "bjoern", "gevent": "gevent"}),
)
WIDTH, LABELS, BAR, ROW, GAP = 860, 130, 195, 24, 34
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1e293b }
.title { font-weight: 600 }
.note { font-size: 11px; fill: #64748b }
.ours { fill: #c2410c } .other { fill: #94a3b8 }
@media (prefers-color-scheme: dark) {
text { fill: #e2e8f0 } .note { fill: #94a3b8 } .ours { fill: #fb923c } .other { fill: #64748b }
}
"""


def cpu_us(experiment: str, peer: str) -> float:
    """The median of the rounds, as in the tables."""
    result = json.loads((RESULTS / f"{experiment}.json").read_text())
    return statistics.median(each["cpu_us"] for each in result["peers"][peer]["rounds"])


def panel(x: int, y: int, experiment: str, title: str, peers: dict[str, str]) -> list[str]:
    """A title and a bar for each server; the longest bar takes the whole width."""
    found = {label: cpu_us(experiment, peer) for peer, label in peers.items()}
    lines = [f'<text class="title" x="{x + LABELS}" y="{y + 13}">{html.escape(title)}</text>']
    for number, (label, value) in enumerate(found.items(), 1):
        top, width = y + number * ROW, BAR * value / max(found.values())
        side = "ours" if label == "syncless" else "other"
        lines += [
            f'<text x="{x + LABELS - 8}" y="{top + 13}" text-anchor="end">{html.escape(label)}</text>',
            f'<rect class="{side}" x="{x + LABELS}" y="{top + 1}" width="{width:.1f}" height="16" rx="2"/>',
            f'<text x="{x + LABELS + width + 6:.1f}" y="{top + 13}">{value:.3g} µs</text>',
        ]
    return lines


def draw() -> str:
    """Two panels beside each other, in two rows."""
    height = max(len(peers) for _, _, peers in PANELS) * ROW + ROW + GAP
    lines = []
    for number, (experiment, title, peers) in enumerate(PANELS):
        lines += panel(number % 2 * WIDTH // 2, number // 2 * height, experiment, title, peers)
    bottom = (len(PANELS) + 1) // 2 * height
    note = "CPU time of the server per request, one process on one core. Shorter is better."
    lines.append(f'<text class="note" x="{LABELS}" y="{bottom}">{note}</text>')
    body = "\n".join(lines)
    size = f'width="{WIDTH}" height="{bottom + 10}" viewBox="0 0 {WIDTH} {bottom + 10}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def write() -> None:
    PICTURE.write_text(draw())
