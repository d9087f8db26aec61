"""Converts names and values to bytes and back. A value is bytes, str, or anything that JSON can represent."""

from __future__ import annotations

import json
from typing import Any

from syncless.shared.errors import InvalidName, TooLarge, UnfitValue

BYTES, TEXT, JSON = range(3)
"""The format of a value."""
LAGGED = 1013, "messages are missing"
"""Code and reason of a close frame (RFC 6455, 7.4.1): the client may come again, and reads the state anew."""
LONGEST_NAME = 250
"""Bytes of UTF-8 of a topic, a name or a key."""

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), sort_keys=True).encode


def name_of(text: str, what: str = "name") -> bytes:
    """Return a name as bytes. Raise InvalidName."""
    if not isinstance(text, str):
        raise InvalidName(f"a {what} must be a str, not {type(text).__name__}")
    try:
        name = text.encode()
    except UnicodeEncodeError:
        raise InvalidName(f"the {what} {text!r} cannot be encoded as UTF-8") from None
    if not 0 < len(name) <= LONGEST_NAME:
        raise InvalidName(f"a {what} must have 1 to {LONGEST_NAME} bytes, not {len(name)}")
    return name


def encode(value: Any, most: int, limit: str) -> tuple[int, bytes]:
    """Return the format and the bytes of a value. Raise UnfitValue, or TooLarge, which names the limit."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        coded = BYTES, bytes(value)
    else:
        try:
            coded = (TEXT, value.encode()) if isinstance(value, str) else (JSON, _encode(value).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise UnfitValue(f"neither bytes, str nor fit for JSON: {error}") from None
    if len(coded[1]) > most:
        raise TooLarge(f"{len(coded[1])} bytes are more than the limit {limit} allows: {most}")
    return coded


def decode(form: int, data: bytes) -> Any:
    if form == BYTES:
        return data
    text = data.decode()
    return text if form == TEXT else json.loads(text)
