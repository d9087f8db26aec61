"""A storage of the package limits in syncless.shared, for Flask-Limiter and slowapi: rates of all workers, or
of all machines with `--shared`.

Import this file, and name the storage "syncless://".
"""

from __future__ import annotations

import time
from math import floor
from typing import Any

from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage

from syncless.contrib.sharedvalues import Values
from syncless.shared import SharedError, figures

Changed = tuple[Any, "float | None"]
Windows = tuple[int, int, int]
"""Number of the current window, hits in it, and in the one before."""


class SharedStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """A moving window is a list of all times, which is written anew at each hit: for large limits, prefer the
    other strategies."""

    STORAGE_SCHEME = ["syncless"]

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, **options: str):
        super().__init__(uri, wrap_exceptions=wrap_exceptions, **options)
        self._values = Values("limits")

    @property
    def base_exceptions(self) -> type[Exception]:
        return SharedError

    def check(self) -> bool:
        figures()
        return True

    def reset(self) -> int | None:
        self._values.clear()
        return None

    def clear(self, key: str) -> None:
        for kind in ("fixed", "moving", "sliding"):
            self._values.remove(f"{kind} {key}")

    # -- fixed window ----------------------------------------------------------------------------------------

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        results: list[int] = []

        def added(found: tuple[int, float] | None) -> Changed:
            now = time.time()
            hits, ends = found if found is not None and found[1] > now else (0, now + expiry)
            results.append(hits + amount)
            return (results[-1], ends), ends - now

        self._values.change(f"fixed {key}", added)
        return results[-1]

    def get(self, key: str) -> int:
        found: tuple[int, float] | None = self._values.get(f"fixed {key}")
        return found[0] if found is not None and found[1] > time.time() else 0

    def get_expiry(self, key: str) -> float:
        found: tuple[int, float] | None = self._values.get(f"fixed {key}")
        return time.time() if found is None else found[1]

    # -- moving window ---------------------------------------------------------------------------------------

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        if amount > limit:
            return False
        results: list[bool] = []

        def taken(times: list[float] | None) -> Changed | None:
            now = time.time()
            kept = [each for each in times or () if each > now - expiry]
            results.append(len(kept) + amount <= limit)
            return (kept + [now] * amount, expiry) if results[-1] else None

        self._values.change(f"moving {key}", taken)
        return results[-1]

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        now = time.time()
        kept = [each for each in self._values.get(f"moving {key}") or () if each > now - expiry]
        return (kept[0] if kept else now), len(kept)

    # -- sliding window --------------------------------------------------------------------------------------

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        results: list[bool] = []

        def taken(found: Windows | None) -> Changed | None:
            now = time.time()
            number, hits, before = self._windows(found, now, expiry)
            weighted = before * (1 - now / expiry % 1) + hits
            results.append(floor(weighted) + amount <= limit)
            return ((number, hits + amount, before), 2.0 * expiry) if results[-1] else None

        self._values.change(f"sliding {key}", taken)
        return results[-1]

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        now = time.time()
        _, hits, before = self._windows(self._values.get(f"sliding {key}"), now, expiry)
        left = (1 - now / expiry % 1) * expiry
        return before, left if before else 0.0, hits, left + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._values.remove(f"sliding {key}")

    @staticmethod
    def _windows(found: Windows | None, now: float, expiry: int) -> Windows:
        number = int(now / expiry)
        if found is None or found[0] < number - 1:
            return number, 0, 0
        return found if found[0] >= number else (number, 0, found[1])
