"""DNS messages, read and written by dnspython, which a thread imports at its first use, because the import
takes long."""

from __future__ import annotations

import importlib
import os
import re
import socket
import struct
from typing import Any, NamedTuple

from syncless._core.calls.threads import run_in_thread
from syncless._core.cpython.forkhooks import at_fork, look
from syncless._core.wait.sync import Lock

A, CNAME, SOA, PTR, AAAA = 1, 5, 6, 12, 28
IN, OPT = 1, 41
PAYLOAD = 1232
"""Largest answer by UDP, in bytes, announced with EDNS: it passes everywhere without fragments."""

dns: Any = None
_loading = Lock()


def load() -> None:
    """Import dnspython."""
    global dns
    if dns is None:
        look()
        with _loading:
            if dns is None:
                for module in ("dns.name", "dns.rdata", "dns.rdatatype", "dns.reversename"):
                    run_in_thread(importlib.import_module, module)
                found = importlib.import_module("dns")
                for rdtype in (CNAME, SOA, PTR):  # dnspython has a module for each, too
                    run_in_thread(found.rdata.get_rdata_class, IN, rdtype)
                dns = found


def _after_fork_in_child() -> None:
    global _loading
    _loading = Lock()  # its holder is a tasklet of the parent


at_fork(at_first_use=_after_fork_in_child)


HEADER, RECORD, TYPE = struct.Struct("!HHHHHH"), struct.Struct("!HHIH"), struct.Struct("!HH")
IS_ANSWER, AUTHORITATIVE, TRUNCATED = 0x8000, 0x0400, 0x0200
RECURSION_DESIRED, RECURSION_AVAILABLE = 0x0100, 0x0080
REFUSED = 5


class Question(NamedTuple):
    """A question, ready to be sent."""

    number: int
    name: Any
    rdtype: int
    wire: bytes
    end: int
    """Where the question section ends in the message."""


def ask(name: Any, types: tuple[int, ...], edns: bool) -> list[Question]:
    """Return the question for each of the types (RFC 1035 section 4.1). dnspython encodes the name."""
    asked = name.to_wire()
    extra = b"\0" + RECORD.pack(OPT, PAYLOAD, 0, 0) if edns else b""  # RFC 6891 section 6.1.2
    questions = []
    numbers = struct.unpack(f"!{len(types)}H", os.urandom(2 * len(types)))
    for rdtype, number in zip(types, numbers, strict=True):
        header = HEADER.pack(number, RECURSION_DESIRED, 1, 0, 0, 1 if edns else 0)
        head = header + asked + TYPE.pack(rdtype, IN)
        questions.append(Question(number, name, rdtype, head + extra, len(head)))
    return questions


def renumbered(question: Question) -> Question:
    """Return the same question with another number."""
    number = os.urandom(2)
    return question._replace(number=int.from_bytes(number, "big"), wire=number + question.wire[2:])


class Record(NamedTuple):
    """A resource record."""

    name: Any
    rdtype: int
    seconds: int
    """How long it may be kept (TTL)."""
    data: Any
    """dnspython's rdata; an Address for A and AAAA."""


class Address(NamedTuple):
    """The data of a record of type A or AAAA."""

    address: str

    def rdata(self) -> Any:
        """Return the data as an object of dnspython."""
        return dns.rdata.from_text(IN, AAAA if ":" in self.address else A, self.address)


FAMILY_OF = {(A, IN, 4): socket.AF_INET, (AAAA, IN, 16): socket.AF_INET6}
"""(type, class, length) of a record that holds an address."""


class Answer(NamedTuple):
    """A name server's answer."""

    rcode: int
    truncated: bool
    answers: list[Record]
    authority: list[Record]


TO_THE_QUESTION = b"\xc0\x0c"
"""A compressed name that is the question's (RFC 1035 section 4.1.4)."""


def parse(data: bytes, question: Question) -> Answer | None:
    """Return the answer in a message, or None if the message does not answer exactly this question (RFC 5452
    section 9.1) or is malformed. dnspython reads names and records.
    """
    try:
        number, flags, asked, answers, authority, more = HEADER.unpack_from(data)
        if number != question.number or not flags & IS_ANSWER or asked != 1:
            return None
        if data[12 : question.end] != question.wire[12 : question.end]:
            name, size = dns.name.from_wire(data, 12)  # a server may have changed upper and lower case
            kind = data[12 + size : 16 + size]
            if name != question.name or kind != question.wire[question.end - 4 : question.end]:
                return None
        records, end = _records(data, question.end, answers, question.name)
        others = [] if records or flags & TRUNCATED else _records(data, end, authority, question.name)[0]
        # a referral to other servers is of no use here
        refers = not answers and not more and not flags & (AUTHORITATIVE | RECURSION_AVAILABLE | 15)
        return Answer(REFUSED if refers else flags & 15, bool(flags & TRUNCATED), records, others)
    except Exception:  # a hostile server may send anything; dnspython raises more than its own exceptions
        return None


def _records(data: bytes, at: int, count: int, asked: Any) -> tuple[list[Record], int]:
    found = []
    for _ in range(count):
        if data[at : at + 2] == TO_THE_QUESTION:
            name, size = asked, 2
        else:
            name, size = dns.name.from_wire(data, at)
        at += size
        rdtype, rdclass, seconds, length = RECORD.unpack_from(data, at)
        at += RECORD.size
        family = FAMILY_OF.get((rdtype, rdclass, length))
        rdata: Any
        if family is not None:  # by far the most frequent kind, four or sixteen bytes long
            rdata = Address(socket.inet_ntop(family, data[at : at + length]))
        else:
            rdata = dns.rdata.from_wire(rdclass, rdtype, data, at, length)
        found.append(Record(name, rdtype, seconds, rdata))
        at += length
    return found, at


_is_plain = re.compile(r"(?:[A-Za-z0-9_-]+\.)+").fullmatch


def name_from(text: str) -> Any:
    """Return the text as an absolute name. Raise ValueError if it is not a domain name."""
    try:
        if _is_plain(text):  # twice as fast as from_text(), which looks for escapes and other alphabets
            return dns.name.Name(text.encode().split(b"."))
        return dns.name.from_text(text)
    except (dns.exception.DNSException, UnicodeError) as error:
        raise ValueError(f"{text!r} is not a domain name: {error}") from None
