"""The part of a file that is sent: all of it, a part, or the news that the client has it already.

Takes an open file and a Request, gives an `Answer`. Knows nothing of
paths and directories.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from syncless._core.calls.files import OpenFile
from syncless.http.codings import gains
from syncless.http.filepart import FilePart, blocks, exactly
from syncless.http.request import Request
from syncless.http.static.conditions import precondition, range_holds
from syncless.http.static.ranges import Ranges, content_range, part_heads, ranges_of
from syncless.http.wire import http_date

Headers = list[tuple[str, str]]

OK = "200 OK"
SMALL = 16384
"""Bytes: a body up to this size is read and sent with its head; a larger one goes by sendfile."""
PARTLY = "range", "if-none-match", "if-modified-since", "if-match", "if-unmodified-since"
"""Fields of a request that may not want the whole file."""
OF_CONTENT = "Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Type"
"""Fields that a client that has the file already has, too."""


class Answer(NamedTuple):
    status: str
    headers: Headers
    body: list[bytes] | FilePart | Parts
    """A list, or an iterable with close()."""


class Known(NamedTuple):
    """The facts of a file that are kept."""

    modified: int
    """Nanoseconds; with the size, this says whether it is still the same file."""
    size: int
    second: int
    """That Last-Modified says."""
    etag: str
    last_modified: str
    media_type: str
    headers: Headers
    """Of an answer with the whole file."""


def describe(file: OpenFile, media_type: str, coding: str, cache_control: str) -> Known:
    suffix = f"-{coding}" if coding else ""
    etag = f'"{file.modified:x}-{file.size:x}{suffix}"'
    # a date in the future must not be sent (RFC 9110, 8.8.2.1)
    second = min(file.modified // 1_000_000_000, int(time.time()))
    last_modified = http_date(second)
    headers = [
        ("Content-Type", media_type),
        ("Content-Length", str(file.size)),
        ("ETag", etag),
        ("Last-Modified", last_modified),
        ("Cache-Control", cache_control),
        ("Accept-Ranges", "bytes"),
    ]
    if coding:
        headers.append(("Content-Encoding", coding))
    if gains(media_type):
        headers.append(("Vary", "Accept-Encoding"))
    return Known(file.modified, file.size, second, etag, last_modified, media_type, headers)


def wants_all(request: Request) -> bool:
    """Whether a request is for a whole file, whatever the client has of it."""
    return request.method == "GET" and not any(request.field(name) is not None for name in PARTLY)


def answer_with(file: OpenFile, known: Known, request: Request) -> Answer:
    """The answer to a GET or HEAD request for the file, which is closed unless the body is read from it."""
    if file.data is not None:
        return Answer(OK, known.headers, [file.data])
    answer = None
    try:
        answer = _selected(file, known, request)
    finally:
        if answer is None or isinstance(answer.body, list):
            file.close()
    return answer


def _selected(file: OpenFile, known: Known, request: Request) -> Answer:
    status = precondition(request, known.etag, known.second)
    if status == 304:
        return Answer("304 Not Modified", _without(known.headers, *OF_CONTENT), [])
    if status == 412:
        return plain("412 Precondition Failed")
    if request.method == "HEAD":
        return Answer(OK, known.headers, [])
    field = request.field("range")
    if field is not None and range_holds(request, known.etag, known.last_modified):
        ranges = ranges_of(field, known.size)
        if ranges is not None:
            return _partial(file, known, ranges)
    return Answer(OK, known.headers, _body(file, 0, known.size))


class Parts:
    """The body of an answer with several ranges."""

    def __init__(self, file: OpenFile, heads: list[bytes], ranges: Ranges):
        self._file = file
        self._heads = heads
        self._ranges = ranges

    def __len__(self) -> int:
        """Bytes in all."""
        return sum(map(len, self._heads)) + sum(length for _, length in self._ranges)

    def __iter__(self) -> Iterator[bytes]:
        for head, (first, length) in zip(self._heads, self._ranges, strict=False):
            yield head
            yield from blocks(self._file.fd, first, length)
        yield self._heads[-1]

    def close(self) -> None:
        self._file.close()


def _body(file: OpenFile, first: int, length: int) -> list[bytes] | FilePart:
    if length > SMALL:
        return FilePart(file, first, length)
    return [exactly(file.fd, first, length)] if length else []


def _partial(file: OpenFile, known: Known, ranges: Ranges) -> Answer:
    size = known.size
    if not ranges:
        return plain("416 Range Not Satisfiable", ("Content-Range", f"bytes */{size}"))
    if len(ranges) == 1:
        first, length = ranges[0]
        headers = _without(known.headers, "Content-Length")
        headers += [("Content-Length", str(length)), ("Content-Range", content_range(first, length, size))]
        return Answer("206 Partial Content", headers, _body(file, first, length))
    boundary = os.urandom(16).hex()
    parts = Parts(file, part_heads(ranges, size, known.media_type, boundary), ranges)
    headers = _without(known.headers, "Content-Length", "Content-Type")
    headers.append(("Content-Type", f"multipart/byteranges; boundary={boundary}"))
    headers.append(("Content-Length", str(len(parts))))
    return Answer("206 Partial Content", headers, parts)


def _without(headers: Iterable[tuple[str, str]], *names: str) -> Headers:
    return [pair for pair in headers if pair[0] not in names]


def plain(status: str, *more: tuple[str, str]) -> Answer:
    """An answer that is no more than its status."""
    body = f"{status}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *more]
    return Answer(status, headers, [body])
