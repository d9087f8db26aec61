"""Compresses responses: chooses the responses, and a compressor for each.

This works for any kind of application. zlib makes gzip; optional libraries make br and zstd.

Fact: compressing a kilobyte takes 3 to 10 microseconds, a large body milliseconds, and nothing else runs
meanwhile. Decision: a body is compressed in pieces of PIECE bytes, and other tasklets run in between. A
thread would cost 30 to 100 microseconds more for each body, and gains nothing if there is a worker for each
core. Guarded by tests/http/test_compress.py::test_large_body_lets_others_run.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from syncless._core.current import sleep
from syncless.http.content.codings import accepted, gains, vary

Headers = list[tuple[str, str]]

PIECE = 16384
"""Bytes that are compressed before others get a turn."""
AS_IT_IS = {
    "content-encoding",
    "content-range",
    "content-md5",
    "content-digest",
    "digest",
    "repr-digest",
}
"""Fields of a response whose body must stay the same."""
WITHOUT_BODY = {"204", "205", "206", "304"}


class Compressor(Protocol):
    """The compressor of one body."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush_block(self) -> bytes:
        """Flush all data so far, so that the client can read it."""

    def finish(self) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._object = zlib.compressobj(4, zlib.DEFLATED, 31)
        self.compress = self._object.compress

    def flush_block(self) -> bytes:
        return self._object.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._object.flush()


def _brotli() -> Callable[[], Compressor]:
    library: Any = importlib.import_module("brotli")

    class Brotli:
        def __init__(self) -> None:
            self._object = library.Compressor(quality=4, lgwin=18)
            self.compress = self._object.process
            self.flush_block = self._object.flush
            self.finish = self._object.finish

    return Brotli


def _zstd_of_python() -> Callable[[], Compressor]:
    library: Any = importlib.import_module("compression.zstd")
    kinds = library.ZstdCompressor
    options = {library.CompressionParameter.compression_level: 3, library.CompressionParameter.window_log: 18}

    class Zstd:
        def __init__(self) -> None:
            self._object = kinds(options=options)
            self.compress = self._object.compress
            self.finish = self._object.flush

        def flush_block(self) -> bytes:
            return self._object.flush(kinds.FLUSH_BLOCK)  # type: ignore[no-any-return]

    return Zstd


def _zstandard() -> Callable[[], Compressor]:
    library: Any = importlib.import_module("zstandard")
    parameters = library.ZstdCompressionParameters.from_level(3, window_log=18, write_content_size=False)

    class Zstd:
        def __init__(self) -> None:
            self._object = library.ZstdCompressor(compression_params=parameters).compressobj()
            self.compress = self._object.compress
            self.finish = self._object.flush

        def flush_block(self) -> bytes:
            return self._object.flush(library.COMPRESSOBJ_FLUSH_BLOCK)  # type: ignore[no-any-return]

    return Zstd


_MAKERS: tuple[tuple[str, Callable[[], Callable[[], Compressor]]], ...] = (
    ("zstd", _zstd_of_python),
    ("zstd", _zstandard),
    ("br", _brotli),
    ("gzip", lambda: _Gzip),
)
"""The quickest first: that is the order where the client has no preference."""


def compressors() -> dict[str, Callable[[], Compressor]]:
    """Return a dict of the available content codings, each with a function that makes its Compressor."""
    found: dict[str, Callable[[], Compressor]] = {}
    for coding, make in _MAKERS:
        if coding not in found:
            try:
                found[coding] = make()
            except ImportError:
                continue
    return found


class Plan(NamedTuple):
    """The header fields of a response, and the compressor of its body."""

    headers: Headers
    make: Callable[[], Compressor] | None
    """None: as it is."""


class Compression:
    """Compression(types, minimum): `types` are media types, such as text/*, or True for all types that
    compress well. A body known to be smaller than `minimum` bytes is not compressed. Raise ValueError."""

    def __init__(self, types: bool | str | Iterable[str] = True, minimum: int = 1000):
        if isinstance(types, str):
            types = types.split(",")
        names = () if isinstance(types, bool) else tuple(name.strip().lower() for name in types)
        for name in names:
            if name.count("/") != 1:
                raise ValueError(
                    f"compress must be a list of media types such as text/html or text/*, not {name!r}"
                )
        if isinstance(minimum, bool) or minimum < 0:
            raise ValueError(f"compress_minimum must be a number of bytes, not {minimum!r}")
        self._names = names
        self._minimum = minimum
        self._makers = compressors()
        self.codings = tuple(self._makers)
        """Those that a client can get, the quickest first."""

    def plan(self, accept_encoding: str, status: str, headers: Headers, size: int | None) -> Plan:
        """Choose the compressor for a response, from its head, its body size (if known) and
        Accept-Encoding."""
        fields = {name.lower(): value for name, value in headers}
        if (
            status[:3] in WITHOUT_BODY
            or not self._is_one_of_ours(fields.get("content-type", ""))
            or not AS_IT_IS.isdisjoint(fields)
            or "no-transform" in fields.get("cache-control", "").lower()
        ):
            return Plan(headers, None)
        declared = fields.get("content-length", "")
        if (
            declared.isdecimal() and not size
        ):  # an answer to HEAD may have no body and say how long it would be
            size = int(declared)
        if size is not None and size < self._minimum:
            return Plan(headers, None)
        changed = [pair for pair in headers if pair[0].lower() != "vary"]
        varies = [value for name, value in headers if name.lower() == "vary"]
        changed.append(("Vary", vary(", ".join(varies))))
        wanted = accepted(accept_encoding, self.codings)
        if not wanted:
            return Plan(changed, None)
        changed = [
            (name, _weak(value) if name.lower() == "etag" else value)
            for name, value in changed
            if name.lower() not in ("content-length", "accept-ranges")
        ]
        changed.append(("Content-Encoding", wanted[0]))
        return Plan(changed, self._makers[wanted[0]])

    def _is_one_of_ours(self, content_type: str) -> bool:
        if not self._names:
            return gains(content_type)
        kind = content_type.partition(";")[0].strip().lower()
        return kind in self._names or kind.partition("/")[0] + "/*" in self._names


def _weak(etag: str) -> str:
    return etag if etag.startswith("W/") else f"W/{etag}"


def compressed(compressor: Compressor, data: bytes) -> Iterator[bytes]:
    """Yield the compressed pieces of the data. Other tasklets run between the pieces."""
    if len(data) <= PIECE:
        yield compressor.compress(data)
        return
    view = memoryview(data)
    for begin in range(0, len(data), PIECE):
        if begin:
            sleep(0)
        yield compressor.compress(bytes(view[begin : begin + PIECE]))


def whole(compressor: Compressor, parts: Iterable[bytes]) -> bytes:
    """Return the compressed body made of all parts."""
    return b"".join(
        [*(piece for part in parts for piece in compressed(compressor, part)), compressor.finish()]
    )
