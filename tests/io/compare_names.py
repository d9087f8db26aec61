"""Our answers beside the C library's, with the same configuration: run by test_dns.py in a mount and network
namespace of its own.

``unshare --mount --net python -m tests.io.compare_names FOLDER``: FOLDER/{hosts,nsswitch.conf,resolv.conf}
become those of /etc, and a name server listens on 127.0.0.1:53. Prints JSON: the number of calls that were
compared, and the calls that differ.
"""

import fcntl
import itertools
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading

import syncless
from syncless.io import dns
from tests.io.nameserver import KINDS, ZONE

STREAM = socket.SOCK_STREAM
NAMES = [
    name
    for name in ZONE
    if "arpa" not in name and name not in ("slow.example.", "late.example.", "forged.example.")
]
HOSTS = [
    "inhosts.example",
    "INHOSTS.Example",
    "alias1",
    "twice.example",
    "sixonly.example",
    "localhost",
    "commented",
    "padded.example",
]
NUMBERS = ["1.2.3", "0x7f.1", "127.1", "::1", "192.0.2.1", "<broadcast>", "fe80::1%lo", ""]
ODD = [
    "nowhere.example",
    "nowhere",
    "host",
    "host.corp.example",
    "one",
    "x" * 63,
    "-a.example",
    "bücher.example",
    b"one.example",
]
ODD += ["one.example.", "a" * 64, "x..y", ".", "servfail.example", "example", *NUMBERS]
ANY_ORDER = ("many.example.", "large.example.")
"""The name server changes the order of their addresses."""
CALLS = [
    *(("getaddrinfo", (name, 80, 0, STREAM)) for name in [*NAMES, *HOSTS, *ODD]),
    *(("getaddrinfo", (name, 80, family, STREAM)) for name in NAMES for family in (2, 10)),
    *(("getaddrinfo", (name, None)) for name in ["one.example", "localhost", "inhosts.example"]),
    *(
        ("getaddrinfo", (name, "http", family, 0, 0, 0))
        for name in ["both.example", "localhost"]
        for family in (2, 10)
    ),
    *(
        ("getaddrinfo", ("both.example", "80", 0, kind, proto))
        for kind in (0, 1, 2, 3)
        for proto in (0, 6, 17)
    ),
    *(
        ("getaddrinfo", ("one.example", port, 0, STREAM))
        for port in ("nosuchservice", "", b"http", "65536", -1, 1.5)
    ),
    *(
        ("getaddrinfo", (name, 80, family, STREAM, 0, socket.AI_CANONNAME))
        for name in ["alias.example", "one", "alias1"]
        for family in (0, 2)
    ),
    *(
        ("getaddrinfo", (name, 80, 10, STREAM, 0, socket.AI_V4MAPPED))
        for name in ["one.example", "both.example", "nowhere.example"]
    ),
    ("getaddrinfo", ("both.example", 80, 10, STREAM, 0, socket.AI_V4MAPPED | socket.AI_ALL)),
    *(
        ("getaddrinfo", (name, 80, 0, STREAM, 0, socket.AI_NUMERICHOST))
        for name in ["one.example", "192.0.2.1"]
    ),
    *(
        ("getaddrinfo", (name, 80, 0, STREAM, 0, socket.AI_PASSIVE))
        for name in [None, "one.example", "192.0.2.1"]
    ),
    ("getaddrinfo", (None, None)),
    ("getaddrinfo", ("one.example", 80, 99)),
    ("getaddrinfo", ("one.example", 80, 0, 77)),
    *(("gethostbyname", (name,)) for name in [*NAMES, *HOSTS, *ODD] if name not in ANY_ORDER),
    *(("gethostbyname_ex", (name,)) for name in [*NAMES, *HOSTS, "nowhere.example", "192.0.2.1", "host"]),
    *(
        ("gethostbyaddr", (name,))
        for name in ["192.0.2.99", "192.0.2.77", "2001:db8::6", "127.0.0.1", "one.example", "inhosts.example"]
    ),
    *(
        ("getnameinfo", ((host, 80), flags))
        for host in ["192.0.2.99", "192.0.2.77", "2001:db8::6"]
        for flags in range(32)
    ),
    *(("getnameinfo", (what, 0)) for what in [("one.example", 80), ("192.0.2.1",), "x", ("::1", 80, 0, 0)]),
    *(("getfqdn", (name,)) for name in ["192.0.2.99", "192.0.2.77", "alias1", "nowhere", "one"]),
]

