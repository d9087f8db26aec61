"""Native handlers by name: "package.module:attribute", or "path/to/library.so:function"."""

from __future__ import annotations

from syncless.http.program.loading import is_module
from syncless.http.program.loading import load as load_object
from syncless.native.handler import Handler, load


def handler_named(name: str) -> Handler:
    """ValueError if the name is incomplete, TypeError if it names something else, and the errors of both
    kinds of loading."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function:
        raise ValueError(
            f"incomplete name {name!r} of a native handler: write module:handler or library.so:function"
        )
    if place.endswith(".so") and not is_module(place):
        return load(place, function)
    return Handler(load_object(name), function)
