"""Patches libraries that let programs choose how to wait, and C functions that are called in OS threads.

The libraries are database drivers that wait in C, where no patch reaches (psycopg2 and psycopg 3), grpcio,
python-engineio and eventlet. The functions wait for threads or events of their own. The hooks are set when
the library is imported, or immediately if it already has been. psycopg2 and grpcio have their own files.
Django's caches are patched, too, so that requests find their connections.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any

from syncless._core.recorder import set_purpose
from syncless.patches.offload import patch_names
from syncless.patches.registry import Patcher, later, when_imported
from syncless.tools.offloading import Offload

IN_THREADS = (
    "watchfiles._rust_notify.RustNotify.watch",
    "zmq.backend.cython._zmq.proxy",
    "zmq.backend.cython._zmq.proxy_steerable",
)
KAFKA = (
    *("poll", "consume", "flush", "commit", "close", "list_topics", "cluster_id"),
    *("committed", "get_watermark_offsets", "offsets_for_times", "unsubscribe"),
    *("init_transactions", "send_offsets_to_transaction", "commit_transaction", "abort_transaction"),
)
"""Methods of confluent_kafka's Consumer and Producer that wait for a broker."""
INTERPRETERS = {
    "_interpreters": ("call", "create", "destroy", "exec", "run_func", "run_string"),
    "_interpchannels": ("send", "send_buffer"),
}
"""Modules of sub-interpreters since Python 3.13, and what may take long there. One of an older Python waits
for ever when one thread has imported `threading` there, and another thread destroys it."""
_pool = Offload(1024, "waits in C")  # a wait may last as long as the process


def _psycopg(patcher: Patcher, waiting: Any) -> None:
    """Choose psycopg's wait function that uses selectors, because that one is cooperative. The record of
    waits is told of the socket that the selector watches."""
    wait_selector = waiting.wait_selector

    @functools.wraps(wait_selector)
    def wait(gen: Any, fileno: int, *args: Any, **kwargs: Any) -> Any:
        before = set_purpose(fileno)
        try:
            return wait_selector(gen, fileno, *args, **kwargs)
        finally:
            set_purpose(before)

    patcher.member_of_module(waiting, "wait", wait, "waits in C")


def _unless_at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that calls Kafka's poll() or flush() in an OS thread unless the timeout is 0."""
    in_thread = _pool.wrap(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") == 0 or (len(args) == 2 and args[1] == 0):
            return function(*args, **kwargs)
        return in_thread(*args, **kwargs)

    return call


def _kafka(patcher: Patcher, library: Any) -> None:
    for kind in (library.Consumer, library.Producer):
        for name in KAFKA:
            if name in vars(kind):
                wrap = _unless_at_once if name in ("poll", "flush") else _pool.wrap
                patcher.member_in_place(kind, name, wrap(vars(kind)[name]), "waits in C")


def _subinterpreters(patcher: Patcher, module: Any) -> None:
    for name in INTERPRETERS[module.__name__]:
        if hasattr(module, name):
            patcher.rebind(module, name, _pool.wrap(getattr(module, name)), "waits in C")


def _engineio(patcher: Patcher, base_server: Any) -> None:
    """Make Flask-SocketIO's server prefer the mode "threading"."""
    server = base_server.BaseServer
    modes = server.async_modes

    def async_modes(self: Any) -> list[str]:
        return sorted(modes(self), key=lambda mode: mode != "threading")

    patcher.member(server, "async_modes", async_modes, "prefers gevent and eventlet where they are installed")


def _django_caches(patcher: Patcher, cache: Any) -> None:
    """Keep Django's caches in `threading.local`, which the requests of a slot share, as Django does with its
    databases. Django keeps its caches, each with its pool of connections, in a context variable. Here each
    request has a fresh context, and would connect again."""
    handler = cache.caches
    kept = getattr(handler, "_connections", None)  # Django 3.2 and later
    if kept is not None:
        handler._connections = importlib.import_module("asgiref.local").Local(thread_critical=True)
        patcher.note(
            "django.core.cache.caches._connections",
            handler._connections,
            "connects for each request",
            lambda: setattr(handler, "_connections", kept),
        )


OURS = (
    ("psycopg2.extensions", "psycopg2", "patch"),
    ("psycopg.connection", "queries", "psycopg"),
    ("psycopg_pool.pool", "pools", "psycopg_pool"),
    ("redis.connection", "pools", "redis"),
    ("httpcore._sync.connection_pool", "pools", "httpcore"),
    ("pg8000.core", "queries", "pg8000"),
    ("pymysql.connections", "mysql", "pymysql"),
    ("MySQLdb.connections", "mysql", "mysqlclient"),
    ("grpc._cython.cygrpc", "grpc", "patch"),
)
"""Module of a driver, and the function of ours that changes it."""


def _eventlet(patcher: Patcher, hubs: Any) -> None:
    def get_default_hub() -> Any:
        return importlib.import_module("syncless.contrib.eventlet")

    if hubs.__name__ == "eventlet.hubs":  # not ours by that name, which needs no hub
        patcher.member_of_module(
            hubs, "get_default_hub", get_default_hub, "takes a hub that holds the thread"
        )


def _gevent_monkey(patcher: Patcher, monkey: Any) -> None:
    importlib.import_module("syncless.contrib.gevent.monkey").install(monkey)


def _gevent(patcher: Patcher, gevent: Any) -> None:
    """One whose hub runs already goes on by itself; tools/otherhubs.py warns of it."""
    with contextlib.suppress(RuntimeError):
        importlib.import_module("syncless.contrib.gevent").install()


def patch(patcher: Patcher) -> None:
    for name in IN_THREADS:
        patch_names(patcher, name, _pool, "waits in C")
    for name in INTERPRETERS:
        when_imported(patcher, name, _subinterpreters)
    when_imported(patcher, "eventlet.hubs", _eventlet)
    when_imported(patcher, "gevent.monkey", _gevent_monkey)
    when_imported(patcher, "gevent", _gevent)
    for name, module, function in OURS:
        when_imported(patcher, name, later(f"syncless.patches.{module}", function))
    when_imported(patcher, "psycopg.waiting", _psycopg)
    when_imported(patcher, "confluent_kafka.cimpl", _kafka)
    when_imported(patcher, "engineio.base_server", _engineio)
    when_imported(patcher, "django.core.cache", _django_caches)
