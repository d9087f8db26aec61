"""A cache of cachelib in syncless.shared, for Flask-Caching and Flask-Session: one for all workers, or in
Redis with `--shared`.

Flask-Caching: CACHE_TYPE = "syncless.contrib.cachelib.SharedCache". Flask-Session: SESSION_TYPE = "cachelib",
SESSION_CACHELIB = SharedCache("sessions").
"""

from __future__ import annotations

from typing import Any

from cachelib import BaseCache

from syncless.contrib.sharedvalues import Values


class SharedCache(BaseCache):
    """SharedCache(name): caches of the same name have the same values."""

    def __init__(self, name: str = "cache", default_timeout: int = 300, **options: Any):
        super().__init__(default_timeout, **options)
        self._values = Values(f"cachelib {name}")

    @classmethod
    def factory(
        cls, app: Any, config: dict[str, Any], args: list[Any], kwargs: dict[str, Any]
    ) -> SharedCache:
        """Called by Flask-Caching, with its own configuration."""
        return cls(config["CACHE_KEY_PREFIX"] or "flask", config["CACHE_DEFAULT_TIMEOUT"])

    def _ttl(self, timeout: Any) -> float | None:
        seconds = self._normalize_timeout(timeout)
        return seconds if seconds > 0 else None

    def get(self, key: str) -> Any:
        found = self._values.get(key)
        return None if found is None else found[0]

    def set(self, key: str, value: Any, timeout: Any = None) -> bool:
        self._values.set(key, (value,), self._ttl(timeout))
        return True

    def add(self, key: str, value: Any, timeout: Any = None) -> bool:
        return self._values.add(key, (value,), self._ttl(timeout))

    def delete(self, key: str) -> bool:
        return self._values.remove(key)

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None

    def inc(self, key: str, delta: int = 1) -> int:
        """As in the other caches, the time to live begins anew."""
        results: list[int] = []

        def added(found: tuple[int] | None) -> tuple[Any, float | None]:
            results.append((found[0] if found else 0) + delta)
            return (results[-1],), self._ttl(None)

        self._values.change(key, added)
        return results[-1]

    def dec(self, key: str, delta: int = 1) -> int:
        return self.inc(key, -delta)

    def clear(self) -> bool:
        self._values.clear()
        return True
