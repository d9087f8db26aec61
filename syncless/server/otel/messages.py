"""Messages of OTLP, made with the package opentelemetry-proto: from what has ended to bytes.

The semantic conventions for HTTP servers say which attributes there are:
https://opentelemetry.io/docs/specs/semconv/http/http-spans/
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import Status

import syncless
from syncless.http.listener import SECONDS
from syncless.http.log.errorlog import DEBUG, ERROR, INFO, LEVELS, WARNING
from syncless.server.otel.logs import Entry
from syncless.server.otel.tracer import Ended
from syncless.server.otel.waits import parts
from syncless.server.status.metrics import DURATION, Family, families

METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}
"""Those that are told as they are; of others there may be any number."""
OTHER = "_OTHER"
VERSIONS = {"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2.0": "2", "HTTP/2": "2"}
LONGEST = 4096
"""Characters of an attribute."""
SAMPLED = 1
HAS_REMOTE, IS_REMOTE = 0x100, 0x200
"""Flags of a span: whether it is known that its parent is another service's, and whether it is."""


def value_of(value: str | int | float) -> AnyValue:
    if isinstance(value, str):
        # no half of a surrogate pair may be in a message
        return AnyValue(string_value=value[:LONGEST].encode("utf-8", "replace").decode())
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value)


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value_of(value)) for key, value in attributes.items() if value != ""]


def clean(text: str) -> str:
    """Return text whose characters are bytes as the client has meant it."""
    try:
        return text.encode("latin-1").decode("utf-8", "replace")
    except UnicodeError:  # the application has put another there
        return text.encode("utf-8", "replace").decode()


def host_and_port(host: str) -> tuple[str, int]:
    """Return the parts of a Host field; the port is 0 if it has none."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal() and len(port) <= 5:
        return name.strip("[]"), int(port)
    return host.strip("[]"), 0


class Messages:
    """Messages(resource): `resource` is what all messages of this process have in common."""

    def __init__(self, resource: Mapping[str, str | int]):
        self.resource = resource
        self._bits = random.Random().getrandbits

    def traces(self, ended: Iterable[Ended]) -> bytes:
        message = ExportTraceServiceRequest()
        group = message.resource_spans.add()
        group.resource.attributes.extend(pairs(self.resource))
        scope = group.scope_spans.add()
        scope.scope.name, scope.scope.version = "syncless", syncless.__version__
        for one in ended:
            self._add(scope.spans, one)
        return bytes(message.SerializeToString())

    def metrics(self, figures: Mapping[str, Any], began: int, now: int, has_sdk: bool) -> bytes:
        """`has_sdk`: the SDK of the application counts requests by the same conventions."""
        message = ExportMetricsServiceRequest()
        group = message.resource_metrics.add()
        group.resource.attributes.extend(pairs(self.resource))
        scope = group.scope_metrics.add()
        scope.scope.name, scope.scope.version = "syncless", syncless.__version__
        for family in families(figures):
            if not (has_sdk and family.name in OTHER_NAMES):
                add_metric(scope.metrics, family, began, now)
        return bytes(message.SerializeToString())

    def logs(self, entries: Iterable[Entry]) -> bytes:
        message = ExportLogsServiceRequest()
        group = message.resource_logs.add()
        group.resource.attributes.extend(pairs(self.resource))
        scope = group.scope_logs.add()
        scope.scope.name, scope.scope.version = "syncless", syncless.__version__
        for entry in entries:
            told = scope.log_records.add(
                time_unix_nano=entry.time,
                observed_time_unix_nano=entry.time,
                severity_number=SEVERITIES[entry.level],
                severity_text=LEVELS[entry.level],
                body=value_of(entry.message),
                attributes=pairs(
                    {
                        "syncless.request_id": entry.request,
                        "exception.type": entry.error,
                        "exception.message": entry.text,
                        "exception.stacktrace": entry.stack[-LONGEST:],
                    }
                ),
            )
            if entry.traceparent:
                told.trace_id = bytes.fromhex(entry.traceparent[3:35])
                told.span_id = bytes.fromhex(entry.traceparent[36:52])
                told.flags = int(entry.traceparent[53:55], 16)
        return bytes(message.SerializeToString())

    def _add(self, spans: Any, ended: Ended) -> None:
        ids = ended.span.ids
        trace = bytes.fromhex(ids.trace_id)
        own = bytes.fromhex(ids.traceparent[36:52])
        name, attributes = describe(ended)
        span = spans.add(
            trace_id=trace,
            span_id=own,
            parent_span_id=bytes.fromhex(ended.span.parent),
            trace_state=ended.span.state[:512],
            flags=SAMPLED | HAS_REMOTE | (IS_REMOTE if ended.span.parent else 0),
            name=name,
            kind=Message.SPAN_KIND_SERVER,
            start_time_unix_nano=ended.end - ended.duration,
            end_time_unix_nano=ended.end,
            attributes=pairs(attributes),
        )
        for event in ended.span.events:
            span.events.add(time_unix_nano=event.time, name=event.name, attributes=pairs(event.attributes))
        if ended.code >= 500 or (ended.error and not ended.code):
            span.status.code = Status.STATUS_CODE_ERROR
        offset = ended.end - ended.clock
        for part in parts(ended.waits):
            start = int(part.since * 1e9) + offset
            spans.add(
                trace_id=trace,
                span_id=self._bits(64).to_bytes(8, "big"),
                parent_span_id=own,
                trace_state=ended.span.state[:512],
                flags=SAMPLED | HAS_REMOTE,
                name=part.name,
                kind=Message.SPAN_KIND_CLIENT if part.is_client else Message.SPAN_KIND_INTERNAL,
                start_time_unix_nano=start,
                end_time_unix_nano=start + int(part.seconds * 1e9),
                attributes=pairs(part.attributes),
            )


SEVERITIES = {DEBUG: 5, INFO: 9, WARNING: 13, ERROR: 17}
"""OpenTelemetry's numbers for the levels of the error log."""
UNITS = {"_seconds": "s", "_bytes": "By"}
"""End of a metric's name -> its unit."""
OTHER_NAMES = {
    DURATION: "http.server.request.duration",
    "syncless_running_requests": "http.server.active_requests",
}
"""Metrics for which there are conventions; the others have the names that Prometheus would give them back."""


