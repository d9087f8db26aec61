"""The time module with a sleep() that lets other green threads run."""

from __future__ import annotations

import time as _standard

from syncless._core.current import sleep as sleep

globals().update(
    {name: value for name, value in vars(_standard).items() if not name.startswith("__") and name != "sleep"}
)

__patched__ = ["sleep"]
