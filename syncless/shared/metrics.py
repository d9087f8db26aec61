"""Metrics that the application makes with prometheus_client: those of all processes, in shared memory.

install() gives the library another class of values, once it is imported. A counter, and each bucket or sum of
a histogram or summary, is one float for all processes. A gauge has one float for each place, which is that of
a worker until another worker gets it. So there is nothing to clean, and nothing ever goes back.

families() reads all of it without waiting, in any process: a master may not wait for its workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

from syncless.http.log.errorlog import warn
from syncless.shared import area
from syncless.shared.embedded import is_alive, own_start
from syncless.shared.errors import SharedError
from syncless.shared.memory import Amount
from syncless.tools.imports import loaded, when_executed
from syncless.tools.records import record

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of those who want the library's own files: they have them."""
LIBRARY = "prometheus_client"
ENDED, UNBORN = 0, -1
"""Places of gauges: what workers that have ended have left behind; what a master has imported for others."""
PRESENT, HAS_EXEMPLAR = 1, 2
"""Marks of a float."""
FOLDS: dict[str, Callable[[float, float], float]] = {"min": min, "max": max, "sum": float.__add__}
"""The fold of the values of several places, by the mode of the gauge."""
_EXEMPLAR = b"\xfe"
"""No name of a float begins with it."""

_place = UNBORN
_gauges: weakref.WeakSet[Gauge] = weakref.WeakSet()
_installed = False
_told = False


# -- values ------------------------------------------------------------------------------------------------


def _name(family: str, name: str, labels: dict[str, str], kind: str, mode: str, place: int) -> bytes:
    return json.dumps((family, name, labels, kind, mode, place)).encode()


class Value(Amount):
    """What the library calls a value: ``inc``, ``set`` and ``get`` are Amount's."""

    name: bytes

    def set_exemplar(self, exemplar: Any) -> None:
        told = json.dumps((exemplar.labels, exemplar.value, exemplar.timestamp)).encode()
        with contextlib.suppress(SharedError):  # it is only an example
            area.region().put(_EXEMPLAR + self.name, 0, told, 0)
            self.mark = PRESENT | HAS_EXEMPLAR

    def get_exemplar(self) -> Any:
        return _exemplar(self.name) if self.mark & HAS_EXEMPLAR else None


class Gauge(Value):
    """The value of a gauge, in this process."""

    key: tuple[str, str, dict[str, str], str, str]
    when: Amount | None = None
    """When it was set, for the mode "livemostrecent"."""

    def move(self, place: int) -> None:
        """Take the value along to another place."""
        value = self.get()
        self.name = _name(*self.key, place)
        self.bind(area.region(), self.name)
        Amount.set(self, value)
        self.mark = PRESENT

    def set(self, value: float, timestamp: float | None = None) -> None:
        Amount.set(self, value)
        if timestamp:
            if self.when is None:
                self.when = Amount(area.region(), b"@" + self.name)
            self.when.set(timestamp)


def make_value(
    typ: str,
    metric_name: str,
    name: str,
    labelnames: Sequence[str],
    labelvalues: Sequence[str],
    help_text: str,
    multiprocess_mode: str = "",
    **more: Any,
) -> Any:
    """Take the place of the library's class of values. One for which there is no memory is of this process
    only, and seen by nobody else."""
    global _told
    key = metric_name, name, dict(zip(labelnames, labelvalues, strict=True)), typ, multiprocess_mode
    # of all processes, the last one that sets it counts
    own = typ == "gauge" and multiprocess_mode != "mostrecent"
    stored = _name(*key, _place if own else ENDED)
    try:
        Amount(area.region(), json.dumps((metric_name, help_text)).encode())
        value = (Gauge if own else Value)(area.region(), stored)
    except SharedError as error:
        if not _told:
            _told = True
            warn(f"a metric of the application is counted in each worker alone: {metric_name}: {error}")
        return _local(typ, metric_name, name, labelnames, labelvalues, help_text)
    value.name, value.mark = stored, PRESENT
    if isinstance(value, Gauge):
        value.key = key
        _gauges.add(value)
        _announce()
    return value


