"""syncless.io.dns against a name server of our own, and beside the C library with the same configuration."""

import os
import pathlib
import platform
import socket as standard
import subprocess
import sys
import time

import pytest

import syncless
from syncless.debug import longest_waits
from syncless.io import dns
from syncless.io.dns import order, system, wire
from syncless.io.dns.resolver import Resolver

pytest.importorskip("dns", reason="dnspython is not installed")
from tests.io.lookups import STREAM, addresses, compared_with_the_c_library, fails
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_both_families_are_asked_together_and_the_answer_is_kept(server):
    assert addresses("both.example") == ["192.0.2.2", "2001:db8::2"]
    assert sorted(server.asked) == [("both.example.", "A", "udp"), ("both.example.", "AAAA", "udp")]
    for _ in range(3):
        assert addresses("both.example") == addresses("BOTH.example.") == ["192.0.2.2", "2001:db8::2"]
    assert dns.gethostbyname("both.example") == "192.0.2.2"
    assert len(server.asked) == 2


def test_names_and_records_that_do_not_exist(server):
    assert fails("nowhere.example", standard.EAI_NONAME) and fails("text.example", standard.EAI_NODATA)
    asked = len(server.asked)
    assert (
        fails("nowhere.example", standard.EAI_NONAME) and len(server.asked) == asked
    )  # a negative answer is kept, too
    assert fails("loop.example", standard.EAI_NONAME) and fails("dangling.example", standard.EAI_NONAME)
    assert fails("servfail.example", standard.EAI_AGAIN)
    asked = len(server.asked)
    assert (
        fails("servfail.example", standard.EAI_AGAIN) and len(server.asked) == asked
    )  # and not asked for again at once


def test_names_in_other_letters(server):
    assert addresses("bücher.example") == addresses(b"xn--bcher-kva.example") == ["192.0.2.40"]
    for wrong in ("a" * 64, "x..y"):
        with pytest.raises(UnicodeError):
            dns.getaddrinfo(wrong, 80)
    with pytest.raises(TypeError):
        dns.getaddrinfo(5, 80)
    for name in ("both.example\0b", b"both.example\0b"):  # the C library would find the first part
        assert fails(name, standard.EAI_NONAME)


def test_the_search_list(server, files):
    assert addresses("host") == ["192.0.2.30"] and ("host.corp.example.", "A", "udp") in server.asked
    assert fails("host.", standard.EAI_NONAME)
    files.write(resolv="nameserver 127.0.0.1\nsearch nowhere.example example\noptions ndots:2 timeout:1\n")
    server.asked.clear()
    assert addresses("host.corp") == [
        "192.0.2.30"
    ]  # fewer dots than two: the list first, and "host.corp." is not needed
    assert [name for name, kind, _ in server.asked if kind == "A"] == [
        "host.corp.nowhere.example.",
        "host.corp.example.",
    ]


def test_a_long_answer_comes_by_tcp(server):
    assert len(addresses("large.example", standard.AF_INET, STREAM)) == 100
    assert ("large.example.", "A", "tcp") in server.asked


def test_no_datagram_is_sent_with_use_vc(server, files):
    files.write(resolv="nameserver 127.0.0.1\nsearch example\noptions use-vc timeout:1\n")
    assert sorted(addresses("both")) == ["192.0.2.2", "2001:db8::2"]
    assert fails("missing.example", standard.EAI_NONAME)
    assert {transport for _, _, transport in server.asked} == {"tcp"}


def test_only_addresses_of_ipv4_are_asked_for_with_no_aaaa(server, files):
    files.write(resolv="nameserver 127.0.0.1\nsearch example\noptions no-aaaa timeout:1\n")
    assert addresses("both") == ["192.0.2.2"]
    assert fails("both", standard.EAI_NODATA, standard.AF_INET6, STREAM)
    assert addresses("sixonly.example") == ["2001:db8::99"]  # in the hosts file
    assert {kind for _, kind, _ in server.asked} == {"A"}


