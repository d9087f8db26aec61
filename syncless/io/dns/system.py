"""The system's files about names: /etc/hosts, /etc/nsswitch.conf and /etc/resolv.conf.

Each file is read again after a change."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.05
"""A file is checked for changes at most this often."""


class Watched(Generic[T]):
    """The parsed contents of a file, read again after each change. `parse` gets the text, or "" if the file
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
            with open(self.path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
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
    """The contents of /etc/hosts, see hosts(5)."""

    def __init__(self, text: str):
        self._by_name: dict[str, list[Host]] = {}
        self._by_address: dict[str, Host] = {}
        for line in text.split("\n"):
            address, *names = re.split(r"[ \t\v\f\r]+", line.partition("#")[0].strip(" \t\v\f\r"))
            if not names:
                continue
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                address = socket.inet_ntop(family, socket.inet_pton(family, address))
            except (OSError, ValueError):
                continue
            host = Host(family, address, names[0], tuple(names[1:]))
            for name in dict.fromkeys(each.lower() for each in names):
                self._by_name.setdefault(name, []).append(host)
            self._by_address.setdefault(address, host)

    def named(self, name: str) -> list[Host]:
        return self._by_name.get(name.lower(), [])

    def at(self, address: str) -> Host | None:
        return self._by_address.get(address)


class Source(NamedTuple):
    """An entry of the `hosts` line of nsswitch.conf(5), with its actions."""

    name: str
    actions: dict[str, str]
    """Status (success, notfound, unavail, tryagain) -> return or continue, where the line says so."""


def parse_nsswitch(text: str) -> list[Source]:
    """Return the sources of host names in their order, or `files dns` if no line has them."""
    sources: list[Source] = []
    for line in text.split("\n"):
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


class ResolvConf:
    """The settings of resolv.conf(5)."""

    def __init__(self) -> None:
        self.nameservers = ["127.0.0.1"]
        self.search: list[str] = []
        """Domains without their last dot."""
        self.ndots = 1
        self.timeout = 5.0
        """Seconds for the first attempt at a name server."""
        self.attempts = 2
        self.rotate = False
        self.edns = False
        self.use_vc = False
        self.no_aaaa = False


_blanks = re.compile(r"[ \t]+").split
_number = re.compile(r"[ \t\v\f\r]*[+-]?[0-9]+").match
HIGHEST = {"ndots": 15, "timeout": 30, "attempts": 5}
"""Options with a number -> the C library's limit."""


def read_resolv_conf(text: str) -> ResolvConf:
    """Parse resolv.conf, RES_OPTIONS and LOCALDOMAIN as the C library does (res_init.c of glibc): a line
    begins with its keyword and a blank, and a malformed line is ignored."""
    conf = ResolvConf()
    nameservers: list[str] = []
    search: list[str] | None = _domains(os.environ.get("LOCALDOMAIN"))
    is_fixed = search is not None
    for line in text.split("\n"):
        keyword, *words = _blanks(line)
        if not words or not words[0]:
            continue
        if keyword == "nameserver":
            nameservers += filter(None, [_address_of_server(words[0])])
        elif keyword == "options":
            _set_options(conf, words)
        elif keyword in ("domain", "search") and not is_fixed:
            search = words[:1] if keyword == "domain" else list(filter(None, words))
    _set_options(conf, _blanks(os.environ.get("RES_OPTIONS", "")))
    if search is None:
        search = [domain for _, _, domain in [socket.gethostname().partition(".")] if domain]
    conf.search = [_as_bytes(domain).removeprefix(".").removesuffix(".") for domain in search]
    conf.nameservers = nameservers[:3] or conf.nameservers  # MAXNS
    return conf


def _as_bytes(domain: str) -> str:
    """Return a domain with its non-ASCII bytes escaped, because the C library sends them unchanged."""
    if domain.isascii():
        return domain
    data = domain.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte < 128 else f"\\{byte:03}" for byte in data)


def _domains(text: str | None) -> list[str] | None:
    return None if text is None else list(filter(None, _blanks(text.partition("\n")[0])))


def _address_of_server(word: str) -> str | None:
    """Return the word as an address: IPv4 in any notation, or IPv6. Return None if it is not an address."""
    if word.split() != [word]:
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(word))
    except (OSError, ValueError):
        pass
    address, percent, zone = word.partition("%")
    try:
        address = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))
    except (OSError, ValueError):
        return None
    return address + percent + zone


def _set_options(conf: ResolvConf, words: list[str]) -> None:
    for word in words:
        name, colon, value = word.partition(":")
        if colon and name in HIGHEST:
            found = _number(value)
            number = min(int(found[0]) if found else 0, HIGHEST[name])
            if name == "ndots":
                conf.ndots = number & 15
            elif name == "timeout":
                conf.timeout = float(max(1, number))
            else:
                conf.attempts = max(1, number)  # the C library does not ask at all with 0
        conf.rotate = conf.rotate or word.startswith("rotate")
        conf.edns = conf.edns or word.startswith("edns0")
        conf.use_vc = conf.use_vc or word.startswith("use-vc")
        conf.no_aaaa = conf.no_aaaa or word.startswith("no-aaaa")


ALWAYS_KNOWN = ("localhost", "_gateway", "_outbound")


def is_known_here(source: str, name: str) -> bool:
    """Return whether that source of nsswitch.conf may know a name ("" for an address), so that it must be
    queried."""
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
    """Return the families in which this machine has an address other than loopback (AI_ADDRCONFIG)."""
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
