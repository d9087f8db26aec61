"""syncless.io.dns when name servers and routers misbehave, and when descriptors run out."""

import contextlib
import errno
import itertools
import os
import resource
import socket as standard
import struct
import time

import pytest

import syncless
from syncless.io import dns
from syncless.io.dns import ports, resolver, transport, wire

pytest.importorskip("dns", reason="dnspython is not installed")
from tests.io.lookups import STREAM, addresses, compared_with_the_c_library, fails
from tests.io.nameserver import REFUSALS, NameServer
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("kind", ["drop", "servfail", "refused", "notimp", "formerr", "lame"])
def test_one_family_without_an_answer_leaves_the_other(server, kind):
    assert addresses(f"odd-ok-{kind}.example") == ["192.0.2.60"]
    assert addresses(f"odd-{kind}-ok.example") == ["2001:db8::60"]
    asked = len(server.asked)
    assert (
        addresses(f"odd-ok-{kind}.example") == ["192.0.2.60"] and len(server.asked) == asked
    )  # a drop cost seconds
    if kind != "formerr":
        assert fails(
            f"odd-ok-{kind}.example", standard.EAI_AGAIN, standard.AF_INET6, STREAM
        )  # its absence is not an answer


def test_dropped_question_is_asked_once_more(server):
    assert addresses("odd-ok-drop.example") == ["192.0.2.60"]
    assert [kind for _, kind, _ in server.asked] == ["A", "AAAA", "AAAA"]