def add_metric(metrics: Any, family: Family, began: int, now: int) -> None:
    """Add a metric; its counts are those since `began` (ns since 1970)."""
    name = OTHER_NAMES.get(family.name, family.name.replace("syncless_", "syncless.", 1))
    unit = next((unit for end, unit in UNITS.items() if family.name.endswith(end)), "")
    metric = metrics.add(name=name, description=family.text, unit=unit)
    if family.kind == "histogram":
        metric.histogram.aggregation_temporality = CUMULATIVE
        metric.histogram.data_points.add(
            start_time_unix_nano=began,
            time_unix_nano=now,
            count=sum(family.counts),
            sum=family.total,
            bucket_counts=family.counts,
            explicit_bounds=SECONDS,
        )
        return
    if family.kind == "counter":
        metric.sum.aggregation_temporality, metric.sum.is_monotonic = CUMULATIVE, True
    elif name == OTHER_NAMES["syncless_running_requests"]:
        metric.sum.aggregation_temporality = CUMULATIVE
    points = metric.gauge.data_points if not metric.HasField("sum") else metric.sum.data_points
    for values, number in family.points:
        points.add(
            attributes=pairs(dict(zip(family.labels, values, strict=True))),
            start_time_unix_nano=began if metric.HasField("sum") else 0,
            time_unix_nano=now,
            as_double=number,
        )


def describe(ended: Ended) -> tuple[str, dict[str, str | int]]:
    """Return the name of a request's span, and its attributes."""
    method = ended.method if ended.method in METHODS else OTHER
    host, port = host_and_port(ended.host)
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "url.path": clean(ended.path),
        "url.scheme": ended.scheme,
        "server.address": clean(host),
        "client.address": ended.client,
        "network.protocol.version": VERSIONS.get(ended.version, ""),
        "user_agent.original": clean(ended.user_agent),
    }
    if method == OTHER:
        attributes["http.request.method_original"] = clean(ended.method)
    if port:
        attributes["server.port"] = port
    if ended.code:
        attributes["http.response.status_code"] = ended.code
    if ended.error:
        attributes["error.type"] = ended.error
    elif ended.code >= 500:
        attributes["error.type"] = str(ended.code)
    verb = method if method != OTHER else "HTTP"
    if isinstance(ended.route, str) and ended.route:
        attributes["http.route"] = ended.route
        verb = f"{verb} {ended.route}"
    return value_of(verb).string_value, attributes
