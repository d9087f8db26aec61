"""Finds the records of names, with the search list, a cache, and one shared query for simultaneous equal
lookups."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from syncless._core.cpython.forkhooks import look
from syncless._core.recorder import set_purpose
from syncless._core.wait.sync import Event
from syncless.io.dns import wire
from syncless.io.dns.system import Hosts, ResolvConf, Source, Watched, parse_nsswitch, read_resolv_conf
from syncless.io.dns.transport import NOERROR, NoAnswer, exchange
from syncless.io.dns.wire import AAAA, CNAME, SOA, A

CACHE_ENTRIES = 10_000
LONGEST_SECONDS = 86_400
"""Longest time that a record is kept, whatever its TTL: a day."""
LONGEST_NEGATIVE_SECONDS = 300
"""The same for a name that does not exist (RFC 2308)."""
UNMARKED_NEGATIVE_SECONDS = 5
"""The same where the server does not say how long."""
RESTING_SECONDS = 1.0
"""A name that no server has answered is not asked for again this soon."""
UNANSWERED_SECONDS = 30.0
"""The same for a type that no server answers although they answer A: waiting for it takes long."""

_ERRORS = {
    socket.EAI_NONAME: "Name or service not known",
    socket.EAI_AGAIN: "Temporary failure in name resolution",
    socket.EAI_FAIL: "Non-recoverable failure in name resolution",
    socket.EAI_NODATA: "No address associated with hostname",
}


def error(code: int) -> socket.gaierror:
    """Return the exception for an error code of the C library."""
    return socket.gaierror(code, _ERRORS[code])


class Records(NamedTuple):
    """The name servers' answer for a name and a type."""

    exists: bool
    """False if the name does not exist."""
    canonical: str
    """The name at the end of the aliases, without its last dot."""
    aliases: list[str]
    """The names that led there."""
    data: list[Any]
    """dnspython's rdata; empty if the name has no record of that type."""
    expires: float
    answered: bool = True
    """False if no server has answered, although one has answered for another type of the name."""


class _Pending:
    """A query under way."""

    def __init__(self) -> None:
        self.done = Event()
        self.found: list[Records] | None = None


