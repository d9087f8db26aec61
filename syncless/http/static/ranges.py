"""Ranges of bytes: the Range field (RFC 9110, 14), and the framing of several parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST = 16
"""Ranges of a request; with more of them the whole file is sent, as RFC 9110, 14.2 allows."""
_UNIT = re.compile(r"[ \t]*bytes=(.*)", re.IGNORECASE | re.DOTALL)
_ONE = re.compile(r"[ \t]*(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))[ \t]*")

Ranges = list[tuple[int, int]]
"""(first byte, number of bytes) of each."""


def ranges_of(field: str, size: int) -> Ranges | None:
    """The ranges of a file of this size that a Range field asks for; none of them can be satisfied if the
    list is empty. None: the field is to be ignored, because it is malformed, or asks for more bytes than the
    file has, or for very many pieces."""
    unit = _UNIT.fullmatch(field)
    if unit is None:
        return None
    found: Ranges = []
    for text in unit[1].split(","):
        one = _ONE.fullmatch(text)
        if one is None:
            if text.strip(" \t"):
                return None
            continue  # an empty element of a list is allowed
        if one[3] is not None:
            first, last = max(0, size - int(one[3])), size - 1
        else:
            first, last = int(one[1]), size - 1 if one[2] is None else min(int(one[2]), size - 1)
            if one[2] is not None and int(one[2]) < first:
                return None
        if first <= last:
            found.append((first, last - first + 1))
    if len(found) > MOST or (len(found) > 1 and sum(length for _, length in found) > size):
        return None
    return found


def content_range(first: int, length: int, size: int) -> str:
    return f"bytes {first}-{first + length - 1}/{size}"


def part_heads(ranges: Sequence[tuple[int, int]], size: int, media_type: str, boundary: str) -> list[bytes]:
    """The bytes before each part of a multipart/byteranges body, and at its end."""
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {media_type}\r\n"
        f"Content-Range: {content_range(first, length, size)}\r\n\r\n"
        for first, length in ranges
    ]
    heads[0] = heads[0].removeprefix("\r\n")
    return [text.encode("latin-1") for text in (*heads, f"\r\n--{boundary}--\r\n")]
