"""Django's cache in syncless.shared: one for all workers, or in Redis with `--shared`.

CACHES = {"default": {"BACKEND": "syncless.contrib.django.cache.SharedCache"}}. LOCATION names it, if there
are several.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

from syncless.contrib.sharedvalues import Values

Stored = tuple[Any, "float | None"]
"""A value, and the time at which it expires."""


class SharedCache(BaseCache):
    """A cache whose bound is `Limits.shared_value_bytes`, not MAX_ENTRIES."""

    def __init__(self, location: str, params: dict[str, Any]):
        super().__init__(params)
        self._values = Values(f"django {location}")

    def _key(self, key: str, version: int | None) -> str:
        made: str = self.make_and_validate_key(key, version=version)
        return made

    def _stored(self, value: Any, timeout: Any) -> tuple[Stored, float | None]:
        expires = self.get_backend_timeout(timeout)
        return (value, expires), None if expires is None else expires - time.time()

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        place, (stored, ttl) = self._key(key, version), self._stored(value, timeout)
        if ttl is not None and ttl <= 0:
            return self._values.get(place) is None
        return self._values.add(place, stored, ttl)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        found: Stored | None = self._values.get(self._key(key, version))
        return default if found is None else found[0]

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        place, (stored, ttl) = self._key(key, version), self._stored(value, timeout)
        if ttl is not None and ttl <= 0:
            self._values.remove(place)
        else:
            self._values.set(place, stored, ttl)

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        place, found = self._key(key, version), []
        if timeout is not None and timeout != DEFAULT_TIMEOUT and timeout <= 0:
            return self._values.remove(place)

        def touched(stored: Stored | None) -> tuple[Stored, float | None] | None:
            found.append(stored is not None)
            return None if stored is None else self._stored(stored[0], timeout)

        self._values.change(place, touched)
        return found[-1]

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._values.remove(self._key(key, version))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """The value keeps its time to live."""
        results: list[int] = []

        def added(stored: Stored | None) -> tuple[Stored, float | None]:
            if stored is None:
                raise ValueError(f"Key '{key}' not found")
            results.append(stored[0] + delta)
            ttl = None if stored[1] is None else max(0.001, stored[1] - time.time())
            return (results[-1], stored[1]), ttl

        self._values.change(self._key(key, version), added)
        return results[-1]

    def clear(self) -> None:
        self._values.clear()
