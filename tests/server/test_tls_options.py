"""Certificates by name, authorities of clients, versions and ciphers of TLS."""

import contextlib
import http.client
import shutil
import socket as blocking
import ssl
import subprocess

import pytest

import syncless
from syncless.server.certificates import server_context
from syncless.wsgi import Server
from tests.authority import connect, hello, in_thread

pytestmark = pytest.mark.virtual_time


def test_names_choose_certificates(start, authority):
    server = start(
        hello,
        certfile=authority.files("first.test")[0],
        keyfile=authority.files("first.test")[1],
        certificates={
            "second.test": authority.files("second.test"),
            "*.wild.test": authority.files("*.wild.test"),
        },
    )

    def shown(name):
        context = authority.client_context()
        context.check_hostname = False
        with connect(server, context, name) as sock:
            return sock.getpeercert()["subjectAltName"][0][1]

    for name, expected in (
        ("second.test", "second.test"),
        ("SECOND.test", "second.test"),
        ("a.wild.test", "*.wild.test"),
        ("a.b.wild.test", "first.test"),
        ("unknown.test", "first.test"),
        (None, "first.test"),
    ):
        assert in_thread(shown, name) == expected


def test_certificates_are_read_again_and_open_connections_go_on(https, authority):
    server = https(hello)

    def serial(context):
        with connect(server, context) as sock:
            return sock.getpeercert()["serialNumber"]

    def ask(sock):
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return sock.recv(1000)

    sock = in_thread(connect, server, authority.context)
    before = in_thread(serial, authority.context)
    certfile, _keyfile = authority.files("localhost", "127.0.0.1")
    server.reload_certificates()
    assert in_thread(serial, authority.context) != before
    assert b"200 OK" in in_thread(ask, sock)
    with open(certfile, "w") as file:
        file.write("broken")
    with pytest.raises(ValueError, match=r"localhost\.pem"):
        server.reload_certificates()
    in_thread(serial, authority.context)
    assert b"200 OK" in in_thread(ask, sock)
    sock.close()


def test_authority_of_clients_is_asked_for_whatever_name_they_want(https, start, authority):
    pem = authority.folder / "clients.pem"
    authority.ca.cert_pem.write_to_path(pem)
    server = https(
        hello, client_ca=str(pem), certificates={"other.example": authority.files("other.example")}
    )
    known = authority.client_context("me@example.org")

    def get(context, name):
        with connect(server, context, name) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return client.recv(1000)

    for name in ("localhost", "other.example"):
        assert in_thread(get, known, name).startswith(b"HTTP/1.1 200")
        with pytest.raises(OSError):
            in_thread(get, authority.context, name)


def test_oldest_version_and_ciphers_can_be_chosen(https, authority):
    def agreed(server, **limits):
        context = authority.client_context()
        for name, value in limits.items():
            setattr(context, name, value)
        with connect(server, context) as client:
            return client.version(), client.cipher()[0]

    newest = https(hello, tls_minimum="1.3")
    assert in_thread(agreed, newest)[0] == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        in_thread(lambda: agreed(newest, maximum_version=ssl.TLSVersion.TLSv1_2))
    one = "ECDHE-ECDSA-AES256-GCM-SHA384"
    server = https(hello, ciphers=f"{one}:ECDHE-RSA-AES256-GCM-SHA384")
    assert in_thread(lambda: agreed(server, maximum_version=ssl.TLSVersion.TLSv1_2))[1].endswith(
        "AES256-GCM-SHA384"
    )


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which encrypts the key, is not installed"
)
def test_key_with_a_password(start, authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    secret = str(authority.folder / "secret.key")
    subprocess.run(
        ["openssl", "pkey", "-in", keyfile, "-aes256", "-passout", "pass:open", "-out", secret], check=True
    )
    server = start(hello, certfile=certfile, keyfile=secret, key_password="open")
    with in_thread(connect, server, authority.context) as client:
        assert client.version()
    with pytest.raises(ValueError, match="the private key is encrypted: give key_password"):
        Server(hello, certfile=certfile, keyfile=secret)
    with pytest.raises(ValueError, match=r"secret\.key"):
        Server(hello, certfile=certfile, keyfile=secret, key_password="wrong")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tls_minimum": "1.1"}, "must be one of 1.2, 1.3"),
        ({"ciphers": "NONSENSE"}, "no cipher suite of 'NONSENSE'"),
        ({"client_ca": "no-such.pem"}, "no-such.pem"),
    ],
)
def test_wrong_settings_are_told(authority, options, message):
    certfile, keyfile = authority.files("localhost")
    with pytest.raises((ValueError, OSError), match=message):
        Server(hello, certfile=certfile, keyfile=keyfile, **options)
    with pytest.raises(ValueError, match=r"needs? a certificate"):
        Server(hello, **options)
    with pytest.raises(ValueError, match="cannot be combined with ssl_context"):
        Server(hello, ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), **options)


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 100, b"-----BEGIN CERTIFICATE-----\n"])
def test_file_without_a_certificate_is_told_in_plain_words(tmp_path, content):
    (tmp_path / "c.pem").write_bytes(content)
    with pytest.raises(ValueError) as told:
        Server(hello, certfile=str(tmp_path / "c.pem"))
    message = str(told.value)
    assert f"certfile {tmp_path}/c.pem: " in message and "expected a PEM certificate and its key" in message
    assert ".c:" not in message, "that is a line of the interpreter"