make_value._multiprocess = True  # type: ignore[attr-defined]
_local: Any = None
"""The library's own class."""


# -- processes ---------------------------------------------------------------------------------------------


def install() -> None:
    """Before the application is imported. Once is enough, for this process and its children."""
    global _installed
    if not (_installed or DIRECTORY in os.environ or DIRECTORY.lower() in os.environ):
        _installed = True
        when_executed(f"{LIBRARY}.values", _replace_values)
        when_executed(f"{LIBRARY}.registry", _replace_collect)
        when_executed(f"{LIBRARY}.metrics", _watch_functions)
        library = loaded(LIBRARY)
        if library is not None:
            kinds = library.Counter, library.Gauge, library.Summary, library.Histogram
            for metric in list(library.REGISTRY._collector_to_names):
                if isinstance(metric, kinds):
                    _take_along(metric)


def begin(place: int) -> None:
    """Have this process's gauges at this place, from 1, which no other live process has."""
    global _place
    _place = place
    try:
        region = area.region()
        for name, value, mark in region.amounts():
            if mark and name.endswith(b", %d]" % place):
                _fold(name, value)
                Amount(region, name).mark = 0
        for gauge in list(_gauges):
            gauge.move(place)
        if _gauges:
            _announce()
    except SharedError:
        pass  # told of each metric


def _announce() -> None:
    """Tell others which process has the place: they show its number, and whether it lives."""
    for what, number in (("start", own_start()), ("pid", os.getpid())):
        Amount(area.region(), _name("", what, {}, "", "", _place)).set(number)


def _fold(name: bytes, value: float) -> None:
    """Keep what the last process at this place has left, if the mode of the gauge wants it."""
    family, series, labels, kind, mode, _ = json.loads(name)
    if mode in FOLDS:
        ended = Amount(area.region(), _name(family, series, labels, kind, mode, ENDED))
        ended.set(FOLDS[mode](ended.get(), value) if ended.mark else value)
        ended.mark = PRESENT


def _replace_values(module: Any) -> None:
    global _local
    _local, module.ValueClass = module.ValueClass, make_value


def _take_along(metric: Any) -> None:
    """Move a metric into shared memory that a program has made before it called serve()."""

    def values(of: Any) -> list[Any]:
        own: dict[str, Any] = vars(of)
        return [own[name] for name in ("_value", "_count", "_sum") if name in own] + [
            *own.get("_buckets", ())
        ]

    for each in (metric, *vars(metric).get("_metrics", {}).values()):
        before = values(each)
        if before and "_child_samples" not in vars(each):  # that of a function
            each._metric_init()
            for old, new in zip(before, values(each), strict=True):
                new.inc(old.get())


def _replace_collect(module: Any) -> None:
    """An endpoint of the application's own shows what --metrics shows."""
    collect = module.CollectorRegistry.collect

    def collect_all(registry: Any) -> Iterator[Any]:
        shared = {family.name: family for family in families()}
        for family in collect(registry):
            yield shared.get(family.name, family)

    module.CollectorRegistry.collect = collect_all


def _watch_functions(module: Any) -> None:
    """A gauge whose value a function tells has none here."""
    set_function = module.Gauge.set_function

    def set_and_hide(gauge: Any, function: Callable[[], float]) -> None:
        set_function(gauge, function)
        gauge._value.mark = 0

    module.Gauge.set_function = set_and_hide


# -- reading -----------------------------------------------------------------------------------------------


def families() -> list[Any]:
    """Return the library's Metric of each family, of all processes together. Nothing here waits, except for
    exemplars."""
    try:
        amounts = area.region().amounts()
    except SharedError:
        return []
    found: dict[str, _Family] = {}
    helps, times, places = {}, {}, _Places()
    for name, value, mark in amounts:
        if name.startswith(b"@"):
            times[name[1:]] = value
            continue
        family, *rest = json.loads(name)
        if len(rest) == 1:
            helps[family] = rest[0]
        elif not family:
            places.note(rest[0], rest[-1], int(value))
        elif mark:
            series, labels, kind, mode, place = rest
            if family not in found or found[family].kind != kind:  # new code has made another one of it
                found[family] = _Family(kind, places)
            found[family].rows.append(_Row(name, series, labels, mode, place, value, mark))
    metric: Any = import_module(f"{LIBRARY}.core").Metric if found else None
    return [one.told(metric(name, helps.get(name, ""), one.kind), times) for name, one in found.items()]


