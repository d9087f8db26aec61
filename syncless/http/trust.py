"""The trusted proxies of a server, by address, and the header fields in which they describe their clients.
These fields are removed from the requests of all other peers before the application sees them, because any
client can send them.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from syncless.http.wire.wire import is_host

if TYPE_CHECKING:
    from syncless.http.request import Request

MAPPED = bytes(10) + b"\xff\xff"
"""Before an IPv4 address inside IPv6."""

FIELDS = (
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    "forwarded",
)
"""The fields that a proxy can be trusted with. RFC 7239 for `Forwarded`; the others are custom."""

REQUEST_START = "x-request-start"
"""When a proxy took the request: applications see it from any peer, it counts if it is one of the trusted
fields."""

REQUEST_TIMEOUT = "x-request-timeout"
"""How many seconds its caller has left for the request: as for REQUEST_START."""
TIMES = REQUEST_START, REQUEST_TIMEOUT

FORWARDING = "x-forwarded"
"""Others begin so."""

DEFAULT_FIELDS = ("x-forwarded-for",)
"""The fields that the documented switches of the common proxies set: HAProxy's `option forwardfor`, nginx's
$proxy_add_x_forwarded_for. Neither sets a field for the scheme, host or port unless its configuration has a
line for it. Without one it passes on the field that its client sent."""

PAIR = re.compile(r'\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^";,\s]*)\s*')


START = re.compile(r"(?:t=)?([0-9]{10,16}(?:\.[0-9]{1,9})?)")
TIMEOUT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
OLDEST = 3600.0
"""Seconds after which nobody waits for a response any more: an older start is a mistake."""


def seconds_since(start: str) -> float | None:
    """Return the seconds since the time in an X-Request-Start field (the last one in a list; in seconds,
    milliseconds or microseconds since 1970, as sent by nginx, Heroku and HAProxy), or None if the time is
    malformed, in the future or too long ago."""
    found = START.fullmatch(start.rpartition(",")[2].strip())
    if found is None:
        return None
    since = float(found[1])
    while since >= 1e11:
        since /= 1000
    waited = time.time() - since
    return waited if 0 <= waited <= OLDEST else None


def seconds_left(timeout: str) -> float | None:
    """Return the seconds in an X-Request-Timeout field (the last one in a list), or None if malformed."""
    found = TIMEOUT.fullmatch(timeout.rpartition(",")[2].strip())
    return None if found is None else float(found[0])


def unmapped(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address inside an IPv4-mapped IPv6 address (::ffff:192.0.2.1), which dual-stack sockets
    report for IPv4 clients."""
    return getattr(address, "ipv4_mapped", None) or address


def packed(text: str) -> bytes:
    """Return the bytes of an address, of the IPv4 address if it is IPv4-mapped. Raise ValueError if it is
    malformed. The ipaddress module would take ten times as long for each client."""
    try:
        return socket.inet_pton(socket.AF_INET, text)
    except OSError:
        pass
    try:
        address = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        raise ValueError(f"{text!r} is not an IP address") from None
    return address[12:] if address.startswith(MAPPED) else address


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    network = ipaddress.ip_network(text, strict=False)
    if (
        isinstance(network, ipaddress.IPv6Network)
        and network.prefixlen >= 96
        and network.network_address.ipv4_mapped
    ):
        return ipaddress.IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - 96))
    return network


class Trust:
    """Tests whether an address belongs to a trusted peer. ``peers`` are addresses, networks ("10.0.0.0/8"),
    "unix" for UNIX sockets, or "*" for all."""

    def __init__(self, peers: Iterable[str]):
        self.everybody = False
        self.unix = False
        self.networks: list[tuple[int, int, int]] = []
        """Bytes of an address, the mask, and the masked address."""
        self._known: dict[str, bool] = {}
        for peer in peers:
            if peer == "*":
                self.everybody = True
            elif peer == "unix":
                self.unix = True
            else:
                try:
                    network = _network(peer)
                except ValueError:
                    raise ValueError(
                        f"trusted: write an address, a network (10.0.0.0/8), unix or *, not {peer!r}"
                    ) from None
                size = len(network.network_address.packed)
                self.networks.append((size, int(network.netmask), int(network.network_address)))

    def __call__(self, address: str) -> bool:
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= 1024:
                self._known.clear()
            known = self._known[address] = self._look(address)
        return known

    def _look(self, text: str) -> bool:
        if self.everybody:
            return True
        if not text:
            return self.unix
        address = packed(text.partition("%")[0])
        number = int.from_bytes(address, "big")
        return any(size == len(address) and number & mask == base for size, mask, base in self.networks)


def is_forwarding(name: str) -> bool:
    """Return whether proxies describe their client in the field of this name (in lower case)."""
    return name in FIELDS or name.startswith(FORWARDING)


