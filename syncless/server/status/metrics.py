"""Metrics: the scoreboard in the format of Prometheus, made by the library prometheus_client, followed by the
metrics that the application makes with that library (shared/metrics.py).

The metrics are the sums of all processes. Counts of ended processes are kept, so no counter decreases. The
figures of the scoreboard are at most a second old.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import syncless
from syncless._core.allowance import pressure
from syncless.http.listener import SECONDS
from syncless.server.status.scoreboard import CAUSES, PHASES, Scoreboard

DURATION = "syncless_request_duration_seconds"
COUNTERS = (
    ("accepted", "syncless_connections_accepted", "Connections accepted", 1),
    ("http2_requests", "syncless_http2_requests", "Responses to HTTP/2 requests", 1),
    ("held_dropped", "syncless_held_streams_dropped", "Held streams whose clients were too slow", 1),
    (
        "hangups",
        "syncless_hangups",
        "Requests whose client left before the response, and that were told so",
        1,
    ),
    (
        "requests_refused",
        "syncless_queue_refused",
        "Requests that the limit `requests` has refused, with a 503",
        1,
    ),
    ("received_bytes", "syncless_received_bytes", "Bytes received from clients, without TLS", 1),
    ("sent_bytes", "syncless_sent_bytes", "Bytes sent to clients, without TLS", 1),
    ("stalls", "syncless_stalls", "Times that a loop was blocked for more than 0.2 s", 1),
    (
        "stalled_ns",
        "syncless_stalled_seconds",
        "Total seconds for which loops were blocked for more than 0.2 s",
        1e9,
    ),
    (
        "takeovers",
        "syncless_takeovers",
        "Times that a standby thread took over from a held thread",
        1,
    ),
    (
        "held_ns",
        "syncless_held_seconds",
        "Total seconds that threads had been held when a standby thread took over",
        1e9,
    ),
    ("cpu_ns", "syncless_cpu_seconds", "Seconds of CPU time", 1e9),
    ("started", "syncless_workers_started", "Workers started", 1),
    ("crashed", "syncless_workers_crashed", "Workers that ended with an error, or without being told to", 1),
    (
        "recycled",
        "syncless_workers_recycled",
        "Workers replaced because of their requests, age or memory",
        1,
    ),
)
"""The scoreboard's name, that of the metric, its help, and how many of the first are one of the second."""
GAUGES = (
    ("processes", "syncless_workers", "Processes that serve", 1),
    ("running", "syncless_running_requests", "Requests in flight", 1),
    ("queued", "syncless_queued_requests", "Requests queued by the limit `requests`", 1),
    (
        "requests_limit",
        "syncless_requests_limit",
        "Requests that may run at a time in all processes, where the limit `requests` is auto; else 0",
        1,
    ),
    ("http2_streams", "syncless_http2_streams", "HTTP/2 requests that run or wait", 1),
    ("held_streams", "syncless_held_streams", "Event streams that go on after their requests", 1),
    ("tasklets", "syncless_tasklets", "Tasklets of the serving loops", 1),
    (
        "growing_tasklets",
        "syncless_growing_tasklets",
        "Tasklets that wait where more and more have waited for up to an hour",
        1,
    ),
    ("longest_stall_ns", "syncless_longest_stall_seconds", "The longest stall since the start", 1e9),
    ("recent_stall_ns", "syncless_recent_stall_seconds", "The longest stall of the last minute", 1e9),
    (
        "utilization_ppm",
        "syncless_loop_utilization",
        "Share of the last 5 seconds in which the loop of a process ran code, from 0 to 1; their mean",
        1e6,
    ),
    ("backlog", "syncless_backlog", "Connections waiting to be accepted at the fullest listening socket", 1),
    ("backlog_limit", "syncless_backlog_limit", "Backlog of that socket: connections that may wait there", 1),
    ("memory_bytes", "syncless_resident_memory_bytes", "Resident memory of all processes that serve", 1),
    ("buffered_bytes", "syncless_buffered_bytes", "Memory of the buffers of connections", 1),
    ("open_files", "syncless_open_descriptors", "Open file descriptors", 1),
)


