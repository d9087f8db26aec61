"""Servers that run the applications of served_asgi.py, each started by run_asgi.py."""

from __future__ import annotations

import pathlib
import sys

from benchmark.servers.peer import Peer, package_version

HERE = pathlib.Path(__file__).parent
CALLING = ("fastapi requests", "fastapi session")
"""Applications that call another server."""
HTTP = ("hello", "sleep", "json", "big", "fib", "fastapi", "fastapi sync", *CALLING)

HTTP2 = ("http2", "http2 big", "http2 tls")
"""hello and big by HTTP/2 without TLS; and hello with it, with CERTFILE and KEYFILE in the environment, as in
`tls`, which is hello by HTTP/1.1."""


def _peer(name: str, *applications: str, package: str = "") -> Peer:
    return Peer(
        f"{name} (ASGI)",
        lambda port, app: [sys.executable, str(HERE / "run_asgi.py"), name, str(port), app],
        package_version(package or name),
        (*HTTP, *applications),
    )


ASGI_PEERS = (
    _peer("syncless", "echo", *HTTP2, "tls"),
    _peer("granian", "logged", "echo", *HTTP2, "tls"),
    _peer("fastpysgi"),
    _peer("freastal"),
    _peer("uvicorn", "logged", "echo", "tls"),
    _peer("hypercorn", "echo", *HTTP2, "tls"),
    _peer("h2corn", *HTTP2),
    _peer("peregrine", "logged", "echo", *HTTP2, "tls", package="peregrine-server"),
)
