"""Resolves host names without blocking and without threads: getaddrinfo and related functions, with the C
library's results.

nsswitch.conf defines the order of the sources. /etc/hosts is read here. Name servers are queried through our
own sockets, with messages that dnspython builds and reads. Sources that only the C library knows (mDNS,
systemd-resolved, NIS ...) are queried through it, in a thread. Numeric addresses and names in /etc/hosts need
neither the network nor a thread.

``SYNCLESS_RESOLVER=thread`` in the environment, or `use("thread")`, leaves everything to the C library, in a
pool of threads.
"""

from __future__ import annotations

import os
import socket as _stdlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from syncless._core.calls.messages import is_numeric
from syncless._core.calls.threads import run_in_thread
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.cpython.functions import original_of
from syncless.io.dns import wire
from syncless.io.dns.order import ordered
from syncless.io.dns.resolver import Resolver, error
from syncless.io.dns.system import Host, families_here, is_known_here
from syncless.io.dns.wire import AAAA, PTR, A

# The C library's own functions, even if the patch replaces them later.
_getaddrinfo, _getnameinfo = original_of(_stdlib.getaddrinfo), original_of(_stdlib.getnameinfo)
_gethostbyname, _gethostbyname_ex = original_of(_stdlib.gethostbyname), original_of(_stdlib.gethostbyname_ex)
_gethostbyaddr, _gethostname = original_of(_stdlib.gethostbyaddr), _stdlib.gethostname

T = TypeVar("T")
AddressInfo = list[tuple[Any, Any, int, str, Any]]
"""(family, type, protocol, canonical name, address) of each way to reach a host."""

AF_INET, AF_INET6, AF_UNSPEC = int(_stdlib.AF_INET), int(_stdlib.AF_INET6), int(_stdlib.AF_UNSPEC)
CANONNAME, NUMERICHOST = int(_stdlib.AI_CANONNAME), int(_stdlib.AI_NUMERICHOST)
OF_FAMILY = {AF_INET: A, AF_INET6: AAAA}
V4MAPPED, ALL, ADDRCONFIG = (
    int(getattr(_stdlib, name, 0)) for name in ("AI_V4MAPPED", "AI_ALL", "AI_ADDRCONFIG")
)
OURS = CANONNAME | V4MAPPED | ALL | ADDRCONFIG
"""The flags that are handled here, not by the C library."""
RESULTS = 1000
"""Number of results of getaddrinfo that are kept."""
HOST_NOT_FOUND, TRY_AGAIN = (1, "Unknown host"), (2, "Host name lookup failure")

_resolver = Resolver("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", 53)
_in_thread = os.environ.get("SYNCLESS_RESOLVER", "") == "thread"
_results: dict[Any, tuple[float, tuple[int, int, int], AddressInfo]] = {}


def use(resolver: Literal["dns", "thread"]) -> None:
    """Choose the resolver: this module ("dns"), or the C library in threads ("thread"). Raise ValueError for
    any other name."""
    global _in_thread
    if resolver not in ("dns", "thread"):
        raise ValueError(f"unknown resolver {resolver!r}; choose 'dns' or 'thread'")
    _in_thread = resolver == "thread"


def configure(
    *,
    hosts: str = "/etc/hosts",
    nsswitch: str = "/etc/nsswitch.conf",
    resolv_conf: str = "/etc/resolv.conf",
    port: int = 53,
) -> None:
    """Set the paths of the system's files and the port of the name servers, and empty the caches."""
    global _resolver
    _resolver = Resolver(hosts, nsswitch, resolv_conf, port)
    _results.clear()


class _AskTheCLibrary(Exception):
    """Raised if a source that only the C library knows comes first."""


class _Found:
    """A source's answer for a name, with its addresses by family."""

    def __init__(
        self, canonical: str, aliases: Sequence[str], addresses: dict[int, list[str]], expires: float
    ):
        self.canonical = canonical
        self.aliases = list(aliases)
        self.addresses = addresses
        self.expires = expires


def is_loopback(line: Host) -> bool:
    return line.address == "::1"


def _in_hosts(name: str, families: tuple[int, ...]) -> _Found | None:
    only_four = families == (AF_INET,)
    lines: list[Host] = [
        line
        for line in _resolver.hosts.named(name)
        if line.family in families or (is_loopback(line) and only_four)
    ]
    if not lines:
        return None
    first = lines[0].name
    aliases = [each for line in lines for each in (line.name, *line.aliases) if each != first]
    addresses = {family: [line.address for line in lines if line.family == family] for family in families}
    if only_four:  # like the C library, give 127.0.0.1 for ::1 when only IPv4 is asked for
        addresses = {AF_INET: ["127.0.0.1" if is_loopback(line) else line.address for line in lines]}
    return _Found(first, list(dict.fromkeys(aliases)), addresses, time.monotonic() + 3600)


