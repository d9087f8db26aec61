"""Values of any kind in syncless.shared, for the caches and storages of other packages."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

from syncless.shared import Counter, Mapping

LONGEST = 200
"""Bytes of a key; of a longer one there is a hash."""


class Values:
    """Values(name): pickled values by keys of any length. Each operation is atomic. The values of an earlier
    clear() are not removed, but nobody finds them: they expire, or make room for others."""

    def __init__(self, name: str):
        self._values = Mapping(name)
        self._cleared = Counter(f"{name} cleared")

    def _key(self, key: str) -> str:
        data = key.encode("utf-8", "surrogatepass")
        if not 0 < len(data) <= LONGEST:
            key = hashlib.sha256(data).hexdigest()
        return f"{self._cleared.get()} {key}"

    def get(self, key: str) -> Any:
        """Return the value, or None."""
        found = self._values.get(self._key(key))
        return None if found is None else pickle.loads(found)

    def set(self, key: str, value: Any, ttl: float | None) -> None:
        self._values.set(self._key(key), pickle.dumps(value, -1), ttl)

    def add(self, key: str, value: Any, ttl: float | None) -> bool:
        return self._values.add(self._key(key), pickle.dumps(value, -1), ttl)

    def remove(self, key: str) -> bool:
        """Return whether there was a value."""
        return self._values.pop(self._key(key)) is not None

    def change(self, key: str, function: Callable[[Any], tuple[Any, float | None] | None]) -> None:
        """Replace a value by what function(value) returns: a value and its seconds; or None, to change
        nothing. Of a value that is missing it gets None. It is called again if others were faster."""
        place = self._key(key)
        while True:
            before = self._values.get(place)
            made = function(None if before is None else pickle.loads(before))
            if made is None:
                return
            value, ttl = pickle.dumps(made[0], -1), made[1]
            if before is None:
                done = self._values.add(place, value, ttl)
            else:
                done = self._values.compare_and_set(place, before, value, ttl)
            if done:
                return

    def clear(self) -> None:
        self._cleared.add()
