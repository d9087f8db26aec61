"""A name server for the tests, in tasklets: answers from a table, and misbehaves where the name asks for it.

``python -m tests.io.nameserver PORT`` runs one for ever that answers any name, after 0.1 s if the name begins
with "slow". ``python -m tests.io.nameserver PORT zone`` runs one that answers from the table.
"""

import socket as stdlib
import struct
import sys

import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.reversename
import dns.rrset

import syncless
from syncless.io import socket

for kind in ("A", "AAAA", "CNAME", "MX", "PTR", "SOA", "TXT"):
    # now: where no descriptor is free an import fails, and dnspython takes the kind for unknown from then on
    dns.rdata.get_rdata_class(dns.rdataclass.IN, dns.rdatatype.from_text(kind))

ZONE = {
    "one.example.": {"A": ["192.0.2.1"]},
    "chain0.example.": {"A": ["192.0.2.70"], "AAAA": ["2001:db8::70"]},
    "both.example.": {"A": ["192.0.2.2"], "AAAA": ["2001:db8::2"]},
    "six.example.": {"AAAA": ["2001:db8::6"]},
    "many.example.": {"A": [f"192.0.2.{number}" for number in range(10, 14)]},
    "alias.example.": {"CNAME": ["middle.example."]},
    "middle.example.": {"CNAME": ["both.example."]},
    "loop.example.": {"CNAME": ["loop2.example."]},
    "loop2.example.": {"CNAME": ["loop.example."]},
    "dangling.example.": {"CNAME": ["nowhere.example."]},
    "toempty.example.": {"CNAME": ["empty.example."]},
    "empty.example.": {},
    "alias4.example.": {"CNAME": ["one.example."]},
    "chain20.example.": {"CNAME": ["chain19.example."]},
    "text.example.": {"TXT": ['"some text"'], "MX": ["10 one.example."]},
    "host.corp.example.": {"A": ["192.0.2.30"]},
    "xn--bcher-kva.example.": {"A": ["192.0.2.40"]},
    "large.example.": {"A": [f"198.51.100.{number}" for number in range(1, 101)]},
    "slow.example.": {"A": ["192.0.2.50"]},
    "late.example.": {"A": ["192.0.2.51"]},
    "forged.example.": {"A": ["192.0.2.52"]},
    "short.example.": {"A": ["192.0.2.53"]},
    "5.2.0.192.in-addr.arpa.": {"PTR": ["five.example.", "cinq.example."]},
    dns.reversename.from_address("2001:db8::6").to_text(): {"PTR": ["six.example."]},
}
LINKS = {f"chain{number}.example.": {"CNAME": [f"chain{number - 1}.example."]} for number in range(1, 20)}
TTL = {"short.example.": 0}
REFUSALS = {
    "servfail": dns.rcode.SERVFAIL,
    "refused": dns.rcode.REFUSED,
    "notimp": dns.rcode.NOTIMP,
    "formerr": dns.rcode.FORMERR,
}
KINDS = ("ok", "nodata", "nx", "lame", "drop", *REFUSALS)
"""The answers to names that begin with "odd-" or "search-"."""


def kind_of(name, rdtype):
    """How a question is answered; None for most names.

    "odd-ok-drop" has an address for A and no answer for AAAA. "search-nx-drop-ok" does not exist in
    s1.example, has no answer in s2.example, and exists elsewhere.
    """
    family, *kinds = name.split(".")[0].split("-")
    if family == "odd":
        return kinds[rdtype == "AAAA"]
    if family == "search":
        return kinds[0 if name.endswith(".s1.example.") else 1 if name.endswith(".s2.example.") else 2]
    return None


