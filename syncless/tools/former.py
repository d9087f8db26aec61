"""Names of the original Syncless of 2010. A program that uses one is told today's call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def teller(module: str, today: dict[str, str], rest: str = "") -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module, with today's calls by their former names. `rest` stands for
    names that are not in the table; without it, they are missing as in any module."""

    def tell(name: str) -> NoReturn:
        call = today.get(name, rest)
        if not call or name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # no AttributeError: `from module import name` would leave its sentence out
        raise ImportError(
            f"{module}.{name} belongs to the Syncless of 2010: use {call} now, see docs/moving/stackless.md",
            name=module,
        )

    return tell
