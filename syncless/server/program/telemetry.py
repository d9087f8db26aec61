"""Flushes the spans, metrics and error reports that monitoring libraries still hold when a worker ends.

Fact: these libraries collect data, send it from a thread at intervals, and send the rest in an atexit
function. A library that was set up before the fork, as by `opentelemetry-instrument` or with --preload, has
registered that function in the master, but a worker runs only its own. Danger: the last seconds of each
worker are lost. Decision: a worker flushes the libraries that are imported. Price: this list. Guarded by
tests/server/test_forked_workers.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from syncless.http.log.errorlog import process_log

SENTRY_SECONDS = 2.0
"""For which sentry-sdk waits for its reports to be taken, as at the end of a process."""

PROVIDERS = {
    "opentelemetry.trace": "get_tracer_provider",
    "opentelemetry.metrics": "get_meter_provider",
    "opentelemetry._logs": "get_logger_provider",
}


def send_the_rest() -> None:
    for name, get_provider in PROVIDERS.items():
        module = sys.modules.get(name)
        if module is not None:
            # the library's own stand-in, where none was set up, has nothing to send
            _call(getattr(getattr(module, get_provider)(), "force_flush", None))
    sentry: Any = sys.modules.get("sentry_sdk")
    if sentry is not None:
        _call(partial(sentry.flush, timeout=SENTRY_SECONDS))


def _call(flush: Callable[[], object] | None) -> None:
    try:
        if flush is not None:
            flush()
    except Exception as error:
        process_log().error("a stopping worker cannot send its telemetry:", error)
