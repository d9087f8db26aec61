"""Content codings: which ones a client accepts (RFC 9110, 12.5.3), and which media types are worth
compressing."""

from __future__ import annotations

import re
from functools import lru_cache

CODINGS = ("br", "zstd", "gzip")
"""Those that we know, the smallest result first."""
_ITEM = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*(?:;[ \t]*[qQ]=([01](?:\.[0-9]{0,3})?)[ \t]*)?")
_GAIN = frozenset(
    "application/ecmascript application/graphql application/javascript application/json application/ndjson "
    "application/postscript application/rtf application/sql application/toml application/vnd.ms-fontobject "
    "application/wasm application/x-javascript application/x-ndjson application/x-tar application/xml "
    "application/yaml font/otf font/ttf image/bmp image/vnd.microsoft.icon image/x-icon".split()
)


@lru_cache(256)
def accepted(field: str, offered: tuple[str, ...] = CODINGS) -> tuple[str, ...]:
    """Return the offered codings that an Accept-Encoding field allows and prefers to no coding, the best
    first. Codings of equal weight stay in the order of `offered`."""
    given: dict[str, float] = {}
    for item in field.split(","):
        found = _ITEM.fullmatch(item)
        if found:
            given[found[1].lower()] = float(found[2] or 1)
    if "x-gzip" in given:
        given.setdefault("gzip", given["x-gzip"])
    plain, others = given.get("identity", 0.0), given.get("*", 0.0)
    weights = [(given.get(name, others), name) for name in offered]
    wanted = [(weight, name) for weight, name in weights if weight > 0 and weight >= plain]
    return tuple(name for weight, name in sorted(wanted, key=lambda pair: -pair[0]))


@lru_cache(256)
def gains(media_type: str) -> bool:
    """Return whether bodies of this type compress well: text and similar types do, compressed formats do
    not."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _GAIN


def vary(value: str | None) -> str:
    """Return the Vary field with Accept-Encoding added."""
    if value is None or not value.strip():
        return "Accept-Encoding"
    names = [name.strip().lower() for name in value.split(",")]
    return value if "*" in names or "accept-encoding" in names else f"{value}, Accept-Encoding"