def _by_servers(name: str, families: tuple[int, ...]) -> _Found:
    found = _resolver.search(name, tuple(OF_FAMILY[family] for family in families))
    by_family = zip(families, found, strict=True)
    addresses = {family: [rdata.address for rdata in records.data] for family, records in by_family}
    best = next(records for records in found if records.data)
    return _Found(best.canonical, best.aliases, addresses, min(records.expires for records in found))


def _first_that_knows(name: str, in_hosts: Callable[[], T | None], by_servers: Callable[[], T]) -> T:
    """Query one source after the other. If none knows the name, raise the last source's gaierror. Raise
    _AskTheCLibrary if the C library must be queried."""
    failure = error(_stdlib.EAI_NONAME)
    for source in _resolver.sources:
        if source.name == "files":
            found = in_hosts()
            if found is not None:
                return found
            failure, status = error(_stdlib.EAI_NONAME), "notfound"
        elif source.name == "dns":
            try:
                return by_servers()
            except _stdlib.gaierror as told:
                failure, status = told, "tryagain" if told.errno == _stdlib.EAI_AGAIN else "notfound"
        elif is_known_here(source.name, name):
            raise _AskTheCLibrary
        else:
            status = "unavail" if source.name.startswith("mdns") else "notfound"
        if source.actions.get(status) == "return":
            break
    raise failure


def _find(name: str, families: tuple[int, ...]) -> _Found:
    return _first_that_knows(name, lambda: _in_hosts(name, families), lambda: _by_servers(name, families))


def _plain(host: str | bytes) -> str:
    """Return the name in the form used in queries. Raise UnicodeError as the standard library does."""
    if isinstance(host, bytes):
        return host.decode("ascii", "surrogateescape")
    if not isinstance(host, str):
        raise TypeError("getaddrinfo() argument 1 must be string or None")
    labels = host.removesuffix(".").split(".")
    if host.isascii() and all(1 <= len(label) <= 63 for label in labels):
        return host
    return host.encode("idna").decode("ascii")


