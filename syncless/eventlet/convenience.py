"""Servers and clients in one call: listen(), connect(), serve(), wrap_ssl()."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from syncless.eventlet import greenpool, greenthread, patcher
from syncless.eventlet.green import socket
from syncless.eventlet.support import greenlets

__all__ = ["StopServe", "connect", "listen", "serve", "wrap_ssl"]


class ReuseRandomPortWarning(Warning):
    """SO_REUSEPORT on a port that the system chooses."""


class ReusePortUnavailableWarning(Warning):
    """The system refuses SO_REUSEPORT."""


class StopServe(Exception):
    """Raised by the function of serve(), ends serve()."""


def connect(addr: Any, family: int = socket.AF_INET, bind: Any = None) -> Any:
    """Return a socket that is connected to the address; `bind` is its own."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if bind is not None:
            sock.bind(bind)
        sock.connect(addr)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(
    addr: Any,
    family: int = socket.AF_INET,
    backlog: int = 50,
    reuse_addr: bool = True,
    reuse_port: bool | None = None,
) -> Any:
    """Return a socket that listens at the address."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    if reuse_addr and os.name != "nt":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    inet = family in (socket.AF_INET, socket.AF_INET6)
    if inet and addr[1] == 0:
        if reuse_port:
            warnings.warn(
                "reuse_port=True with port 0: each socket gets another port", ReuseRandomPortWarning, 3
            )
        reuse_port = False
    elif reuse_port is None:
        reuse_port = inet
    if reuse_port and hasattr(socket, "SO_REUSEPORT"):
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            warnings.warn(f"the system refuses SO_REUSEPORT: {error}", ReusePortUnavailableWarning, 3)
    try:
        sock.bind(addr)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def serve(sock: Any, handle: Callable[[Any, Any], Any], concurrency: int = 1000) -> None:
    """Call handle(connection, address) in a green thread for each connection. An exception in one of them
    ends serve(), and is raised; StopServe ends it in peace."""
    pool = greenpool.GreenPool(concurrency)
    server = greenthread.getcurrent()

    while True:
        try:
            connection, address = sock.accept()
            thread = pool.spawn(handle, connection, address)
            thread.link(_stop_checker, server, connection)
            del connection, address, thread
        except StopServe:
            return


def _stop_checker(thread: Any, server: Any, connection: Any) -> None:
    try:
        try:
            thread.wait()
        finally:
            connection.close()
    except greenlets.GreenletExit:
        pass
    except Exception as error:
        greenthread.kill(server, error)


def wrap_ssl(sock: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a socket with TLS on it; the arguments are those of ssl.wrap_socket()."""
    return patcher.green_module("ssl").wrap_socket(sock, *args, **kwargs)
