"""Counter, Mapping, RateLimit: values that all workers share. Each operation is atomic, and all workers see
its result at once."""

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
    """A number that all workers share. It is never dropped to make room.

    ``name``: 1 to 250 bytes of UTF-8. Raises InvalidName.
    """

    def __init__(self, name: str):
        self._name = name_of(name)

    def add(self, n: int = 1) -> int:
        """Add n, which may be negative, and return the new value. Raise OverflowError beyond 64 bits, or
        StoreFull."""
        return area.store().add(self._name, n)

    def get(self) -> int:
        """Return the current value; 0 if nobody has added anything."""
        return area.store().number(self._name)

    def clear(self) -> int:
        """Set the counter to 0, free its memory, and return its last value."""
        return area.store().number(self._name, True)


class Mapping:
    """A cache of values by key that all workers share. When its memory is full, values are dropped; see
    `Limits.shared_value_bytes`.

    ``name``: 1 to 250 bytes of UTF-8, as are keys. A value is bytes, str, or anything that JSON can
    represent: a tuple is returned as a list. Raises InvalidName.
    """

    def __init__(self, name: str):
        self._prefix = name_of(name) + b"\xff"  # which no name has in it

    def _key(self, key: str) -> bytes:
        return self._prefix + name_of(key, "key")

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or the default if there is none."""
        found = area.store().get(self._key(key))
        return default if found is None else decode(*found)

    def pop(self, key: str, default: Any = None) -> Any:
        """Remove the value and return it, or return the default. Only one caller gets it."""
        found = area.store().get(self._key(key), True)
        return default if found is None else decode(*found)

    def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Set the value. It expires after ``ttl`` seconds; with None, it does not expire. Raise UnfitValue,
        TooLarge, StoreFull or ValueError."""
        area.store().put(self._key(key), *self._encode(value), _ns(ttl))

    def add(self, key: str, value: Any, ttl: float | None = None) -> bool:
        """Do as set() if there is no value. Return whether the value was set."""
        return area.store().put_if_missing(self._key(key), *self._encode(value), _ns(ttl))

    def compare_and_set(self, key: str, old: Any, new: Any, ttl: float | None = None) -> bool:
        """Do as set() if the current value is `old`. Return whether the value was set."""
        return area.store().put_if_equal(self._key(key), *self._encode(old), *self._encode(new), _ns(ttl))

    def _encode(self, value: Any) -> tuple[int, bytes]:
        return encode(value, area.largest_value(), _VALUE_LIMIT)


def _ns(ttl: float | None) -> int:
    """Return `ttl` in nanoseconds, or 0 for no expiry."""
    if ttl is None:
        return 0
    if not 0 < ttl < 1e9:
        raise ValueError(f"ttl must be positive and less than 30 years, in seconds, not {ttl!r}")
    return max(1, int(ttl * 1e9))


class RateLimit:
    """A limit on turns per unit of time, for all workers together: `RateLimit("logins", "10/second")`.

    Ten turns may be taken at once; each turn returns a tenth of a second after it was taken. ``rate`` is a
    number, a slash, and second, minute, hour or day, optionally with a number of them ("100/15 minutes").
    Raises InvalidName.
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
        """Take n turns and return 0.0; or take none, and return the seconds until they are free. Raise
        ValueError if they can never be free, or StoreFull."""
        if not 0 < n <= self._most:
            raise ValueError(f"from 1 to {self._most} turns can be taken at once, not {n}")
        return area.store().take(self._name, n, self._most, self._each) / 1e9

    def allow(self, n: int = 1) -> bool:
        """Take n turns if they are free. Return whether they were taken; see take()."""
        return not self.take(n)