def test_answers_to_other_questions_are_not_believed(server):
    assert addresses("forged.example") == ["192.0.2.52"]


def test_lost_query_is_repeated(server):
    started = time.monotonic()
    assert addresses("late.example", standard.AF_INET, STREAM) == ["192.0.2.51"]
    assert time.monotonic() - started == pytest.approx(1, abs=1e-6) and server.seen["late.example."] == 2


def test_the_next_server_is_asked(server, files):
    files.write(resolv="nameserver 127.0.0.9\nnameserver 127.0.0.1\noptions timeout:9\n")
    started = time.monotonic()
    assert addresses("one.example") == ["192.0.2.1"]  # where nobody listens is known at once
    assert time.monotonic() == started


def test_silence(server):
    started = time.monotonic()
    assert fails("silent.example", standard.EAI_AGAIN, standard.AF_INET, STREAM)
    assert time.monotonic() - started == pytest.approx(4, abs=1e-6)  # two names, each one second, twice


def test_names_in_the_hosts_file_send_no_query(server, files):
    assert addresses("inhosts.example") == addresses("Alias1") == ["192.0.2.99"]
    assert addresses("localhost") == ["127.0.0.1", "::1"] and dns.gethostbyname("localhost") == "127.0.0.1"
    assert dns.gethostbyname_ex("twice.example") == (
        "twice.example",
        ["second"],
        ["192.0.2.91", "192.0.2.92"],
    )
    assert dns.gethostbyaddr("192.0.2.99") == ("inhosts.example", ["alias1", "alias2"], ["192.0.2.99"])
    assert server.asked == []
    files.write(hosts="192.0.2.77 inhosts.example\n")
    assert addresses("inhosts.example") == ["192.0.2.77"]  # it is read again when it has changed
    files.write(nsswitch="hosts: dns [NOTFOUND=return] files\n")
    assert fails("inhosts.example", standard.EAI_NONAME)


def test_numeric_addresses_send_no_query(files):
    files.configure(1)  # where no name server is
    for number in ("192.0.2.1", "::1", "127.1", "0x7f000001", "fe80::1%lo", "<broadcast>", ""):
        try:
            expected = standard.getaddrinfo(number, 80, 0, STREAM)
        except standard.gaierror as error:
            expected = error.errno
        try:
            found = dns.getaddrinfo(number, 80, 0, STREAM)
        except standard.gaierror as error:
            found = error.errno
        assert found == expected
    assert dns.getaddrinfo(None, 80, 0, STREAM) == standard.getaddrinfo(None, 80, 0, STREAM)


def test_answers_are_dropped_with_their_servers(server, files):
    assert addresses("one.example") == ["192.0.2.1"]
    files.write(resolv="nameserver 127.0.0.1\noptions timeout:2\n")
    assert addresses("one.example") == ["192.0.2.1"] and len(server.asked) == 4


def test_the_time_to_live(server):
    assert (
        addresses("short.example", standard.AF_INET, STREAM)
        == addresses("short.example", standard.AF_INET, STREAM)
        == ["192.0.2.53"]
    )
    assert server.asked.count(("short.example.", "A", "udp")) == 2  # zero seconds: not kept


def test_equal_lookups_at_the_same_time_share_a_query(server):
    server.answers_slow = syncless.Event()
    tasklets = [syncless.spawn(addresses, "slow.example") for _ in range(50)]
    first = tasklets[0]
    assert eventually(lambda: len(server.asked) == 2)
    first.kill()  # the tasklet that asked for all ends: another one takes over
    assert eventually(lambda: len(server.asked) == 4)
    server.answers_slow.set()
    assert [tasklet.result() for tasklet in tasklets[1:]] == [["192.0.2.50"]] * 49
    assert len(server.asked) == 4


def test_request_that_waits_for_a_name_says_for_which(server, start):
    told = []

    def app(environ, start_response):
        addresses("slow.example", standard.AF_INET, STREAM)
        syncless.sleep(0.1)
        told.append([wait.on for wait in longest_waits(syncless.current()) if wait.seconds > 0.05])
        start_response("200 OK", [])
        return [b""]

    at = start(app)
    asking = [syncless.spawn(start.client(at).get, "/") for _ in range(2)]
    assert all(one.result()[0] == 200 for one in asking)
    assert told == [["DNS name slow.example", ""]] * 2 and len(server.asked) == 1


