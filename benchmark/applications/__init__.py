"""Real applications, because people choose a server by them: Django, Flask with SQLAlchemy and FastAPI
with synchronous endpoints, on PostgreSQL and Redis, on one core, by 64 and by 512 clients.

A server is started once in a round and has all loads after another. Before each load its answer must be that
which the site gives without a server. What a request costs there is the share that no server can save.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmark.applications import services
from benchmark.applications.asked import CHECKED, LOADS, answer_of
from benchmark.experiment import Scale
from benchmark.loads import Load, wrk
from benchmark.rounds import in_rounds, say
from benchmark.servers import BUILD, Absent, Peer, Running
from benchmark.servers.peer import package_version

SITES = {
    "applications-django": "Django: ORM, templates, sessions and cache, psycopg2",
    "applications-flask": "Flask and SQLAlchemy, psycopg2",
    "applications-fastapi": "FastAPI's `def` and SQLAlchemy, psycopg2",
}
OURS = ("syncless",)
CONNECTIONS = (64, 512)
QUICK = ("single", "fortunes", "login")
"""The loads of a quick run, by the fewer connections."""
WARM_SECONDS = 2
"""Of each load before it is measured: until then servers connect to the database and to Redis."""
SETTLE_SECONDS = 30
IDLE_NS = 3_000_000
"""CPU time in 0.1 s that is no more than that of an idle server."""
WSGI = ("site_django", "site_flask")
ALL = (*WSGI, "site_fastapi")


def _versions(*packages: str) -> Callable[[], str]:
    return lambda: ", ".join(
        version if index == 0 else f"{package} {version}"
        for index, package in enumerate(packages)
        if (version := package_version(package)())
    )


def _peers(environment: dict[str, str]) -> list[Peer]:
    return [
        Peer(
            name,
            lambda port, site, name=name: [
                sys.executable,
                str(services.HERE / "serve.py"),
                name,
                str(port),
                site,
            ],  # type: ignore[misc]
            _versions(*packages),
            sites,
            environment,
        )
        for name, packages, sites in (
            ("syncless", ("syncless",), ALL),
            ("gunicorn, gthread", ("gunicorn",), WSGI),
            ("gunicorn, gevent", ("gunicorn", "gevent", "psycogreen"), WSGI),
            ("granian", ("granian",), ALL),
            ("uvicorn", ("uvicorn", "uvloop", "httptools"), ALL),
            ("peregrine", ("peregrine-server",), ALL),
        )
    ]


def _load(server: Running, name: str, connections: int, seconds: int) -> Load:
    asked = LOADS[name]
    arguments = [asked.method, asked.path, str(asked.numbers), str(random.randrange(1_000_000))]
    if asked.body:
        BUILD.mkdir(parents=True, exist_ok=True)
        body = BUILD / f"applications-{name}"
        body.write_bytes(asked.body)
        arguments += [asked.content_type, str(body)]
    return wrk(server.port, seconds, connections, script="applications/load.lua", arguments=arguments)


def _settle(server: Running) -> None:
    """Until it has done, too, what the clients that have just gone had asked for: nobody would count that."""
    end = time.monotonic() + SETTLE_SECONDS
    used = -IDLE_NS
    while server.cpu_ns - used >= IDLE_NS and time.monotonic() < end:
        used = server.cpu_ns
        time.sleep(0.1)


def _measured(server: Running, loads: dict[str, Any], scale: Scale, quick: bool) -> dict[str, Any]:
    """One round of a server: what each load has cost, and all together."""
    found: dict[str, Any] = {}
    for name, expected in loads.items():
        answer = answer_of(server.port, LOADS[name], CHECKED)
        assert answer == expected["body"], (
            f"{name}: it answers {answer[:60]!r}, not {expected['body'][:60]!r}"
        )
        for connections in CONNECTIONS[:1] if quick else CONNECTIONS:
            if not quick:
                _load(server, name, connections, WARM_SECONDS)
                _settle(server)
            before = server.cpu_ns
            load = _load(server, name, connections, scale.seconds)
            found[f"{name}-{connections}"] = {
                "cpu_us": (server.cpu_ns - before) / max(1, load.requests) / 1000,
                "requests": load.requests,
                "rate": load.requests / load.seconds,
                "errors": load.errors,
                "latency_ms": load.latency_ms,
                "memory": server.private_bytes,
                "raw": load.raw,
            }
    requests = sum(load["requests"] for load in found.values())
    return {
        "cpu_us": sum(load["cpu_us"] * load["requests"] for load in found.values()) / max(1, requests),
        "requests": requests,
        "errors": sum(load["errors"] for load in found.values()),
        "latency_ms": {},
        "loads": found,
    }


def run(name: str, scale: Scale, only: list[str] | None, quick: bool) -> dict[str, Any]:
    """The result of one of SITES. `quick`: some of the loads, by fewer clients."""
    site = name.removeprefix("applications-")
    result: dict[str, Any] = {"name": name, "title": SITES[name]}
    try:
        with services.started() as environment:
            peers = [each for each in _peers(environment) if not only or each.name in (*OURS, *only)]
            say(f"{name}: its tables, and its answers without a server")
            services.prepare(site, environment)
            loads = services.alone(site, environment, 0.1 if quick else scale.seconds)
            if quick:
                loads = {load: loads[load] for load in QUICK}
            result["alone"] = {load: each["cpu_us"] for load, each in loads.items()}
            result["peers"] = in_rounds(
                name,
                peers,
                f"site_{site}",
                scale.rounds,
                lambda server: _measured(server, loads, scale, quick),
            )
    except Absent as why:
        result |= {"alone": {}, "peers": {each: {"absent": str(why)} for each in OURS}}
    return result


HEAD = ("server", "requests per CPU second", "p50, ms", "p99, ms", "memory, MB", "errors", "the site's share")


def _row(name: str, rounds: list[dict[str, Any]], alone_us: float) -> str:
    def middle(of: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(map(of, rounds))

    cpu = middle(lambda one: one["cpu_us"])
    cells = (
        name,
        f"{1e6 / cpu:,.0f}" if cpu else "",
        f"{middle(lambda one: one['latency_ms']['p50']):,.1f}",
        f"{middle(lambda one: one['latency_ms']['p99']):,.1f}",
        f"{middle(lambda one: one['memory']) / 1e6:,.0f}",
        f"{sum(one['errors'] for one in rounds):,}",
        f"{alone_us / cpu:.0%}" if cpu else "",
    )
    return f"| {' | '.join(cells)} |"


def table(result: dict[str, Any]) -> str:
    """For each load and number of clients, the most requests per CPU second first; and who is absent."""
    parts = [f"**{result['title']}**"]
    there = {name: peer["rounds"] for name, peer in result["peers"].items() if "rounds" in peer}
    for load, alone_us in result["alone"].items():
        for connections in CONNECTIONS:
            key = f"{load}-{connections}"
            rows = {
                name: [one["loads"][key] for one in rounds if key in one["loads"]]
                for name, rounds in there.items()
            }
            order = sorted(
                filter(rows.get, rows),
                key=lambda name: statistics.median(one["cpu_us"] for one in rows[name]),
            )
            if order:
                parts.append(
                    f"{LOADS[load].title[0].upper()}{LOADS[load].title[1:]}, {connections} connections "
                    f"({alone_us:,.0f} µs of CPU without a server):"
                )
                lines = [_row(name, rows[name], alone_us) for name in order]
                parts.append(
                    "\n".join([f"| {' | '.join(HEAD)} |", "|---" + "|---:" * (len(HEAD) - 1) + "|", *lines])
                )
    absent = [f"{name}: {peer['absent']}" for name, peer in result["peers"].items() if "absent" in peer]
    parts += [f"Absent: {'; '.join(absent)}."] if absent else []
    return "\n\n".join(parts)
