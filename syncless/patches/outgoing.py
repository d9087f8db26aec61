"""Adds header fields to requests to other services: those of http.client (urllib, urllib3, requests) and of
httpcore (httpx), sync and async.

A source says what the request that runs adds. It must not know of HTTP clients, nor this file of servers. The
fields of a source belong together: if the caller has set one of them, none is added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any

from syncless.patches.registry import Patcher, when_imported

AREA = "calls"
Source = Callable[[], list[tuple[str, str]]]
"""Returns fields with their names in lower case, and none if nothing is to be added."""
WHY = "does not carry on the request that runs"

sources: list[Source] = []


def missing(present: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields to add to a request that has fields of these names, in lower case."""
    names = set(present)
    for source in sources:  # of each server in this process
        fields = [(name.encode(), value.encode("latin-1")) for name, value in source()]
        if not any(name in names for name, _ in fields):
            names.update(name for name, _ in fields)
            yield from fields


def _http_client(patcher: Patcher, module: Any) -> None:
    connections = module.HTTPConnection
    endheaders, putheader = connections.endheaders, connections.putheader

    @wraps(endheaders)
    def end_with_ours(self: Any, *args: Any, **kwargs: Any) -> Any:
        lines = getattr(self, "_buffer", ())  # the request line is the first
        for name, value in missing({line.partition(b":")[0].lower() for line in lines[1:]}):
            putheader(self, name, value)
        return endheaders(self, *args, **kwargs)

    patcher.member(connections, "endheaders", end_with_ours, WHY)


def _httpcore(patcher: Patcher, module: Any) -> None:
    requests = module.Request
    make = requests.__init__

    @wraps(make)
    def make_with_ours(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if self.method != b"CONNECT":  # the proxy is not called
            self.headers = [*self.headers, *missing({name.lower() for name, _ in self.headers})]

    patcher.member(requests, "__init__", make_with_ours, WHY)


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "http.client", _http_client)
    when_imported(patcher, "httpcore._models", _httpcore)
