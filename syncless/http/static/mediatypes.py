"""The Content-Type of a file, by its name."""

from __future__ import annotations

import mimetypes

UNKNOWN = "application/octet-stream"
_OURS = {
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


def media_type(name: str) -> str:
    """With a charset for text. A compressed file has the type of its compression: it is what it is, and not
    to be unpacked on the way."""
    _, dot, extension = name.rpartition(".")
    found = _OURS.get(extension.lower()) if dot else None
    if found is None:
        guessed, encoding = mimetypes.guess_type("/" + name.rpartition("/")[2], strict=False)
        found = _ENCODED.get(encoding, UNKNOWN) if encoding else guessed or UNKNOWN
    return found + "; charset=utf-8" if found.startswith("text/") else found