def test_refused_question_goes_to_the_next_server_only_if_nothing_was_answered(server, files):
    files.write(resolv="nameserver 127.0.0.1\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    assert addresses("odd-ok-servfail.example") == ["192.0.2.60"] and len(server.asked) == 2
    assert fails("odd-refused-servfail.example", standard.EAI_AGAIN) and len(server.asked) == 6


@pytest.mark.slow
def test_failures_are_told_as_by_the_c_library(tmp_path):
    """372 calls; the one difference is that we give the IPv6 address where the question for IPv4 is
    dropped."""
    resolv = "nameserver 127.0.0.1\nsearch s1.example s2.example\noptions timeout:2 attempts:1\n"
    told = compared_with_the_c_library(tmp_path, "hosts: files dns\n", resolv, "failures")
    different = [
        (args, theirs[1], ours)
        for _, args, theirs, ours in told["different"]
        if "odd-drop-ok.example" not in args
    ]
    assert told["compared"] > 300 and different == []


def test_search_list_ends_at_a_timeout(server, files):
    files.write(resolv="nameserver 127.0.0.1\nsearch s1.example s2.example\noptions timeout:1 attempts:2\n")
    assert addresses("search-drop-ok-ok", standard.AF_INET, STREAM) == ["192.0.2.60"]
    assert [name.partition(".")[2] for name, _, _ in server.asked] == ["s1.example.", "s1.example.", ""]
    server.asked.clear()
    assert addresses("search-servfail-ok-nx", standard.AF_INET, STREAM) == [
        "192.0.2.60"
    ]  # that may be true of this name only
    assert [name.partition(".")[2] for name, _, _ in server.asked] == [
        "s1.example.",
        "s1.example.",
        "s2.example.",
    ]


def test_attempts_take_as_long_as_in_the_c_library():
    conf = transport.ResolvConf()
    conf.nameservers, conf.timeout, conf.attempts = ["a", "b", "c"], 5.0, 2
    assert list(transport._turns(conf)) == [("a", 5.0), ("b", 3.0), ("c", 6.0)] * 2
    conf.timeout, conf.attempts = 1.0, 1
    assert list(transport._turns(conf)) == [("a", 1.0), ("b", 1.0), ("c", 1.0)]


@pytest.fixture
def slowly(server):
    """slowly(seconds, ...): the first question, the second, and so on, are answered that late; without an end
    where it is None, and later ones too."""

    def set_delays(*seconds):
        delays = iter(seconds)
        from_zone = server.from_zone

        def answer(asked, transport):
            delay = next(delays, None)
            syncless.sleep(1000 if delay is None else delay)
            return from_zone(asked, transport)

        server.answer = answer

    return set_delays


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_answer_that_comes_while_another_try_is_made_counts(server, files, slowly, servers):
    files.write(resolv="nameserver 127.0.0.1\n" * servers + "options timeout:1 attempts:2\n")
    slowly(1.2)
    began = time.monotonic()
    assert addresses("one.example", standard.AF_INET, STREAM) == ["192.0.2.1"]
    assert time.monotonic() - began == pytest.approx(1.2, abs=0.1) and ports._open == []


def test_answers_of_different_tries_make_one_result(server, files, slowly):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:3\n")
    slowly(1.2, None, None, 0.5)  # A of the first try, AAAA of the second
    assert addresses("both.example") == ["192.0.2.2", "2001:db8::2"] and ports._open == []


def test_late_refusal_does_not_end_the_wait_for_the_present_server(server, files, slowly):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")
    slowly(1.2, 0.5)
    slow, kinds = server.answer, iter(["refused", "ok"])

    def answer(asked, transport):
        kind = next(kinds)
        made = slow(asked, transport)
        if kind == "refused":
            made.set_rcode(REFUSALS[kind])
            made.answer.clear()
        return made

    server.answer = answer
    assert addresses("one.example", standard.AF_INET, STREAM) == ["192.0.2.1"]


def test_late_answer_that_is_cut_is_asked_for_by_tcp(server, files, slowly):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")
    slowly(1.2, None, 0)
    assert len(addresses("large.example", standard.AF_INET, STREAM)) == 100 and ports._open == []


def test_killed_lookup_leaves_nothing_of_its_earlier_tries(server, files, slowly):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:3\n")
    slowly()
    tasklet = syncless.spawn(addresses, "one.example", standard.AF_INET, STREAM)
    assert eventually(lambda: len(ports._open) == 3)

    def listening():
        return [each for each in syncless.tasklets() if "_listen" in each.name]

    assert len(listening()) == 3
    tasklet.kill()
    assert ports._open == [] and listening() == []


def test_earlier_tries_give_their_descriptors_to_the_next(server, files, slowly, monkeypatch):
    files.write(resolv="nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:1 attempts:1\n")
    slowly(None, 0)
    make, made = ports.Port, []

    def one_at_a_time(server, loop):
        if ports._open:
            raise OSError(errno.EMFILE, "no descriptor is left")
        made.append(server[0])
        return make(("127.0.0.1", server[1]), loop)

    monkeypatch.setattr(ports, "Port", one_at_a_time)
    assert addresses("one.example", standard.AF_INET, STREAM) == ["192.0.2.1"]
    assert made == ["127.0.0.1", "127.0.0.2"]


def test_aliases(server):
    assert addresses("chain20.example") == ["192.0.2.70", "2001:db8::70"]
    assert len(dns.gethostbyname_ex("chain20.example")[1]) == 20
    for name in ("toempty.example", "loop.example", "dangling.example"):
        assert fails(name, standard.EAI_NONAME)
    assert fails("empty.example", standard.EAI_NODATA) and fails(
        "toempty.example", standard.EAI_NODATA, standard.AF_INET, STREAM
    )


def test_alias_that_leads_nowhere_ends_the_search(server):
    assert fails("toempty.example", standard.EAI_NONAME)
    assert {name for name, _, _ in server.asked} == {"toempty.example."}


def test_following_aliases_compares_each_name_once():
    """A server may send 4,000 aliases, the last one first."""
    wire.load()
    names = [wire.name_from(f"n{number}.example.") for number in range(4000)]
    compared = 0

    class Name(wire.dns.name.Name):
        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = wire.dns.name.Name.__hash__

    alias = wire.dns.rdata.from_text
    links = [
        wire.Record(Name(one.labels), 5, 60, alias(1, 5, str(other)))
        for one, other in itertools.pairwise(names)
    ]
    address = wire.Record(Name(names[-1].labels), 1, 60, wire.Address("192.0.2.1"))
    answer = wire.Answer(0, False, [address, *reversed(links)], [])
    found = resolver.records_of(answer, names[0], "n0.example.", 1)
    assert found.data == [wire.Address("192.0.2.1")] and len(found.aliases) == 3999
    assert compared < 30_000


def ask_for_nothing(name, code=standard.EAI_NODATA):
    """Spawns a lookup that is to find that there is no address."""
    return syncless.spawn(fails, name, code, standard.AF_INET, STREAM)


@contextlib.contextmanager
def descriptors(left):
    """Leaves the process this many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + left + 1, hard)
        )
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for fd in taken[:left]:
            os.close(fd)
        del taken[:left]
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.virtual_time(False)  # the virtual clock needs descriptors, too
def test_lookups_share_ports_when_descriptors_run_out(server, files):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:30\n")
    assert addresses("one.example") == ["192.0.2.1"]
    server.answers_slow = syncless.Event()
    server.fill = lambda answer, name, rdtype: server.answers_slow.wait()
    with descriptors(8):
        tasklets = [ask_for_nothing(f"name{number}.example.") for number in range(200)]
        assert eventually(lambda: len(server.asked) == 202)
        server.answers_slow.set()
        assert all(tasklet.result() for tasklet in tasklets)
    assert ports._open == []


@pytest.mark.virtual_time(False)  # the virtual clock needs descriptors, too
def test_running_out_of_descriptors_is_that_error(server, files):
    assert addresses("one.example") == ["192.0.2.1"]
    with descriptors(0):
        with pytest.raises(OSError) as told:
            dns.getaddrinfo("both.example", 80)
        assert told.value.errno == errno.EMFILE
    assert addresses("both.example") == ["192.0.2.2", "2001:db8::2"]
    files.write(hosts="192.0.2.88 added.example\n")
    with descriptors(0), pytest.raises(OSError) as told:
        dns.getaddrinfo("added.example", 80)
    assert told.value.errno == errno.EMFILE
    assert addresses("added.example") == ["192.0.2.88"]  # a file that could not be opened is not an empty one


def test_lookups_beyond_the_bound_share_ports(server, files, monkeypatch):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:30\n")
    monkeypatch.setattr(ports, "MOST_PORTS", 4)
    monkeypatch.setattr(ports, "MOST_LOOKUPS", 10)
    server.answers_slow = syncless.Event()
    server.fill = lambda answer, name, rdtype: server.answers_slow.wait()
    tasklets = [ask_for_nothing(f"name{number}.example.") for number in range(60)]
    assert eventually(lambda: len(server.asked) == 60)
    assert len(ports._open) == 4 and sorted(port.lookups for port in ports._open)[:3] >= [10, 10, 10]
    assert len({port.sock.getsockname() for port in ports._open}) == 4
    server.answers_slow.set()
    assert all(tasklet.result() for tasklet in tasklets) and ports._open == []


def test_port_is_new_for_each_lookup_that_is_alone(server):
    seen = []
    server.reply = lambda data, peer: (seen.append(peer), NameServer.reply(server, data, peer))
    for number in range(5):
        assert fails(f"name{number}.example.", standard.EAI_NONAME)
    assert len({port for _, port in seen}) > 1  # the kernel may choose one twice


@pytest.fixture
def shared(server, files, monkeypatch):
    """Two lookups that share a port, the first of which reads; neither is answered yet."""
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:10 attempts:1\n")
    monkeypatch.setattr(ports, "MOST_PORTS", 1)
    dns.query("one.example")
    held = {"first.example.": syncless.Event(), "second.example.": syncless.Event()}
    server.fill = lambda answer, name, rdtype: held[name].wait()
    lookups = []
    for number, name in enumerate(held, 1):
        lookups.append(ask_for_nothing(name))
        assert eventually(lambda number=number: len(server.asked) == 1 + number)
    assert len(ports._open) == 1 and len(ports._open[0].users) == 2
    return (*lookups, *held.values())


def test_answer_reaches_the_lookup_that_asked(shared):
    first, second, answer_first, answer_second = shared
    answer_second.set()  # it comes to the first, which reads
    assert second.result() and not first.done()
    answer_first.set()
    assert first.result() and ports._open == []


def test_reader_with_its_answer_hands_over(shared):
    first, second, answer_first, answer_second = shared
    answer_first.set()
    assert first.result()
    answer_second.set()
    assert second.result() and ports._open == []


def test_killed_reader_hands_over(shared):
    first, second, _, answer_second = shared
    first.kill()
    assert eventually(first.done)
    answer_second.set()
    assert second.result() and ports._open == []


@pytest.mark.parametrize("kind", [TimeoutError, ConnectionRefusedError])
def test_error_that_is_thrown_at_a_lookup_is_no_fault_of_the_server(shared, reports, kind):
    first, second, _, answer_second = shared
    first.kill(kind("thrown"))
    assert str(first.exception()) == "thrown"
    answer_second.set()
    assert second.result() and ports._open == []


def test_killed_waiter_leaves_the_port(shared):
    first, second, answer_first, _ = shared
    second.kill()
    assert eventually(second.done) and len(ports._open[0].users) == 1
    answer_first.set()
    assert first.result() and ports._open == []


def test_unreachable_server_fails_all_lookups_of_a_port(server, files, shared):
    first, second, _, _ = shared
    server.tasklets[0].kill()
    server.udp.close()
    ports._open[0].sock.send(b"where nobody listens")
    assert (
        not first.result() and not second.result()
    )  # both have failed, with another code, and long before their time is over
    assert ports._open == []


def test_failed_port_wakes_the_lookups_that_wait_for_its_reader(shared):
    first, second, answer_first, _ = shared
    ports._open[0].fail(OSError(errno.ECONNREFUSED, "told to the one that sends"))
    assert not second.result() and not first.done()
    answer_first.set()
    assert first.result() and ports._open == []


def test_child_does_not_use_the_ports_of_its_parent(shared):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ports._open == [] else 1)
    _, status = syncless.run_in_thread(os.waitpid, pid, 0)
    first, second, answer_first, answer_second = shared
    answer_first.set()
    answer_second.set()
    assert os.waitstatus_to_exitcode(status) == 0 and first.result() and second.result()


def test_message_numbers_are_unique_within_a_port(server, monkeypatch):
    """Even if the same random number comes twice."""
    numbers = iter([b"\1\2\1\2", b"\1\2", b"\3\4"])
    monkeypatch.setattr(os, "urandom", lambda size: next(numbers))
    assert addresses("both.example") == ["192.0.2.2", "2001:db8::2"] and len(server.asked) == 2


def test_tcp_exchange_has_the_time_of_one_attempt(server, files):
    """A server that sends an octet now and then holds nobody for ever."""
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    dripping = []

    def drip(client):
        with client, contextlib.suppress(OSError):
            client.sendall(struct.pack("!H", 60_000))
            while True:
                dripping.append(client.send(b"x"))
                syncless.sleep(0.1)

    server.talk = drip
    with syncless.Timeout(20):
        assert fails("large.example", standard.EAI_AGAIN, standard.AF_INET, STREAM)
    assert dripping


def test_truncated_answer_without_tcp_leaves_the_other_family(server, files):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    server.talk = lambda client: client.close()
    assert fails("large.example", standard.EAI_AGAIN, standard.AF_INET, STREAM)
    from_zone = server.from_zone

    def cut_for_four(asked, transport):
        answer = from_zone(asked, transport)
        answer.flags |= wire.TRUNCATED if asked.question[0].rdtype == 1 else 0
        return answer

    server.answer = cut_for_four
    assert addresses("odd-ok-ok.example") == ["2001:db8::60"]


def test_truncated_answer_without_tcp_is_asked_of_the_next_server(server, files):
    files.write(resolv="nameserver 127.0.0.1\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    talk, talked = server.talk, []

    def only_once(client):
        talked.append(client)
        client.close() if len(talked) == 1 else talk(client)

    server.talk = only_once
    assert len(addresses("large.example")) == 100 and len(talked) == 2


def test_connections_for_long_answers_are_few(server, files, monkeypatch):
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:30\n")
    talking, most, held = 0, 0, syncless.Event()
    talk = server.talk

    def count(client):
        nonlocal talking, most
        talking += 1
        most = max(most, talking)
        held.wait()
        talking -= 1
        talk(client)

    server.talk = count
    from_zone = server.from_zone

    def cut_by_udp(asked, transport):
        answer = from_zone(asked, transport)
        answer.flags |= wire.TRUNCATED if transport == "udp" else 0
        return answer

    server.answer = cut_by_udp
    tasklets = [ask_for_nothing(f"name{number}.example.", standard.EAI_NONAME) for number in range(60)]
    assert eventually(lambda: talking == transport.MOST_CONNECTIONS)
    assert eventually(lambda: ports._open == [])  # no lookup holds a port while it waits for a connection
    held.set()
    assert all(tasklet.result() for tasklet in tasklets) and most == transport.MOST_CONNECTIONS
