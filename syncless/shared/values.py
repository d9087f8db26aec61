"""Counter, Mapping, RateLimit: values that all workers share. Each operation is atomic, and is seen by all at
once."""

from __future__ import annotations

import re
from typing import Any

from syncless.shared import area
from syncless.shared.content import decode, encode, name_of
from syncless.shared.errors import InvalidName

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
"""Seconds."""
_RATE = re.compile(r"\s*(\d{1,9})\s*/\s*(?:(\d{1,9})\s*)?(second|minute|hour|day)s?\s*")
_VALUE_LIMIT = "shared_value_bytes (a quarter of it)"


class Counter:
    """A number that all workers change and see. It is never dropped to make room.

    ``name``: 1 to 250 bytes of UTF-8. InvalidName.
    """

    def __init__(self, name: str):
        self._name = name_of(name)

    def add(self, n: int = 1) -> int:
        """Adds n, which may be negative. Returns the new value. OverflowError beyond 64 bits; StoreFull."""
        return area.region().add(self._name, n)

    def get(self) -> int:
        """The present value; 0 if nobody has added anything."""
        return area.region().number(self._name)

    def clear(self) -> int:
        """Sets it to 0 and gives its memory back. Returns the last value."""
        return area.region().drop_counter(self._name)


class Mapping:
    """Values by key that all workers share: a cache. When its memory is full, values are dropped, see
    `Limits.shared_value_bytes`.

    ``name``: 1 to 250 bytes of UTF-8, as are keys. A value is bytes, str, or what JSON can carry: a tuple
    comes back as a list. InvalidName.
    """

    def __init__(self, name: str):
        self._prefix = name_of(name) + b"\xff"  # which no name has in it

    def _key(self, key: str) -> bytes:
        return self._prefix + name_of(key, "key")

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        found = area.region().get(self._key(key))
        return default if found is None else decode(*found)

    def pop(self, key: str, default: Any = None) -> Any:
        """Removes the value, and returns it or the default. One caller gets it."""
        found = area.region().get(self._key(key), True)
        return default if found is None else decode(*found)

    def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """``ttl``: seconds after which the value is gone; None: none. UnfitValue, TooLarge, StoreFull,
        ValueError."""
        area.region().put(self._key(key), *self._encode(value), _ns(ttl))

    def add(self, key: str, value: Any, ttl: float | None = None) -> bool:
        """As set(), if there is no value. Returns whether it has set it."""
        return area.region().put_if_missing(self._key(key), *self._encode(value), _ns(ttl))

    def compare_and_set(self, key: str, old: Any, new: Any, ttl: float | None = None) -> bool:
        """As set(), if the present value is `old`. Returns whether it has set it."""
        return area.region().put_if_equal(self._key(key), *self._encode(old), *self._encode(new), _ns(ttl))

    def _encode(self, value: Any) -> tuple[int, bytes]:
        return encode(value, area.largest_value(), _VALUE_LIMIT)


def _ns(ttl: float | None) -> int:
    """0: for good."""
    if ttl is None:
        return 0
    if not 0 < ttl < 1e9:
        raise ValueError(f"ttl must be positive and less than 30 years, in seconds, not {ttl!r}")
    return max(1, int(ttl * 1e9))


class RateLimit:
    """At most so many turns in a time, of all workers: `RateLimit("logins", "10/second")`.

    10 may be taken at once; each comes back a tenth of a second after it was taken. ``rate``: a number, a
    slash, and second, minute, hour or day, with a number of them if it is not one ("100/15 minutes").
    InvalidName.
    """

    def __init__(self, name: str, rate: str):
        self._name = name_of(name)
        found = _RATE.fullmatch(rate)
        if found is None or not int(found[1]) or (found[2] is not None and not int(found[2])):
            raise InvalidName(f"a rate must be like '10/second' or '100/15 minutes', not {rate!r}")
        self._most = int(found[1])
        seconds = int(found[2] or 1) * UNITS[found[3]]
        if seconds > 1e9:
            raise InvalidName(f"the rate {rate!r} is of more than 30 years")
        self._each = max(1, seconds * 10**9 // self._most)

    def take(self, n: int = 1) -> float:
        """Takes n turns and returns 0.0; or takes none, and returns the seconds until it could. ValueError
        if it never could; StoreFull."""
        if not 0 < n <= self._most:
            raise ValueError(f"from 1 to {self._most} turns can be taken at once, not {n}")
        return area.region().take(self._name, n, self._most, self._each) / 1e9

    def allow(self, n: int = 1) -> bool:
        """Whether it has taken n turns; see take()."""
        return not self.take(n)
