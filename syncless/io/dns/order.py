"""The order in which to try the addresses of a host: RFC 6724, with the policy table of section 2.1."""

from __future__ import annotations

import _socket
import ipaddress
import socket
from functools import lru_cache

POLICY = [
    (ipaddress.IPv6Network(network), precedence, label)
    for network, precedence, label in (
        ("::1/128", 50, 0),
        ("::ffff:0:0/96", 35, 4),
        ("2002::/16", 30, 2),
        ("2001::/32", 5, 5),
        ("fc00::/7", 3, 13),
        ("::/96", 1, 3),
        ("fec0::/10", 1, 11),
        ("3ffe::/16", 1, 12),
        ("::/0", 40, 1),
    )
]


@lru_cache(1024)
def as_v6(address: str) -> ipaddress.IPv6Address:
    """Return the address itself, or an IPv4 address mapped to IPv6 (as in sections 3.1 and following)."""
    plain = address.partition("%")[0]
    return ipaddress.IPv6Address(plain if ":" in plain else f"::ffff:{plain}")


@lru_cache(1024)
def policy(address: str) -> tuple[int, int]:
    """Return the precedence and the label of an address."""
    number = as_v6(address)
    return next((precedence, label) for network, precedence, label in POLICY if number in network)


@lru_cache(1024)
def scope(address: str) -> int:
    """Return the scope of an address: 2 for link-local, 5 for site-local, 14 for global (sections 3.1,
    3.2)."""
    number = as_v6(address)
    plain = number.ipv4_mapped or number
    if number.is_multicast:
        return int(number.packed[1] & 15)
    if plain.is_loopback or plain.is_link_local:
        return 2
    return 5 if number.is_site_local else 14


def common_prefix(one: str, other: str) -> int:
    """Return the number of leading bits that both addresses share, at most 64 (section 2.2)."""
    differing = (int(as_v6(one)) ^ int(as_v6(other))).bit_length()
    return min(64, 128 - differing)


def source_of(address: str) -> str | None:
    """Return our source address for packets to that address, or None if there is no route. Nothing is
    sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        probe = _socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        probe.connect((address, 53))
        return str(probe.getsockname()[0])
    except OSError:
        return None
    finally:
        probe.close()


def key(address: str) -> tuple[int, ...]:
    """Return a sort key (smaller is better) by the rules of section 6, except those on deprecated, home and
    native addresses."""
    source = source_of(address)
    precedence, label = policy(address)
    if source is None:
        return (1, 0, 0, -precedence, 0, 0)
    same_scope = scope(address) == scope(source)
    same_label = label == policy(source)[1]
    prefix = common_prefix(address, source) if ":" in address else 0  # rule 9 compares IPv6 only
    return (0, not same_scope, not same_label, -precedence, scope(address), -prefix)


def ordered(addresses: list[str]) -> list[str]:
    """Return the addresses, the best first; equally good ones stay in the name server's order (rule 10)."""
    return sorted(addresses, key=key) if len(addresses) > 1 else addresses
