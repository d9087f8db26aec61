"""UDP sockets to name servers: each lookup has its own socket, but many lookups at once share sockets.

Takes a server's address and messages, and passes each incoming message to the lookup that asked. Knows only
the number of a message. Read transport.py next.

Fact: a process may have few descriptors, often 256 or 1,024. Danger: a thousand lookups at once use them up,
and most lookups fail. Decision: while fewer than MOST_PORTS ports are open, each lookup opens its own port,
which the kernel chooses at random. Beyond that, or when no descriptor is left, a lookup shares a random port.
A port serves at most MOST_LOOKUPS lookups, so that it closes before an attacker has found it. Message numbers
are random, and unique within a port. Price: one lookup of a port reads for all, and hands over to another
when it has its answers (`test_lookups_beyond_the_bound_share_ports`, `test_killed_reader_hands_over`).
"""

from __future__ import annotations

import _socket
import errno
import os
import socket
import time
from typing import Any

from syncless._core.calls import sockets
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import ThrownHere
from syncless._core.loop import Loop
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event
from syncless.io.dns.wire import Question, renumbered

LARGEST = 65535
MOST_PORTS = 64
"""Ports open at a time in all threads together. Each thread may have one more for each server."""
MOST_LOOKUPS = 128
"""Lookups that a port takes in its life, unless it is the only port."""
MOST_UNREAD = 16
"""Messages kept for a lookup that does not read."""
TOLERANCE_SECONDS = 0.05
"""A timeout may be this much too long, so that it need not be set for each message."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

Address = tuple[str, int]

_open: list[Port] = []


class Port:
    """A UDP socket that is connected to a name server, so it gets no messages from others. A port belongs to
    one thread."""

    __slots__ = ("asked", "error", "lookups", "loop", "reading", "seconds", "server", "sock", "users")

    def __init__(self, server: Address, loop: Loop):
        self.server = server
        self.loop = loop
        self.lookups = 0
        """Number of lookups that have used it."""
        self.asked: dict[int, Conversation] = {}
        """Message number -> the conversation that waits for its answer."""
        self.users: list[Conversation] = []
        self.reading = False
        """True while a conversation waits in recv()."""
        self.error: OSError | None = None
        """The reason why it is no longer usable."""
        self.seconds = 0.0
        """The socket's timeout."""
        self.sock: Any = _socket.socket(
            socket.AF_INET6 if ":" in server[0] else socket.AF_INET, socket.SOCK_DGRAM
        )
        sockets.forget(self.sock.fileno())
        try:
            self.sock.connect(server)
        except BaseException:
            self.sock.close()
            raise
        _open.append(self)

    def close(self) -> None:
        _open.remove(self)
        sockets.forget(self.sock.fileno())
        self.sock.close()

    def read(self, seconds: float) -> None:
        """Wait for a message, and pass it to its conversation if there is one."""
        self.reading = True
        with ThrownHere() as thrown:
            try:
                if not seconds <= self.seconds <= seconds + TOLERANCE_SECONDS:
                    self.seconds = seconds
                    self.sock.settimeout(seconds)
                data = sockets.recv(self.sock, LARGEST)
            except OSError as error:
                if not thrown and not isinstance(error, TimeoutError):
                    self.fail(error)
                raise
            finally:
                self.reading = False
        owner = self.asked.get(int.from_bytes(data[:2], "big"))
        if owner is not None and len(owner.unread) < MOST_UNREAD:
            owner.unread.append(data)
            owner.wake()

    def fail(self, error: OSError) -> None:
        """Wake all users of the port: the kernel reports an unreachable server only once."""
        self.error = error
        for user in self.users:
            user.wake()

    def hand_over(self) -> None:
        """Let another conversation read if one is waiting."""
        for user in self.users:
            if user.parked:
                user.wake()
                return


class Conversation:
    """The questions of one lookup to one name server, until close()."""

    __slots__ = ("_port", "_woken", "parked", "unread")

    def __init__(self, server: Address):
        self.unread: list[bytes] = []
        self.parked = False
        self._woken: Event | None = None
        self._port = _port_for(server)
        self._port.lookups += 1
        self._port.users.append(self)

    def close(self) -> None:
        port = self._port
        port.users.remove(self)
        if not port.users:
            port.close()
            return
        for number in [number for number, owner in port.asked.items() if owner is self]:
            del port.asked[number]
        if not port.reading:
            port.hand_over()

    def ask(self, question: Question) -> Question:
        """Send a question, and return it with its number. Raise OSError on failure."""
        port = self._port
        while question.number in port.asked:
            question = renumbered(question)
        port.asked[question.number] = self
        try:
            sockets.send(port.sock, question.wire)
        except OSError as error:
            port.fail(error)
            raise
        return question

    def answered(self, number: int) -> None:
        """Drop further messages with this number."""
        del self._port.asked[number]

    def receive(self, until: float) -> bytes:
        """Return the next message with one of our numbers. Raise TimeoutError at `until`, OSError if the
        server is unreachable."""
        port = self._port
        while not self.unread:
            if port.error is not None:
                raise OSError(port.error.errno, port.error.strerror)
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, "no answer")
            if port.reading:
                self._park(left)
            else:
                port.read(left)
        return self.unread.pop(0)

    def _park(self, seconds: float) -> None:
        if self._woken is None:
            self._woken = Event()
        self._woken.clear()
        self.parked = True
        try:
            self._woken.wait(seconds)
        finally:
            self.parked = False

    def wake(self) -> None:
        if self._woken is not None:
            self._woken.set()
            self.parked = False


def _port_for(server: Address) -> Port:
    """Return a new port, or one to share. Raise OSError on failure."""
    loop = current_loop()
    shared = _shared(server, loop) if len(_open) >= MOST_PORTS else None
    if shared is not None:
        return shared
    try:
        return Port(server, loop)
    except OSError as error:
        shared = _shared(server, loop) if error.errno in OUT_OF_DESCRIPTORS else None
        if shared is None:
            raise
        return shared


def _any(ports: list[Port]) -> Port:
    """Return an unpredictable choice. The module `random` would slow down each fork, because it then reseeds
    itself."""
    return ports[int.from_bytes(os.urandom(4), "big") % len(ports)]


def _shared(server: Address, loop: Loop) -> Port | None:
    if _open:
        port = _any(_open)  # usually there is one thread and one server
        if port.loop is loop and port.server == server and port.error is None and port.lookups < MOST_LOOKUPS:
            return port
    ports = [port for port in _open if port.loop is loop and port.server == server and port.error is None]
    return _any([port for port in ports if port.lookups < MOST_LOOKUPS] or ports) if ports else None


def _after_fork_in_child() -> None:
    """Drop the ports of the parent, whose lookups do not run here."""
    for port in _open:
        port.sock.close()
    _open.clear()


at_fork(in_child=_after_fork_in_child)
