"""Listening sockets: opens them according to the options of a server, and closes them without losing a
client.

addresses.py parses the addresses. Nothing here needs an event loop, so a supervising process can have the
sockets, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from syncless.io.socketfiles import SocketFile, bind_file, remove_stale, why_taken
from syncless.server.addresses import Bind, show
from syncless.tools.records import record

Opened = list[tuple[socket.socket, bool]]
"""Listening sockets, and whether each speaks TLS."""


class Sockets:
    """The listening sockets of a server, opened for its addresses according to `options`. With ``tls`` there
    is a certificate, so addresses speak TLS by default."""

    def __init__(self, binds: Iterable[Bind], options: SocketOptions, tls: bool):
        self.binds = list(binds)
        self.options = options
        self.tls = tls
        self._inherited: WeakSet[socket.socket] = WeakSet()
        self._files: dict[str, SocketFile] = {}
        """By the path of a UNIX socket."""

    def open(self) -> Opened:
        """Open the sockets. Raise OSError, with the address in it, if one cannot be opened."""
        opened: Opened = []
        try:
            for bind in self.binds:
                tls = self.tls and (bind.tls if bind.tls is not None else bind.path is None)
                found = self.options.open(bind)
                opened += [(sock, tls) for sock in found]
                if bind.fd is not None:
                    self._inherited.update(found)
                if bind.path is not None and not bind.path.startswith("\0"):
                    self._files[bind.path] = SocketFile(bind.path)
        except BaseException:
            self.begin_no_more(opened)
            self.close(opened)
            raise
        return opened

    def open_again(self, sock: socket.socket) -> socket.socket:
        """Return another socket on the address of one opened with reuse_port, or the same socket if there can
        be only one."""
        return sock if sock.family == socket.AF_UNIX else self.options.open_again(sock)

    def begin_no_more(self, opened: Iterable[tuple[socket.socket, bool]]) -> None:
        """Let no new clients connect at these addresses, while those already connected can still be accepted.
        Inherited sockets are unchanged, because others may share them. The file of a UNIX socket stays if
        another server has replaced it meanwhile."""
        for sock, _ in opened:
            file = self._files.pop(sock.getsockname(), None)
            if file is not None:
                file.remove()
            if sock not in self._inherited:
                begin_no_more(sock)

    def close(self, opened: Iterable[tuple[socket.socket, bool]]) -> None:
        """Close the sockets. New clients are refused, except on inherited sockets."""
        for sock, _ in opened:
            if sock in self._inherited:
                sock.close()
            else:
                shut(sock)


def backlog_of(sock: socket.socket) -> tuple[int, int]:
    """Return the number of connections that wait to be accepted, and the maximum, for TCP on Linux; otherwise
    (0, 0)."""
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return 0, 0
    try:  # tcpi_unacked and tcpi_sacked, which mean this for a listening socket
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    except OSError:  # closed meanwhile
        return 0, 0
    waiting, most = struct.unpack_from("=II", told, 24)
    return waiting, most


UNIX_MODE = 0o660
"""Permissions of a UNIX socket, whatever the umask is."""


@record(frozen=True)
class SocketOptions:
    """The options for opening sockets."""

    backlog: int
    reuse_port: bool = False
    defer_seconds: int = 0
    """Seconds for TCP_DEFER_ACCEPT; 0: connections are accepted before their first bytes have come."""
    ipv6_only: bool = False
    unix_mode: int = UNIX_MODE
    unix_owner: str | None = None
    """"user", "user:group" or ":group", names or numbers."""

    def open(self, bind: Bind) -> list[socket.socket]:
        """Return the listening, non-blocking sockets of an address: one, or for a host name one for each of
        its addresses. Raise OSError with the reason if there are none."""
        if bind.fd is not None:
            return [self._inherit(bind.fd)]
        if bind.path is not None:
            return [self._listen(socket.AF_UNIX, bind.path)]
        assert bind.host is not None
        if bind.host in ("*", ""):
            if socket.has_dualstack_ipv6() and not self.ipv6_only:
                return [self._listen(socket.AF_INET6, ("::", bind.port))]
            return [self._listen(socket.AF_INET, ("0.0.0.0", bind.port))]
        try:
            found = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror as error:
            both = bind.host.count(":") == 1
            apart = "; pass host and port as two arguments, or as one string in `bind`" if both else ""
            why = f"cannot listen on {bind.host}: {error.strerror}{apart}"
            raise OSError(errno.EADDRNOTAVAIL, why) from None
        opened: list[socket.socket] = []
        failure: OSError | None = None
        port = bind.port
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                opened.append(self._listen(family, (address[0], port, *address[2:])))
                port = opened[0].getsockname()[1]
            except OSError as error:
                failure = error
        if failure is not None and (not opened or failure.errno != errno.EADDRNOTAVAIL):
            for sock in opened:
                sock.close()
            raise failure
        return opened

    def open_again(self, listener: socket.socket) -> socket.socket:
        """Return another listening socket on the same address (SO_REUSEPORT)."""
        return self._listen(listener.family, listener.getsockname())

    def _listen(self, family: int, address: Any) -> socket.socket:
        if family == socket.AF_UNIX and not address.startswith("\0"):
            remove_stale(address)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, self.ipv6_only or address[0] != "::")
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if self.reuse_port:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                if family == socket.AF_UNIX and not address.startswith("\0"):
                    bind_file(sock, address, self.unix_mode, owner_ids(self.unix_owner or ""))
                else:
                    sock.bind(address)
                self._tune(sock)
                sock.listen(self.backlog)
            except OSError as error:
                reason = error.strerror or os.strerror(error.errno or 0)
                raise OSError(
                    error.errno, f"cannot listen on {show(address)}: {reason}{_advice(error, address)}"
                ) from None
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        return sock

    def _tune(self, sock: socket.socket) -> None:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
            if self.defer_seconds and hasattr(socket, "TCP_DEFER_ACCEPT"):
                # a connection is accepted with its request: a wake-up and an epoll_ctl less for each
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, self.defer_seconds)

    def _inherit(self, fd: int) -> socket.socket:
        try:
            sock = socket.socket(fileno=fd)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot listen on fd:{fd}: {os.strerror(error.errno or 0)}; is it inherited?"
            ) from None
        if sock.type != socket.SOCK_STREAM or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.detach()
            raise OSError(errno.EINVAL, f"cannot listen on fd:{fd}: it is not a listening stream socket")
        os.set_inheritable(fd, False)
        self._tune(sock)
        sock.setblocking(False)
        return sock


SO_ATTACH_FILTER = 26
NO_SYN = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""A filter of packets (Linux, classic BPF): a SYN without ACK in byte 13 of the TCP header is dropped, all
others pass."""


