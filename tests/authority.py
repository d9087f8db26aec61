"""A certificate authority, and clients that trust it."""

import socket as blocking
import ssl

import pytest

import syncless

trustme = pytest.importorskip(
    "trustme", reason="trustme makes the certificates of these tests: pip install trustme"
)


class Authority:
    """A certificate authority, and files for servers."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = trustme.CA()
        self.context = self.client_context()

    def files(self, *names, ca=None):
        made = (ca or self.ca).issue_cert(*names)
        certfile, keyfile = self.folder / f"{names[0]}.pem", self.folder / f"{names[0]}.key"
        certfile.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        made.private_key_pem.write_to_path(keyfile)
        return str(certfile), str(keyfile)

    def client_context(self, certificate=None):
        # with a certificate of its own it does not read the system's, which takes long
        context = ssl.create_default_context(cadata=self.ca.cert_pem.bytes().decode())
        if certificate:
            self.ca.issue_cert(certificate).configure_cert(context)
        return context


def hello(environ, start_response):
    start_response("200 OK", [])
    return [f"{environ['wsgi.url_scheme']} {environ.get('HTTPS')} {environ.get('SSL_PROTOCOL', '')}".encode()]


def in_thread(function, *args):
    """Runs a blocking client in an OS thread while the server goes on here."""
    return syncless.run_in_thread(function, *args)


def connect(server, context, name="localhost"):
    sock = blocking.create_connection(server.address, timeout=60)
    try:
        return context.wrap_socket(sock, server_hostname=name, suppress_ragged_eofs=False)
    except BaseException:
        sock.close()
        raise


def answer_of(server, context, request):
    """All bytes that the server sends for it until it closes."""
    with connect(server, context) as sock:
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(65536), b""))
