"""Parses and formats the addresses on which a server listens. sockets.py opens them."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple


class Bind(NamedTuple):
    """An address as parsed by parse_bind(). Exactly one of these is set: `host` with `port`, `path` or
    `fd`."""

    tls: bool | None = None
    """Whether it speaks TLS. None: yes if the server has a certificate, unless it is a UNIX socket."""
    host: str | None = None
    """"*" stands for all addresses of both families."""
    port: int = 0
    path: str | None = None
    """A UNIX socket; an abstract one begins with a NUL."""
    fd: int | None = None
    """A listening socket that the process has inherited."""


DEFAULT_PORT = 8000
HELP = (
    "host:port, [ipv6]:port, :port, unix:/path, unix:@abstract or fd:number, "
    "with http:// or https:// before it where they differ"
)


HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[0-9.]*\.[0-9.]*|[\w.-]*[A-Za-z][\w.-]*", re.ASCII)
"""A host without a port: IPv6 in brackets, IPv4, or a name."""


def parse_bind(text: str, default: int | None = None) -> Bind:
    """Return the address that the text names. Raise ValueError, which explains the syntax, if it is
    malformed. ``default`` is the port of a host without one."""
    rest, tls = text, None
    for scheme, value in (("http://", False), ("https://", True)):
        if text.startswith(scheme):
            rest, tls = text[len(scheme) :].rstrip("/"), value
    if rest.startswith("unix:"):
        path = rest[5:]
        if path.strip("@") == "":
            raise ValueError(
                f"{text!r} needs a path, for example unix:/run/app.sock, or unix:@name for an abstract socket"
            )
        return Bind(tls, path="\0" + path[1:] if path[0] == "@" else path)
    if rest.startswith("fd:"):
        if not rest[3:].isdecimal():
            raise ValueError(f"{text!r} needs the number of an inherited descriptor, for example fd:3")
        return Bind(tls, fd=int(rest[3:]))
    if default is not None and HOST.fullmatch(rest):
        return Bind(tls, host=rest.strip("[]"), port=default)
    host, colon, port = rest.rpartition(":")
    if ":" in host.strip("[]") and not host.startswith("["):
        raise ValueError(f"{text!r} needs brackets around the address and a port, for example [::1]:8000")
    if not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ValueError(f"invalid address {text!r}; write {HELP}, with a port from 0 to 65535")
    return Bind(tls, host=(host.strip("[]") or "*") if colon else "127.0.0.1", port=int(port))


def show(address: Any, tls: bool = False) -> str:
    """Return a socket's own address (getsockname()) as text, which is a URL except for UNIX sockets."""
    if isinstance(address, (str, bytes)):
        path = address if isinstance(address, str) else os.fsdecode(address)
        return f"unix:@{path[1:]}" if path.startswith("\0") else f"unix:{path}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{'https' if tls else 'http'}://{host}:{address[1]}/"


def place_of(address: Any) -> tuple[str, str]:
    """Return SERVER_NAME and SERVER_PORT for an address. A UNIX socket has no port, but neither may be empty
    (RFC 3875, 4.1.14 and 4.1.15), so the port of the scheme is used for ""."""
    return (address[0], str(address[1])) if isinstance(address, tuple) else ("localhost", "")


def systemd_fds() -> list[int]:
    """Return the descriptors of the sockets that systemd has opened for this process (sd_listen_fds(3)), and
    remove its environment variables."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(os.environ.get("LISTEN_FDS", "0"))
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    return list(range(3, 3 + count))