def test_client_certificates(start, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.files("localhost", "127.0.0.1"))
    context.verify_mode = ssl.CERT_REQUIRED
    authority.ca.configure_trust(context)

    def app(environ, start_response):
        start_response("200 OK", [])
        return [f"{environ['SSL_CLIENT_VERIFY']} {environ['SSL_CLIENT_CERT'][:27]}".encode()]

    server = start(app, ssl_context=context)

    def client(context):
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().read()

    assert (
        in_thread(client, authority.client_context("me@example.org"))
        == b"SUCCESS -----BEGIN CERTIFICATE-----"
    )
    with pytest.raises(OSError):
        in_thread(client, authority.context)


def test_arguments_are_checked(authority):
    certfile, keyfile = authority.files("localhost")
    with pytest.raises(ValueError, match="cannot be combined with certificate files"):
        Server(hello, ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certfile=certfile)
    with pytest.raises(ValueError, match="needs its certfile"):
        Server(hello, keyfile=keyfile)
    with pytest.raises(ValueError, match=r"needs? a certificate"):
        Server(hello, bind="https://127.0.0.1:0")
    with pytest.raises(ValueError, match=r"needs? a certificate"):
        Server(hello, plain_http=True)
    with pytest.raises(OSError, match=r"missing\.pem"):
        Server(hello, certfile="missing.pem")
    with pytest.raises(ValueError, match="PEM"):
        Server(hello, certfile=keyfile)


MOZILLA_INTERMEDIATE = {
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
}
TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}


def test_offered_suites_are_those_of_mozillas_intermediate_configuration(authority):
    context = server_context(authority.files("localhost"))
    assert {suite["name"] for suite in context.get_ciphers()} == MOZILLA_INTERMEDIATE | TLS_1_3
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert not context.options & ssl.OP_CIPHER_SERVER_PREFERENCE


def test_each_suite_is_negotiated_or_refused_as_the_list_says(https, authority):
    """Of all that this OpenSSL has for TLS 1.2 and the server's kind of key."""
    server = https(hello)
    agreed, refused = set(), set()

    def visit(name):
        context = authority.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(f"{name}:@SECLEVEL=0")
        try:
            with (
                blocking.create_connection(server.address, timeout=60) as sock,
                context.wrap_socket(sock, server_hostname="localhost") as tls,
            ):
                agreed.add(tls.cipher()[0])
        except ssl.SSLError:
            refused.add(name)

    everything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    everything.set_ciphers("ALL:@SECLEVEL=0")
    names = [suite["name"] for suite in everything.get_ciphers() if suite["name"] not in TLS_1_3]
    for name in names:
        syncless.run_in_thread(visit, name)
    kind = "ECDSA" if any("-ECDSA-" in name for name in agreed) else "RSA"
    assert agreed == {name for name in MOZILLA_INTERMEDIATE if f"-{kind}-" in name}
    assert any("AES256-SHA" in name for name in refused) and len(refused) == len(names) - len(agreed)
