"""Brings the sockets of this process into a network in memory: replaces the methods of sockets that have to
do with addresses, and the functions that look up names.

Takes: a Network. Gives: `network()`, in whose block nothing is connected to anything outside of it. It must
not know of faults: network.py.
"""

from __future__ import annotations

import errno
import os
import socket as _stdlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from syncless._core.calls import messages
from syncless._core.cpython.functions import class_of, original_of, take_place
from syncless.io import dns
from syncless.io import socket as cooperative
from syncless.patches import is_patched
from syncless.testing import virtualtime
from syncless.testing.network import FAULTS, Address, Network, getpeername, getsockname, getsockopt

_INET = (_stdlib.AF_INET, _stdlib.AF_INET6)
_FLAGS = _stdlib.AI_NUMERICHOST | _stdlib.AI_ADDRCONFIG | _stdlib.AI_V4MAPPED | _stdlib.AI_ALL
_real_getaddrinfo = original_of(dns.getaddrinfo)
_real_getnameinfo = original_of(dns.getnameinfo)


class _Methods:
    """Those of socket.socket while a network is on."""

    def __init__(self, net: Network) -> None:
        self.net = net

    def members(self) -> dict[str, Callable[..., Any]]:
        """As functions, which become methods of a class."""
        net = self.net

        def bind(self: Any, address: Any, /) -> None:
            target = _target(net, self, address)
            if target is None:
                messages.bind(self, address)
            else:
                net.take(self, target)

        def connect(self: Any, address: Any, /) -> None:
            target = _target(net, self, address)
            if target is None:
                messages.connect(self, address)
            else:
                net.connect(self, target)

        def connect_ex(self: Any, address: Any, /) -> int:
            try:
                connect(self, address)
            except _stdlib.gaierror:
                raise
            except OSError as error:
                return error.errno or errno.EAGAIN
            return 0

        def option(self: Any, level: int, optname: int, *rest: int) -> Any:
            if (level, optname) == (_stdlib.SOL_SOCKET, _stdlib.SO_ERROR) and not rest:
                return net.error_of(self)
            return getsockopt(self, level, optname, *rest)

        def sendto(self: Any, data: Any, *rest: Any) -> Any:
            _target(net, self, rest[-1])
            return messages.sendto(self, data, *rest)

        def sendmsg(self: Any, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> Any:
            if address is not None:
                _target(net, self, address)
            rest = () if address is None else (address,)
            return messages.sendmsg(self, buffers, ancdata, flags, *rest)

        def accept(self: Any) -> tuple[Any, Any]:
            accepted, address = cooperative_accept(self)
            return accepted, net.named(address)

        def own(self: Any) -> Any:
            return net.named(getsockname(self))

        def peer(self: Any) -> Any:
            return net.named(getpeername(self))

        cooperative_accept = vars(cooperative.socket)["accept"]
        found: dict[str, Callable[..., Any]] = {
            "getsockname": own,
            "getpeername": peer,
            "getsockopt": option,
        }
        for method in (bind, connect, connect_ex, sendto, sendmsg, accept):
            found[method.__name__] = method
        return found


def _target(net: Network, sock: Any, address: Any) -> Address | None:
    """Return the address as a number and a port; None if it is none of the internet. Raise what the standard
    library does, and OSError for datagrams."""
    if sock.family not in _INET or not isinstance(address, tuple) or len(address) < 2:
        return None
    if sock.type != _stdlib.SOCK_STREAM:
        raise OSError(errno.EOPNOTSUPP, "network() carries streams only, no datagrams")
    return _look_up(net, address[0], sock.family), address[1]


def _look_up(net: Network, host: str | bytes, family: int) -> str:
    if not host:
        return "0.0.0.0" if family == _stdlib.AF_INET else "::"
    return str(_addresses(net, host, 0, family, _stdlib.SOCK_STREAM)[0][4][0])


def _addresses(
    net: Network,
    host: str | bytes | None,
    port: Any,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> dns.AddressInfo:
    found = None if host is None else net.find(host)
    if host is not None and (found is None or (flags & _stdlib.AI_NUMERICHOST and found != host)):
        raise _stdlib.gaierror(_stdlib.EAI_NONAME, "Name or service not known")
    numeric = _stdlib.AI_NUMERICHOST if found else 0
    return _real_getaddrinfo(found, port, family, type, proto, (flags & ~_FLAGS) | numeric)


def _lookups(net: Network) -> dict[str, Callable[..., Any]]:
    def getaddrinfo(
        host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> dns.AddressInfo:
        return _addresses(net, host, port, family, type, proto, flags)

    def gethostbyname(hostname: str) -> str:
        return _look_up(net, hostname, _stdlib.AF_INET)

    def gethostbyname_ex(hostname: str) -> tuple[str, list[str], list[str]]:
        return hostname, [], [_look_up(net, hostname, _stdlib.AF_INET)]

    def gethostbyaddr(ip_address: str) -> tuple[str, list[str], list[str]]:
        address = _look_up(net, ip_address, 0)
        name = net.name_of(address)
        if name is None:
            raise _stdlib.herror(1, "Unknown host")
        return name, [], [address]

    def getnameinfo(sockaddr: Any, flags: int) -> tuple[str, str]:
        host, service = _real_getnameinfo(sockaddr, flags | _stdlib.NI_NUMERICHOST)
        name = None if flags & _stdlib.NI_NUMERICHOST else net.name_of(host)
        if name is None and flags & _stdlib.NI_NAMEREQD:
            raise _stdlib.gaierror(_stdlib.EAI_NONAME, "Name or service not known")
        return name or host, service

    functions = (getaddrinfo, gethostbyname, gethostbyname_ex, gethostbyaddr, getnameinfo)
    return {function.__name__: function for function in functions}


_network: Network | None = None


@contextmanager
def network(
    *, latency: float = 0, piece: int = 0, late: float = 30, faults: Iterable[str] = FAULTS
) -> Iterator[Network]:
    """In the block, sockets connect to one another in a network in memory, whatever their addresses are: to
    those that listen in this process, and to nothing else. An address where nobody listens refuses, and a
    name that `host()` has not defined is not found. The process must be patched.

    `latency` is in seconds, `piece` the number of bytes that arrive together, at most. Under a schedule,
    each thing that is sent may suffer one of the `faults`: the connection is reset (or refused, where it is
    made), the bytes come in pieces, or `late` seconds later.
    """
    global _network
    if _network is not None:
        raise RuntimeError("there is a network already")
    if not (is_patched("socket") and is_patched("dns")):
        raise RuntimeError("network() needs the patch: call syncless.patches.patch_all() first")
    wrong = set(faults) - set(FAULTS)
    if wrong:
        raise ValueError(f"unknown faults {', '.join(sorted(wrong))}; choose from {', '.join(FAULTS)}")
    _network = net = Network(latency, piece, late, tuple(each for each in FAULTS if each in faults))
    with ExitStack() as undo:
        undo.callback(_end, net)
        virtualtime.inside.append(_is_of_the_internet)
        undo.callback(virtualtime.inside.remove, _is_of_the_internet)
        virtualtime.before_polls.append(net.arrivals.wait)
        undo.callback(virtualtime.before_polls.remove, net.arrivals.wait)
        for kind in (class_of(_stdlib, "socket"), cooperative.socket):
            for name, method in _Methods(net).members().items():
                _set_until(undo, kind, name, method)
        for name, function in _lookups(net).items():
            take_back = take_place(getattr(dns, name), function)
            assert take_back is not None
            undo.callback(take_back)
        yield net


def _end(net: Network) -> None:
    global _network
    _network = None
    net.close()


def _set_until(undo: ExitStack, kind: type, name: str, method: Any) -> None:
    if name in vars(kind):
        undo.callback(setattr, kind, name, vars(kind)[name])
    else:
        undo.callback(delattr, kind, name)
    setattr(kind, name, method)


def _is_of_the_internet(fd: int) -> bool:
    with suppress(OSError), _stdlib.socket(fileno=os.dup(fd)) as sock:
        return sock.family in _INET
    return False
