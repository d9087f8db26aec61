"""The pages of the benchmarks can be read: the first on one screen, all without figures that only a program
prints, with pictures for a phone that load late."""

import re

import pytest

from benchmark import bars, report
from benchmark.chapters import CHAPTERS, LOADS, PEERS
from benchmark.figures import amount, number

FIRST = report.PAGE.read_text()
PAGES = [report.PAGE, *sorted(report.DOCS.glob("benchmarks/*.md"))]
PICTURES = sorted(report.DOCS.glob("plots/*.svg"))
PHONE = 360
"""The width of a phone's page, in pixels of CSS."""


def test_first_page_is_one_screen():
    assert len(FIRST.encode()) < 6000
    screen = FIRST.partition("\n## ")[0]
    assert "|--" not in screen and "| -" not in screen  # bars, no tables
    assert len(re.findall(r"^-   ", screen, re.MULTILINE)) == len(LOADS) + 1 == 9


def test_first_page_says_where_peers_are_better():
    cards = FIRST.partition("**Where peers are better**")[2].partition("</div>")[0]
    worse = re.findall(r"\) (\d+\.\d\d)", cards.replace("\n", " "))
    assert worse and all(float(each) >= report.BETTER for each in worse)
    for peer in re.findall(r"\*\*([\w ]+) is better\.\*\*", FIRST):
        assert f"**{peer}**: " in cards


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.experiment)
def test_each_of_the_six_peers_is_a_bar_or_has_a_reason(load):
    rows = report.summary(load).rows
    assert len(rows) == len(load.ours) + len(PEERS)
    assert all(row.text for row in rows) and {row.is_ours for row in rows} == {True, False}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_are_written_as_people_write_them(page):
    text = page.read_text()
    assert not re.search(r"\de[+-]\d|\b(inf|nan|None)\b", text)
    assert "target" not in text and "missed" not in text  # of ours: the terminal shows them
    assert len(text.encode()) < 16_000


def test_figures_have_three_digits_and_a_unit_that_fits():
    assert [number(each) for each in (0.17149, 9.996, 99.96, 137785.2)] == ["0.171", "10", "100", "137,785"]
    assert amount(56_300, "ms") == "56.3 s" and amount(999.4, "ms") == "999 ms"
    assert amount(93_700, "µs") == "93.7 ms" and amount(20_642, "bytes") == "20.6 kB"
    assert amount(float("inf"), "s") == "failed" and amount(0, "") == "0"


def test_each_chapter_has_a_page_that_the_first_page_and_the_site_name():
    navigation = (report.DOCS.parent / "mkdocs.yml").read_text()
    for chapter in CHAPTERS:
        assert f"benchmarks/{chapter.slug}.md" in FIRST and f"benchmarks/{chapter.slug}.md" in navigation
    assert {page.stem for page in PAGES[1:]} == {chapter.slug for chapter in CHAPTERS}


def test_pictures_fit_a_phone():
    for path in PICTURES:
        width = int(re.search(r'<svg [^>]*?width="(\d+)"', path.read_text())[1])
        assert width == bars.WIDTH <= PHONE, path
    assert sum(path.stat().st_size for path in PICTURES) < 300_000


def test_bars_are_as_long_as_their_figures():
    rows = [bars.Row("a <b>", 10, "10", True), bars.Row("c", 5, "5", False), bars.Row("d", None, "no", False)]
    drawn = bars.draw(bars.Panel("", "less", rows))
    ours, other = (
        float(width)
        for kind in ("ours", "other")
        for width in re.findall(rf'class="{kind}" .*? width="([\d.]+)"', drawn)[:1]
    )
    assert ours == 2 * other == bars.WIDTH - 2 * bars.MARGIN
    assert "a &lt;b&gt;" in drawn and ">no<" in drawn


def test_pictures_of_the_site_load_late():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs")
    from scripts.docs import hooks

    shown = hooks.on_page_content('<p><img src="a"></p><img alt="" src="b"><img src="c">', None, None, None)
    assert [("lazy" in tag) for tag in re.findall(r"<img [^>]*>", shown)] == [False, True, True]
