"""The experiments with ASGI servers, and with WebSockets by WSGI and by ASGI."""

from __future__ import annotations

from benchmark.echoes import echo
from benchmark.experiment import Experiment
from benchmark.loads import FEW, ab, wrk

SERVERS = (
    "syncless (ASGI)",
    "granian (ASGI)",
    "fastpysgi (ASGI)",
    "freastal (ASGI)",
    "uvicorn (ASGI)",
    "hypercorn (ASGI)",
)
OURS = ("syncless (ASGI)",)

ASGI = (
    Experiment(
        "asgi-hello",
        "Hello, keep-alive: `wrk -t1 -c50`",
        "hello",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
        {"granian (ASGI)": 0.6, "fastpysgi (ASGI)": 0.65},
        ours=OURS,
    ),
    Experiment(
        "asgi-connections",
        "Hello, a new connection for each request: `ab -n 100000 -c 50`",
        "hello",
        SERVERS,
        lambda server, scale: ab(server.port, scale.requests),
        {"granian (ASGI)": 0.6},
        ours=OURS,
    ),
    Experiment(
        "asgi-pipelined",
        "Hello, 16 requests at a time: `wrk -t1 -c50`, pipelined",
        "hello",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW, script="pipeline.lua"),
        {"granian (ASGI)": 0.3},
        ours=OURS,
    ),
    Experiment(
        "asgi-fastapi",
        "FastAPI's hello, `async def`: `wrk -t1 -c50`",
        "fastapi",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
        {"uvicorn (ASGI)": 0.75},
        ours=OURS,
    ),
    Experiment(
        "asgi-fastapi-sync",
        "FastAPI's hello, `def`, after 10 ms of `time.sleep`, 1,000 connections: `wrk -t1 -c1000`",
        "fastapi sync",
        SERVERS,
        lambda server, scale: wrk(server.port, 3 * scale.seconds, connections=1000, headers=FEW),
        {"uvicorn (ASGI)": 0.1},
        ours=OURS,
    ),
    *(
        Experiment(
            f"websocket-{connections}",
            f"WebSocket echo, binary messages of 64 bytes, {connections:,} connections; "
            "a message counts as a request",
            "echo",
            ("syncless (ASGI)", "syncless", "granian (ASGI)", "uvicorn (ASGI)", "hypercorn (ASGI)"),
            lambda server, scale, connections=connections: echo(  # type: ignore[misc]
                server, connections, scale.seconds
            ),
            {"granian (ASGI)": 0.7},
            ours=("syncless (ASGI)", "syncless"),
        )
        for connections in (200, 1000)
    ),
)
