"""Parses the PROXY protocol, versions 1 and 2: a line or block in which a load balancer announces the client
of a forwarded connection.

Source of the rules: HAProxy's "The PROXY protocol", sections 2.1 (human-readable) and 2.2 (binary).
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

from syncless.http.trust import unmapped

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
"""With which version 2 begins."""
LONGEST_LINE = 107
"""Bytes of a version 1 header with its CRLF."""
LONGEST_BLOCK = 4096
"""Bytes of a version 2 header with its extensions that are accepted; the protocol allows 65551, senders use
some hundred."""

TCP4, TCP6, UNIX = 0x11, 0x21, 0x31


class ProxyHeader(NamedTuple):
    size: int
    """Bytes that belong to it."""
    source: tuple[str, int] | None
    """Address and port of the client; port -1 for a UNIX socket; None where the sender speaks for itself or
    does not know."""


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the header at the start of the data, or None while it is incomplete. Raise ValueError if there
    is none."""
    if data[: len(SIGNATURE)] == SIGNATURE[: len(data)]:
        return _block(data)
    if data[:6] == b"PROXY "[: len(data)]:
        return _line(data)
    raise ValueError("a PROXY header was expected")


def _line(data: bytes) -> ProxyHeader | None:
    line, newline, _ = data[:LONGEST_LINE].partition(b"\r\n")
    if not newline:
        if len(data) >= LONGEST_LINE:
            raise ValueError("the line of the PROXY header is too long")
        return None
    size = len(line) + 2
    family, *rest = line.decode("ascii", "replace").split(" ")[1:]
    if family == "UNKNOWN":
        return ProxyHeader(size, None)
    if family not in ("TCP4", "TCP6") or len(rest) != 4:
        raise ValueError("malformed PROXY header")
    kind = ipaddress.IPv4Address if family == "TCP4" else ipaddress.IPv6Address
    source, _destination = kind(rest[0]), kind(rest[1])
    ports = [
        int(port)
        for port in rest[2:]
        if port.isascii() and port.isdecimal() and (port == "0" or port[0] != "0") and len(port) <= 5
    ]
    if len(ports) != 2 or max(ports) > 65535:
        raise ValueError("malformed port in a PROXY header")
    return ProxyHeader(size, (str(unmapped(source)), ports[0]))


def _block(data: bytes) -> ProxyHeader | None:
    if len(data) < 16:
        return None
    version_and_command, family, length = struct.unpack_from("!BBH", data, 12)
    if version_and_command not in (0x20, 0x21) or length + 16 > LONGEST_BLOCK:
        raise ValueError("malformed PROXY header")
    size = 16 + length
    if len(data) < size:
        return None
    if version_and_command == 0x20:  # LOCAL: a health check of the balancer's own
        return ProxyHeader(size, None)
    if family == TCP4 and length >= 12:
        return ProxyHeader(
            size, (str(ipaddress.IPv4Address(data[16:20])), struct.unpack_from("!H", data, 24)[0])
        )
    if family == TCP6 and length >= 36:
        return ProxyHeader(
            size, (str(unmapped(ipaddress.IPv6Address(data[16:32]))), struct.unpack_from("!H", data, 48)[0])
        )
    if family == UNIX and length >= 216:
        return ProxyHeader(size, ("", -1))
    if family in (TCP4, TCP6, UNIX):
        raise ValueError("the addresses of a PROXY header are cut short")
    return ProxyHeader(size, None)