def begin_no_more(listener: socket.socket) -> bool:
    """Stop new connections, but let connections whose handshake has begun still be accepted. Return whether
    the system supports that.

    Fact: closing a listening socket resets the connections that wait in it, and those that the system has not
    reported yet: half of the handshake is done, or with TCP_DEFER_ACCEPT all of it, and the request is on its
    way. Danger: connected clients lose their requests, however often accept() is called before. Decision: the
    first packets of new clients are dropped, and the socket is closed a little later. Such a client retries
    after a second, and then is refused, or reaches the next server. Price: that second. Without filters, new
    connections are accepted until the socket is closed. Test:
    tests/server/test_stop.py::test_stopping_loses_no_connection_that_has_been_made
    """
    if listener.family == socket.AF_UNIX or sys.platform != "linux":
        return False
    import ctypes  # only here

    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in NO_SYN))
    program = struct.pack("HP", len(NO_SYN), ctypes.addressof(code))
    try:
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    except OSError:  # a sandbox may forbid it, and some systems do so to all but root
        return False
    return True


def shut(listener: socket.socket) -> None:
    """Close a listening socket for all processes that have it: new clients are refused from now on."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def owner_ids(text: str) -> tuple[int, int]:
    """Return the numeric ids for "user", "user:group" or ":group", with -1 for a missing part. Raise
    ValueError if there is no such user or group."""
    import grp  # not everywhere
    import pwd

    user, _, group = text.partition(":")
    try:
        uid = -1 if not user else int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
        gid = -1 if not group else int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise ValueError(f"unix_owner {text!r}: {error.args[0]}") from None
    return uid, gid


def _advice(error: OSError, address: Any) -> str:
    taken = "another program already listens there; choose another port (0 lets the system choose)"
    refused = "start as root with --user NAME, or choose a port above 1023"
    if isinstance(address, str):
        taken = why_taken(address)
        refused = "this user may not write to the directory"
    return {
        errno.EADDRINUSE: f"; {taken}",
        errno.EACCES: f"; {refused}",
        errno.EADDRNOTAVAIL: "; this machine has no such address",
    }.get(error.errno or 0, "")
