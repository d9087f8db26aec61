"""The experiments with ASGI servers, and with WebSockets by WSGI and by ASGI."""

from __future__ import annotations

from benchmark.echoes import echo
from benchmark.experiment import RATE, Experiment
from benchmark.loads import FEW, ab, wrk

SERVERS = (
    "syncless (ASGI)",
    "granian (ASGI)",
    "fastpysgi (ASGI)",
    "freastal (ASGI)",
    "peregrine (ASGI)",
    "uvicorn (ASGI)",
    "hypercorn (ASGI)",
)
ECHOING = ("granian", "peregrine", "uvicorn", "hypercorn")
"""Those that have WebSockets."""
OURS = ("syncless (ASGI)",)
ALONE = (
    "In the peers the call blocks the event loop, so requests run one after the other. In syncless the limit "
    "is `requests.get`, which makes a session and a connection for each call."
)
KEPT = "The session keeps its connections."
ASGI = (
    Experiment(
        "asgi-hello",
        "Hello: keep-alive, `wrk -t1 -c50`",
        "hello",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
        {"granian (ASGI)": 0.6, "fastpysgi (ASGI)": 0.65, "freastal (ASGI)": 0.9},
        ours=OURS,
    ),
    Experiment(
        "asgi-connections",
        "Hello on new connections: a connection for each request, `ab -c 50`",
        "hello",
        SERVERS,
        lambda server, scale: ab(server.port, scale.requests),
        {"granian (ASGI)": 0.6},
        ours=OURS,
    ),
    Experiment(
        "asgi-pipelined",
        "Hello, pipelined: 16 requests at a time, `wrk -t1 -c50`",
        "hello",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW, script="pipeline.lua"),
        {"granian (ASGI)": 0.3},
        ours=OURS,
    ),
    Experiment(
        "asgi-fastapi",
        "FastAPI: hello, `async def`, `wrk -t1 -c50`",
        "fastapi",
        SERVERS,
        lambda server, scale: wrk(server.port, scale.seconds, headers=FEW),
        {"uvicorn (ASGI)": 0.75},
        ours=OURS,
    ),
    Experiment(
        "asgi-fastapi-sync",
        "FastAPI with a blocking view: `def`, `time.sleep` for 10 ms, `wrk -t1 -c1000`",
        "fastapi sync",
        SERVERS,
        lambda server, scale: wrk(server.port, 3 * scale.seconds, connections=1000, headers=FEW),
        ours=OURS,
        measure=RATE,
    ),
    *(
        Experiment(
            name,
            title,
            application,
            SERVERS,
            lambda server, scale: wrk(server.port, 2 * scale.seconds, connections=500, headers=FEW),
            ours=OURS,
            rates={"uvicorn (ASGI)": 50, "granian (ASGI)": 50},
            measure=RATE,
            note=note,
        )
        for name, title, application, note in (
            (
                "asgi-requests",
                "FastAPI with blocking calls: `requests.get` to a server that takes 50 ms, `wrk -t1 -c500`",
                "fastapi requests",
                ALONE,
            ),
            (
                "asgi-session",
                "FastAPI with blocking calls, one session: `requests.Session` shared by all, `wrk -t1 -c500`",
                "fastapi session",
                KEPT,
            ),
        )
    ),
    *(
        Experiment(
            f"websocket-{connections}",
            f"WebSocket echo, {connections:,} connections: binary messages of 64 bytes; "
            "a message counts as a request",
            "echo",
            ("syncless (ASGI)", "syncless", *(f"{name} (ASGI)" for name in ECHOING)),
            lambda server, scale, connections=connections: echo(  # type: ignore[misc]
                server, connections, scale.seconds
            ),
            {"granian (ASGI)": 0.6},
            ours=("syncless (ASGI)", "syncless"),
        )
        for connections in (200, 1000)
    ),
)
