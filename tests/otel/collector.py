"""A collector of OpenTelemetry for tests: it decodes what comes with opentelemetry-proto."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.proto.common.v1.common_pb2", reason="pip install opentelemetry-proto")

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def as_dict(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


class Seen:
    """A span as tests read it."""

    def __init__(self, span, resource):
        self.name, self.kind, self.status = span.name, span.kind, span.status.code
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.state, self.flags = span.trace_state, span.flags
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = as_dict(span.attributes)
        self.events = [(event.name, as_dict(event.attributes)) for event in span.events]
        self.resource = resource

    def __repr__(self):
        return f"<{self.name} {self.attributes}>"


class Collector:
    """Collector(answers): `answers` are (status, headers, body) of the first requests; then it takes all."""

    def __init__(self, answers=(), port=0):
        self.answers = list(answers)
        self.requests = []
        """(path, headers, message) of all."""
        self.taken = []
        """Those that were answered with 200."""
        self.lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                collector.take(self)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        if handler.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert handler.headers["content-type"] == "application/x-protobuf"
        message = KINDS[handler.path].FromString(body)
        with self.lock:
            given = self.answers.pop(0) if self.answers else (200, {}, b"")
            if callable(given):
                given = given(handler)
            if given is None:
                handler.close_connection = True
                return
            self.requests.append((handler.path, dict(handler.headers), message))
            if given[0] == 200:
                self.taken.append((handler.path, message))
        status, headers, text = given
        handler.send_response(status)
        for name, field in headers.items():
            handler.send_header(name, field)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    @property
    def readings(self):
        """Of metrics: (resource, {name: metric}) of each message."""
        with self.lock:
            taken = [message for path, message in self.taken if path == "/v1/metrics"]
        return [
            (
                as_dict(group.resource.attributes),
                {metric.name: metric for scope in group.scope_metrics for metric in scope.metrics},
            )
            for message in taken
            for group in message.resource_metrics
        ]

    @property
    def logs(self):
        """(record, its attributes) of all."""
        with self.lock:
            taken = [message for path, message in self.taken if path == "/v1/logs"]
        return [
            (record, as_dict(record.attributes))
            for message in taken
            for group in message.resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]

    @property
    def spans(self):
        with self.lock:
            taken = [message for path, message in self.taken if path == "/v1/traces"]
        return [
            Seen(span, as_dict(group.resource.attributes))
            for message in taken
            for group in message.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
