"""Options of gunicorn, uvicorn and granian that are typed out of habit, and what to write instead.

docs/moving/gunicorn.md has all of them; here are those that people type.
"""

from __future__ import annotations

from collections.abc import Iterable

PATCHED = "leave it out: the standard library is patched by default, and each request is a tasklet"
THREADS = "leave it out: each request is a tasklet (docs/moving/gunicorn.md: calls that block in C)"
INSTEAD = {
    "-k": PATCHED,
    "--worker-class": PATCHED,
    "--worker-connections": "--limit connections=N",
    "--threads": THREADS,
    "--blocking-threads": THREADS,
    "-t": "--limit worker_stuck_seconds=N, or --limit request_seconds=N for each request",
    "--timeout": "--limit worker_stuck_seconds=N, or --limit request_seconds=N for each request",
    "--graceful-timeout": "--limit stop_seconds=N",
    "--timeout-graceful-shutdown": "--limit stop_seconds=N",
    "--keep-alive": "--limit idle_seconds=N",
    "--timeout-keep-alive": "--limit idle_seconds=N",
    "--max-requests": "--limit worker_requests=N",
    "--max-requests-jitter": "--limit worker_requests_jitter=N",
    "--limit-max-requests": "--limit worker_requests=N",
    "--limit-concurrency": "--limit requests=N",
    "--limit-request-line": "--limit request_line=N",
    "--limit-request-fields": "--limit header_count=N",
    "--backlog": "--limit backlog=N",
    "--host": "--bind HOST:PORT",
    "--port": "--bind HOST:PORT",
    "--uds": "--bind unix:PATH",
    "--access-logfile": "--access-log FILE",
    "--access-logformat": "--access-log-format FORMAT",
    "--error-logfile": "--error-log FILE",
    "--log-file": "--error-log FILE",
    "--log-level": "[logging] in syncless.toml, with a level for the logger syncless.error",
    "--log-config": "[logging] in syncless.toml",
    "-c": "--config FILE, a TOML file",
    "--check-config": "--check",
    "-p": "--pid-file FILE",
    "--pid": "--pid-file FILE",
    "-D": "leave it out: the service manager keeps it running",
    "--daemon": "leave it out: the service manager keeps it running",
    "-e": "NAME=VALUE before the command",
    "--env": "NAME=VALUE before the command",
    "--reload-dir": "--reload-path PATH",
    "--reload-extra-file": "--reload-path PATH",
    "--ca-certs": "--client-ca FILE",
    "--ssl-certfile": "--certfile FILE",
    "--ssl-keyfile": "--keyfile FILE",
    "--forwarded-allow-ips": "--trusted PEER",
    "--proxy-headers": "--trusted PEER",
    "--worker-tmp-dir": "leave it out",
}
"""Option -> what to write. None of them is one of ours, see tests/cli/test_moving.py."""


def hint(arguments: Iterable[str]) -> str | None:
    """Advice for the first such option among the arguments: the option to write instead."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in INSTEAD:
            instead = INSTEAD[name]
            return f"there is no {name}; {instead if instead.startswith('leave') else 'write ' + instead}"
    return None
