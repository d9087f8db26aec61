"""The settings of a server for the threads of native handlers: limits, and the words of its answers."""

from __future__ import annotations

from http import HTTPStatus

from syncless.http.errors import EXPLANATIONS, REASONS
from syncless.http.limits import Limits

KEPT = (
    "body_bytes",
    "buffered_bytes",
    "linger_bytes",
    "chunk_line",
    "trailer_bytes",
    "pipelined",
    "connections",
    "remembered",
    "linger_connections",
)
TIMES = (
    "head",
    "idle",
    "body",
    "body_total",
    "body_grace",
    "write",
    "write_grace",
    "linger",
    "linger_idle",
)
MOST_NS = MOST_BYTES = 1 << 62
MOST_INT = (1 << 31) - 1
WIDE = ("body_bytes", "buffered_bytes", "linger_bytes")
RATES = ("body_rate", "write_rate")
MOST_THREADS = 128


def limit_values(limits: Limits) -> dict[str, float]:
    """The fields of `struct limits` in server.h; times in ns. Infinite ones are the largest there."""
    found: dict[str, float] = {name: getattr(limits, name) for name in RATES}
    for name in KEPT:
        found[name] = int(min(getattr(limits, name), MOST_BYTES if name in WIDE else MOST_INT))
    for name in TIMES:
        found[f"{name}_ns"] = int(min(getattr(limits, f"{name}_seconds") * 1e9, MOST_NS))
    return found


def head_limit_values(limits: Limits) -> dict[str, int]:
    """The fields of `struct head_limits` in head.h."""
    found = {"line": limits.request_line, "headers": limits.header_count, "total": limits.head_bytes}
    return {name: int(min(value, MOST_INT)) for name, value in found.items()}


def status_lines() -> dict[int, str]:
    """Each status that a response may have -> the line that says so."""
    known = {status.value: status.phrase for status in HTTPStatus} | REASONS
    return {code: f"HTTP/1.1 {code} {known.get(code, 'Unknown')}\r\n" for code in range(200, 600)}


def refusals() -> dict[int, str]:
    """The bodies of the server's own answers: the words of the Python server."""
    return {code: f"{code} {REASONS[code]}\n{text}\n" for code, text in EXPLANATIONS.items()}
