"""The messages between a console and an attached terminal: JSON objects, one per line.

The terminal sends {"source": text}, {"complete": text}, {"interrupt": true} or {"ping": true}. The process
responds to a source with any number of {"output": text}, then {"more": bool} (true if the source is
incomplete and was not run); to a completion with {"completions": [...]}; to a ping with {"pong": true},
immediately if the loop runs.
"""

from __future__ import annotations

import json
from typing import Any

LINE_BYTES = 1 << 20
"""Longer lines are refused."""


class ProtocolError(Exception):
    """The other side does not speak this protocol."""


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        raise ProtocolError(f"not a message: {line[:80]!r}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"not a message: {line[:80]!r}")
    return message
