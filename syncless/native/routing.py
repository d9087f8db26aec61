"""Parses the routes of native handlers, and sorts them into the order in which they are tried.

    "/"                    this path, any method
    "GET /users/{id}"      any one segment in place of {id}; GET also answers HEAD
    "/files/{path...}"     the rest of the path, including slashes

A literal takes precedence over a parameter, a parameter over the rest, and a method over any method.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from syncless.apps.loading import is_module
from syncless.apps.loading import load as load_object
from syncless.native.handler import Handler, load

ROUTE = re.compile(r"(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+) +)?(/[^ ?#]*)")
PARAMETER = re.compile(r"\{([A-Za-z_]\w*)(\.\.\.)?\}")
MOST_SEGMENTS = 16
MOST_PARAMETERS = 8


def handler_named(name: str) -> Handler:
    """Return the handler named "package.module:attribute" or "path/to/library.so:function". Raise
    ValueError if the name is incomplete, TypeError if it names something else, and the errors of both
    kinds of loading."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function:
        raise ValueError(
            f"incomplete name {name!r} of a native handler: write module:handler or library.so:function"
        )
    if place.endswith(".so") and not is_module(place):
        return load(place, function)
    return Handler(load_object(name), function)


class Route(NamedTuple):
    text: str
    method: str | None
    path: str
    segments: list[tuple[str, str]]
    """Kind and text of each: "=" a literal, "{" a parameter, "*" the rest. Empty where the path is exact."""
    handler: Handler

    @property
    def rank(self) -> tuple[Any, ...]:
        order = {"=": 0, "{": 1, "*": 2}
        return (
            [(order[kind], text if kind == "=" else "") for kind, text in self.segments],
            self.path if not self.segments else "",
            self.method is None,
        )


def parse_route(text: str, handler: Any) -> Route:
    """Return the route. Raise ValueError if the text is malformed, TypeError if the handler is unsuitable."""
    found = ROUTE.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ValueError(
            f"a native route is a path, or a method and a path, such as 'GET /users/{{id}}', not {text!r}"
        )
    method, path = found[1], found[2]
    segments: list[tuple[str, str]] = []
    names: set[str] = set()
    parts = path[1:].split("/")
    for part in parts:
        parameter = PARAMETER.fullmatch(part)
        if not parameter:
            if "{" in part or "}" in part:
                raise ValueError(f"a parameter must be a whole segment, {{name}} or {{name...}}: {text!r}")
            segments.append(("=", part))
            continue
        if parameter[2] and len(segments) + 1 < len(parts):
            raise ValueError(f"{{name...}} must be the last segment: {text!r}")
        if parameter[1] in names:
            raise ValueError(f"two parameters have the name {parameter[1]!r}: {text!r}")
        names.add(parameter[1])
        segments.append(("*" if parameter[2] else "{", parameter[1]))
    if len(names) > MOST_PARAMETERS or (names and len(segments) > MOST_SEGMENTS):
        raise ValueError(
            f"a native route can have {MOST_PARAMETERS} parameters and {MOST_SEGMENTS} segments at most, "
            f"not {text!r}"
        )
    if isinstance(handler, str):
        handler = handler_named(handler)
    made = handler if isinstance(handler, Handler) else Handler(handler, text)
    return Route(text, method, path, segments if names else [], made)


def parse_routes(native: Mapping[str, Any]) -> list[Route]:
    """Return the routes in the order in which they are tried. Raise ValueError if two routes match the same
    requests."""
    routes = [parse_route(text, handler) for text, handler in native.items()]
    seen: dict[Any, str] = {}
    for route in routes:
        shape = [(kind, text if kind == "=" else "") for kind, text in route.segments] or route.path
        key = (route.method, str(shape))
        if key in seen:
            raise ValueError(f"the native routes {seen[key]!r} and {route.text!r} are for the same requests")
        seen[key] = route.text
    return sorted(routes, key=lambda route: route.rank)
