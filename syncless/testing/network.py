"""A network in memory: any address may be listened on and connected to, and connections have faults.

Takes: sockets of this thread that listen and connect (sockets.py brings them here). Gives: connections that
go through two tasklets of ours each, which delay, cut up, lose and hold what is sent. It must not know how
the methods of sockets are replaced.

The kernel's sockets on the loopback interface are below, so C code (our servers, TLS) works unchanged. A
connection is two of the kernel's: client - near, far - server. `near` and `far` are ours, and what comes out
of the one goes into the other:

    client: connect("10.0.0.1", 80)  ->  near | _pump() | far  ->  127.0.0.1, where the server really listens

Fact: such a socket gets what was sent to it at once (Arrivals sees to it). So a schedule repeats also what
comes over this network.
"""

from __future__ import annotations

import _socket
import errno
import itertools
import os
import socket as _stdlib
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from syncless._core.calls import messages
from syncless._core.cpython.functions import original_of
from syncless._core.current import current, sleep
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event
from syncless.io import socket as cooperative
from syncless.testing.choices import choose_fault
from syncless.testing.interleaving import hide, note

Address = tuple[str, int]
"""The host as a number, and the port."""

FAULTS = ("reset", "pieces", "late")
"""What a schedule chooses for each thing that is sent: the connection is reset, it comes in pieces, late."""
CHUNK = 1 << 16
GAP = 1e-6
"""Seconds between two pieces."""
SYN_TIME = 127.0
"""Seconds after which Linux gives up to connect to a host that does not answer."""
LOST = 1.0
"""Real seconds after which a datagram to oneself is given up."""
FIRST_PORT = 49152
"""Of those that the network gives to sockets that ask for any."""
LOOPBACK = {_stdlib.AF_INET: "127.0.0.1", _stdlib.AF_INET6: "::1"}
ANY = {_stdlib.AF_INET: ("0.0.0.0", "::"), _stdlib.AF_INET6: ("::",)}

getsockname = original_of(_stdlib.socket.getsockname)
getpeername = original_of(_stdlib.socket.getpeername)
getsockopt = original_of(_stdlib.socket.getsockopt)


def _error(number: int, kind: type[OSError] = OSError) -> OSError:
    return kind(number, os.strerror(number))


