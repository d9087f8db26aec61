"""The experiments with HTTP/2: without TLS, by clients that know that the server speaks it, and with TLS. And
HTTP/1.1 with TLS."""

from __future__ import annotations

from benchmark.experiment import Experiment
from benchmark.loads import h2load, wrk

PYTHON = ("h2corn (ASGI)", "granian", "granian (ASGI)", "peregrine", "peregrine (ASGI)", "hypercorn (ASGI)")
SERVERS = ("nghttpd", *PYTHON)
TLS = ("node", "go nethttp", *PYTHON[1:], "uvicorn (ASGI)", "gunicorn, gevent", "gunicorn, gthread")
OURS = ("syncless", "syncless (ASGI)")
SAME_WORK = {name: OURS["(ASGI)" in name] for name in SERVERS}
HTTP2 = (
    Experiment(
        "http2-hello",
        "HTTP/2 hello: 20 connections with 10 streams each, `h2load -c20 -m10`",
        "http2",
        (*OURS, *SERVERS),
        lambda server, scale: h2load(server.port, scale.requests, 20, 10),
        {"h2corn (ASGI)": 0.45, "granian": 0.33, "granian (ASGI)": 0.33},
        same_work=SAME_WORK,
    ),
    Experiment(
        "http2-tls",
        "HTTP/2 hello over TLS: TLS 1.3, `h2load -c20 -m10 https://`",
        "http2 tls",
        (*OURS, *SERVERS),
        lambda server, scale: h2load(server.port, scale.requests, 20, 10, tls=True),
        {"granian": 0.5, "granian (ASGI)": 0.5},
        same_work=SAME_WORK,
    ),
    Experiment(
        "http2-big",
        "HTTP/2, a body of 1 MB: 5 connections with 4 streams each, `h2load -c5 -m4`",
        "http2 big",
        (*OURS, *SERVERS),
        lambda server, scale: h2load(server.port, scale.requests // 20, 5, 4),
        {"nghttpd": 1.3},
        same_work=SAME_WORK,
    ),
    Experiment(
        "tls-hello",
        "HTTP/1.1 hello over TLS: TLS 1.3, keep-alive, `wrk -t1 -c50 https://`",
        "tls",
        (*OURS, *TLS),
        lambda server, scale: wrk(server.port, scale.seconds, tls=True),
        dict.fromkeys(TLS, 1.0),
        same_work={name: OURS["(ASGI)" in name] for name in TLS},
    ),
)