SEARCHED = itertools.product(
    ("nodata", "nx", "servfail", "refused", "drop"),
    ("nodata", "nx", "drop"),
    ("ok", "nodata", "nx", "servfail"),
)
FAILURES = [
    *(
        ("getaddrinfo", (f"odd-{four}-{six}.example", 80, family, STREAM))
        for four in KINDS
        for six in KINDS
        for family in (0, 2, 10)
    ),
    *(("gethostbyname_ex", (f"odd-{kind}-ok.example",)) for kind in KINDS),
    *(
        ("getaddrinfo", (f"search-{'-'.join(kinds)}{end}", 80, 0, STREAM))
        for kinds in SEARCHED
        for end in ("", ".x")
    ),
]
"""See nameserver.kind_of()."""


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def outcome(function, args):
    """The result or error of a call, in a form that can be compared; the order of equally good addresses is
    the name server's."""
    try:
        found = function(*args)
    except Exception as error:
        return [type(error).__name__, str(error)]
    if isinstance(found, list):
        return sorted(repr((int(row[0]), int(row[1]), *row[2:])) for row in found)
    return repr(
        (found[0], sorted(found[1]), sorted(found[2]))
        if isinstance(found, tuple) and len(found) == 3
        else found
    )


def together(module, calls, start):
    """The outcomes of the calls, which are made at the same time, each in a thread or tasklet of its own."""
    found = {}

    def call(name, args):
        found[name, args] = outcome(getattr(module, name), args)

    for running in [start(call, *each) for each in calls]:
        running.join()
    return found


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def failures():
    """Calls with a time-out are made all at once, the others a few at a time, so that none is dropped that
    should not be."""
    slow = [call for call in FAILURES if "drop" in call[1][0]]
    quick = [call for call in FAILURES if "drop" not in call[1][0]]
    different = []
    for batch in [slow, *(quick[at : at + 20] for at in range(0, len(quick), 20))]:
        compared = syncless.spawn(together, dns, batch, syncless.spawn)
        theirs = syncless.run_in_thread(together, socket, batch, in_thread)
        ours = compared.result()
        different += [
            [name, repr(args), theirs[name, args], ours[name, args]]
            for name, args in batch
            if ours[name, args] != theirs[name, args]
        ]
    return len(FAILURES), different


def one_by_one():
    different = []
    for name, args in CALLS:
        theirs, ours = outcome(getattr(socket, name), args), outcome(getattr(dns, name), args)
        if ours != theirs:
            different.append([name, repr(args), theirs, ours])
    return len(CALLS), different


