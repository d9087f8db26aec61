"""The settings of OpenTelemetry: its standard variables (OTEL_...), and the address that `otel` gives.

A variable with a malformed value is reported and ignored, as the specification has it: it may be meant for
others. Names and defaults: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from syncless.tools.records import record

ENDPOINT = "http://localhost:4318"
"""Where a collector of the same machine listens."""
SIGNALS = {"traces": "/v1/traces", "metrics": "/v1/metrics", "logs": "/v1/logs"}
"""Kind of records -> path of the endpoint."""
PROTOCOLS = ("http/protobuf",)
COMPRESSIONS = ("gzip", "none")
SAMPLERS = {
    "always_on": (1.0, "ignore"),
    "always_off": (0.0, "ignore"),
    "traceidratio": (None, "ignore"),
    "parentbased_always_on": (1.0, "decide"),
    "parentbased_always_off": (0.0, "decide"),
    "parentbased_traceidratio": (None, "decide"),
}
"""Name -> the share of requests that are traced (None: the argument), and whether traceparent decides."""
SERVICE = "unknown_service:syncless"


@record(frozen=True)
class Target:
    """Where one signal goes."""

    url: str
    headers: Mapping[str, str]
    seconds: float
    """For one attempt to send it."""
    gzip: bool
    certificate: str | None
    """A file of the CA certificates that are trusted; the system's by default."""


@record(frozen=True)
class Settings:
    targets: Mapping[str, Target]
    """By signal; those that are not sent are missing."""
    resource: Mapping[str, str]
    """Attributes of all spans of this server."""
    share: float
    """Of the requests without a traceparent, those that are traced."""
    parents: str
    """As Listener.trace() has it."""
    queue: int
    """Records that wait to be sent; one more drops the oldest."""
    batch: int
    """Records in one message."""
    delay: float
    """Seconds for which a record may wait for more."""
    metric_interval: float
    """Seconds between two messages of metrics."""


class Environment:
    """Environment(variables, complain): reads settings, and complains of malformed ones."""

    def __init__(self, variables: Mapping[str, str], complain: Callable[[str], None]):
        self._variables = variables
        self._complain = complain

    def text(self, *names: str) -> str | None:
        """Return the value of the first variable that is set. An empty one is not."""
        return next((self._variables[name] for name in names if self._variables.get(name)), None)

    def chosen(self, choices: Any, default: str, *names: str) -> str:
        value = self.text(*names)
        if value is None or value in choices:
            return value or default
        self._complain(f"{names[-1]} must be {' or '.join(choices)}, not {value!r}: {default} is used")
        return default

    def number(self, default: float, least: float, most: float, *names: str) -> float:
        value = self.text(*names)
        try:
            number = default if value is None else float(value)
        except ValueError:
            number = least - 1
        if least <= number <= most:
            return number
        self._complain(f"{names[-1]} must be a number from {least:g} to {most:g}, not {value!r}")
        return default

    def pairs(self, *names: str) -> dict[str, str]:
        """Return the pairs of a list, `a=b,c=d`, whose values are percent-encoded."""
        value = self.text(*names) or ""
        found = {}
        for part in filter(str.strip, value.split(",")):
            key, equals, one = part.partition("=")
            if not equals or not key.strip():
                self._complain(f"{names[-1]} must be a list such as a=b,c=d; {part!r} in it is left out")
                continue
            found[unquote(key.strip())] = unquote(one.strip())
        return found


def is_asked_for(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether the variables alone ask for telemetry."""
    names = ("", *(f"{signal.upper()}_" for signal in SIGNALS))
    return any(variables.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in names)


def is_disabled(variables: Mapping[str, str] = os.environ) -> bool:
    return variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def check_url(url: str) -> str:
    """Return the URL. Raise ValueError if nothing can be sent there."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) <= 0:
        raise ValueError(f"the address of a collector must be http://host:port or https://host, not {url!r}")
    return url


def read(
    endpoint: str = "",
    complain: Callable[[str], None] = lambda words: None,
    variables: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings; `endpoint` counts more than the variables. Raise ValueError if it is no URL."""
    known = Environment(variables, complain)
    if endpoint:
        check_url(endpoint)
    targets = {name: _target(known, name, endpoint, complain) for name in SIGNALS}
    sampler = known.chosen(SAMPLERS, "parentbased_always_on", "OTEL_TRACES_SAMPLER")
    share, parents = SAMPLERS[sampler]
    if share is None:
        share = known.number(1.0, 0, 1, "OTEL_TRACES_SAMPLER_ARG")
    propagators = (known.text("OTEL_PROPAGATORS") or "tracecontext").split(",")
    if "tracecontext" not in map(str.strip, propagators):
        parents = "ignored"
    elif parents == "ignore":
        parents = "count"
    resource = {"service.name": SERVICE, **known.pairs("OTEL_RESOURCE_ATTRIBUTES")}
    resource["service.name"] = known.text("OTEL_SERVICE_NAME") or resource["service.name"]
    most = int(known.number(8192, 1, 1e7, "OTEL_BSP_MAX_QUEUE_SIZE"))
    return Settings(
        {name: target for name, target in targets.items() if target is not None},
        resource,
        share,
        parents,
        most,
        min(most, int(known.number(512, 1, 1e5, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"))),
        known.number(5000, 0, 1e7, "OTEL_BSP_SCHEDULE_DELAY") / 1000,
        known.number(60000, 1, 1e9, "OTEL_METRIC_EXPORT_INTERVAL") / 1000,
    )


def _target(known: Environment, signal: str, endpoint: str, complain: Callable[[str], None]) -> Target | None:
    """Return where the signal goes; None if it is not sent."""
    own, common = f"OTEL_EXPORTER_OTLP_{signal.upper()}_", "OTEL_EXPORTER_OTLP_"
    wanted = (known.text(f"OTEL_{signal.upper()}_EXPORTER") or "otlp").split(",")
    if "otlp" not in map(str.strip, wanted):
        return None
    url = None if endpoint else known.text(own + "ENDPOINT")
    if url is None:
        base = endpoint or known.text(common + "ENDPOINT") or ENDPOINT
        url = base.rstrip("/") + SIGNALS[signal]
    try:
        check_url(url)
    except ValueError as error:
        complain(f"{common}ENDPOINT: {error}; no {signal} are sent")
        return None
    protocol = known.text(own + "PROTOCOL", common + "PROTOCOL") or PROTOCOLS[0]
    if protocol not in PROTOCOLS:
        complain(
            f"{common}PROTOCOL={protocol} is not supported: no {signal} are sent. Set it to http/protobuf, "
            "and the endpoint to the collector's port for that, usually 4318"
        )
        return None
    names = own + "COMPRESSION", common + "COMPRESSION"
    return Target(
        url,
        known.pairs(own + "HEADERS", common + "HEADERS"),
        known.number(10000, 1, 1e7, own + "TIMEOUT", common + "TIMEOUT") / 1000,
        known.chosen(COMPRESSIONS, "gzip", *names) == "gzip",
        known.text(own + "CERTIFICATE", common + "CERTIFICATE"),
    )