def getaddrinfo(
    host: str | bytes | None,
    port: str | bytes | int | None,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> AddressInfo:
    """Like socket.getaddrinfo, but cooperative."""
    if isinstance(host, (str, bytes)) and ("\0" if isinstance(host, str) else b"\0") in host:  # type: ignore[operator]
        raise error(_stdlib.EAI_NONAME)  # the C library would look for what is before it
    if host is None or flags & NUMERICHOST or is_numeric(host):
        return list(_getaddrinfo(host, port, family, type, proto, flags))
    if _in_thread:
        return list(run_in_thread(_getaddrinfo, host, port, family, type, proto, flags))
    key = host, port, family, type, proto, flags
    known = _results.get(key)
    if known is not None and known[0] > time.monotonic() and known[1] == _resolver.generation:
        return known[2].copy()
    name = _plain(host)
    if family not in (AF_UNSPEC, AF_INET, AF_INET6):
        return list(_getaddrinfo(host, port, family, type, proto, flags))  # which reports the error
    if not isinstance(port, int) or port < 0 or proto or type not in (0, 1, 2):
        # an unknown service or combination is an error before any name is asked for
        _getaddrinfo("::" if family == AF_INET6 else "0.0.0.0", port, family, type, proto, flags & ~OURS)
    try:
        found, addresses = _addresses(name, family, flags)
    except _AskTheCLibrary:
        return list(run_in_thread(_getaddrinfo, host, port, family, type, proto, flags))
    result: AddressInfo = []
    for address in addresses:
        result += _getaddrinfo(address.encode(), port, AF_UNSPEC, type, proto, (flags & ~OURS) | NUMERICHOST)
    if flags & CANONNAME:
        result[0] = (*result[0][:3], found.canonical, result[0][4])
    if len(_results) >= RESULTS:
        del _results[next(iter(_results))]
    _results[key] = found.expires, _resolver.generation, result
    return result.copy()


def _addresses(name: str, family: int, flags: int) -> tuple[_Found, list[str]]:
    """Return the source's answer, and the addresses in the order in which to try them."""
    here = families_here() if flags & ADDRCONFIG else {AF_INET, AF_INET6}
    mapped = family == AF_INET6 and flags & V4MAPPED
    wanted: tuple[int, ...] = (AF_INET, AF_INET6) if family == AF_UNSPEC or mapped else (family,)
    wanted = tuple(each for each in wanted if each in here or (mapped and each == AF_INET)) or wanted
    found = _find(name, wanted)
    addresses = [address for each in wanted for address in found.addresses[each]]
    if mapped:
        six = found.addresses.get(AF_INET6, [])
        if not six or flags & ALL:
            six = [*six, *(f"::ffff:{address}" for address in found.addresses.get(AF_INET, []))]
        addresses = six
    return found, ordered(addresses)


def gethostbyname(hostname: str) -> str:
    """Like socket.gethostbyname, but cooperative."""
    if is_numeric(hostname):
        return _gethostbyname(hostname)
    if _in_thread:
        return run_in_thread(_gethostbyname, hostname)
    return str(getaddrinfo(hostname, None, AF_INET, _stdlib.SOCK_STREAM)[0][4][0])


def gethostbyname_ex(hostname: str) -> tuple[str, list[str], list[str]]:
    """Like socket.gethostbyname_ex, but cooperative."""
    if is_numeric(hostname):
        return _gethostbyname_ex(hostname)
    name = _plain(hostname)
    try:
        if _in_thread:
            raise _AskTheCLibrary
        found = _find(name, (AF_INET,))
    except _AskTheCLibrary:
        return run_in_thread(_gethostbyname_ex, hostname)
    return found.canonical, found.aliases, found.addresses[AF_INET]


def _name_of(address: str) -> tuple[str, list[str]]:
    """Return the host name and the aliases of a numeric address. Raise gaierror if there is no name,
    _AskTheCLibrary if only the C library can tell."""
    plain = address.partition("%")[0]

    def in_hosts() -> tuple[str, list[str]] | None:
        line = _resolver.hosts.at(address) or _resolver.hosts.at(plain)
        return (line.name, list(line.aliases)) if line is not None else None

    def by_servers() -> tuple[str, list[str]]:
        wire.load()
        found = _resolver.search(wire.dns.reversename.from_address(plain).to_text(), (PTR,))[0]
        first, *others = [rdata.target.to_text(omit_final_dot=True) for rdata in found.data]
        return first, others

    return _first_that_knows("", in_hosts, by_servers)


def gethostbyaddr(ip_address: str) -> tuple[str, list[str], list[str]]:
    """Like socket.gethostbyaddr, but cooperative."""
    if not isinstance(ip_address, (str, bytes)) or _in_thread:
        return run_in_thread(_gethostbyaddr, ip_address)
    address = str(getaddrinfo(ip_address, None, 0, _stdlib.SOCK_STREAM)[0][4][0])
    try:
        name, aliases = _name_of(address)
    except _AskTheCLibrary:
        return run_in_thread(_gethostbyaddr, ip_address)
    except _stdlib.gaierror as told:
        raise _stdlib.herror(*(TRY_AGAIN if told.errno == _stdlib.EAI_AGAIN else HOST_NOT_FOUND)) from None
    return name, aliases, [address]


def getnameinfo(sockaddr: Any, flags: int) -> tuple[str, str]:
    """Like socket.getnameinfo, but cooperative."""
    numeric = int(_stdlib.NI_NUMERICHOST)
    if not isinstance(sockaddr, tuple) or flags & numeric:
        return _getnameinfo(sockaddr, flags)
    required = int(_stdlib.NI_NAMEREQD)
    host, service = _getnameinfo(sockaddr, (flags & ~required) | numeric)
    try:
        if _in_thread or flags & _stdlib.NI_NOFQDN:
            raise _AskTheCLibrary
        return _name_of(host)[0], service
    except _AskTheCLibrary:
        return run_in_thread(_getnameinfo, sockaddr, flags)
    except _stdlib.gaierror as told:
        if told.errno == _stdlib.EAI_AGAIN or flags & required:
            raise
        return host, service


def getfqdn(name: str = "") -> str:
    """Like socket.getfqdn, but cooperative."""
    name = name.strip()
    if name in ("", "0.0.0.0", "::"):
        name = _gethostname()
    try:
        hostname, aliases, _ = gethostbyaddr(name)
    except OSError:
        return name
    return next((each for each in [hostname, *aliases] if "." in each), hostname)


def query(name: str, rdtype: str | int = "A") -> list[Any]:
    """Return the records of a name: dnspython's rdata objects of that type ("MX", "TXT", "SRV" ...). Follow
    aliases and use the search list.

    Raise socket.gaierror with EAI_NONAME if the name does not exist, EAI_NODATA if it has no such records,
    EAI_AGAIN if no server has answered. Raise ValueError for an unknown type.
    """
    wire.load()
    try:
        number = int(wire.dns.rdatatype.RdataType.make(rdtype))
    except Exception as wrong:
        raise ValueError(f"unknown record type {rdtype!r}") from wrong
    found = _resolver.search(_plain(name), (number,))[0].data
    return [data.rdata() if isinstance(data, wire.Address) else data for data in found]


at_fork(at_first_use=lambda: _resolver.forget_others())

__all__ = [
    "AddressInfo",
    "configure",
    "getaddrinfo",
    "getfqdn",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname_ex",
    "getnameinfo",
    "query",
    "use",
]


def resolved(sock: _stdlib.socket, address: Any) -> Any:
    """Return the address with its host name replaced by a numeric address, so that the C library queries no
    name server."""
    found = getaddrinfo(address[0], None, sock.family, sock.type)  # the call itself checks the port
    return (found[0][4][0], *address[1:])
