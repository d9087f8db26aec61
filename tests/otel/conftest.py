"""A collector of our own, and servers that send to it."""

import os
import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_of_others(monkeypatch):
    """The tester's variables mean nothing here, nor does an SDK that tests of other rooms have imported."""
    pytest.importorskip("opentelemetry.proto.common.v1.common_pb2", reason="pip install opentelemetry-proto")
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name in [
        name for name in sys.modules if f"{name}.".startswith(("opentelemetry.sdk.", "opentelemetry.trace."))
    ]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def collector():
    from tests.otel.collector import Collector

    with Collector() as collector:
        yield collector


@pytest.fixture
def asked(start, collector):
    """asked(app, *heads, **options) -> the spans of these requests, sent one after the other."""

    def ask(app, *heads, **options):
        options.setdefault("otel", collector.url)
        server = start(app, **options)
        with start.client(server) as client:
            for head in heads:
                client.send(head.encode() if isinstance(head, str) else head)
                client.response()
        server.stop()
        return collector.spans

    return ask
