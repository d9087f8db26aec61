"""Telemetry: what a server has of OpenTelemetry, from its start to its stop."""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from http.client import SWITCHING_PROTOCOLS
from importlib import import_module
from typing import Any

import syncless
from syncless._core.current import sleep
from syncless.http.listener import Listener
from syncless.http.log.errorlog import warn
from syncless.patches.outgoing import Source
from syncless.server.otel import settings
from syncless.server.otel.exporter import Backlog, Clock, Exporter, Outlet
from syncless.server.otel.logs import Entry, observer
from syncless.server.otel.routes import name_routes
from syncless.server.otel.tracer import Ended, Tracer
from syncless.server.status.exemplars import Exemplar, Exemplars
from syncless.server.status.reporter import Reporter
from syncless.server.status.scoreboard import Scoreboard

LAST_SECONDS = 2.0
"""For which a stopping server sends what is left."""
MISSING = "OpenTelemetry needs the package opentelemetry-proto: pip install 'syncless[otel]'"


class Telemetry:
    """Telemetry(server, endpoint): of a server whose listeners are not made yet. `endpoint` is that of the
    option, or "" for that of the variables. Raise ValueError if it is no URL, ImportError without the
    package."""

    def __init__(self, server: Any, endpoint: str = ""):
        self._settings = settings.read(endpoint, lambda words: warn(f"OpenTelemetry: {words}"))
        try:
            messages = import_module("syncless.server.otel.messages")
        except ImportError as error:
            raise ImportError(f"{MISSING} ({error})") from None
        self._messages = messages.Messages(self._resource())
        self.exporter = Exporter()
        self._tracer: Tracer | None = None
        target = self._settings.targets.get("traces")
        if target is not None:
            backlog: Backlog[Ended] = self._backlog()
            self.exporter.outlets.append(
                Outlet(target, "spans", backlog, self._settings.delay, self._encoder(server.exemplars))
            )
            self._tracer = Tracer(self._settings.share, self._settings.parents, backlog.put)
            name_routes()
        target = self._settings.targets.get("metrics")
        if target is not None:
            self._add_metrics(target, server)
        target = self._settings.targets.get("logs")
        if target is not None:
            entries: Backlog[Entry] = self._backlog()
            self.exporter.outlets.append(
                Outlet(target, "log entries", entries, self._settings.delay, self._messages.logs)
            )
            server.logs.errors.also = observer(entries.put)

    def _encoder(self, exemplars: Exemplars | None) -> Callable[[list[Ended]], bytes]:
        """Return the function that encodes spans. It notes them as exemplars, if metrics are shown."""
        encode: Callable[[list[Ended]], bytes] = self._messages.traces
        if exemplars is None:
            return encode

        def encode_and_note(spans: list[Ended]) -> bytes:
            for one in spans:
                if one.code != SWITCHING_PROTOCOLS:  # else the metrics do not count its time
                    ids = one.span.ids.traceparent
                    trace, span = bytes.fromhex(ids[3:35]), bytes.fromhex(ids[36:52])
                    exemplars.note(Exemplar(trace, span, one.duration, one.end))
            return encode(spans)

        return encode_and_note

    def _add_metrics(self, target: settings.Target, server: Any) -> None:
        if server.reporter is None:  # there is no status page
            Reporter(server, Scoreboard(1).row(1))
        began, reporter = time.time_ns(), server.reporter

        def encode(moments: list[int]) -> bytes:
            has_sdk = "opentelemetry.sdk.metrics" in sys.modules  # which counts requests, too
            return bytes(self._messages.metrics(reporter.figures(), began, moments[-1], has_sdk))

        clock = Clock(self._settings.metric_interval)
        self.exporter.outlets.append(Outlet(target, "metrics", clock, 0.0, encode))

    def _backlog(self) -> Backlog[Any]:
        return Backlog(self._settings.queue, self._settings.batch, self.exporter.wake)

    def _resource(self) -> dict[str, str | int]:
        return {
            "telemetry.sdk.name": "syncless",
            "telemetry.sdk.language": "python",
            "telemetry.sdk.version": syncless.__version__,
            "service.instance.id": str(uuid.uuid4()),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
            **self._settings.resource,
        }

    def sources(self) -> Iterator[Source]:
        """Yield what requests tell the services that they call, see patches/outgoing.py."""
        if self._tracer is not None and self._settings.parents != "ignored":
            yield self._tracer.outgoing

    def start(self) -> None:
        self.exporter.start()

    def attach(self, listener: Listener) -> None:
        """Have the listener trace its requests."""
        if self._tracer is not None:
            share, parents = self._settings.share, self._settings.parents
            listener.trace(self._tracer, share, parents, "opentelemetry.trace" in sys.modules)

    def stop(self, seconds: float = LAST_SECONDS, pause: Callable[[float], object] = sleep) -> None:
        """Send what is left, for at most so many seconds."""
        self.exporter.begin_stop(seconds)
        until = time.monotonic() + seconds
        while not self.exporter.is_over and time.monotonic() < until:
            pause(0.005)
        self.exporter.close()


def of_option(wanted: bool | str | None, server: Any) -> Telemetry | None:
    """Return what the option `otel` asks for: a URL, True, False, or None for what the variables say."""
    if wanted is False or settings.is_disabled():
        return None
    if wanted is not None:
        return Telemetry(server, "" if wanted is True else wanted)
    if not settings.is_asked_for() or "opentelemetry.sdk" in sys.modules:
        return None  # a program that has the SDK sends its own
    try:
        return Telemetry(server)
    except ImportError:
        return None  # the variables may be meant for others
