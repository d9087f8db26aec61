"""Chooses the certificate for each client, and reloads certificates while connections stay open. stream.pyx
handles the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from syncless.http.errors import require_one_of
from syncless.io.guardedfiles import readable
from syncless.tools.records import record

if TYPE_CHECKING:  # imported where there is a certificate: a server without TLS need not have it
    import ssl

CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
)
"""Those of TLS 1.2 in Mozilla's "Server Side TLS", intermediate configuration, version 5.8, which has no DHE
any more. Those of TLS 1.3 are OpenSSL's three, which are Mozilla's."""

Files = str | tuple[str, str]
"""A PEM file with certificate chain and private key, or a pair of files."""


MINIMUM = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}
"""Version -> its name in ssl.TLSVersion."""


@record(frozen=True)
class TLSSettings:
    """The settings that all certificates of a server share."""

    client_ca: str | None = None
    """A PEM file of CA certificates: a client must show a certificate signed by one of them."""
    ciphers: str | None = None
    """Cipher suites of TLS 1.2 in OpenSSL's notation, instead of CIPHERS."""
    tls_minimum: str = "1.2"
    """The oldest version of TLS: one of MINIMUM."""
    key_password: str | None = None
    """Password of the private keys."""
    http2: bool = False
    """Clients may choose HTTP/2 (ALPN)."""

    def given(self) -> bool:
        """Return whether the user has changed any setting."""
        ours = TLSSettings(self.client_ca, self.ciphers, self.tls_minimum, self.key_password)
        return ours != TLSSettings()

    def apply(self, context: ssl.SSLContext) -> None:
        """Apply the settings. Raise ValueError for an unsupported setting, or OSError, which names the
        file."""
        import ssl

        require_one_of("tls_minimum", self.tls_minimum, MINIMUM)
        context.minimum_version = ssl.TLSVersion[MINIMUM[self.tls_minimum]]
        try:
            context.set_ciphers(self.ciphers or ":".join(CIPHERS))
        except ssl.SSLError:
            raise ValueError(
                f"OpenSSL supports no cipher suite of {self.ciphers!r}; see `openssl ciphers -v`"
            ) from None
        if self.client_ca is not None:
            try:
                with opened("client_ca", self.client_ca) as path:
                    context.load_verify_locations(path)
            except ssl.SSLError as error:
                raise ValueError(
                    f"client_ca {self.client_ca}: {error.reason or error}; expected a PEM file of CA "
                    "certificates"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED


def server_context(certificate: Files, settings: TLSSettings | None = None) -> ssl.SSLContext:
    """Return a context with this certificate, with Mozilla's intermediate configuration, no renegotiation,
    and ALPN. Raise OSError or ValueError, which name the file and the argument."""
    import ssl

    settings = settings or TLSSettings()
    certfile, keyfile = (certificate, None) if isinstance(certificate, str) else certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.apply(context)
    context.options |= getattr(ssl, "OP_NO_RENEGOTIATION", 0)
    context.options &= (
        ~ssl.OP_CIPHER_SERVER_PREFERENCE
    )  # all of them are good: a client knows which is quick for it
    context.set_alpn_protocols(["h2", "http/1.1"] if settings.http2 else ["http/1.1"])
    try:
        key_of = opened("keyfile", keyfile) if keyfile else nullcontext()
        with opened("certfile", certfile) as chain, key_of as key:
            context.load_cert_chain(chain, key, settings.key_password or _no_password)
    except ssl.SSLError as error:
        reason = f"{error.reason}; " if error.reason else ""
        raise ValueError(
            f"certfile {certfile}{' with keyfile ' + keyfile if keyfile else ''}: {reason}expected a PEM "
            f"certificate and its key{'' if keyfile else ', or give its keyfile'}"
        ) from None
    return context


@contextmanager
def opened(argument: str, path: str) -> Iterator[str]:
    """Yield the path by which OpenSSL can read the file. Raise OSError with the argument's name, because
    OpenSSL does not say which file it cannot read."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(readable(path))
            with open(found, "rb"):
                pass
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{argument} {path}") from None
        yield found


def _no_password() -> str:
    """Refuse an encrypted key: OpenSSL would ask for the password at the terminal, and block the server."""
    raise ValueError("the private key is encrypted: give key_password, or --key-password-file")


def by_name(default: ssl.SSLContext, others: Mapping[str, ssl.SSLContext]) -> ssl.SSLContext:
    """Make the default context choose another one by the name that the client requests (SNI, RFC 6066, 3):
    "www.example.org", or "*.example.org" for one label. A client that requests no name or another one gets
    the default."""
    contexts = {name.lower(): context for name, context in others.items()}

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            name = name.lower().rstrip(".")
            found = contexts.get(name) or contexts.get("*." + name.partition(".")[2])
            if found is not None:
                connection.context = found

    default.sni_callback = choose  # type: ignore[assignment]
    return default


class Certificates:
    """The context for new connections. `reload()` replaces it; open connections keep theirs."""

    def __init__(self, make: Callable[[], ssl.SSLContext]):
        self._make = make
        self.context = make()

    def __call__(self) -> ssl.SSLContext:
        return self.context

    def reload(self) -> None:
        """Reload the files. If one is bad, raise its error and keep the old certificates."""
        self.context = self._make()


def make_certificates(
    context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None,
    certfile: str | None,
    keyfile: str | None,
    names: Mapping[str, Files] | None,
    settings: TLSSettings,
) -> Certificates | None:
    """Return the certificates for the arguments of `serve`, or None without TLS. Raise ValueError if the
    arguments contradict each other."""
    if context is not None:
        import ssl

        if certfile or names:
            raise ValueError("ssl_context cannot be combined with certificate files")
        if settings.given():
            raise ValueError(
                "client_ca, ciphers, tls_minimum and key_password cannot be combined with ssl_context; "
                "set them on the context"
            )
        given = context
        return Certificates(given if not isinstance(given, ssl.SSLContext) else lambda: given)
    if keyfile and not certfile:
        raise ValueError("a keyfile needs its certfile")
    if not certfile and not names:
        if settings.given():
            raise ValueError("TLS settings need a certificate: give certfile or certificates")
        return None
    files: Files = (
        (certfile, keyfile) if certfile and keyfile else certfile or next(iter((names or {}).values()))
    )

    def make() -> ssl.SSLContext:
        others = {name: server_context(other, settings) for name, other in (names or {}).items()}
        return by_name(server_context(files, settings), others)

    return Certificates(make)