class NameServer:
    """Listens on 127.0.0.1, UDP and TCP, as long as the block lasts."""

    def __init__(self, port=0, address="127.0.0.1"):
        for _ in range(20):  # a number that is free for UDP may be in use for TCP
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.udp.bind((address, port))
            self.port = self.udp.getsockname()[1]
            try:
                self.tcp = socket.create_server((address, self.port), backlog=100)
                break
            except OSError:
                self.udp.close()
        else:
            raise OSError("there is no port that is free for both")
        self.asked = []
        """(name, type, transport) of each question."""
        self.seen = {}
        self.answer = self.from_zone
        self.answers_slow = None
        """An event after which slow.example is answered; None: after 0.1 s."""
        self.tasklets = [syncless.spawn(self.serve_udp), syncless.spawn(self.serve_tcp)]

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for tasklet in self.tasklets:
            tasklet.kill()
        self.udp.close()
        self.tcp.close()

    def serve_udp(self):
        while True:
            data, peer = self.udp.recvfrom(65535)
            self.tasklets.append(syncless.spawn(self.reply, data, peer))

    def serve_tcp(self):
        while True:
            client, _ = self.tcp.accept()
            self.tasklets.append(syncless.spawn(self.talk, client))

    def talk(self, client):
        with client, client.makefile("rb") as incoming:
            while head := incoming.read(2):
                (size,) = struct.unpack("!H", head)
                answer = self.answer(dns.message.from_wire(incoming.read(size)), "tcp").to_wire(
                    max_size=65535
                )
                client.sendall(struct.pack("!H", len(answer)) + answer)

    def reply(self, data, peer):
        asked = dns.message.from_wire(data)
        answer = self.answer(asked, "udp")
        if answer is None:
            return
        name = asked.question[0].name.to_text().lower()
        if name == "forged.example.":  # first another id, then another question, then noise
            wrong = dns.message.from_wire(answer.to_wire())
            wrong.id ^= 1
            self.udp.sendto(wrong.to_wire(), peer)
            other = dns.message.make_response(dns.message.make_query("evil.example.", "A", id=asked.id))
            self.udp.sendto(other.to_wire(), peer)
            self.udp.sendto(struct.pack("!H", asked.id) + b"noise", peer)
        wire = answer.to_wire(max_size=65535)
        if len(wire) > 512:
            short = dns.message.make_response(asked)
            short.flags |= dns.flags.TC | dns.flags.RA
            wire = short.to_wire()
        self.udp.sendto(wire, peer)

    def from_zone(self, asked, transport):
        question = asked.question[0]
        name, rdtype = question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, rdtype, transport))
        self.seen[name] = self.seen.get(name, 0) + 1
        answer = dns.message.make_response(asked)
        answer.flags |= dns.flags.RA
        kind = kind_of(name, rdtype)
        if kind is not None:
            return self.of_kind(kind, answer, name, rdtype)
        if name.startswith("servfail."):
            answer.set_rcode(dns.rcode.SERVFAIL)
            return answer
        if name.startswith("silent.") or (name == "late.example." and self.seen[name] == 1):
            return None
        if name == "slow.example.":
            self.answers_slow.wait() if self.answers_slow else syncless.sleep(0.1)
        self.fill(answer, name, rdtype)
        return answer

    @staticmethod
    def of_kind(kind, answer, name, rdtype):
        if kind == "drop":
            return None
        if kind == "ok":
            address = {"A": "192.0.2.60", "AAAA": "2001:db8::60"}[rdtype]
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", rdtype, address))
        elif kind == "nx":
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif kind == "lame":
            answer.flags &= ~dns.flags.RA
        elif kind in REFUSALS:
            answer.set_rcode(REFUSALS[kind])
        return answer

    def fill(self, answer, name, rdtype):
        exists = False
        for _ in range(25):  # as far as a server follows aliases
            records = ZONE.get(name, LINKS.get(name))
            exists = exists or records is not None
            if records is None:
                if not any(each.endswith("." + name) for each in ZONE):
                    answer.set_rcode(dns.rcode.NXDOMAIN)
                break
            kind = rdtype if rdtype in records else "CNAME"
            if kind not in records:
                break
            answer.answer.append(dns.rrset.from_text(name, TTL.get(name, 60), "IN", kind, *records[kind]))
            if kind == rdtype:
                return
            name = records["CNAME"][0]
        answer.authority.append(
            dns.rrset.from_text("example.", 30, "IN", "SOA", "ns.example. root.example. 1 2 3 4 30")
        )


class AnyName(NameServer):
    """Answers any name; puts answers together by hand, to be faster than who asks."""

    def reply(self, data, peer):
        end = data.index(b"\0", 12) + 5
        answers = data[end - 3] == 1  # an address for A, none for AAAA
        if data[13:17].lower() == b"slow":
            syncless.sleep(0.1)
        address = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1" if answers else b""
        self.udp.sendto(
            data[:2] + b"\x81\x80\0\1\0" + bytes([answers]) + b"\0\0\0\0" + data[12:end] + address, peer
        )
        self.tasklets.clear()


if __name__ == "__main__":
    with (NameServer if sys.argv[2:] == ["zone"] else AnyName)(int(sys.argv[1])) as server:
        server.udp.setsockopt(stdlib.SOL_SOCKET, stdlib.SO_RCVBUF, 1 << 22)
        print(server.port, flush=True)
        syncless.sleep(1e9)