@pytest.mark.virtual_time(False)  # another process
def test_a_child_does_not_wait_for_a_query_of_its_parent(server):
    """Forked while a query is under way, it asks for itself."""
    asking = syncless.spawn(addresses, "slow.example", standard.AF_INET, STREAM)
    assert eventually(lambda: server.asked)
    pid = os.fork()
    if pid == 0:
        try:
            with syncless.Timeout(5):
                os._exit(7 if addresses("slow.example", standard.AF_INET, STREAM) == ["192.0.2.50"] else 1)
        finally:
            os._exit(2)
    _, status = syncless.run_in_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7 and asking.result() == ["192.0.2.50"]


def test_many_names_at_once(server):
    server.fill = lambda answer, name, rdtype: syncless.sleep(0.1)
    started = time.monotonic()
    tasklets = [
        syncless.spawn(fails, f"name{number}.example.", standard.EAI_NODATA, standard.AF_INET, STREAM)
        for number in range(200)
    ]
    assert all(tasklet.result() for tasklet in tasklets)
    assert time.monotonic() - started == pytest.approx(0.1, abs=1e-6)  # one after the other would take twenty


def test_the_cache_is_bounded(files, monkeypatch):
    monkeypatch.setattr("syncless.io.dns.resolver.CACHE_ENTRIES", 5)
    cache = {}
    for number in range(20):
        Resolver._remember(cache, number, number)
    assert list(cache) == [15, 16, 17, 18, 19]


def test_names_of_addresses(server):
    name, aliases, numbers = dns.gethostbyaddr("192.0.2.5")
    assert {name, *aliases} == {"five.example", "cinq.example"} and numbers == ["192.0.2.5"]
    with pytest.raises(standard.herror) as told:
        dns.gethostbyaddr("192.0.2.77")
    assert told.value.args == (1, "Unknown host")
    assert dns.getnameinfo(("2001:db8::6", 80), 0) == ("six.example", "http")
    assert dns.getnameinfo(("192.0.2.77", 80), standard.NI_NUMERICSERV) == ("192.0.2.77", "80")
    with pytest.raises(standard.gaierror):
        dns.getnameinfo(("192.0.2.77", 80), standard.NI_NAMEREQD)
    assert (
        dns.getfqdn("192.0.2.99") == "inhosts.example" and dns.getfqdn("nowhere.example") == "nowhere.example"
    )


def test_any_type_of_record(server):
    assert [(rdata.preference, str(rdata.exchange)) for rdata in dns.query("text.example", "MX")] == [
        (10, "one.example.")
    ]
    assert dns.query("text.example", "TXT")[0].strings == (b"some text",)
    assert [rdata.address for rdata in dns.query("alias.example")] == ["192.0.2.2"]
    assert [rdata.to_text() for rdata in dns.query("six.example", "AAAA")] == ["2001:db8::6"]
    with pytest.raises(ValueError, match="unknown record type 'NOPE'"):
        dns.query("one.example", "NOPE")
    with pytest.raises(standard.gaierror):
        dns.query("one.example", "MX")


def test_sources_that_only_the_c_library_knows(server, files, monkeypatch):
    asked = []
    monkeypatch.setattr(
        dns, "_getaddrinfo", lambda *args: asked.append(args) or [("from", "the", 0, "C", "library")]
    )
    files.write(nsswitch="hosts: files mdns4_minimal [NOTFOUND=return] resolve dns\n")
    assert (
        dns.getaddrinfo("printer.local", 80)[0][3] == "C" and dns.getaddrinfo("one.example", 80)[0][3] == "C"
    )
    assert len(asked) >= 2 and server.asked == []
    dns.use("thread")
    assert dns.getaddrinfo("inhosts.example", 80)[0][3] == "C"
    with pytest.raises(ValueError, match="choose 'dns' or 'thread'"):
        dns.use("other")