def _port(text: str | None) -> str:
    """Return the text if it is a port, or "" if not, for example for a pseudonym (_hidden)."""
    if text and text.isdecimal() and text.isascii() and len(text) <= 5 and 0 < int(text) <= 65535:
        return text
    return ""


def _split(text: str) -> tuple[str, str]:
    """Return the host and the port of text such as 192.0.2.1, a.example:80, 2001:db8::1 or
    [2001:db8::1]:80."""
    text = text.strip()
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, _port(rest[1:]) if rest.startswith(":") else ""
    host, _, port = text.partition(":") if text.count(":") == 1 else (text, "", "")
    return host, _port(port)


def _address(text: str) -> str | None:
    """Return the IP address in the text, in the form that a socket reports, or None for unknown and
    pseudonyms."""
    text, percent, zone = _split(text)[0].partition("%")
    try:
        address = packed(text)
    except ValueError:
        return None
    if len(address) == 4:
        return None if percent else socket.inet_ntop(socket.AF_INET, address)
    if percent and (not zone or "%" in zone):
        return None
    return socket.inet_ntop(socket.AF_INET6, address) + percent + zone


def _elements(text: str) -> list[dict[str, str]] | None:
    """Return the elements of a Forwarded field (RFC 7239, 4), or None if it is malformed."""
    elements: list[dict[str, str]] = [{}]
    at = 0
    while at < len(text):
        match = PAIR.match(text, at)
        if match is None:
            return None
        value = match[2]
        elements[-1][match[1].lower()] = (
            re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        )
        at = match.end()
        if at < len(text):
            if text[at] == ",":
                elements.append({})
            elif text[at] != ";":
                return None
            at += 1
    return elements


class Forward(Protocol):
    """The interface to a server's knowledge of the proxies in front of it."""

    def keeps(self, name: str) -> bool:
        """Return whether this field, in which a proxy describes its client, is kept in a trusted peer's
        request."""

    def __call__(self, request: Request) -> None:
        """Replace the client, scheme, host and port of a trusted peer's request with those that the peer
        reports."""


class Forwarding:
    """Called with a trusted peer's request, replaces its client with the one that the peer reports.

    The client becomes the last address in the chain that does not belong to a trusted proxy; the scheme, host
    and port of that entry are used, too. Only the ``fields`` are kept in such a request, because a proxy that
    does not set the others passes on whatever its client has sent.
    """

    def __init__(self, trust: Trust, fields: Iterable[str] = DEFAULT_FIELDS):
        self.trust = trust
        self.fields = tuple(fields)
        for field in self.fields:
            if field not in (*FIELDS, *TIMES):
                raise ValueError(
                    f"trusted_fields: {field!r} is not a field that a proxy sets; choose from "
                    f"{', '.join((*FIELDS, *TIMES))}"
                )
        if "forwarded" in self.fields and not {"forwarded", *TIMES}.issuperset(self.fields):
            raise ValueError(
                "trust either Forwarded or the X- fields, not both: they could contradict each other"
            )

    def keeps(self, name: str) -> bool:
        return name in self.fields

    def __call__(self, request: Request) -> None:
        forwarded = request.field("forwarded")
        if forwarded is not None:
            elements = _elements(forwarded) or []
            place = self._client(request, [element.get("for", "") for element in elements])
            if elements:
                self._seen_as(request, elements[place].get("proto"), elements[place].get("host"), None)
            return
        field = request.field("x-forwarded-for")
        if field is None:
            field = request.field("x-real-ip") or ""
        chain = [entry for entry in field.split(",") if entry.strip()]
        place = self._client(request, chain) - len(chain)  # from the end

        def same_place(name: str) -> str | None:
            values = [value.strip() for value in (request.field(name) or "").split(",")]
            return values[place] if len(values) == len(chain) else values[-1]

        self._seen_as(
            request,
            same_place("x-forwarded-proto"),
            same_place("x-forwarded-host"),
            same_place("x-forwarded-port"),
        )

    def _client(self, request: Request, chain: list[str]) -> int:
        """Set the client: follow the chain backwards through trusted addresses. Return its place in the
        chain."""
        place = len(chain) - 1
        client = None
        for i in range(len(chain) - 1, -1, -1):
            address = _address(chain[i])
            if address is None:
                break
            place, client = i, address
            if not self.trust(address):
                break
        if client is not None:
            request.client, request.client_port = client, _split(chain[place])[1]
        return place

    @staticmethod
    def _seen_as(request: Request, proto: str | None, host: str | None, port: str | None) -> None:
        if proto and proto.lower() in ("http", "https", "ws", "wss"):
            request.scheme = "https" if proto.lower() in ("https", "wss") else "http"
        if host and is_host(host):
            request.host = host
            port = port or _split(host)[1]
        if _port(port):
            request.server_port = _port(port)
