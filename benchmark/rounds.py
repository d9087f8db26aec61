"""Peers in turns: each round starts each server anew, every second round in the opposite order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from benchmark.servers import Absent, Peer, Running


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def in_rounds(
    name: str,
    peers: Iterable[Peer],
    application: str,
    rounds: int,
    measured: Callable[[Running], dict[str, Any]],
) -> dict[str, Any]:
    """By name of the peer, its version and what was `measured` of it in each round, or why it is absent."""
    found: dict[str, Any] = {}
    known = {peer.name: peer for peer in peers}
    for peer in known.values():
        try:
            if application not in peer.applications:
                raise Absent(f"it has no application {application!r}")
            found[peer.name] = {"version": peer.version(), "rounds": []}
        except (Absent, subprocess.CalledProcessError, FileNotFoundError) as error:
            found[peer.name] = {"absent": str(error)}
    for number in range(rounds):
        for each, entry in list(found.items())[:: -1 if number % 2 else 1]:
            if "absent" in entry:
                continue
            say(f"{name}: round {number + 1} of {rounds}, {each}")
            try:
                with Running(known[each], application) as server:
                    one = measured(server)
                if one["requests"] == 0:
                    raise Absent("the load generator says of no request that it was answered")
            except (Absent, OSError, AssertionError, ZeroDivisionError) as error:
                entry.pop("rounds")
                entry["absent"] = (
                    str(error)
                    if isinstance(error, Absent)
                    else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                )
                continue
            entry["rounds"].append(one)
    return found