HERE = "nameserver 127.0.0.1\n"
CONFIGURATIONS = [
    "",
    "\n\n",
    HERE.strip(),
    "nameserver bad\n" + HERE,
    "nameserver 127.0.0.1;x\n" + HERE,
    "nameserver 127.0.0.9#x\nnameserver 127.0.0.1 # here\n",
    "nameserver\t127.0.0.1 ; here\n",
    " nameserver 127.0.0.9\n" + HERE,
    "nameserver127.0.0.9\n" + HERE,
    "NAMESERVER 127.0.0.9\n" + HERE,
    "nameserver\n" + HERE,
    "nameserver [::1]:53\n" + HERE,
    "nameserver 127.1\n",
    "nameserver 0x7f000001\n",
    "nameserver 127.0.0.1\r\nsearch example\r\n",
    "nameserver ::ffff:127.0.0.1\n",
    "nameserver fe80::1%nosuch\n" + HERE,
    "nameserver 127.0.0.9\nnameserver 127.0.0.8\nnameserver 127.0.0.7\n" + HERE,
    "nameserver 127.0.0.9\nnameserver 127.0.0.8\n" + HERE,
    "nameserver 1.2.3.4.5\n" + HERE,
    "nameserver \x00127.0.0.9\n" + HERE,
    "\x80\xff\x00\x01\n" * 100 + HERE,
    "# nameserver 127.0.0.9\n;nameserver 127.0.0.8\n" + HERE,
    "x" * 100_000 + "\n" + HERE,
    *(
        HERE + line
        for line in (
            "options timeout:0\n",
            "options timeout:x ndots: attempts:1\n",
            "options edns0 rotate nosuchoption single-request:1\n",
            "options timeout:-1\n",
            "search a..b example\n",
            f"search {'x' * 70} example\n",
            "search example.\n",
            "search EXAMPLE\n",
            "search\texample\t# comment\n",
            "search example # comment",
            "search #example\n",
            "search one.invalid two.invalid three.invalid four.invalid five.invalid six.invalid example\n",
            "search\nsearch example\n",
            "search example\nsearch\n",
            "search example\nsearch invalid\n",
            "search invalid\ndomain example\n",
            "domain example invalid\n",
            "domain\texample\n",
            "domain\n",
            "search .\n",
            "search ..\n",
            "search .example\n",
            "search bücher.example example\n",
            "searching invalid\nsearch example\n",
            "search example\noptions ndots:\n",
            "search example\noptions ndots:x\n",
            "search example\noptions ndots:2\n",
            "search example\noptions ndots:0\n",
            "search example\noptions ndots:-1\n",
            "search example\noptions ndots:99\n",
            "search example\noptions ndots: 2\n",
            "search example\noptions ndots:2x\n",
            "search example\noptions NDOTS:2\n",
            "search example\noptions\tndots:2\ttimeout:1\n",
            "search example\noptions ndots:2\noptions timeout:1\n",
            "search example\noptions ndots:2#x timeout:x attempts:3\n",
        )
    ),
]
HOST_FILES = [
    "127.0.0.5 strange",
    "127.0.0.5 strange\r\n",
    "127.0.0.5\tstrange # comment\n",
    "127.0.0.5 strange#comment\n",
    "  127.0.0.5 strange\n",
    "127.0.0.5\n127.0.0.6 strange\n",
    "127.1 strange\n127.0.0.6 strange\n",
    "bad strange\n127.0.0.6 strange\n",
    "fe80::1%lo strange\n127.0.0.6 strange\n",
    "fe80::1%nosuch strange\n",
    "::ffff:127.0.0.5 strange\n",
    "127.0.0.5 STRANGE.Example strange\n",
    "127.0.0.5 strange. other\n",
    "127.0.0.5 first strange strange\n127.0.0.6 strange\n",
    "127.0.0.5\x0bstrange\n",
    "127.0.0.5\x0cstrange\n",
    "127.0.0.5 str\x00ange\n127.0.0.6 strange\n",
    "127.0.0.5 str\x1cange\x85 strange\n",
    "\x80\xff\n127.0.0.6 strange\n",
    ";127.0.0.5 strange\n",
    "::1 strange\n127.0.0.5 strange\n",
    "127.0.0.5 " + "strange" * 300 + " strange\n",
    "127.0.0.5 " + "alias " * 3000 + "strange\n",
]
LOOKUPS = ("one.example", "one", "strange", "STRANGE", "strange.", "strange.example", "first", "host.corp")


def odd_lines():
    """Files that a hand has written."""
    different = []
    cases = [("resolv.conf", text, LOOKUPS[:2] + LOOKUPS[-1:]) for text in CONFIGURATIONS]
    cases += [("hosts", text, LOOKUPS[2:-1]) for text in HOST_FILES]
    before = {name: pathlib.Path(f"/etc/{name}").read_text() for name in ("resolv.conf", "hosts")}
    for file, text, names in cases:
        for name in before:
            with open(f"/etc/{name}", "w", encoding="latin-1") as written:
                written.write(text if name == file else before[name])
        dns.configure()
        for name in names:
            args = name, 80, 0, STREAM
            theirs, ours = outcome(socket.getaddrinfo, args), outcome(dns.getaddrinfo, args)
            if ours != theirs:
                different.append([text[:60], name, theirs, ours])
    return len(cases), different


def main(folder, compare):
    for name in ("hosts", "nsswitch.conf", "resolv.conf"):
        subprocess.run(["mount", "--bind", f"{folder}/{name}", f"/etc/{name}"], check=True)
    loopback_up()
    # in a process of its own: Python 3.10 holds the GIL during getnameinfo()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.io.nameserver", "53", "zone"], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout.readline()
        compared, different = compare()
        server.kill()
    print(json.dumps({"compared": compared, "different": different}))


if __name__ == "__main__":
    main(sys.argv[1], {"failures": failures, "lines": odd_lines}.get("".join(sys.argv[2:]), one_by_one))
