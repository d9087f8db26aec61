"""PROXY headers and forwarded fields: believed from trusted peers, and from nobody else."""

import io
import ipaddress
import json
import socket as blocking
import ssl
import struct

import pytest

import syncless
from syncless.apps.wsgi.application import EnvironRequest
from syncless.http import trust
from syncless.http.proxyheader import LONGEST_LINE, SIGNATURE, ProxyHeader, parse_proxy_header
from syncless.http.trust import Forwarding, Trust
from syncless.wsgi import Server
from tests.waiting import eventually

KEYS = ("REMOTE_ADDR", "REMOTE_PORT", "wsgi.url_scheme", "HTTPS", "HTTP_HOST", "SERVER_PORT")


def tell(environ, start_response):
    start_response("200 OK", [])
    forwarded = [key for key in environ if "FORWARDED" in key or "REAL_IP" in key]
    return [json.dumps({key: environ[key] for key in (*KEYS, *forwarded) if key in environ}).encode()]


def asked(client, headers=""):
    return json.loads(client.get("/", headers)[2])


FORGED = (
    "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n"
    "X-Forwarded-Port: 1\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6;proto=https\r\n"
    "X-Forwarded-Prefix: /evil\r\nX-Forwarded: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n"
)


def test_failure_before_the_application_is_called_is_a_500_and_the_end(start, monkeypatch, reports):
    """A request pipelined behind it is not taken for the first one."""
    server = start(tell, trusted="127.0.0.1")
    monkeypatch.setattr(Forwarding, "__call__", lambda self, environ: 1 / 0)
    client = start.client(server)
    client.send(b"GET /1 HTTP/1.1\r\nHost: test\r\n\r\nGET /2 HTTP/1.1\r\nHost: test\r\n\r\n")
    status, fields, _ = client.response()
    assert status == 500 and fields["connection"] == "close" and client.at_end()
    monkeypatch.undo()
    assert asked(start.client(server))["REMOTE_ADDR"] == "127.0.0.1"
    assert [type(error) for _, error in reports] == [ZeroDivisionError]


@pytest.mark.parametrize("trusted", [(), ("10.0.0.0/8", "unix")])
def test_nothing_is_believed_by_default_or_from_others(start, trusted):
    client = start.client(start(tell, trusted=trusted))
    for _ in range(3):  # the fields of a connection are remembered
        seen = asked(client, FORGED)
        assert (
            seen["REMOTE_ADDR"] == "127.0.0.1"
            and seen["wsgi.url_scheme"] == "http"
            and seen["HTTP_HOST"] == "test"
        )
        assert set(seen) == {"REMOTE_ADDR", "REMOTE_PORT", "wsgi.url_scheme", "HTTP_HOST", "SERVER_PORT"}


def test_trusted_peer_is_believed_only_the_address_by_default(start):
    """A proxy that sets X-Forwarded-For passes on an X-Forwarded-Proto that its client has made up."""
    client = start.client(start(tell, trusted="127.0.0.1"))
    for _ in range(3):
        seen = asked(client, FORGED)
        assert (seen["REMOTE_ADDR"], seen["REMOTE_PORT"], seen["wsgi.url_scheme"]) == ("6.6.6.6", "", "http")
        assert seen["HTTP_HOST"] == "test" and "HTTPS" not in seen
        assert {key for key in seen if "FORWARDED" in key or "REAL" in key} == {"HTTP_X_FORWARDED_FOR"}
    assert asked(client)["REMOTE_ADDR"] == "127.0.0.1"