class _Places:
    """The processes of the places."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._alive: dict[int, bool] = {}

    def note(self, what: str, place: int, value: int) -> None:
        self._numbers[what, place] = value

    def pid(self, place: int) -> int:
        return self._numbers.get(("pid", place), 0)

    def is_alive(self, place: int) -> bool:
        if place not in self._alive:
            pid = self.pid(place)
            self._alive[place] = pid > 0 and is_alive(pid, self._numbers.get(("start", place), 0))
        return self._alive[place]


@record(frozen=True)
class _Row:
    """A float of a family. ``name``: that in shared memory; ``series``: that of the sample."""

    name: bytes
    series: str
    labels: dict[str, str]
    mode: str
    place: int
    value: float
    mark: int

    def exemplar(self) -> Any:
        return _exemplar(self.name) if self.mark & HAS_EXEMPLAR else None


class _Family:
    def __init__(self, kind: str, places: _Places):
        self.kind = kind
        self.rows: list[_Row] = []
        self._places = places

    def told(self, metric: Any, times: dict[bytes, float]) -> Any:
        """Add the samples to a Metric of the library."""
        if self.kind == "gauge":
            for rows in self._grouped(lambda row: row.labels):
                self._add_gauge(metric, rows, times)
        elif self.kind == "histogram":
            for rows in self._grouped(lambda row: {k: v for k, v in row.labels.items() if k != "le"}):
                _add_histogram(metric, rows)
        else:
            for row in self.rows:
                metric.add_sample(row.series, row.labels, row.value, None, row.exemplar())
        return metric

    def _grouped(self, labels_of: Callable[[_Row], dict[str, str]]) -> Iterable[list[_Row]]:
        groups: dict[Any, list[_Row]] = {}
        for row in self.rows:
            groups.setdefault(frozenset(labels_of(row).items()), []).append(row)
        return groups.values()

    def _add_gauge(self, metric: Any, rows: list[_Row], times: dict[bytes, float]) -> None:
        """Add what the mode of the gauge makes of its values at several places."""
        mode = rows[-1].mode
        counted = [row for row in rows if row.mode == mode and row.place != UNBORN]
        if mode.startswith("live"):
            counted = [row for row in counted if self._places.is_alive(row.place)]
        fold = mode.replace("live", "", 1)
        if fold == "all":
            for row in counted:
                labels = {**row.labels, "pid": str(self._places.pid(row.place))}
                metric.add_sample(row.series, labels, row.value)
        elif counted:
            latest = max(counted, key=lambda row: times.get(row.name, 0.0))
            value = reduce(FOLDS[fold], [row.value for row in counted]) if fold in FOLDS else latest.value
            metric.add_sample(latest.series, latest.labels, value)


def _add_histogram(metric: Any, rows: list[_Row]) -> None:
    """Add each bucket with those below it, and their number, which is that of the last bucket."""
    buckets = sorted((row for row in rows if "le" in row.labels), key=lambda row: float(row.labels["le"]))
    below = 0.0
    for row in buckets:
        below += row.value
        metric.add_sample(row.series, row.labels, below, None, row.exemplar())
    for row in rows:
        if "le" not in row.labels:
            metric.add_sample(f"{metric.name}_count", row.labels, below)
            if buckets and float(buckets[0].labels["le"]) >= 0:
                metric.add_sample(row.series, row.labels, row.value)


def _exemplar(name: bytes) -> Any:
    """Return the library's Exemplar; None if it has been dropped to make room."""
    try:
        found = area.region().get(_EXEMPLAR + name)
    except SharedError:
        return None
    kind = import_module(f"{LIBRARY}.samples").Exemplar
    return None if found is None else kind(*json.loads(found[1]))