def test_the_hosts_line_of_nsswitch():
    parse = system.parse_nsswitch
    text = "passwd: files\nhosts: files mdns4 [NOTFOUND=return] dns # more\n"
    assert [source.name for source in parse(text)] == ["files", "mdns4", "dns"]
    assert parse("hosts: dns [!UNAVAIL=return SUCCESS=continue] files")[0].actions == {
        "success": "continue",
        "notfound": "return",
        "tryagain": "return",
    }
    assert [source.name for source in parse("")] == ["files", "dns"]
    assert system.is_known_here("mdns4", "printer.local.") and not system.is_known_here(
        "mdns4_minimal", "example.com"
    )
    assert system.is_known_here("myhostname", "a.localhost") and not system.is_known_here(
        "myhostname", "example.com"
    )
    assert system.is_known_here("nis", "example.com")


def test_resolv_conf(monkeypatch):
    wire.load()
    monkeypatch.setenv("RES_OPTIONS", "attempts:4 ndots:99")
    conf = system.read_resolv_conf(
        "nameserver 192.0.2.1\nnameserver ::1\nsearch a.example b.example.\n"
        "options timeout:7 rotate edns0 use-vc\n"
    )
    assert (conf.nameservers, conf.search) == (["192.0.2.1", "::1"], ["a.example", "b.example"])
    assert (conf.timeout, conf.attempts, conf.ndots) == (7.0, 4, 15)
    assert conf.rotate and conf.edns and conf.use_vc
    monkeypatch.setenv("LOCALDOMAIN", "c.example")
    assert system.read_resolv_conf("search a.example\n").search == ["c.example"]
    assert system.read_resolv_conf("").nameservers == ["127.0.0.1"]
    monkeypatch.delenv("RES_OPTIONS")
    for attempts in ("0", "-1", "x", ""):
        assert system.read_resolv_conf(f"options attempts:{attempts}\r\n").attempts == 1
    for domain, parsed in (
        ("a..b c\td", ["a..b", "c", "d"]),
        ("ü.example", ["\\195\\188.example"]),
        ("", []),
    ):
        monkeypatch.setenv("LOCALDOMAIN", domain)
        assert system.read_resolv_conf("search a.example\n").search == parsed
    question = wire.ask(wire.name_from("a.example"), (1,), True)[0]
    asked = wire.dns.message.from_wire(question.wire)
    assert asked.edns == 0 and asked.payload == wire.PAYLOAD and str(asked.question[0]) == "a.example. IN A"
    with pytest.raises(ValueError, match="not a domain name"):
        wire.name_from("a" * 64)


def test_no_bytes_can_hurt():
    """A hostile server: each prefix and each changed byte of a good answer is an answer or none,
    never an error."""
    wire.load()
    question = wire.ask(wire.name_from("a.example"), (1,), False)[0]
    answer = (
        question.wire[:2]
        + b"\x81\x80\0\1\0\1\0\0\0\0"
        + question.wire[12:]
        + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"
    )
    assert wire.parse(answer, question).answers[0].data.address == "192.0.2.1"
    for size in range(len(answer)):
        assert wire.parse(answer[:size], question) is None
    for at in range(len(answer)):
        for value in (0, 1, 0x40, 0xC0, 0xFF):
            wire.parse(answer[:at] + bytes([value]) + answer[at + 1 :], question)


