"""Metrics of prometheus_client in shared memory, seen in one process that takes the places of several."""

import json
import os
import weakref

import pytest

prometheus = pytest.importorskip(
    "prometheus_client", reason="prometheus_client makes the metrics: pip install prometheus-client"
)
from prometheus_client.samples import Exemplar  # noqa: E402  (it needs the library)

from syncless.shared import metrics  # noqa: E402


@pytest.fixture(autouse=True)
def shared(region, monkeypatch):
    monkeypatch.setattr("prometheus_client.values.ValueClass", metrics.make_value)
    monkeypatch.setattr(metrics, "_local", prometheus.values.MutexValue)
    monkeypatch.setattr(metrics, "_place", metrics.UNBORN)
    monkeypatch.setattr(metrics, "_gauges", weakref.WeakSet())


def seen():
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.families()
        for sample in family.samples
    }


def registry():
    return prometheus.CollectorRegistry()


def test_counters_and_summaries_of_two_processes_are_one():
    for _ in range(2):
        into = registry()
        prometheus.Counter("hits", "Hits", ["path"], registry=into).labels("/a").inc(2)
        prometheus.Summary("size", "Size", registry=into).observe(1.5)
    assert seen() == {("hits_total", "/a"): 4, ("size_count",): 2, ("size_sum",): 3}
    counter, summary = metrics.families()
    assert (counter.name, counter.type, counter.documentation) == ("hits", "counter", "Hits")
    assert (summary.name, summary.type) == ("size", "summary")


def test_histograms_are_those_of_the_library(monkeypatch):
    def filled():
        made = prometheus.Histogram("h", "H", ["a"], buckets=(1, 2), registry=registry())
        for value in (0.5, 1.5, 1.5, 3):
            made.labels("x").observe(value)
        return made

    filled()
    told = {key: value for key, value in seen().items() if "_created" not in key[0]}
    monkeypatch.setattr("prometheus_client.values.ValueClass", prometheus.values.MutexValue)
    (family,) = filled().collect()
    assert told == {
        (sample.name, *sample.labels.values()): sample.value
        for sample in family.samples
        if "_created" not in sample.name
    }


@pytest.mark.parametrize(
    ("mode", "three", "two", "again"),
    [
        ("all", {"10": 5, "20": 1, "30": 3}, {"10": 5, "20": 1, "30": 3}, {"10": 5, "30": 3, "40": 4}),
        ("liveall", {"10": 5, "20": 1, "30": 3}, {"10": 5, "30": 3}, {"10": 5, "30": 3, "40": 4}),
        ("sum", 9, 9, 13),
        ("livesum", 9, 8, 12),
        ("min", 1, 1, 1),
        ("livemin", 1, 3, 3),
        ("max", 5, 5, 5),
        ("livemax", 5, 5, 5),
        ("mostrecent", 3, 3, 4),
        ("livemostrecent", 3, 3, 4),
    ],
)
def test_gauges_follow_their_mode(mode, three, two, again, monkeypatch):
    """Of three processes the second ends, and later a fourth takes its place."""
    ended = set()
    monkeypatch.setattr(metrics, "is_alive", lambda pid, start: pid not in ended)
    clock = iter(range(1, 100))
    monkeypatch.setattr("prometheus_client.metrics.time.time", lambda: float(next(clock)))

    def told():
        found = {key[1:]: value for key, value in seen().items()}
        return found.get((), {key[0]: value for key, value in found.items() if key})

    def process(place, pid, value):
        monkeypatch.setattr(metrics, "_gauges", weakref.WeakSet())
        monkeypatch.setattr(os, "getpid", lambda: pid)
        metrics.begin(place)
        made = prometheus.Gauge("g", "G", multiprocess_mode=mode, registry=registry())
        made.set(value)

    for place, (pid, value) in enumerate([(10, 5), (20, 1), (30, 3)], 1):
        process(place, pid, value)
    assert told() == three
    ended.add(20)
    assert told() == two
    process(2, 40, 4)
    assert told() == again