class Resolver:
    """Queries name servers. Paths and port are the system's, except in tests."""

    def __init__(self, hosts: str, nsswitch: str, resolv_conf: str, port: int):
        self.port = port
        self._hosts = Watched(hosts, Hosts)
        self._sources = Watched(nsswitch, parse_nsswitch)
        self._text = Watched(resolv_conf, str)
        self._conf: tuple[int, ResolvConf] = (-1, ResolvConf())
        self._cache: dict[tuple[str, int], Records] = {}
        self._failed: dict[tuple[str, tuple[int, ...]], tuple[float, bool]] = {}
        """(name, types) -> until when it is not asked for again, and NoAnswer.server_failed."""
        self._pending: dict[tuple[str, tuple[int, ...]], _Pending] = {}

    def forget_others(self) -> None:
        """Forget the parent's queries, which do not run in a forked child."""
        self._pending.clear()

    @property
    def hosts(self) -> Hosts:
        return self._hosts.get()

    @property
    def sources(self) -> list[Source]:
        return self._sources.get()

    @property
    def generation(self) -> tuple[int, int, int]:
        """A value that changes whenever one of the system's files changes."""
        for watched in (self._hosts, self._sources, self._text):
            watched.get()
        return self._hosts.generation, self._sources.generation, self._text.generation

    @property
    def conf(self) -> ResolvConf:
        """The parsed resolv.conf. When the file changes, the cached answers are dropped."""
        text = self._text.get()
        if self._conf[0] != self._text.generation:
            wire.load()
            self._conf = self._text.generation, read_resolv_conf(text)
            self._cache.clear()
            self._failed.clear()
        return self._conf[1]

    def candidates(self, name: str) -> Iterator[tuple[str, bool]]:
        """Yield the absolute names to try for a name, in the order of resolv.conf(5), and whether each is the
        unchanged name."""
        if name.endswith("."):
            yield name, True
            return
        conf = self.conf
        as_it_is = name.count(".") >= conf.ndots
        if as_it_is:
            yield name + ".", True
        for domain in conf.search:
            yield f"{name}.{domain}." if domain else f"{name}.", False
        if not as_it_is:
            yield name + ".", True

    def search(self, name: str, types: tuple[int, ...]) -> list[Records]:
        """Return the records of the first candidate that has any, or raise the C library's socket.gaierror.

        An alias ends the search, wherever it leads. If no server answers for a domain, or the domain makes no
        valid name, the other domains are not tried. If the unchanged name was tried first, its answer decides
        the error.
        """
        codes: list[int] = []
        as_it_is_first = ended = no_data = server_failed = False
        for candidate, as_it_is in self.candidates(name):
            if ended and not as_it_is:
                continue
            try:
                found = self.lookup(candidate, types)
            except ValueError:  # no name with this domain, which ends the list
                ended = True
                continue
            except NoAnswer as none:
                codes.append(socket.EAI_AGAIN)
                server_failed = server_failed or none.server_failed
                ended = not as_it_is and not none.server_failed
            else:
                if any(records.data for records in found):
                    return found
                aliases = any(records.aliases for records in found)
                exists = all(records.exists for records in found)
                exists = exists and not (aliases and AAAA in types)  # like the C library
                codes.append(socket.EAI_NODATA if exists else socket.EAI_NONAME)
                if aliases:
                    raise error(codes[-1])
                no_data = no_data or (exists and not as_it_is)
            as_it_is_first = as_it_is_first or (as_it_is and len(codes) == 1)
        if as_it_is_first:
            raise error(codes[0])
        if no_data:
            raise error(socket.EAI_NODATA)
        raise error(socket.EAI_AGAIN if server_failed else codes[-1] if codes else socket.EAI_NONAME)

    def lookup(self, name: str, types: tuple[int, ...]) -> list[Records]:
        """Return the records of an absolute name, for each of the types. Raise NoAnswer if no server answers,
        ValueError for an impossible name."""
        look()
        if AAAA in types and self.conf.no_aaaa:  # asked for A: its answer says whether the name exists
            [four] = self.lookup(name, (A,))
            return [four if rdtype == A else four._replace(aliases=[], data=[]) for rdtype in types]
        key = name.lower(), types
        while True:
            now = time.monotonic()
            known = [self._cache.get((key[0], rdtype)) for rdtype in types]
            fresh = [records for records in known if records is not None and records.expires > now]
            if len(fresh) == len(types) and any(records.answered for records in fresh):
                return fresh
            until, server_failed = self._failed.get(key, (0.0, False))
            if until > now:
                raise NoAnswer(server_failed)
            pending = self._pending.get(key)
            purpose = set_purpose(f"DNS name {name.removesuffix('.')}")
            try:
                if pending is None:
                    return self._ask(key)
                pending.done.wait()
            finally:
                set_purpose(purpose)
            if pending.found is not None:
                return pending.found
            # it failed, which is remembered; or the asking tasklet was killed, and another takes over

    def _ask(self, key: tuple[str, tuple[int, ...]]) -> list[Records]:
        name, types = key
        pending = self._pending[key] = _Pending()
        try:
            conf = self.conf
            asked = wire.name_from(name)
            try:
                answers = exchange(wire.ask(asked, types, conf.edns), conf, self.port)
            except NoAnswer as none:
                self._remember(self._failed, key, (time.monotonic() + RESTING_SECONDS, none.server_failed))
                raise
            by_type = zip(answers, types, strict=True)
            pending.found = [records_of(answer, asked, name, rdtype) for answer, rdtype in by_type]
            for rdtype, records in zip(types, pending.found, strict=True):
                self._remember(self._cache, (name, rdtype), records)
            return pending.found
        finally:
            del self._pending[key]
            pending.done.set()

    @staticmethod
    def _remember(cache: dict[Any, Any], key: Any, value: Any) -> None:
        cache.pop(key, None)
        while len(cache) >= CACHE_ENTRIES:
            del cache[next(iter(cache))]  # the oldest
        cache[key] = value


def records_of(answer: wire.Answer | None, asked: Any, text: str, rdtype: int) -> Records:
    """Return the records in an answer, following aliases."""
    if answer is None:
        seconds = RESTING_SECONDS if rdtype == A else UNANSWERED_SECONDS
        return Records(True, text.removesuffix("."), [], [], time.monotonic() + seconds, answered=False)
    name, aliases, seconds = asked, [], LONGEST_SECONDS
    here = [record for record in answer.answers if record.name is name or record.name == name]
    data = [record for record in here if record.rdtype == rdtype]
    if here and not data:
        by_name: dict[Any, list[wire.Record]] = {}
        for record in answer.answers:
            by_name.setdefault(record.name, []).append(record)
        while not data:
            alias = next((record for record in here if record.rdtype == CNAME), None)
            if alias is None:
                break
            aliases.append(_text(name))
            seconds = min(seconds, alias.seconds)
            name = alias.data.target
            here = by_name.pop(name, [])  # each name only once, so endless aliases lead nowhere
            data = [record for record in here if record.rdtype == rdtype]
    if data:
        seconds = min(seconds, *(record.seconds for record in data))
    else:
        marked = [record for record in answer.authority if record.rdtype == SOA]
        marks = [min(record.seconds, record.data.minimum) for record in marked]
        seconds = min(seconds, LONGEST_NEGATIVE_SECONDS, *(marks or [UNMARKED_NEGATIVE_SECONDS]))
    canonical = _text(name) if aliases else text.removesuffix(".")
    expires = time.monotonic() + seconds
    return Records(answer.rcode == NOERROR, canonical, aliases, [record.data for record in data], expires)


def _text(name: Any) -> str:
    return str(name.to_text(omit_final_dot=True))
