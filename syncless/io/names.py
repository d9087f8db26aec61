"""Host and service names, looked up without stopping the others.

Numeric addresses are answered here at once; everything else goes to the C library in a real thread.
"""

from __future__ import annotations

import socket as _stdlib
from typing import Any

from syncless._core.sockcalls import is_numeric
from syncless._core.threads import run_in_thread

# The C library's own, whatever is put in their place later (syncless.patches).
_getaddrinfo, _gethostbyname, _gethostbyname_ex = _stdlib.getaddrinfo, _stdlib.gethostbyname, _stdlib.gethostbyname_ex
_gethostbyaddr, _getnameinfo, _getfqdn = _stdlib.gethostbyaddr, _stdlib.getnameinfo, _stdlib.getfqdn

AddressInfo = list[tuple[Any, Any, int, str, Any]]
"""(family, type, protocol, canonical name, address) of each way to reach a host."""


def getaddrinfo(
    host: str | bytes | None, port: str | bytes | int | None, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
) -> AddressInfo:
    """socket.getaddrinfo, cooperative."""
    if is_numeric(host) and (port is None or isinstance(port, int)):
        return list(_getaddrinfo(host, port, family, type, proto, flags))
    return list(run_in_thread(_getaddrinfo, host, port, family, type, proto, flags))


def gethostbyname(hostname: str) -> str:
    """socket.gethostbyname, cooperative."""
    return run_in_thread(_gethostbyname, hostname)


def gethostbyname_ex(hostname: str) -> tuple[str, list[str], list[str]]:
    """socket.gethostbyname_ex, cooperative."""
    return run_in_thread(_gethostbyname_ex, hostname)


def gethostbyaddr(ip_address: str) -> tuple[str, list[str], list[str]]:
    """socket.gethostbyaddr, cooperative."""
    return run_in_thread(_gethostbyaddr, ip_address)


def getnameinfo(sockaddr: Any, flags: int) -> tuple[str, str]:
    """socket.getnameinfo, cooperative."""
    numbers = _stdlib.NI_NUMERICHOST | _stdlib.NI_NUMERICSERV
    if flags & numbers == numbers or not isinstance(sockaddr, tuple):
        return _getnameinfo(sockaddr, flags)
    return run_in_thread(_getnameinfo, sockaddr, flags)


def getfqdn(name: str = "") -> str:
    """socket.getfqdn, cooperative."""
    return run_in_thread(_getfqdn, name)


def resolved(sock: _stdlib.socket, address: Any) -> Any:
    """The address with its host name replaced by a number, so that the C library need not ask anybody."""
    found = getaddrinfo(address[0], None, sock.family, sock.type)  # the port is the call's own to judge
    return (found[0][4][0], *address[1:])
