"""The system's files about names: /etc/hosts, /etc/nsswitch.conf and /etc/resolv.conf.

Each is read again when it has changed.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.05
"""A file is checked for changes at most this often."""


class Watched(Generic[T]):
    """The parsed contents of a file, parsed again when it has changed. `parse` gets its text, or "" if it
    cannot be read."""

    def __init__(self, path: str, parse: Callable[[str], T]):
        self.path = path
        self.generation = 0
        """Number of times that it has been read."""
        self._parse = parse
        self._looked = 0.0
        self._stamp: tuple[int, ...] | None = None
        self._value: T

    def get(self) -> T:
        now = time.monotonic()
        if not self.generation or now - self._looked >= LOOK_SECONDS:
            try:
                about = os.stat(self.path)
                stamp: tuple[int, ...] = (about.st_mtime_ns, about.st_size, about.st_ino)
            except OSError:
                stamp = ()
            if stamp != self._stamp:
                self._value = self._parse(self._text())
                self._stamp = stamp
                self.generation += 1
            self._looked = now  # not if the file could not be opened
        return self._value

    def _text(self) -> str:
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # which says nothing about the file
                raise
            return ""


class Host(NamedTuple):
    """A line of /etc/hosts."""

    family: int
    address: str
    name: str
    aliases: tuple[str, ...]


class Hosts:
    """/etc/hosts: hosts(5)."""

    def __init__(self, text: str):
        self._by_name: dict[str, list[Host]] = {}
        self._by_address: dict[str, Host] = {}
        for line in text.splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            if not names:
                continue
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            number, percent, zone = address.partition("%")
            try:
                address = socket.inet_ntop(family, socket.inet_pton(family, number)) + percent + zone
            except (OSError, ValueError):
                continue
            host = Host(family, address, names[0], tuple(names[1:]))
            for name in dict.fromkeys(each.lower() for each in names):
                self._by_name.setdefault(name, []).append(host)
            self._by_address.setdefault(address, host)

    def named(self, name: str) -> list[Host]:
        return self._by_name.get(name.lower().removesuffix("."), [])

    def at(self, address: str) -> Host | None:
        return self._by_address.get(address)


class Source(NamedTuple):
    """An entry of the `hosts` line of nsswitch.conf(5), with its actions."""

    name: str
    actions: dict[str, str]
    """Status (success, notfound, unavail, tryagain) -> return or continue, where the line says so."""


def parse_nsswitch(text: str) -> list[Source]:
    """The sources of host names in their order; `files dns` without such a line."""
    sources: list[Source] = []
    for line in text.splitlines():
        database, _, rest = line.partition("#")[0].partition(":")
        if database.strip().lower() != "hosts":
            continue
        sources = []
        for name, actions in re.findall(r"([^\s\[\]]+)|\[([^\]]*)\]", rest):
            if name:
                sources.append(Source(name.lower(), {}))
                continue
            for action in actions.lower().split():
                status, _, what = action.partition("=")
                if not sources:
                    continue
                if status.startswith("!"):
                    others = {"success", "notfound", "unavail", "tryagain"} - {status[1:]}
                    sources[-1].actions.update(dict.fromkeys(others, what))
                else:
                    sources[-1].actions[status] = what
    return sources or [Source("files", {}), Source("dns", {})]


@dataclass
class ResolvConf:
    """resolv.conf(5)."""

    nameservers: list[str] = field(default_factory=lambda: ["127.0.0.1"])
    search: list[str] = field(default_factory=list)
    """Domains without their last dot."""
    ndots: int = 1
    timeout: float = 5.0
    """Seconds for the first attempt at a name server."""
    attempts: int = 2
    rotate: bool = False
    edns: bool = False


def options_of(text: str) -> dict[str, str]:
    """The options of a resolv.conf that dnspython does not read, and those whose absence matters; RES_OPTIONS
    goes on top of them."""
    words = [word for line in text.splitlines() if line.startswith("options") for word in line.split()[1:]]
    return {
        name: value
        for name, _, value in (
            word.partition(":") for word in [*words, *os.environ.get("RES_OPTIONS", "").split()]
        )
    }
