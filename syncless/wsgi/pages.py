"""A WSGI application that is a page of the server's own, such as its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def page(answer: Callable[[str], tuple[bytes, str]]) -> Any:
    """Answers each GET with what ``answer`` gives for its Accept field: a body and a type."""

    def call(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return []
        body, content_type = answer(str(environ.get("HTTP_ACCEPT", "")))
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        start_response("200 OK", [*headers, ("Cache-Control", "no-store")])
        return [body]

    return call