class Metrics:
    """Metrics(scoreboard): called with an Accept field, returns the text and its type. Raise ImportError
    without the library."""

    def __init__(self, scoreboard: Scoreboard):
        self._scoreboard = scoreboard
        self._families = importlib.import_module("prometheus_client.core")
        self._exemplars = importlib.import_module("prometheus_client.samples").Exemplar
        exposition = importlib.import_module("prometheus_client.exposition")
        self._choose: Callable[[str], tuple[Callable[[Any], bytes], str]] = exposition.choose_encoder
        self._registry = importlib.import_module("prometheus_client").CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def __call__(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = self._choose(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Any]:
        """Yield the metrics; the library calls this for each reader."""
        told, library = self._scoreboard.sum(), self._families
        info = library.InfoMetricFamily("syncless", "The server")
        info.add_metric([], {"version": syncless.__version__})
        yield info
        for each in families(told):
            if each.kind == "histogram":
                histogram = library.HistogramMetricFamily(each.name, each.text)
                buckets, below = [], 0
                for place, (bound, count) in enumerate(
                    zip((*map(str, SECONDS), "+Inf"), each.counts, strict=True)
                ):
                    below += count
                    exemplar = self._exemplar(place) if each.name == DURATION else ()
                    buckets.append((bound, below, *exemplar))
                histogram.add_metric([], buckets, each.total)
                yield histogram
                continue
            kind = library.CounterMetricFamily if each.kind == "counter" else library.GaugeMetricFamily
            family = kind(each.name, each.text, labels=each.labels)
            for values, number in each.points:
                family.add_metric(values, number)
            yield family
        yield from _of_application()

    def _exemplar(self, bucket: int) -> tuple[Any, ...]:
        """Return the newest traced request of a bucket, if there is one. Only OpenMetrics shows it."""
        one = self._scoreboard.exemplars.of(bucket)
        if one is None:
            return ()
        ids = {"trace_id": one.trace_id.hex(), "span_id": one.span_id.hex()}
        return (self._exemplars(ids, one.duration / 1e9, round(one.end / 1e9, 3)),)


class Family(NamedTuple):
    """A metric of the server, whatever format it is written in."""

    kind: str
    """counter, gauge or histogram."""
    name: str
    text: str
    labels: tuple[str, ...] = ()
    points: Sequence[tuple[Sequence[str], float]] = ()
    """The values of the labels, and the number."""
    counts: Sequence[int] = ()
    """Of a histogram: by bucket (SECONDS)."""
    total: float = 0.0
    """Of a histogram: the sum."""


def families(told: Mapping[str, Any]) -> Iterator[Family]:
    """Yield the metrics of a scoreboard's sums, or of the figures of one process."""
    for name, key, text in (
        ("syncless_requests", "requests", "Responses by status; 0: cut off before a response"),
        ("syncless_refused_requests", "refused", "Requests refused by the server itself, by status"),
    ):
        points = [([str(status)], count) for status, count in sorted(told[key].items())]
        yield Family("counter", name, text, ("status",), points)
    for name, key, text in (
        ("syncless_http2_resets", "http2_resets", "HTTP/2 streams reset by the server, by error"),
        (
            "syncless_http2_goaways",
            "http2_goaways",
            "HTTP/2 connections ended by the server because of an error, by error",
        ),
    ):
        yield Family("counter", name, text, ("error",), [([error], n) for error, n in told[key].items()])
    for name, counts, total, text in (
        (
            DURATION,
            "latency",
            "latency_seconds",
            "Seconds from the head of a request to the end of its response",
        ),
        (
            "syncless_queue_seconds",
            "queue_times",
            "queue_seconds",
            "Seconds from the X-Request-Start of a trusted proxy to the start of the request",
        ),
    ):
        yield Family("histogram", name, text, counts=told[counts], total=told[total])
    for name, text, label, cells in (
        ("syncless_connections", "Open connections, by phase", "phase", {one: one for one in PHASES}),
        (
            "syncless_parked_tasklets",
            "Waiting tasklets, by kind of wait",
            "waits_for",
            {one: f"parked_{one}" for one in CAUSES},
        ),
    ):
        yield Family("gauge", name, text, (label,), [([one], told[cell]) for one, cell in cells.items()])
    yield Family(
        "counter",
        "syncless_pressure_seconds",
        "Seconds in which threads of the control group waited for a resource: some, or all (full)",
        ("resource", "threads"),
        [
            ([resource, threads], number)
            for resource, seconds in pressure().items()
            for threads, number in seconds.items()
        ],
    )
    for kind, table in (("counter", COUNTERS), ("gauge", GAUGES)):
        for key, name, text, unit in table:
            if key in told:
                yield Family(kind, name, text, points=[([], told[key] / unit)])


def share_application_metrics(place: int | None = None) -> None:
    """Have metrics of the application in shared memory, before it is imported; in a process that serves, with
    its place among these, from 1."""
    module = _shared()
    if module is not None:
        module.install()
        if place is not None:
            module.begin(place)


def _of_application() -> Iterable[Any]:
    module = _shared()
    found: Iterable[Any] = () if module is None else module.families()
    return found


def _shared() -> Any:
    try:
        return importlib.import_module("syncless.shared.metrics")
    except ImportError:  # the system has no robust mutexes
        return None
