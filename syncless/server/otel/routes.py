"""Has Django leave the route of each request where tracer.py finds it: frameworks that leave it themselves
need nothing.

Django keeps the route in its own request, to which nothing of ours refers. So the method of its handlers that
finds the view is wrapped, once in a process, when Django is imported.
"""

from __future__ import annotations

import functools
from typing import Any

from syncless.tools.imports import when_executed


def name_routes() -> None:
    """From now on `http.route` is left with Django's requests, unless the application has left it."""
    when_executed("django.core.handlers.base", _change)


def _change(module: Any) -> None:
    handler = module.BaseHandler
    resolve = getattr(handler, "resolve_request", None)
    if resolve is None or getattr(resolve, "names_routes", False):
        return

    @functools.wraps(resolve)
    def resolve_request(self: Any, request: Any) -> Any:
        match = resolve(self, request)
        left = getattr(request, "scope", request.META)  # what came from us
        left.setdefault("http.route", f"/{match.route}")
        return match

    resolve_request.names_routes = True  # type: ignore[attr-defined]
    handler.resolve_request = resolve_request
