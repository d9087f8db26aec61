"""Names are looked up by our resolver; here are eventlet's names for it."""

from __future__ import annotations

import ipaddress

from syncless.io.dns import getaddrinfo, gethostbyaddr, gethostbyname, gethostbyname_ex, getnameinfo

__all__ = [
    "getaddrinfo",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname_ex",
    "getnameinfo",
    "is_ip_addr",
    "is_ipv4_addr",
    "is_ipv6_addr",
]


def is_ipv4_addr(host: object) -> bool:
    """Return whether it is an IPv4 address in digits."""
    return _is_address(host, 4)


def is_ipv6_addr(host: object) -> bool:
    """Return whether it is an IPv6 address in digits."""
    return _is_address(host, 6)


def is_ip_addr(host: object) -> bool:
    """Return whether it is an address in digits."""
    return is_ipv4_addr(host) or is_ipv6_addr(host)


def _is_address(host: object, version: int) -> bool:
    try:
        text = host.decode("ascii") if isinstance(host, bytes) else host
        return isinstance(text, str) and ipaddress.ip_address(text).version == version
    except ValueError:
        return False
