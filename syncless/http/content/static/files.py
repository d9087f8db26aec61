"""StaticFiles: decides which requests are for files, and for which files.

Makes an `Answer` to a Request, unless the application must answer it. Next to read: directory.py, which finds
files; answers.py, which decides how much of a file to send.
"""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from syncless._core.calls.files import OpenFile
from syncless.http.content.codings import accepted, gains
from syncless.http.content.static.answers import SMALL, Answer, Known, answer_with, describe, plain, wants_all
from syncless.http.content.static.directory import Directory, is_safe
from syncless.http.request import Request

Paths = Mapping[str, "str | os.PathLike[str]"]

REMEMBERED = 4096
"""Files whose response heads are kept, and paths whose candidates are."""
LONGEST = 512
"""Characters of a path and an Accept-Encoding field that are remembered: clients choose them."""
SUFFIXES = {"br": ".br", "zstd": ".zst", "gzip": ".gz"}
"""Content coding -> the end of the name of a file that has it."""

UNKNOWN_TYPE = "application/octet-stream"
_TYPES = {
    "avif": "image/avif",
    "cjs": "text/javascript",
    "css": "text/css",
    "csv": "text/csv",
    "html": "text/html",
    "htm": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "jsonld": "application/ld+json",
    "m4a": "audio/mp4",
    "map": "application/json",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "mp4": "video/mp4",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "wasm": "application/wasm",
    "webm": "video/webm",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "xml": "application/xml",
    "zst": "application/zstd",
}
"""Types on which the Pythons and the systems do not agree, or which some of them do not know."""
_ENCODED = {
    "br": "application/x-brotli",
    "bzip2": "application/x-bzip2",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}


class Candidates(NamedTuple):
    """The places where the file of a request may be."""

    prefix: str
    directory: Directory
    names: tuple[bytes, ...]
    """Below the directory, the best for the client first; none if no file is ever sent there."""
    codings: tuple[str, ...]
    """Of each."""
    kind: str
    """Media type."""


class StaticFiles:
    """StaticFiles({"/assets": "build/assets"}): serves directories by URL prefix. Caches need not revalidate
    for `max_age` seconds. Raise ValueError."""

    def __init__(self, directories: Paths, max_age: float = 0):
        if max_age < 0 or isinstance(max_age, bool):
            raise ValueError(f"static_max_age must be a number of seconds, not {max_age!r}")
        found = {}
        for prefix, path in directories.items():
            if not prefix.startswith("/") or "//" in prefix:
                raise ValueError(
                    f"a prefix of static files must begin with a slash, such as /static, not {prefix!r}"
                )
            # as the path of a request, whose bytes are decoded as latin-1
            found[prefix.rstrip("/").encode().decode("latin-1")] = Directory(path)
        self._directories = sorted(found.items(), key=lambda pair: -len(pair[0]))
        self._cache_control = f"max-age={max_age:.0f}"
        self._known: dict[tuple[bytes, Directory, str], Known] = {}
        self._remembered = lru_cache(REMEMBERED)(self._candidates)
        self.prefixes = tuple(prefix for prefix, _ in self._directories)
        """The paths of requests that may be for files begin with one of these."""

    def answer(self, request: Request) -> Answer | None:
        """Return the answer to a request, or None if the request is not for a file. Raise OSError if the file
        cannot be read."""
        path, field = request.path, request.field("accept-encoding") or ""
        remembered = len(path) + len(field) <= LONGEST
        candidates = self._remembered(path, field) if remembered else self._candidates(path, field)
        if candidates is None:
            return None
        if request.method not in ("GET", "HEAD"):
            # below "/" the application has all that is no file
            return plain("405 Method Not Allowed", ("Allow", "GET, HEAD")) if candidates.prefix else None
        found = None
        if candidates.names:
            try:
                found = self._found(candidates, request)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM):
                    return plain("403 Forbidden")
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    return plain("503 Service Unavailable", ("Retry-After", "1"))
                raise
        return found or (plain("404 Not Found") if candidates.prefix else None)

    def _candidates(self, path: str, accept_encoding: str) -> Candidates | None:
        mount = next((pair for pair in self._directories if _is_below(path, pair[0])), None)
        if mount is None:
            return None
        prefix, directory = mount
        name = path[len(prefix) + 1 :]
        if path.endswith("/"):
            name += "index.html"
        if not is_safe(name):
            return Candidates(prefix, directory, (), (), "")
        kind = media_type(name)
        codings = (*(accepted(accept_encoding) if name and gains(kind) else ()), "")
        names = tuple((name + SUFFIXES.get(coding, "")).encode("latin-1") for coding in codings)
        return Candidates(prefix, directory, names if name else (b".",), codings, kind)

    def _found(self, candidates: Candidates, request: Request) -> Answer | None:
        file = candidates.directory.open(candidates.names, SMALL if wants_all(request) else 0)
        if file is None:
            return None
        if stat.S_ISDIR(file.mode):
            file.close()
            return _to_directory(candidates, request)
        coding = candidates.codings[file.which]
        key = candidates.names[file.which], candidates.directory, coding
        known = self._known.get(key)
        if known is None or known.modified != file.modified or known.size != file.size:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[key] = describe(file, candidates.kind, coding, self._cache_control)
        return answer_with(file, known, request)


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("/", "")


def _to_directory(candidates: Candidates, request: Request) -> Answer | None:
    """Return a redirect that adds a missing slash to the path, if there is an index file behind it."""
    index: OpenFile | None = None
    if not request.path.endswith("/"):
        index = candidates.directory.open((candidates.names[-1] + b"/index.html",))
    if index is None:
        return None
    index.close()
    target = quote((request.root_path + request.path).encode("latin-1")) + "/"
    query = request.query
    return plain("301 Moved Permanently", ("Location", f"{target}?{query}" if query else target))


def media_type(name: str) -> str:
    """Return the media type of a file, with a charset for text. A compressed file has the type of its
    compression, because clients should not decompress it."""
    _, dot, extension = name.rpartition(".")
    found = _TYPES.get(extension.lower()) if dot else None
    if found is None:
        guessed, encoding = mimetypes.guess_type("/" + name.rpartition("/")[2], strict=False)
        found = _ENCODED.get(encoding, UNKNOWN_TYPE) if encoding else guessed or UNKNOWN_TYPE
    return found + "; charset=utf-8" if found.startswith("text/") else found