def test_the_order_of_addresses(monkeypatch):
    """The examples of RFC 6724 section 10.2, in their form for sources that are given."""
    sources = {
        "2001:db8:1::1": "2001:db8:1::2",
        "198.51.100.121": "198.51.100.117",
        "fe80::1": "fe80::2",
        "2001:db8:ffff::1": "2001:db8:1::2",
        "10.1.2.3": "198.51.100.117",
        "unreachable": None,
    }
    monkeypatch.setattr(order, "source_of", lambda address: sources.get(address))
    assert order.ordered(["198.51.100.121", "2001:db8:1::1"]) == [
        "2001:db8:1::1",
        "198.51.100.121",
    ]  # higher precedence
    assert order.ordered(["2001:db8:1::1", "fe80::1"]) == ["fe80::1", "2001:db8:1::1"]  # smaller scope
    assert order.ordered(["2001:db8:ffff::1", "2001:db8:1::1"]) == [
        "2001:db8:1::1",
        "2001:db8:ffff::1",
    ]  # longest prefix
    assert order.ordered(["2001:db8:7::7", "10.1.2.3"]) == [
        "10.1.2.3",
        "2001:db8:7::7",
    ]  # there is no way to the first
    sources["2001:db8:1::1"] = "fe80::2"  # a smaller scope than the destination's, and the same label
    assert order.ordered(["2001:db8:1::1", "198.51.100.121"]) == ["198.51.100.121", "2001:db8:1::1"]
    assert order.scope("169.254.1.1") == 2 and order.scope("ff05::1") == 5
    assert order.scope("fec0::1") == 5
    assert order.policy("2002::1") == (30, 2)
    assert order.common_prefix("2001:db8::1", "2001:db8::ff") == 64
    assert order.common_prefix("2001:db8::1", "2001:db8:0:1::1") == 63


@pytest.mark.parametrize(
    ("nsswitch", "resolv"),
    [
        (
            "hosts: files dns\n",
            "nameserver 127.0.0.1\nsearch corp.example example\noptions timeout:5 attempts:2\n",
        ),
        (
            "hosts: dns files\n",
            "nameserver 127.0.0.1\noptions timeout:5 attempts:2 ndots:3 edns0\ndomain example\n",
        ),
        ("hosts: files [NOTFOUND=return] dns\n", "nameserver 127.0.0.1\n"),
        pytest.param(
            "hosts: files dns\n",
            "nameserver 127.0.0.1\nsearch corp.example example\noptions no-aaaa\n",
            marks=pytest.mark.skipif(
                tuple(map(int, (platform.libc_ver()[1] or "0").split("."))) < (2, 36),
                reason="this C library does not know no-aaaa",
            ),
        ),
    ],
)
def test_as_the_c_library_answers(nsswitch, resolv, tmp_path):
    told = compared_with_the_c_library(tmp_path, nsswitch, resolv)
    assert told["compared"] > 300 and told["different"] == [], told


def test_odd_lines_mean_the_same_as_to_the_c_library(tmp_path):
    told = compared_with_the_c_library(tmp_path, "hosts: files dns\n", "nameserver 127.0.0.1\n", "lines")
    assert told["compared"] > 80 and told["different"] == [], told


FIRST = """
import sys, time, syncless
from syncless.io import dns
from tests.io.nameserver import NameServer
for name in [name for name in sys.modules if name == "dns" or name.startswith("dns.")]:
    del sys.modules[name]                       # as in a program that has not imported it
ticks = []
class SlowDisk:
    def find_spec(name, path, target=None):
        if name == "dns":
            before, late = len(ticks), time.monotonic() + 20
            while len(ticks) < before + 5 and time.monotonic() < late:
                time.sleep(0.001)
            print(len(ticks) - before)
sys.meta_path.insert(0, SlowDisk)
hosts, nsswitch, resolv_conf = (f"{sys.argv[1]}/{name}" for name in ("hosts", "nsswitch", "resolv"))
dns.configure(hosts=hosts, nsswitch=nsswitch, resolv_conf=resolv_conf, port=int(sys.argv[2]))
def tick():
    while True:
        syncless.sleep(0.005)
        ticks.append(None)
syncless.spawn(tick)
assert dns.getaddrinfo("one.example.", 80)
"""


def test_first_lookup_does_not_stop_other_tasklets(server, files):
    """dnspython takes a tenth of a second to import, here as long as five turns of another tasklet."""
    command = [sys.executable, "-c", FIRST, str(files.folder), str(server.port)]
    done = syncless.run_in_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert not done.stderr, done.stderr
    assert int(done.stdout) >= 5
