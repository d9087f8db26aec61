"""C libraries made cooperative: their calls of libc that wait park the tasklet.

The entries for those calls in the libraries' global offset tables are rewritten, in the libraries that a
program names and in no others. known.py says which can be named, hooks.h what happens in a call.
"""

from __future__ import annotations

from collections.abc import Callable

from syncless.patches.libraries.known import LIBRARIES, SAFE
from syncless.patches.libraries.objects import Libraries, refuse
from syncless.patches.registry import Patcher

_libraries = Libraries()


def patch(patcher: Patcher) -> None:
    """The area `native`: the libraries that are known to be safe."""
    for row in LIBRARIES:
        if row.verdict == SAFE:
            _libraries.add(row.name, patcher)


def area_of(name: str) -> str:
    return f"native {name}"


def patch_one(name: str) -> Callable[[Patcher], None]:
    """Makes the changes for one library. ValueError if it must not be patched."""
    refuse(name)
    return lambda patcher: _libraries.add(name, patcher)


look = _libraries.look
"""Patches what has been loaded since, by a way that is not noticed (ctypes)."""
