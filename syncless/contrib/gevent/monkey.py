"""gevent.monkey, whose functions make our patch: programs that call them get what waits on our loop."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from syncless import patches
from syncless._core.cpython.functions import original_of, take_place

AREAS = {
    "dns": ["dns"],
    "os": ["subprocess", "files"],
    "queue": ["queue"],
    "select": ["select"],
    "signal": ["signal"],
    "socket": ["socket"],
    "ssl": ["ssl"],
    "subprocess": ["subprocess"],
    "thread": ["thread"],
    "time": ["time"],
}
"""The name of each patch function of gevent.monkey -> our areas."""

MODULES = {
    **{name: areas[0] for name, areas in AREAS.items()},
    "_thread": "thread",
    "threading": "thread",
    "selectors": "select",
}


ARGUMENTS = ("socket", "dns", "time", "select", "thread", "os", "ssl", "subprocess")
"""The first ones of gevent's patch_all(), in their order."""


def patch_all(*by_place: Any, **choice: Any) -> bool:
    """Patch all areas except for those of gevent's names that are turned off. Return whether this changed
    anything."""
    choice |= zip(ARGUMENTS, by_place, strict=False)
    off = [area for name, areas in AREAS.items() if choice.get(name) is False for area in areas]
    areas: dict[str, Any] = dict.fromkeys(off, False)
    return bool(patches.patch_all(**areas))


def _patch_of(name: str) -> Callable[..., bool]:
    def patch(*others: Any, **choice: Any) -> bool:
        done = [getattr(patches, f"patch_{area}")() for area in AREAS[name]]
        return any(done)

    patch.__name__ = patch.__qualname__ = f"patch_{name}"
    patch.__doc__ = f"Patch {', '.join(AREAS[name])}. Return whether this changed anything."
    return patch


def is_module_patched(mod_name: str) -> bool:
    """Return whether our patch, or gevent's, changes functions of the module."""
    area = MODULES.get(mod_name)
    return area is not None and patches.is_patched(area)


def is_object_patched(mod_name: str, item_name: str) -> bool:
    """Return whether our patch changes this function or class of the module."""
    if not is_module_patched(mod_name):
        return False
    target = f"{mod_name}.{item_name}"
    return any(change.target.removeprefix("builtins.") == target for change in patches.changes())


def get_original(mod_name: Any, item_name: Any) -> Any:
    """Return the function of the standard library as it is without a patch, or a list of them."""
    found = original_of(_monkey().get_original)(mod_name, item_name)
    return original_of(found) if isinstance(item_name, str) else [original_of(each) for each in found]


def _monkey() -> Any:
    return importlib.import_module("gevent.monkey")


def install(module: Any = None) -> None:
    """Let gevent.monkey's functions call ours, wherever a reference to them is kept."""
    module = module or _monkey()
    ours: list[Any] = [patch_all, is_module_patched, is_object_patched, get_original, *map(_patch_of, AREAS)]
    for function in ours:
        take_place(getattr(module, function.__name__), function)
