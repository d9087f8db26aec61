"""Helpers for ASGI extensions: parts of files, trailers, and the TLS entry of a scope."""

from __future__ import annotations

import io
import os
import ssl
import stat
from collections.abc import Iterable
from typing import Any

from syncless.http.content.filepart import region_of
from syncless.http.wire.wire import is_field

STOPPING = "syncless.stopping"
"""The name of our own, which has an `event`."""

HOLD = "syncless.hold"
"""Another: its message has a `response`, the result of syncless.wsgi.hold()."""

FORBIDDEN = {
    b"content-length",
    b"transfer-encoding",
    b"trailer",
    b"host",
    b"content-encoding",
    b"content-type",
}
"""Fields that no trailer may have: they frame the message or say how to read it (RFC 9110, 6.5.1)."""


def open_regular(path: Any) -> io.FileIO:
    """Open a file of which all can be sent; never wait for somebody who writes to a FIFO."""
    file = io.FileIO(path, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise ValueError(f"http.response.pathsend needs a regular file, which {path!r} is not")


def file_region(file: Any, offset: int | None, count: int | None) -> tuple[int, int]:
    """Return the offset and size of a part of an open file, by default from its position to its end. A
    buffered file's position differs from its descriptor's, and its buffer may hold unwritten bytes."""
    region = region_of(file)
    fd = file.fileno()
    if offset is None:
        offset = os.lseek(fd, 0, os.SEEK_CUR) if region is None else region[1]
    return offset, max(0, os.fstat(fd).st_size - offset) if count is None else count


def trailer_lines(message: dict[str, Any]) -> bytes:
    """Return the lines of an http.response.trailers message. Raise ValueError for a forbidden field."""
    lines = []
    for name, value in message.get("headers", ()):
        if not is_field(name, value) or name.lower() in FORBIDDEN:
            raise ValueError(f"a trailer cannot have the field {name!r}: {value!r}")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


def takes_trailers(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the client of a request with these header fields accepts trailers (RFC 9110, 6.5.1)."""
    values = b",".join(value for name, value in headers if name == b"te")
    return b"trailers" in [word.strip() for word in values.lower().split(b",")]


def is_event_stream(fields: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether these fields belong to an event stream, which may end after any event, because the
    client reconnects (HTML, 9.2)."""
    kinds = [value for name, value in fields if name.lower() == b"content-type"]
    return bool(kinds) and kinds[0].lower().startswith(b"text/event-stream")


VERSIONS = {"TLSv1": 0x0301, "TLSv1.1": 0x0302, "TLSv1.2": 0x0303, "TLSv1.3": 0x0304}


def tls_extension(connection: ssl.SSLObject) -> dict[str, Any]:
    """Return the TLS extension of a connection after its handshake. The ssl module reports neither the
    server's certificate nor the number of the cipher suite, so these keys are None, as the specification
    allows."""
    certificate = connection.getpeercert(True)
    names = (connection.getpeercert() or {}).get("subject", ()) if certificate else ()
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)] if certificate else [],
        "client_cert_name": _distinguished(names) if certificate else None,
        "client_cert_error": None,
        "tls_version": VERSIONS.get(connection.version() or ""),
        "cipher_suite": None,
    }


SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""RFC 4514, section 3."""


def _distinguished(subject: Any) -> str | None:
    """Return the name in the form of RFC 4514, with the most specific part first."""
    parts = [
        "+".join(f"{SHORT.get(key, key)}={_escaped(value)}" for key, value in names)
        for names in reversed(subject)
    ]
    return ",".join(parts) or None


def _escaped(value: str) -> str:
    text = "".join("\\" + letter if letter in ',+"\\<>;=' else letter for letter in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text
