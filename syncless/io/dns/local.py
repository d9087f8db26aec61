"""Facts about this machine: its address families, and the names for which the C library's own sources must
be asked."""

from __future__ import annotations

import re
import socket

ALWAYS_KNOWN = ("localhost", "_gateway", "_outbound")


def is_known_here(source: str, name: str) -> bool:
    """Whether that source of nsswitch.conf may know a name ("" for an address), so that it must be asked."""
    if source.startswith("mdns"):
        return name.lower().rstrip(".").endswith(".local")
    if source == "myhostname":
        name = name.lower()
        known = (*ALWAYS_KNOWN, socket.gethostname().lower())
        return name.rstrip(".") in known or name.endswith(".localhost")
    if source == "mymachines":
        return "." not in name
    return True


def families_here() -> set[int]:
    """The families in which this machine has an address other than loopback (AI_ADDRCONFIG)."""
    found = set()
    if any(not line.startswith("00000000000000000000000000000001") for line in _lines("/proc/net/if_inet6")):
        found.add(int(socket.AF_INET6))
    local = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", "\n".join(_lines("/proc/net/fib_trie")))
    if any(not address.startswith("127.") for address in local):
        found.add(int(socket.AF_INET))
    return found


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()
    except OSError:
        return []