def test_latest_gauge_of_the_live_ones_is_shown(monkeypatch):
    ended = set()
    monkeypatch.setattr(metrics, "is_alive", lambda pid, start: pid not in ended)
    for place, pid in enumerate((10, 20), 1):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        metrics.begin(place)
        monkeypatch.setattr(metrics, "_gauges", weakref.WeakSet())
        made = prometheus.Gauge("g", "G", multiprocess_mode="livemostrecent", registry=registry())
        made.set(pid)
    assert seen() == {("g",): 20}
    ended.add(20)
    assert seen() == {("g",): 10}


def test_gauges_of_an_ended_process_count_once_when_another_has_its_place(monkeypatch):
    """One that has not made them itself."""
    metrics.begin(1)
    for mode in ("sum", "all", "livemax"):
        prometheus.Gauge(mode, "G", multiprocess_mode=mode, registry=registry()).set(5)
    monkeypatch.setattr(metrics, "_gauges", weakref.WeakSet())
    metrics.begin(1)
    assert seen() == {("sum",): 5}


def test_gauge_imported_by_the_master_belongs_to_each_worker():
    made = prometheus.Gauge("g", "G", multiprocess_mode="sum", registry=registry())
    made.set(3)
    assert seen() == {}
    metrics.begin(1)
    made.inc()
    assert seen() == {("g",): 4}


def test_exemplars_are_kept_until_their_memory_is_needed(region):
    counter = prometheus.Counter("hits", "Hits", registry=registry())
    counter.inc(exemplar={"trace": "a"})
    (family,) = metrics.families()
    assert family.samples[0].exemplar == Exemplar({"trace": "a"}, 1, family.samples[0].exemplar.timestamp)
    assert counter._value.get_exemplar().labels == {"trace": "a"}
    for number in range(1000):
        region.put(b"%d" % number, 0, b"", 0)
    (family,) = metrics.families()
    assert family.samples[0].exemplar is None and family.samples[0].value == 1


def test_metric_without_memory_counts_in_its_process_alone(region, capfd, monkeypatch):
    monkeypatch.setattr(metrics, "_told", False)
    for number in range(1000):
        region.add(b"%d" % number, 1)
    counter = prometheus.Counter("hits", "Hits", registry=registry())
    counter.inc()
    assert counter._value.get() == 1 and metrics.families() == []
    prometheus.Counter("more", "More", registry=registry())
    assert capfd.readouterr().err.count("is counted in each worker alone") == 1


def test_family_that_new_code_makes_of_another_kind_replaces_the_old_one():
    prometheus.Gauge("g", "old", registry=registry()).set(1)
    metrics.begin(1)
    prometheus.Summary("g", "new", registry=registry()).observe(2)
    (family,) = metrics.families()
    assert (family.type, family.documentation) == ("summary", "new")
    assert seen() == {("g_count",): 1, ("g_sum",): 2}


def test_endpoint_of_the_application_shows_all_and_its_own_collectors(monkeypatch):
    class Library:
        class CollectorRegistry(prometheus.CollectorRegistry):
            def collect(self):
                yield from super().collect()

    metrics._replace_collect(Library)
    into = Library.CollectorRegistry()
    counter = prometheus.Counter("hits", "Hits", ["path"], registry=into)
    prometheus.Info("build", "Build", registry=into).info({"v": "1"})
    counter.labels("/here").inc()
    prometheus.Counter("hits", "Hits", ["path"], registry=registry()).labels("/in another worker").inc(2)
    text = prometheus.generate_latest(into).decode()
    assert 'hits_total{path="/here"} 1.0' in text and 'path="/in another worker"} 2.0' in text
    assert 'build_info{v="1"} 1.0' in text


def test_names_tell_their_place_at_the_end():
    """By which a worker finds what the last one at its place has left."""
    name = metrics._name("f", "s", {"a": ", 1]"}, "gauge", "all", 12)
    assert name.endswith(b", 12]") and json.loads(name)[-1] == 12
