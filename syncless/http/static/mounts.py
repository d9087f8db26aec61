"""StaticFiles: which requests are for files, and how they are answered.

Takes a request as CGI meta-variables (RFC 3875, 4.1) and gives an `Answer`, or None for a request that is the
application's. Knows no kind of application. Next to read: directory.py, which finds files; conditions.py and
ranges.py, which decide how much of one is sent.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from syncless._core.calls.beneath import OpenFile
from syncless.http.codings import accepted, gains
from syncless.http.filepart import FilePart, blocks, exactly
from syncless.http.responseheads import http_date
from syncless.http.static.conditions import precondition, range_holds
from syncless.http.static.directory import Directory, is_safe
from syncless.http.static.mediatypes import media_type
from syncless.http.static.ranges import Ranges, content_range, part_heads, ranges_of

Paths = Mapping[str, "str | os.PathLike[str]"]
Headers = list[tuple[str, str]]

OK = "200 OK"
NOT_FOUND = "404 Not Found"
SMALL = 65536
"""Bytes: a body up to this size is read and sent with its head; a larger one goes by sendfile."""
REMEMBERED = 4096
"""Files whose response heads are kept."""
OF_CONTENT = "Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Type"
"""Fields that a client that has the file already has, too."""
SUFFIXES = {"br": b".br", "zstd": b".zst", "gzip": b".gz"}
"""Content coding -> the end of the name of a file that has it."""


class Answer(NamedTuple):
    status: str
    headers: Headers
    body: list[bytes] | FilePart | Parts
    """A list, or an iterable with close()."""


class Known(NamedTuple):
    """What is kept of a file."""

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


class StaticFiles:
    """StaticFiles({"/assets": "build/assets"}): files by their path's prefix. ValueError. `max_age`: seconds
    for which a cache need not ask again."""

    def __init__(self, directories: Paths, max_age: float = 0):
        if max_age < 0 or isinstance(max_age, bool):
            raise ValueError(f"static_max_age must be a number of seconds, not {max_age!r}")
        found = {}
        for prefix, path in directories.items():
            if not prefix.startswith("/") or "//" in prefix:
                raise ValueError(
                    f"a prefix of static files begins with a slash, such as /static, not {prefix!r}"
                )
            # as the path of a request, whose bytes are decoded as latin-1
            found[prefix.rstrip("/").encode().decode("latin-1")] = Directory(path)
        self._directories = sorted(found.items(), key=lambda pair: -len(pair[0]))
        self._age = f"max-age={max_age:.0f}"
        self._known: dict[tuple[Directory, bytes, str], Known] = {}
        self.prefixes = tuple(prefix for prefix, _ in self._directories)
        """The paths of requests that may be for files begin with one of these."""

    def answer(self, variables: Mapping[str, str]) -> Answer | None:
        """The answer to a request; None if it is not for a file. OSError if the file cannot be read."""
        path = variables["PATH_INFO"]
        mount = next((pair for pair in self._directories if _is_below(path, pair[0])), None)
        if mount is None:
            return None
        prefix, directory = mount
        # below "/" the application has all that is no file
        absent = None if not prefix else _plain(NOT_FOUND)
        method = variables["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            return None if not prefix else _plain("405 Method Not Allowed", ("Allow", "GET, HEAD"))
        name = path[len(prefix) + 1 :]
        if not is_safe(name):
            return absent
        try:
            return self._named(directory, name, variables) or absent
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                return _plain("403 Forbidden")
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return _plain("503 Service Unavailable", ("Retry-After", "1"))
            raise

    def _named(self, directory: Directory, name: str, variables: Mapping[str, str]) -> Answer | None:
        path = variables["PATH_INFO"]
        if path.endswith("/"):
            name += "index.html"
        elif not name:  # the prefix itself, without its slash
            return self._to_directory(directory, "index.html", variables)
        encoded = name.encode("latin-1")
        file = directory.open(encoded)
        if file is None:
            return None
        if stat.S_ISDIR(file.mode):
            file.close()
            return (
                None if path.endswith("/") else self._to_directory(directory, name + "/index.html", variables)
            )
        return self._file(directory, encoded, file, variables)

    @staticmethod
    def _to_directory(directory: Directory, index: str, variables: Mapping[str, str]) -> Answer | None:
        """The slash that is missing in the path, if there is something behind it."""
        file = directory.open(index.encode("latin-1"))
        if file is None:
            return None
        file.close()
        target = quote((variables["SCRIPT_NAME"] + variables["PATH_INFO"]).encode("latin-1")) + "/"
        query = variables.get("QUERY_STRING")
        return _plain("301 Moved Permanently", ("Location", f"{target}?{query}" if query else target))

    def _file(
        self, directory: Directory, name: bytes, file: OpenFile, variables: Mapping[str, str]
    ) -> Answer:
        coding = ""
        field = variables.get("HTTP_ACCEPT_ENCODING")
        if field and gains(media_type(name.decode("latin-1"))):
            for wanted in accepted(field):
                other = directory.open(name + SUFFIXES[wanted])
                if other is not None and stat.S_ISREG(other.mode):
                    file.close()
                    file, coding = other, wanted
                    break
        kept = False
        try:
            answer = self._selected(self._head(directory, name, coding, file), file, variables)
            kept = not isinstance(answer.body, list)
            return answer
        finally:
            if not kept:
                file.close()

    def _selected(self, known: Known, file: OpenFile, variables: Mapping[str, str]) -> Answer:
        """The answer with a file, as far as the client wants it."""
        status = precondition(variables, known.etag, known.second)
        if status == 304:
            return Answer("304 Not Modified", _without(known.headers, *OF_CONTENT), [])
        if status == 412:
            return _plain("412 Precondition Failed")
        if variables["REQUEST_METHOD"] == "HEAD":
            return Answer(OK, known.headers, [])
        field = variables.get("HTTP_RANGE")
        if field is not None and range_holds(variables, known.etag, known.last_modified):
            ranges = ranges_of(field, known.size)
            if ranges is not None:
                return _partial(known, file, ranges)
        return Answer(OK, known.headers, _body(file, 0, known.size))

    def _head(self, directory: Directory, name: bytes, coding: str, file: OpenFile) -> Known:
        key = directory, name, coding
        known = self._known.get(key)
        if known is None or known.modified != file.modified or known.size != file.size:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._describe(name.decode("latin-1"), coding, file)
        return known

    def _describe(self, name: str, coding: str, file: OpenFile) -> Known:
        kind = media_type(name)
        suffix = f"-{coding}" if coding else ""
        etag = f'"{file.modified:x}-{file.size:x}{suffix}"'
        # a date in the future must not be sent (RFC 9110, 8.8.2.1)
        second = min(file.modified // 1_000_000_000, int(time.time()))
        last_modified = http_date(second)
        headers = [
            ("Content-Type", kind),
            ("Content-Length", str(file.size)),
            ("ETag", etag),
            ("Last-Modified", last_modified),
            ("Cache-Control", self._age),
            ("Accept-Ranges", "bytes"),
        ]
        if coding:
            headers.append(("Content-Encoding", coding))
        if gains(kind):
            headers.append(("Vary", "Accept-Encoding"))
        return Known(file.modified, file.size, second, etag, last_modified, kind, headers)


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
            yield from blocks(self._file, first, length)
        yield self._heads[-1]

    def close(self) -> None:
        self._file.close()


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("/", "")


def _body(file: OpenFile, first: int, length: int) -> list[bytes] | FilePart:
    if length > SMALL:
        return FilePart(file, first, length)
    return [exactly(file, first, length)] if length else []


def _partial(known: Known, file: OpenFile, ranges: Ranges) -> Answer:
    size = known.size
    if not ranges:
        return _plain("416 Range Not Satisfiable", ("Content-Range", f"bytes */{size}"))
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


def _plain(status: str, *more: tuple[str, str]) -> Answer:
    body = f"{status}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *more]
    return Answer(status, headers, [body])
