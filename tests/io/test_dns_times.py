"""For how long answers of name servers are kept, by a clock of the test's own."""

import socket as standard

import pytest

from syncless.io.dns import resolver, system, wire
from syncless.io.dns.resolver import A, Records, Resolver, records_of
from syncless.io.dns.transport import NoAnswer

pytest.importorskip("dns", reason="dnspython is not installed")
import dns.message
import dns.rcode
import dns.rrset

DAY = 86_400


class Clock:
    """In the place of the module `time`, for what asks it only for monotonic()."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(resolver, "time", made)
    return made


def answered(*answers, soa=None, rcode=dns.rcode.NOERROR):
    """The result of a name server's answer to a.example: rows of name, seconds, type, value; SOA's seconds
    and minimum."""
    wire.load()
    name = wire.name_from("a.example")
    question = wire.ask(name, (A,), False)[0]
    message = dns.message.make_response(dns.message.from_wire(question.wire))
    message.set_rcode(rcode)
    for owner, seconds, kind, value in answers:
        message.answer.append(dns.rrset.from_text(owner, seconds, "IN", kind, value))
    if soa:
        message.authority.append(
            dns.rrset.from_text(
                "example.", soa[0], "IN", "SOA", f"ns.example. root.example. 1 2 3 4 {soa[1]}"
            )
        )
    return records_of(wire.parse(message.to_wire(), question), name, "a.example", A)


@pytest.mark.parametrize(
    ("answers", "soa", "seconds"),
    [
        ([("a.example.", 60, "A", "192.0.2.1")], None, 60),
        ([("a.example.", 0, "A", "192.0.2.1")], None, 0),
        ([("a.example.", 10 * DAY, "A", "192.0.2.1")], None, DAY),
        ([("a.example.", 20, "CNAME", "b.example."), ("b.example.", 60, "A", "192.0.2.1")], None, 20),
        ([("a.example.", 60, "CNAME", "b.example."), ("b.example.", 20, "A", "192.0.2.1")], None, 20),
        ([], (30, 60), 30),
        ([], (600, 40), 40),
        ([], (10 * DAY, 10 * DAY), 300),
        ([], None, 5),
    ],
)
def test_records_are_kept_as_long_as_they_say_within_bounds(clock, answers, soa, seconds):
    records = answered(*answers, soa=soa, rcode=dns.rcode.NOERROR if answers else dns.rcode.NXDOMAIN)
    assert records.expires == clock.now + seconds and bool(records.data) == bool(answers)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Questions that reach the name server, which knows a.example for 60 s, and nothing of other names for 30
    s."""
    seen = []

    def exchange(questions, conf, port):
        seen.append(str(wire.dns.message.from_wire(questions[0].wire).question[0].name))
        if seen[-1].startswith("silent"):
            raise NoAnswer
        return [None]

    def records(answer, name, text, rdtype):
        known = text.startswith("a.")
        seconds = 60 if known else 30
        return Records(known, text, [], ["192.0.2.1"] if known else [], resolver.time.monotonic() + seconds)

    monkeypatch.setattr(resolver, "exchange", exchange)
    monkeypatch.setattr(resolver, "records_of", records)
    return seen


@pytest.mark.parametrize(("name", "seconds"), [("a.example.", 60), ("none.example.", 30)])
def test_names_are_asked_for_again_when_their_time_is_over(clock, asked, tmp_path, name, seconds):
    made = Resolver(str(tmp_path / "hosts"), str(tmp_path / "nsswitch"), str(tmp_path / "resolv"), 53)
    made.lookup(name, (A,))
    clock.now += seconds - 1
    made.lookup(name, (A,))
    assert len(asked) == 1
    clock.now += 2
    made.lookup(name, (A,))
    assert len(asked) == 2


def test_failed_lookup_is_remembered_for_a_second(clock, asked, tmp_path):
    made = Resolver(str(tmp_path / "hosts"), str(tmp_path / "nsswitch"), str(tmp_path / "resolv"), 53)
    for pause, questions in ((0, 1), (0.9, 1), (0.2, 2)):
        clock.now += pause
        with pytest.raises(standard.gaierror) as told:
            made.search("silent.example.", (A,))
        assert told.value.errno == standard.EAI_AGAIN and len(asked) == questions


def test_waits_for_name_servers_are_bounded_as_the_c_librarys():
    """resolv.conf(5): timeout at most 30 s, attempts at most 5, ndots at most 15."""
    wire.load()
    conf = system.read_resolv_conf("nameserver 192.0.2.1\noptions timeout:1000 attempts:100 ndots:100\n")
    assert (conf.timeout, conf.attempts, conf.ndots) == (30, 5, 15)
