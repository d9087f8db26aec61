"""Names of the original Syncless of 2010. A program that uses one is told today's call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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


class _Concurrence:
    """Finds nothing, and says what to use in place of a library that exists for Python 2 only."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name == "concurrence":
            raise ModuleNotFoundError(
                "No module named 'concurrence', which is for Python 2: use syncless.stackless for its "
                "tasklets and channels and the standard library for its I/O now, see "
                "docs/moving/stackless.md",
                name=name,
            )


def tell_of_concurrence() -> None:
    """From now on, ``import concurrence`` tells what to use now, unless something of that name is there."""
    if not any(isinstance(finder, _Concurrence) for finder in sys.meta_path):
        sys.meta_path.append(_Concurrence())  # type: ignore[arg-type]
