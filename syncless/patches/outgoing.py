"""Adds header fields to requests to other services: those of http.client (urllib, urllib3, requests), of
httpcore (httpx), sync and async, of aiohttp, and of grpcio, sync and async.

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


def _aiohttp(patcher: Patcher, module: Any) -> None:
    requests = module.ClientRequest
    send = requests.send

    @wraps(send)
    def send_with_ours(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.method != "CONNECT":  # the proxy is not called
            for name, value in missing({name.lower().encode() for name in self.headers}):
                self.headers[name.decode()] = value.decode("latin-1")
        return send(self, *args, **kwargs)

    patcher.member(requests, "send", send_with_ours, WHY)


def _with_ours(metadata: Any) -> list[tuple[str, Any]]:
    """Return all metadata of a call of gRPC, whose names are in lower case."""
    given = list(metadata or ())
    added = missing({name.encode() for name, _ in given})
    return [*given, *((name.decode(), value.decode("latin-1")) for name, value in added)]


def _grpc(patcher: Patcher, module: Any) -> None:
    augment = module.augment_metadata

    @wraps(augment)
    def augment_with_ours(metadata: Any, compression: Any) -> Any:
        return augment(_with_ours(metadata), compression)

    patcher.member_of_module(module, "augment_metadata", augment_with_ours, WHY)


def _async_grpc(patcher: Patcher, module: Any) -> None:
    calls = module._BaseMultiCallable
    begin = calls._init_metadata

    @wraps(begin)
    def begin_with_ours(metadata: Any = None, compression: Any = None) -> Any:
        return begin(module.Metadata(*_with_ours(metadata)), compression)

    patcher.member(calls, "_init_metadata", staticmethod(begin_with_ours), WHY)


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "http.client", _http_client)
    when_imported(patcher, "httpcore._models", _httpcore)
    when_imported(patcher, "aiohttp.client_reqrep", _aiohttp)
    when_imported(patcher, "grpc._compression", _grpc)
    when_imported(patcher, "grpc.aio._channel", _async_grpc)
