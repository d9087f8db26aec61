"""The ssl module whose connections are green: a second copy of it, on green sockets."""

from __future__ import annotations

import sys
from typing import Any

from syncless.eventlet import patcher
from syncless.eventlet.green import fill, socket
from syncless.patches import tls
from syncless.patches.types import tlscalls

_copy: Any = patcher.import_patched("ssl", socket=socket)
fill(sys.modules[__name__], _copy)


class GreenSSLSocket(_copy.SSLSocket):  # type: ignore[misc]
    """SSLSocket whose calls let other green threads run. A handshake is made with the first bytes."""

    read = tlscalls.read
    write = tlscalls.write
    recv = tlscalls.recv
    send = tlscalls.send
    do_handshake = tls.do_handshake
    unwrap = tls.unwrap
    settimeout = tls.settimeout
    setblocking = tls.setblocking

    def sendall(self, data: Any, flags: int = 0) -> None:
        if data:
            super().sendall(data, flags)

    def accept(self) -> tuple[GreenSSLSocket, Any]:
        connection, address = _copy.socket.accept(self)
        made = self.context.wrap_socket(
            connection,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=self.suppress_ragged_eofs,
            server_side=True,
        )
        return made, address

    def dup(self) -> Any:
        raise NotImplementedError(f"Can't dup() {type(self).__name__} instances")


SSLSocket = GreenSSLSocket
_copy.SSLContext.sslsocket_class = GreenSSLSocket
SSLContext = GreenSSLContext = _copy.SSLContext


def wrap_socket(
    sock: Any,
    keyfile: Any = None,
    certfile: Any = None,
    server_side: bool = False,
    cert_reqs: Any = _copy.CERT_NONE,
    ssl_version: Any = None,
    ca_certs: Any = None,
    do_handshake_on_connect: bool = True,
    suppress_ragged_eofs: bool = True,
    ciphers: Any = None,
) -> GreenSSLSocket:
    """Put TLS on a socket, as ssl.wrap_socket() did until Python 3.11."""
    if server_side and not certfile:
        raise ValueError("certfile must be specified for server-side operations")
    if keyfile and not certfile:
        raise ValueError("certfile must be specified")
    context = SSLContext(_copy.PROTOCOL_TLS_SERVER if server_side else _copy.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = cert_reqs
    if ca_certs:
        context.load_verify_locations(ca_certs)
    if certfile:
        context.load_cert_chain(certfile, keyfile)
    if ciphers:
        context.set_ciphers(ciphers)
    made: GreenSSLSocket = context.wrap_socket(
        sock,
        server_side=server_side,
        do_handshake_on_connect=do_handshake_on_connect,
        suppress_ragged_eofs=suppress_ragged_eofs,
    )
    return made
