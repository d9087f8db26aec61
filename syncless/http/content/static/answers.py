"""Chooses the part of a file to send: all of it, a range, or nothing because the client already has it.

Makes an `Answer` from an open file and a Request, according to the client's conditions (RFC 9110, 13) and
requested byte ranges (14). It does not deal with paths or directories.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from syncless._core.calls.files import OpenFile
from syncless.http.content.codings import gains
from syncless.http.content.filepart import FilePart, blocks, exactly
from syncless.http.request import Request
from syncless.http.wire.wire import http_date

Headers = list[tuple[str, str]]

OK = "200 OK"
SMALL = 16384
"""Bytes: a body up to this size is read and sent with its head; a larger one goes by sendfile."""
PARTLY = "range", "if-none-match", "if-modified-since", "if-match", "if-unmodified-since"
"""Fields of a request that may not want the whole file."""
OF_CONTENT = "Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Type"
"""Fields that a client that has the file already has, too."""
MOST_RANGES = 16
"""Ranges of a request; with more of them the whole file is sent, as RFC 9110, 14.2 allows."""
_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_UNIT = re.compile(r"[ \t]*bytes=(.*)", re.IGNORECASE | re.DOTALL)
_RANGE = re.compile(r"[ \t]*(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))[ \t]*")

Ranges = list[tuple[int, int]]
"""(first byte, number of bytes) of each."""


class Answer(NamedTuple):
    status: str
    headers: Headers
    body: list[bytes] | FilePart | Parts
    """A list, or an iterable with close()."""


class Known(NamedTuple):
    """The metadata of a file that is cached."""

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
    """Return whether a request unconditionally asks for a whole file."""
    return request.method == "GET" and not any(request.field(name) is not None for name in PARTLY)


def answer_with(file: OpenFile, known: Known, request: Request) -> Answer:
    """Return the answer to a GET or HEAD request for the file. Close the file unless the body is read from
    it."""
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
    """The body of a response with several ranges."""

    def __init__(self, file: OpenFile, heads: list[bytes], ranges: Ranges):
        self._file = file
        self._heads = heads
        self._ranges = ranges

    def __len__(self) -> int:
        """Return the total number of bytes."""
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
    """Return a response whose body is only its status."""
    body = f"{status}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *more]
    return Answer(status, headers, [body])


# -- conditions: the copy of the client is compared with the file


def precondition(request: Request, etag: str, modified: int) -> int:
    """Return 304 or 412 if the client's conditions (RFC 9110, 13.2.2) require it, else 0. `etag` must be
    strong; `modified` is the time of Last-Modified, in seconds."""
    match = request.field("if-match")
    unmodified_since = request.field("if-unmodified-since")
    if match is not None:
        if not _listed(match, etag, weak=False):
            return 412
    elif unmodified_since is not None:
        since = seconds(unmodified_since)
        if since is not None and modified > since:
            return 412
    none_match = request.field("if-none-match")
    if none_match is not None:
        return 304 if none_match == etag or _listed(none_match, etag, weak=True) else 0
    modified_since = request.field("if-modified-since")
    if modified_since is not None:
        since = seconds(modified_since)
        if since is not None and modified <= since:
            return 304
    return 0


def range_holds(request: Request, etag: str, last_modified: str) -> bool:
    """Return whether If-Range is absent or matches the ETag or the exact date of the file (RFC 9110,
    13.1.5)."""
    field = request.field("if-range")
    return field is None or field.strip(" \t") in (etag, last_modified)


def _listed(field: str, etag: str, *, weak: bool) -> bool:
    if field.strip(" \t") == "*":
        return True
    return any(tag == etag and (weak or not prefix) for prefix, tag in _TAG.findall(field))


def seconds(date: str) -> int | None:
    """Return an HTTP date in seconds since 1970, or None if the date is malformed."""
    try:
        when = parsedate_to_datetime(date)
        return int((when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp())
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


# -- ranges, and the framing of several parts


def ranges_of(field: str, size: int) -> Ranges | None:
    """Return the ranges of a file of this size that a Range field asks for. The list is empty if no range can
    be satisfied. Return None if the field must be ignored: it is malformed, or asks for more bytes than the
    file has, or for too many ranges."""
    unit = _UNIT.fullmatch(field)
    if unit is None:
        return None
    found: Ranges = []
    for text in unit[1].split(","):
        one = _RANGE.fullmatch(text)
        if one is None:
            if text.strip(" \t"):
                return None
            continue  # an empty element of a list is allowed
        if one[3] is not None:
            first, last = max(0, size - int(one[3])), size - 1
        else:
            first, last = int(one[1]), size - 1 if one[2] is None else min(int(one[2]), size - 1)
            if one[2] is not None and int(one[2]) < first:
                return None
        if first <= last:
            found.append((first, last - first + 1))
            if len(found) > MOST_RANGES:
                return None
    if len(found) > 1 and sum(length for _, length in found) > size:
        return None
    return found


def content_range(first: int, length: int, size: int) -> str:
    return f"bytes {first}-{first + length - 1}/{size}"


def part_heads(ranges: Sequence[tuple[int, int]], size: int, media_type: str, boundary: str) -> list[bytes]:
    """Return the bytes before each part of a multipart/byteranges body, and those at its end."""
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {media_type}\r\n"
        f"Content-Range: {content_range(first, length, size)}\r\n\r\n"
        for first, length in ranges
    ]
    heads[0] = heads[0].removeprefix("\r\n")
    return [text.encode("latin-1") for text in (*heads, f"\r\n--{boundary}--\r\n")]
