"""Bars as SVG, for light and dark pages, drawn without a library: each row is a label and a figure on a bar.

A picture is as wide as a phone, so its text can be read there.
"""

from __future__ import annotations

import html
from typing import NamedTuple

WIDTH, ROW, LINE, MARGIN = 320, 18, 16, 4
STYLE = """
text { font: 12.5px system-ui, sans-serif; fill: #1e293b }
.title { font-weight: 600 } .note { font-size: 11.5px; fill: #475569 } .figure { text-anchor: end }
.ground { fill: #fff } .row { fill: #f1f5f9 } .ours { fill: #fdba74 } .other { fill: #cbd5e1 }
@media (prefers-color-scheme: dark) {
text { fill: #f1f5f9 } .note { fill: #cbd5e1 }
.ground { fill: #1e2129 } .row { fill: #2b303b } .ours { fill: #b45309 } .other { fill: #536076 }
}
"""


class Row(NamedTuple):
    label: str
    value: float | None
    """None: there is no bar"""
    text: str
    """The figure, or the reason why there is none"""
    is_ours: bool


class Panel(NamedTuple):
    title: str
    note: str
    rows: list[Row]


def _panel(panel: Panel, y: int) -> list[str]:
    """A title, what the figures are, and the rows; the longest bar takes the whole width."""
    longest = max((row.value for row in panel.rows if row.value), default=1.0)
    lines, y = [], y + MARGIN
    for kind, text in (("title", panel.title), ("note", panel.note)):
        if text:
            lines.append(f'<text class="{kind}" x="{MARGIN}" y="{y + 12}">{html.escape(text)}</text>')
            y += LINE
    for top, row in enumerate(panel.rows):
        top = y + top * ROW
        width = (WIDTH - 2 * MARGIN) * (row.value or 0) / longest
        kind = "ours" if row.is_ours else "other"
        lines += [
            f'<rect class="row" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{ROW - 2}"/>',
            f'<rect class="{kind}" x="{MARGIN}" y="{top}" width="{width:.1f}" height="{ROW - 2}"/>',
            f'<text x="{MARGIN + 6}" y="{top + 12}">{html.escape(row.label)}</text>',
            f'<text class="figure" x="{WIDTH - MARGIN - 6}" y="{top + 12}">{html.escape(row.text)}</text>',
        ]
    return lines


def draw(*panels: Panel) -> str:
    """The panels, one below the other."""
    lines, y = [], 0
    for panel in panels:
        lines += _panel(panel, y)
        y += bool(panel.title) * LINE + LINE + len(panel.rows) * ROW + 2 * MARGIN
    lines.insert(0, f'<rect class="ground" width="{WIDTH}" height="{y}" rx="4"/>')
    size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    body = "\n".join(lines)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'