def test_only_the_fields_that_a_trusted_peer_sets_are_believed(start):
    client = start.client(
        start(tell, trusted="127.0.0.1", trusted_fields=["X-Forwarded-For", "x-forwarded-proto"])
    )
    for _ in range(3):
        seen = asked(client, FORGED)
        assert (seen["REMOTE_ADDR"], seen["REMOTE_PORT"], seen["wsgi.url_scheme"], seen["HTTPS"]) == (
            "6.6.6.6",
            "",
            "https",
            "on",
        )
        assert seen["HTTP_HOST"] == "test"
        assert {key for key in seen if "FORWARDED" in key or "REAL" in key} == {
            "HTTP_X_FORWARDED_FOR",
            "HTTP_X_FORWARDED_PROTO",
        }
    assert asked(client)["REMOTE_ADDR"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        ("1.1.1.1", "1.1.1.1"),
        ("6.6.6.6, 1.1.1.1", "1.1.1.1"),  # values that the client wrote itself come first
        ("1.1.1.1, 10.0.0.2", "1.1.1.1"),  # a trusted proxy in between
        ("6.6.6.6, 1.1.1.1, 10.0.0.3, 10.0.0.2", "1.1.1.1"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),  # all of them ours
        ("1.1.1.1:80", "1.1.1.1"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:1.1.1.1", "1.1.1.1"),  # as an accepted IPv4 client looks
        ("[::FFFF:1.1.1.1]:80", "1.1.1.1"),
        ("1.1.1.1, ::ffff:10.0.0.2", "1.1.1.1"),
        ("unknown", "10.0.0.1"),
        ("1.1.1.1, unknown", "10.0.0.1"),  # values before an unknown proxy cannot be trusted
        ("", "10.0.0.1"),
        (", ,", "10.0.0.1"),
        ("1.1.1.1\u00e9", "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_one_that_is_not_trusted(chain, client):
    variables = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": chain}
    Forwarding(Trust(["10.0.0.0/8"]))(EnvironRequest(variables))
    assert variables["REMOTE_ADDR"] == client
    quoted = ", ".join(f'for="{entry.strip()}"' for entry in chain.split(",") if entry.strip())
    variables = {"REMOTE_ADDR": "10.0.0.1", "HTTP_FORWARDED": quoted}
    Forwarding(Trust(["10.0.0.0/8"]), ["forwarded"])(EnvironRequest(variables))
    assert variables["REMOTE_ADDR"] == client


PORTS = [
    ("1.1.1.1:4711", "1.1.1.1", "4711"),
    ("[2001:db8::1]:4711", "2001:db8::1", "4711"),
    ("6.6.6.6:1, 1.1.1.1:4711, 127.0.0.1:5", "1.1.1.1", "4711"),
    ("1.1.1.1", "1.1.1.1", ""),
    ("2001:db8::4711", "2001:db8::4711", ""),
    ("[2001:db8::1]", "2001:db8::1", ""),
    *((f"1.1.1.1:{port}", "1.1.1.1", "") for port in ("0", "65536", "_hidden", "", "\u00b2")),
]


@pytest.mark.parametrize("field", ["x-forwarded-for", "x-real-ip", "forwarded"])
@pytest.mark.parametrize(("chain", "client", "port"), PORTS)
def test_the_port_is_the_clients_own(background, start, field, chain, client, port):
    async def asgi(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": json.dumps(scope["client"]).encode()})

    log = io.StringIO()
    sent = chain
    if field == "forwarded":
        sent = ", ".join(f'for="{entry.strip()}"' for entry in chain.split(","))
    server = start(
        {"/asgi": asgi, "/": tell},
        trusted=["127.0.0.1"],
        trusted_fields=field,
        lifespan="off",
        access_log=log,
        access_log_format="%h %{REMOTE_PORT}e",
    )
    connection = start.client(server)
    heads = f"{field}: {sent}\r\n"
    for _ in range(2):
        connection.send(f"GET / HTTP/1.1\r\nHost: test\r\n{heads}\r\n".encode("latin-1"))
        seen = json.loads(connection.response()[2])
        assert (seen["REMOTE_ADDR"], seen["REMOTE_PORT"]) == (client, port)
        connection.send(f"GET /asgi HTTP/1.1\r\nHost: test\r\n{heads}\r\n".encode("latin-1"))
        assert json.loads(connection.response()[2]) == [client, int(port or 0)]
    assert eventually(lambda: log.getvalue().count("\n") == 4)
    assert log.getvalue() == f"{client} {port or '-'}\n" * 4


@pytest.mark.parametrize("field", ["x-forwarded-host", "forwarded"])
def test_port_behind_a_forwarded_host_is_the_servers(field):
    for host, port in (("a.example:8443", "8443"), ("[::1]:8443", "8443"), ("a.example", "80")):
        key = "HTTP_" + field.upper().replace("-", "_")
        text = host if field != "forwarded" else f'for=1.1.1.1;host="{host}"'
        variables = {"REMOTE_ADDR": "10.0.0.1", "SERVER_PORT": "80", key: text}
        Forwarding(Trust(["*"]), [field])(EnvironRequest(variables))
        assert (variables["HTTP_HOST"], variables["SERVER_PORT"]) == (host, port)


def test_scheme_host_and_port_are_those_of_the_same_proxy():
    fields = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port")
    variables = {
        "REMOTE_ADDR": "10.0.0.1",
        "HTTPS": "on",
        "HTTP_X_FORWARDED_FOR": "6.6.6.6, 1.1.1.1, 10.0.0.2",
        "HTTP_X_FORWARDED_PROTO": "https, http, https",
        "HTTP_X_FORWARDED_HOST": "www.example.org",
        "HTTP_X_FORWARDED_PORT": "8443",
    }
    Forwarding(Trust(["10.0.0.0/8"]), fields)(EnvironRequest(variables))
    assert "HTTPS" not in variables
    assert variables["HTTP_HOST"] == "www.example.org" and variables["SERVER_PORT"] == "8443"


@pytest.mark.parametrize(
    ("port", "seen"),
    [("1", "1"), ("65535", "65535"), ("65536", "80"), ("99999", "80"), ("0", "80"), ("-1", "80")],
)
def test_forwarded_port_that_no_server_can_have_counts_as_missing(port, seen):
    variables = {"REMOTE_ADDR": "10.0.0.1", "SERVER_PORT": "80", "HTTP_X_FORWARDED_PORT": port}
    Forwarding(Trust(["*"]), ["x-forwarded-port"])(EnvironRequest(variables))
    assert variables["SERVER_PORT"] == seen


@pytest.mark.parametrize("host", ["a.example:65536", "a.example:x", "a:1:2", "[::1", "[::x]:80", "a%zz"])
def test_forwarded_host_that_a_host_field_could_not_have_counts_as_missing(host):
    for name, text in (("x-forwarded-host", host), ("forwarded", f'for=1.1.1.1;host="{host}"')):
        key = "HTTP_" + name.upper().replace("-", "_")
        variables = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "test", key: text}
        Forwarding(Trust(["*"]), [name])(EnvironRequest(variables))
        assert variables["HTTP_HOST"] == "test"


def test_the_forwarded_field():
    """RFC 7239, 4: the examples of the RFC, and what is malformed."""
    forwarding = Forwarding(Trust(["*"]), ["forwarded"])

    def after(value):
        variables = {
            "REMOTE_ADDR": "10.0.0.1",
            "HTTP_FORWARDED": value,
            "HTTP_X_FORWARDED_FOR": "6.6.6.6",
        }
        forwarding(EnvironRequest(variables))
        return (
            variables["REMOTE_ADDR"],
            "https" if "HTTPS" in variables else "http",
            variables.get("HTTP_HOST"),
        )

    assert after('For="[2001:db8:cafe::17]:4711"') == ("2001:db8:cafe::17", "http", None)
    assert after("for=192.0.2.60;proto=https;by=203.0.113.43;host=a.example") == (
        "192.0.2.60",
        "https",
        "a.example",
    )
    assert after('for="_gazonk"') == ("10.0.0.1", "http", None)
    for malformed in ("for=1.1.1.1 proto=https", 'for="1.1.1.1', "=", "for", 'for=1.1.1.1;proto="https'):
        assert after(malformed) == ("10.0.0.1", "http", None)
    assert after('for=1.1.1.1;proto=gopher;host="a b"') == ("1.1.1.1", "http", None)


def test_invalid_trusted_peers_are_refused():
    with pytest.raises(ValueError, match="trusted: write an address, a network"):
        Server(tell, trusted="example.org")
    with pytest.raises(ValueError, match="not a field that a proxy"):
        Server(tell, trusted="*", trusted_fields=["x-client"])
    with pytest.raises(ValueError, match="'x-client' is not a field that a proxy"):
        Server(tell, trusted="*", trusted_fields="x-client")
    with pytest.raises(ValueError, match="not both"):
        Server(tell, trusted="*", trusted_fields=["forwarded", "x-forwarded-for"])
    with pytest.raises(ValueError, match="needs `trusted`"):
        Server(tell, proxy_protocol=True)


@pytest.mark.parametrize("trusted", ["10.1.0.0/16", "::ffff:10.1.0.0/112"])
def test_ipv4_inside_ipv6_is_trusted_as_ipv4(trusted):
    trust = Trust([trusted])
    assert trust("10.1.2.3") and trust("::ffff:10.1.2.3")
    assert not trust("10.2.0.0") and not trust("::ffff:10.2.0.0") and not trust("::a01:203")


def test_all_of_ipv4_inside_ipv6_is_all_of_ipv4():
    trust = Trust(["::ffff:0:0/96"])
    assert trust("10.1.2.3") and trust("::ffff:10.1.2.3") and not trust("2001:db8::1")


def test_peers_that_are_remembered_are_bounded():
    trust = Trust(["10.0.0.0/8"])
    assert all(trust(f"10.0.{number >> 8}.{number & 255}") for number in range(3000))
    assert len(trust._known) <= 1024


def test_peers_on_unix_sockets(start, tmp_path):
    for trusted, expected in (("unix", "6.6.6.6"), ("127.0.0.1", "")):
        server = start(tell, bind=f"unix:{tmp_path}/{expected or 'x'}", trusted=trusted)
        assert asked(start.client(server), FORGED)["REMOTE_ADDR"] == expected


def block(command, family, body):
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


TCP4 = blocking.inet_aton("192.0.2.1") + blocking.inet_aton("127.0.0.1") + struct.pack("!HH", 1234, 80)
TCP6 = blocking.inet_pton(blocking.AF_INET6, "2001:db8::1") + bytes(16) + struct.pack("!HH", 1234, 80)

MAPPED = blocking.inet_pton(blocking.AF_INET6, "::ffff:192.0.2.1") + bytes(16) + struct.pack("!HH", 1234, 80)

GOOD = {
    "version 1": (b"PROXY TCP4 192.0.2.1 127.0.0.1 1234 80\r\n", ("192.0.2.1", 1234)),
    "version 1, IPv6": (b"PROXY TCP6 2001:db8::1 ::1 1234 80\r\n", ("2001:db8::1", 1234)),
    "version 1, IPv4 in IPv6": (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1234 80\r\n", ("192.0.2.1", 1234)),
    "version 2, IPv4 in IPv6": (block(0x21, 0x21, MAPPED), ("192.0.2.1", 1234)),
    "version 1, unknown": (b"PROXY UNKNOWN\r\n", None),
    "version 1, longest": (b"PROXY UNKNOWN ".ljust(LONGEST_LINE - 2, b"x") + b"\r\n", None),
    "version 1, unknown with more": (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    "version 2": (block(0x21, 0x11, TCP4), ("192.0.2.1", 1234)),
    "version 2, IPv6": (block(0x21, 0x21, TCP6), ("2001:db8::1", 1234)),
    "version 2 with extensions": (block(0x21, 0x11, TCP4 + b"\x04\x00\x05hello"), ("192.0.2.1", 1234)),
    "version 2, local": (block(0x20, 0x00, b""), None),
    "version 2, local with addresses": (block(0x20, 0x11, TCP4), None),
    "version 2, unspecified": (block(0x21, 0x00, b"xyz"), None),
    "version 2, UNIX": (block(0x21, 0x31, bytes(216)), ("", -1)),
}
BAD = {
    "no header": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "lower case": b"proxy TCP4 1.1.1.1 1.1.1.1 1 1\r\n",
    "no such family": b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n",
    "bad address": b"PROXY TCP4 1.1.1.256 1.1.1.1 1 1\r\n",
    "IPv6 where IPv4 is announced": b"PROXY TCP4 ::1 ::1 1 1\r\n",
    "port too large": b"PROXY TCP4 1.1.1.1 1.1.1.1 65536 1\r\n",
    "port with a zero before it": b"PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n",
    "negative port": b"PROXY TCP4 1.1.1.1 1.1.1.1 -1 1\r\n",
    "too few words": b"PROXY TCP4 1.1.1.1 1.1.1.1 1\r\n",
    "two spaces": b"PROXY  TCP4 1.1.1.1 1.1.1.1 1 1\r\n",
    "never ending line": b"PROXY ".ljust(LONGEST_LINE, b"x"),
    "version 3": block(0x31, 0x11, TCP4),
    "no such command": block(0x22, 0x11, TCP4),
    "addresses cut short": block(0x21, 0x11, TCP4[:11]),
    "IPv6 addresses cut short": block(0x21, 0x21, TCP6[:35]),
    "UNIX addresses cut short": block(0x21, 0x31, bytes(215)),
    "too long": block(0x21, 0x11, TCP4 + bytes(5000)),
    "nearly the signature": SIGNATURE[:-1] + b"x" + bytes(20),
}


@pytest.mark.parametrize("name", GOOD)
def test_proxy_header_may_be_split_anywhere(name):
    data, source = GOOD[name]
    for size in range(len(data)):
        assert parse_proxy_header(data[:size]) is None
    assert parse_proxy_header(data) == parse_proxy_header(data + b"GET /") == ProxyHeader(len(data), source)


@pytest.mark.parametrize("name", BAD)
def test_invalid_proxy_header_is_refused_at_its_first_wrong_byte(name):
    with pytest.raises(ValueError):
        parse_proxy_header(BAD[name])


@pytest.mark.parametrize("name", GOOD)
def test_announced_connections(start, name):
    data, source = GOOD[name]
    server = start(tell, trusted="127.0.0.1", proxy_protocol=True, defer_accept=False)
    for step in (1, 1000):
        client = start.client(server)
        for i in range(0, len(data), step):
            client.send(data[i : i + step])
            syncless.sleep(0)
        for _ in range(2):
            seen = asked(client, FORGED)
            address, port = source or ("127.0.0.1", None)
            # the announced client is no proxy of ours, so its fields are not believed
            assert seen["REMOTE_ADDR"] == (address if source else "6.6.6.6")
            assert port is None or seen["REMOTE_PORT"] == (str(port) if port >= 0 else "")


@pytest.mark.parametrize("name", BAD)
def test_trusted_peer_without_a_proxy_header_is_disconnected(start, name):
    client = start.client(start(tell, trusted="127.0.0.1", proxy_protocol=True))
    client.send(BAD[name])
    assert client.at_end()


def test_half_sent_proxy_header_times_out(start):
    client = start.client(start(tell, trusted="127.0.0.1", proxy_protocol=True, greeting_seconds=0.05))
    client.send(b"PROXY TCP4 ")
    assert client.at_end()


def test_others_may_not_announce(start):
    client = start.client(start(tell, trusted="10.0.0.1", proxy_protocol=True))
    assert asked(client)["REMOTE_ADDR"] == "127.0.0.1"
    client.send(GOOD["version 1"][0])
    assert client.response()[0] == 400


def test_proxy_header_precedes_tls(start, tmp_path):
    trustme = pytest.importorskip(
        "trustme", reason="trustme makes the certificate of this test: pip install trustme"
    )
    authority = trustme.CA()
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(trusting)
    server = start(tell, trusted="127.0.0.1", proxy_protocol=True, ssl_context=context)

    def client():
        with blocking.create_connection(server.address, timeout=60) as sock:
            sock.sendall(GOOD["version 2"][0])
            with trusting.wrap_socket(sock, server_hostname="localhost") as tls:
                tls.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                data = b""
                while piece := tls.recv(1000):
                    data += piece
                return json.loads(data.partition(b"\r\n\r\n")[2])

    seen = syncless.run_in_thread(client)
    assert seen["REMOTE_ADDR"] == "192.0.2.1" and seen["wsgi.url_scheme"] == "https"


ADDRESSES = "192.0.2.1 192.0.2.1:80 2001:DB8:0::1 [2001:db8::1]:80 ::ffff:192.0.2.1 fe80::1%eth0 ::".split()
NO_ADDRESSES = "unknown _hidden 01.2.3.4 1.2.3 1.2.3.4%x fe80::1% fe80::1%a%b 1::2::3".split()


@pytest.mark.parametrize("entry", ["", *ADDRESSES, *NO_ADDRESSES])
def test_entry_is_read_as_by_ipaddress(entry):
    text = entry.strip("[]").partition("]")[0] if "[" in entry else entry
    if text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        expected = str(trust.unmapped(ipaddress.ip_address(text)))
    except ValueError:
        expected = None
    assert trust._address(entry) == expected
