"""Makes C libraries cooperative: their calls of libc that would block park the tasklet.

This package rewrites the entries of those calls in the global offset tables of the libraries that a program
names, and of no others. tools/knownlibraries.py says which libraries can be named, interpose.h what happens
in a call.
"""

from __future__ import annotations

from collections.abc import Callable

from syncless.patches.registry import Patcher
from syncless.tools.knownlibraries import LIBRARIES, SAFE

try:
    from syncless.patches.libraries.objects import Libraries
    from syncless.patches.libraries.parking import native_stats
    from syncless.patches.libraries.spelling import check
except ModuleNotFoundError:  # setup.py builds what reads and changes the entries where it can
    _libraries = None
    native_stats = dict
else:
    _libraries = Libraries()

__all__ = ["area_of", "look", "native_stats", "patch", "patch_one", "patch_where_possible"]


def _of_this_system() -> Libraries:
    if _libraries is None:
        raise NotImplementedError("C libraries can be patched only on Linux, on x86-64 and aarch64")
    return _libraries


def patch(patcher: Patcher) -> None:
    """Patch the area `native`: the libraries that are known to be safe. Raise NotImplementedError where no
    library can be patched."""
    libraries = _of_this_system()
    for row in LIBRARIES:
        if row.verdict == SAFE:
            libraries.add(row.name, patcher)


def area_of(name: str) -> str:
    return f"native {name}"


def patch_one(name: str) -> Callable[[Patcher], None]:
    """Return a function that patches one library. Raise ValueError if it must not be patched, or is
    misspelt."""
    libraries = _of_this_system()
    check(name)
    return lambda patcher: libraries.add(name, patcher)


def patch_where_possible(name: str, patcher: Patcher) -> None:
    """Make the changes for one library on behalf of another area."""
    if _libraries is not None:
        _libraries.add(name, patcher)


def look() -> None:
    """Patch libraries that have been loaded since without being noticed."""
    _of_this_system().look()
