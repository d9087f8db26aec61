"""What is on which page of the benchmarks: the loads of the first page, and the chapters, in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from benchmark.arena import ARENA

INTRODUCTION = """# Benchmarks

Each server has one process on one core; a bar is the median of five rounds.
[How it is measured](../benchmark/README.md)."""
LEGEND = (
    "CPU time: the median of the rounds (least to most). Ratio: the CPU time of syncless divided by the "
    "server's, for each row of ours; below 1, syncless needs less. A dash: the load generator gives no "
    "figure."
)
PEERS = {
    "granian": ("granian (ASGI)", "granian"),
    "uvicorn": ("uvicorn (ASGI)",),
    "gunicorn gevent": ("gunicorn, gevent",),
    "gunicorn gthread": ("gunicorn, gthread",),
    "peregrine": ("peregrine (ASGI)", "peregrine"),
    "bjoern": ("bjoern", "fastpysgi (ASGI)", "fastpysgi"),
}
"""A peer on the first page -> its rows, the first that was measured counts. fastpysgi stands in for bjoern
where there is ASGI."""
THEN = {"Stackless Python": 1.925, "node": 1.0}
"""Requests per second in 2009, node's being 1, from the article."""
ASGI_ONLY = {"uvicorn": "ASGI only"}
WSGI_ONLY = dict.fromkeys(("gunicorn gevent", "gunicorn gthread"), "WSGI only")
NO_WEBSOCKETS = dict.fromkeys(("gunicorn gevent", "gunicorn gthread", "bjoern"), "no WebSockets")


@dataclass
class Load:
    """On the first page."""

    experiment: str
    title: str
    text: str
    without: dict[str, str] = field(default_factory=dict)
    """peer -> why it cannot serve this"""
    ours: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {"syncless": ("syncless (ASGI)", "syncless")}
    )
    """The rows of ours; the first is compared with the peers"""


LOADS = (
    Load("wsgi-hello", "Hello", "13 bytes by WSGI, for uvicorn by ASGI."),
    Load("flask", "Flask", "a view that returns 13 bytes.", ASGI_ONLY),
    Load("django-database", "Django with a database", "a row by the ORM.", ASGI_ONLY),
    Load("asgi-fastapi", "FastAPI", "an `async def` view that returns a dict.", WSGI_ONLY),
    Load("wsgi-sleep", "Sleep", "1,000 clients, 10 ms in each request."),
    Load(
        "held-c",
        "Beside a hold",
        "others block for 300 ms in C.",
        {},
        {"syncless --standby 1": ("syncless, a thread stands by",), "syncless": ("syncless",)},
    ),
    Load(
        "websocket-1000",
        "WebSocket",
        "64-byte echoes on 1,000 connections.",
        NO_WEBSOCKETS,
        {"syncless ASGI": ("syncless (ASGI)",), "syncless WSGI": ("syncless",)},
    ),
    Load("idle", "Memory", "10,000 idle keep-alive connections."),
)
OVERVIEW = ("wsgi-hello", "wsgi-sleep")
"""The loads in the picture of the README."""


class Chapter(NamedTuple):
    slug: str
    title: str
    text: str
    """What is measured, for the list of chapters"""
    introduction: str
    experiments: list[str]


CHAPTERS = (
    Chapter(
        "wsgi",
        "WSGI servers",
        "hello, JSON, 1 MB, sleep, access logs; Flask and Django",
        "Each server runs the same application in one process. uvicorn runs the same as an ASGI application.",
        [
            *(f"wsgi-{each}" for each in ("hello", "json", "big", "sleep", "pipelined", "logged")),
            *("flask", "django", "django-database", "accesslog"),
        ],
    ),
    Chapter(
        "asgi",
        "ASGI servers and WebSockets",
        "hello, FastAPI, blocking calls in `async def`, WebSocket echoes",
        "",
        [
            *(f"asgi-{each}" for each in ("hello", "connections", "pipelined", "fastapi", "fastapi-sync")),
            *("asgi-requests", "asgi-session", "websocket-200", "websocket-1000"),
        ],
    ),
    Chapter(
        "blocking",
        "Slow and blocking requests",
        "holds, standby threads, slow logs, work after the response",
        "A held thread computes or waits in C, and serves no other request meanwhile. With `--standby 1` "
        "another thread takes over.",
        [
            *("held-c", "held-python", "held-two", "held-idle"),
            *("standby-keepalive", "standby-connections", "standby-sleep"),
            *("recorder-hello", "recorder-sleep", "slowlog", "slowlog-10000", "calllater", "models"),
        ],
    ),
    Chapter(
        "connections",
        "Many connections",
        "memory of idle connections, half-sent requests, 10,000 clients that wait",
        "",
        ["idle", "halfsent", "sleep", "sleep-10000", "keepalive-1", "keepalive-1000", "keepalive-10000"],
    ),
    Chapter(
        "http2",
        "HTTP/2 and TLS",
        "hello and 1 MB by HTTP/2, hello over TLS",
        "nghttpd sends a file and runs no application.",
        ["http2-hello", "http2-tls", "http2-big", "tls-hello"],
    ),
    Chapter(
        "httparena",
        "Shapes of HttpArena",
        "sums, JSON, uploads, SQLite, fragments, noise",
        "The loads of [HttpArena](https://www.http-arena.com) for HTTP/1.1, on one core.",
        [experiment.name for experiment in ARENA],
    ),
    Chapter(
        "node-and-go",
        "Node, Go and C",
        "hello beside Node, Go and a server in C that parses nothing",
        "The floor is a server in C on epoll that parses nothing: no server can need much less CPU time.",
        ["keepalive", "headers", "connections", "pipelined"],
    ),
    Chapter(
        "cores",
        "Several cores",
        "worker processes beside Go and Node's cluster",
        "On two cores the load generator shares them with the server.",
        ["cores-hello-1", "cores-hello-2", "cores-fib-1", "cores-fib-2"],
    ),
    Chapter(
        "native",
        "Native handlers",
        "handlers in C, in one thread and in two",
        "",
        [
            *("native", "native-coroutines", "native-pipelined", "native-fib"),
            *("native-threads", "scaling", "native-beside", "native-idle"),
        ],
    ),
    Chapter(
        "engine",
        "The engine and the patch",
        "switches, queues, files, names, asyncio and Stackless's API",
        "",
        ["engine", "stackless", "asyncio", "names", "files", "patched"],
    ),
    Chapter(
        "2009",
        "The experiment of 2009",
        "the experiment that this project comes from, repeated",
        "In 2009 a hello-world server in Stackless Python, which parsed nothing, served 1.925 times as many "
        "requests as Node.js. This chapter repeats the experiment with the same raw server and with the "
        "complete HTTP server.",
        ["2009", "2009-kept", "backlog", "burst"],
    ),
    Chapter(
        "kernel",
        "Kernel interfaces that syncless does not use",
        "io_uring and MSG_ZEROCOPY",
        "A server in C that parses nothing compares the interfaces. A ratio of 0.90 would be a reason for a "
        "backend on io_uring.",
        ["uring-keepalive", "uring-keepalive-1000", "uring-connections", "uring-pipelined", "zerocopy"],
    ),
)