class Network:
    """The network of a block, see network(). A host is an address or a name; None: all of them."""

    def __init__(self, latency: float, piece: int, late: float, faults: tuple[str, ...]) -> None:
        self.latency = latency
        """Seconds that whatever is sent takes to arrive, in either direction, and a connection to be made."""
        self.piece = piece
        """Bytes that arrive together, at most; 0: all that are sent at once do."""
        self.late = late
        """Seconds by which a schedule makes things late."""
        self._faults = faults
        self._hosts: dict[str, str] = {"localhost": LOOPBACK[_stdlib.AF_INET]}
        self._places: dict[Address, Any] = {}
        """Where something is listened on -> where it really is."""
        self._names: dict[Address, Address] = {}
        """The real address of a socket -> that in this network."""
        self._ports = itertools.count(FIRST_PORT)
        self._cut: set[str | None] = set()
        self._healed = Event()
        self._losing: list[str | None] = []
        self.links: dict[_Link, None] = {}
        """In the order in which they were made, on which schedules rely."""
        self._connecting: dict[Tasklet[None], Any] = {}
        """Sockets that must not wait, by the tasklets that connect them."""
        self._full: dict[int, tuple[Any, Any]] = {}
        """For a family: a listener that accepts nothing, and the connection that fills its backlog."""
        self._failed: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """The SO_ERROR of sockets that are not connected, until it is read."""
        self.loop = current_loop()
        self.arrivals = Arrivals()

    # -- names ---------------------------------------------------------------------------------------------

    def host(self, name: str, address: str) -> None:
        """Let the name be found, at this address."""
        self._hosts[name] = address

    def find(self, name: str | bytes) -> str | None:
        """Return the address of a name, or None."""
        text = name if isinstance(name, str) else os.fsdecode(name)
        return text if messages.is_numeric(text) else self._hosts.get(text.rstrip(".").lower())

    def name_of(self, address: str) -> str | None:
        """Return the name of an address, or None."""
        return next((name for name, its in self._hosts.items() if its == address), None)

    def _number(self, host: str | None) -> str | None:
        return host if host is None else self.find(host) or host

    # -- addresses -----------------------------------------------------------------------------------------

    def take(self, sock: Any, address: Address) -> None:
        """Bind the socket."""
        wanted = address[0], address[1] or next(self._ports)
        place: Any = LOOPBACK[sock.family], 0
        if wanted in self._places:
            if sock.getsockopt(_stdlib.SOL_SOCKET, _stdlib.SO_REUSEPORT):
                place = self._places[wanted]
            elif self._listens(wanted, sock.family):
                raise _error(errno.EADDRINUSE)
        messages.bind(sock, place)
        self._places[wanted] = getsockname(sock)[:2]
        self._names[self._places[wanted]] = wanted

    def _listens(self, address: Address, family: int) -> bool:
        with cooperative.socket(family) as probe:
            probe.setsockopt(_stdlib.SOL_SOCKET, _stdlib.SO_REUSEADDR, 1)
            try:
                messages.bind(probe, self._places[address])
            except OSError:
                return True
        return False

    def named(self, address: Any) -> Any:
        """Return the address in this network of a socket that really has this one."""
        if not isinstance(address, tuple) or address[:2] not in self._names:
            return address
        return (*self._names[address[:2]], *address[2:])

    # -- connections ---------------------------------------------------------------------------------------

    def connect(self, sock: Any, target: Address) -> None:
        """Connect the socket, once the latency is over. One that must not wait is told so, and connected
        later."""
        if current_loop() is not self.loop:
            raise OSError("network() is for the thread in which it was made")
        timeout = sock.gettimeout()
        if timeout == 0:
            self._begin(sock, target)
        else:
            self._travel(target[0], timeout)
            self._meet(sock, target, self._names.get(getsockname(sock)[:2]))

    def _begin(self, sock: Any, target: Address) -> None:
        """Begin to connect, in the kernel where nobody answers, and so never in time. Raise what it says."""
        own = self._names.get(getsockname(sock)[:2])
        try:
            messages.connect(sock, self._silent(sock.family))
        except BlockingIOError as error:
            if error.errno == errno.EINPROGRESS:
                begun = _spawn(partial(self._go_on, sock, target, own), f"network to {target[0]}:{target[1]}")
                self._connecting[begun] = sock
            raise

    def _silent(self, family: _stdlib.AddressFamily) -> Any:
        """Return an address at which a connection is neither made nor refused."""
        if family not in self._full:
            taken = _listening(family, 0)
            address = getsockname(taken)
            last = cooperative.socket(family)
            self._connect(last, address)  # which fills its backlog
            self._full[family] = taken, last
        return getsockname(self._full[family][0])

    def _go_on(self, sock: Any, target: Address, own: Address | None) -> None:
        """Connect for good, or fail, what has begun to."""
        error = 0
        try:
            self._travel(target[0], SYN_TIME)
            if sock.fileno() >= 0:
                messages.abort_connect(sock)
                self._meet(sock, target, own)
        except OSError as failed:
            error = failed.errno or errno.ETIMEDOUT
        finally:
            self._connecting.pop(current(), None)  # type: ignore[arg-type]
        if error:
            self._refuse(sock, error)

    def _refuse(self, sock: Any, error: int) -> None:
        """Let the kernel refuse it, so that who waits for the socket goes on."""
        if sock.fileno() < 0:
            return
        messages.abort_connect(sock)
        with cooperative.socket(sock.family) as nobody, suppress(OSError):
            messages.bind(nobody, (LOOPBACK[sock.family], 0))
            messages.connect(sock, getsockname(nobody))
        self.arrivals.wait()
        self._failed[sock] = error

    def error_of(self, sock: Any) -> int:
        """Return SO_ERROR."""
        error: int = getsockopt(sock, _stdlib.SOL_SOCKET, _stdlib.SO_ERROR)
        return self._failed.pop(sock, error)

    def _meet(self, sock: Any, target: Address, own: Address | None) -> None:
        """Connect the socket now."""
        far = self._reach(sock.family, target)
        try:
            if self._choose(("refused",) if "reset" in self._faults else (), target):
                raise _error(errno.ECONNREFUSED, ConnectionRefusedError)
            self._join(sock, far, target, own)
        except BaseException:
            _drop(far)
            raise

    def _reach(self, family: int, target: Address) -> Any:
        """Return a connection to what really listens there."""
        for host in (target[0], *ANY[_stdlib.AddressFamily(family)]):
            place = self._places.get((host, target[1]))
            if place is not None:
                far = cooperative.socket(_stdlib.AF_INET6 if ":" in place[0] else _stdlib.AF_INET)
                try:
                    self._connect(far, place)
                    return far
                except OSError:
                    far.close()  # bound only, or closed
        raise _error(errno.ECONNREFUSED, ConnectionRefusedError)

    def _connect(self, sock: Any, place: Any) -> None:
        """Connect. A connection that the kernel makes by itself is no wait."""
        timeout, again = sock.gettimeout(), False
        sock.settimeout(0)
        try:
            messages.connect(sock, place)
        except BlockingIOError:
            again = timeout != 0
        finally:
            sock.settimeout(timeout)
        self.arrivals.wait()
        if again:
            messages.connect(sock, place)

    def _join(self, sock: Any, far: Any, target: Address, own: Address | None) -> None:
        """Connect the client's end, too, which has been bound to its own address or will be."""
        with _listening(sock.family, 1) as listener:
            self._connect(sock, getsockname(listener))
            near, _ = cooperative.socket.accept(listener)
        for each in near, far:
            each.setsockopt(_stdlib.IPPROTO_TCP, _stdlib.TCP_NODELAY, 1)
        own = own or (LOOPBACK[sock.family], next(self._ports))
        self._names[getpeername(near)[:2]] = self._names[getsockname(far)[:2]] = own
        self._names[getsockname(near)[:2]] = target
        self.links[_Link(self, near, far, target)] = None

    # -- what is sent --------------------------------------------------------------------------------------

    def _travel(self, host: str, timeout: float | None = None) -> None:
        """Wait as long as something takes to this host or from it."""
        if self.latency:
            if timeout is not None and timeout < self.latency:
                sleep(timeout)
                raise TimeoutError("timed out")
            sleep(self.latency)
        while host in self._cut or None in self._cut:
            if not self._healed.wait(timeout):
                raise TimeoutError("timed out")

    def _choose(self, faults: tuple[str, ...], target: Address) -> str:
        """Return the fault that the schedule has chosen, or an empty string."""
        chosen = choose_fault(len(faults) + 1)
        if not chosen:
            return ""
        words = {"refused": "refuses", "reset": "resets", "pieces": "cuts up", "late": "delays"}
        note(f"the network {words[faults[chosen - 1]]} a connection to {target[0]}:{target[1]}")
        return faults[chosen - 1]

    def deliver(self, link: _Link, sink: Any, data: bytes) -> None:
        """Send it on, unless there is a fault."""
        host, piece = link.target[0], self.piece or len(data)
        if sink is link.near and self._is_losing(host):
            link.reset()
            return
        fault = self._choose(self._faults, link.target)
        if fault == "reset":
            link.reset()
            return
        if fault == "late":
            sleep(self.late)
        if fault == "pieces":
            piece = min(piece, 1 + len(data) // 3)
        self._travel(host)
        for at in range(0, len(data), piece):
            if at:
                sleep(GAP)
            sink.sendall(data[at : at + piece])
            self.arrivals.wait()

    def end_of(self, link: _Link, sink: Any) -> None:
        """Pass on that nothing more comes."""
        self._travel(link.target[0])
        sink.shutdown(_stdlib.SHUT_WR)
        self.arrivals.wait()

    def _is_losing(self, host: str) -> bool:
        for each in host, None:
            if each in self._losing:
                self._losing.remove(each)
                return True
        return False

    # -- faults that the test asks for ---------------------------------------------------------------------

    def reset(self, host: str | None = None) -> None:
        """Reset all connections to the host: both ends get ConnectionResetError."""
        for link in self._links_to(host):
            link.reset()

    def lose_response(self, host: str | None = None) -> None:
        """Let the next thing that the host sends be lost, with its connection, which is reset."""
        self._losing.append(self._number(host))

    def partition(self, host: str | None = None) -> None:
        """Let nothing through to the host or from it: connections wait, also new ones."""
        self._cut.add(self._number(host))
        self._healed.clear()

    def heal(self, host: str | None = None) -> None:
        """Let what waits go on. None: for all hosts."""
        if host is None:
            self._cut.clear()
        self._cut.discard(self._number(host))
        self._healed.set()
        if self._cut:
            self._healed = Event()

    def _links_to(self, host: str | None) -> Iterator[_Link]:
        number = self._number(host)
        return (link for link in list(self.links) if number is None or link.target[0] == number)

    def close(self) -> None:
        """End all connections, and the tasklets that carry them."""
        for begun, sock in list(self._connecting.items()):
            begun.kill()
            self._refuse(sock, errno.ECONNREFUSED)
        for family in self._full.values():
            for sock in family:
                sock.close()
        links = list(self.links)
        for link in links:
            link.reset()
        for link in links:
            link.end()
        self.arrivals.close()


class Arrivals:
    """Waits until all that this process has sent on the loopback interface has arrived.

    Fact: the kernel delivers it in the call that sends, but on a busy machine later, in a thread of its own,
    in the order in which it was sent on a processor (Linux, net/core/dev.c: enqueue_to_backlog). Danger: a
    read finds nothing that found something in the run before. Decision: a datagram to oneself goes after
    it. Guarded by tests/testing/test_network.py::test_a_seed_repeats_a_server_in_a_fresh_process_too.
    """

    def __init__(self) -> None:
        self._sock = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        self._sock.bind((LOOPBACK[_stdlib.AF_INET], 0))
        self._sock.connect(self._sock.getsockname())
        self._sock.settimeout(LOST)

    def wait(self) -> None:
        """Take a few microseconds."""
        with suppress(OSError):  # a firewall may drop it
            self._sock.send(b".")
            self._sock.recv(1)

    def close(self) -> None:
        self._sock.close()


class _Link:
    """A connection, and the two tasklets that carry what it sends."""

    def __init__(self, net: Network, near: Any, far: Any, target: Address) -> None:
        self.near, self.far, self.target = near, far, target
        self._net = net
        self._open = 2
        there, back = partial(self._pump, near, far), partial(self._pump, far, near)
        self._pumps = [_spawn(pump, f"network to {target[0]}:{target[1]}") for pump in (there, back)]

    def _pump(self, source: Any, sink: Any) -> None:
        try:
            while data := self._receive(source):
                self._net.deliver(self, sink, data)
            self._net.end_of(self, sink)
        except OSError:
            self.reset()
        self._open -= 1
        if not self._open:
            self._close()

    def _receive(self, source: Any) -> Any:
        self._net.arrivals.wait()
        return source.recv(CHUNK)

    def _close(self) -> None:
        self._net.links.pop(self, None)
        self.near.close()
        self.far.close()

    def reset(self) -> None:
        self._net.links.pop(self, None)
        _drop(self.near)
        _drop(self.far)
        self._net.arrivals.wait()

    def end(self) -> None:
        for pump in self._pumps:
            pump.kill(block=False)
        for pump in self._pumps:
            pump.join()


def _spawn(function: Callable[[], None], name: str) -> Tasklet[None]:
    made = spawn(function)
    made.name = name
    hide(made)
    return made


def _listening(family: _stdlib.AddressFamily, backlog: int) -> Any:
    listener = cooperative.socket(family)
    messages.bind(listener, (LOOPBACK[family], 0))
    listener.listen(backlog)
    return listener


def _drop(sock: Any) -> None:
    """Close the socket with a reset."""
    with suppress(OSError):
        sock.setsockopt(_stdlib.SOL_SOCKET, _stdlib.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
