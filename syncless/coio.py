"""Tells a program of 2010 what to call in place of the original Syncless's module coio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncless.tools.former import teller

_TODAY = {
    "concurrence_event": "syncless.wait_writable()",
    "dns_resolve_ipv4": "socket.gethostbyname()",
    "dns_resolve_ipv6": "socket.getaddrinfo()",
    "dns_resolve_reverse": "socket.getnameinfo()",
    "fdopen": "os.fdopen()",
    "gethostbyaddr": "socket.getnameinfo()",
    "gethostbyname": "socket.gethostbyname()",
    "nbfile": "os.fdopen()",
    "nbsocket": "socket.socket()",
    "nbsslsocket": "ssl.create_default_context().wrap_socket()",
    "new_realsocket": "socket.socket()",
    "partial_getaddrinfo": "socket.getaddrinfo()",
    "popen": "os.popen()",
    "receive_with_timeout": "syncless.select()",
    "select": "select.select()",
    "signal": "signal.signal()",
    "sleep": "syncless.sleep()",
    "socketpair": "socket.socketpair()",
    "sslwrap_simple": "ssl.create_default_context().wrap_socket()",
    "stackless": "syncless.stackless",
    "thread_pool": "syncless.run_in_thread()",
    "wakeup_info": "syncless.wait_writable()",
}

if not TYPE_CHECKING:  # a checker would take every name for one that is there
    __getattr__ = teller(__name__, _TODAY, "the standard library under syncless.patches.patch_all()")
