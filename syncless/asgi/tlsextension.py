"""The `tls` extension of ASGI: the entry of a scope that describes the connection's encryption."""

from __future__ import annotations

import ssl
from typing import Any

VERSIONS = {"TLSv1": 0x0301, "TLSv1.1": 0x0302, "TLSv1.2": 0x0303, "TLSv1.3": 0x0304}


def tls_extension(connection: ssl.SSLObject) -> dict[str, Any]:
    """Of a connection whose handshake is over. The ssl module tells neither the server's certificate nor the
    number of the cipher suite: those keys are None, which the specification allows."""
    certificate = connection.getpeercert(True)
    names = (connection.getpeercert() or {}).get("subject", ()) if certificate else ()
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)] if certificate else [],
        "client_cert_name": _distinguished(names) if certificate else None,
        "client_cert_error": None,
        "tls_version": VERSIONS.get(connection.version() or ""),
        "cipher_suite": None,
    }


SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""RFC 4514, section 3."""


def _distinguished(subject: Any) -> str | None:
    """The name in the form of RFC 4514: the most specific part first."""
    parts = [
        "+".join(f"{SHORT.get(key, key)}={_escaped(value)}" for key, value in names)
        for names in reversed(subject)
    ]
    return ",".join(parts) or None


def _escaped(value: str) -> str:
    text = "".join("\\" + letter if letter in ',+"\\<>;=' else letter for letter in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text
