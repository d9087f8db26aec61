"""A collector of our own, and servers that send to it."""

import os
import sys

import pytest


def of_an_sdk():
    """All modules of OpenTelemetry but the messages, which the collector reads."""
    return {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("opentelemetry.") and not f"{name}.".startswith("opentelemetry.proto.")
    }


def take_out(modules):
    for name in modules:
        del sys.modules[name]
        vars(sys.modules["opentelemetry"]).pop(name.partition(".")[2], None)


def put_back(modules):
    """`from opentelemetry import trace` looks at the package, others at sys.modules."""
    sys.modules.update(modules)
    for name, module in modules.items():
        if name.count(".") == 1:
            setattr(sys.modules["opentelemetry"], name.partition(".")[2], module)


@pytest.fixture(autouse=True)
def nothing_of_others(monkeypatch):
    """The tester's variables mean nothing here, nor does an SDK that tests of other rooms have imported. They
    find it as they left it."""
    pytest.importorskip("opentelemetry.proto.common.v1.common_pb2", reason="pip install opentelemetry-proto")
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    take_out(theirs := of_an_sdk())
    yield
    take_out(of_an_sdk())
    put_back(theirs)


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
