"""Implements patch_all(offload=[...]): functions named by their import path run in real OS threads.

A name means a function ("zlib.compress"), a method ("PIL.Image.Image.resize"), all public methods of a class,
or all functions of a module ("cv2" or "cv2.*"). It takes effect when the module is imported. All these
functions share one pool.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from syncless.patches.registry import Patcher, when_imported
from syncless.tools.offloading import Offload

THREADS = 32
WHY = "should run in an OS thread"

_pool = Offload(THREADS, "offload")


class _Change(NamedTuple):
    wrap: Callable[[Any], Any]
    """Makes the function that stands in the place of another."""
    why: str


def area_of(name: str) -> str:
    return f"offload {name}"


def patch_names(patcher: Patcher, name: str, pool: Any = _pool, why: str = WHY) -> None:
    """Make the changes for one name. Raise ValueError if the name is malformed."""
    path = name.removesuffix(".*")
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"{name!r} is not an import path, such as 'package.module.function' or 'package.module.*'"
        )
    for length in range(len(parts), 0, -1):
        changes = partial(_offload, path=parts[length:], change=_Change(pool.wrap, why))
        when_imported(patcher, ".".join(parts[:length]), changes)


def _offload(patcher: Patcher, module: ModuleType, path: list[str], change: _Change) -> None:
    """Offload the functions in the module that the rest of a path means, or none if the path continues with a
    submodule."""
    if not path:
        for name, value in list(vars(module).items()):
            if not name.startswith("_") and _may_be_offloaded(value) and _is_of(module, value):
                patcher.rebind(module, name, change.wrap(value), change.why)
        return
    owner: Any = module
    if _is_submodule(module, path[0]):
        return  # it is told of by itself
    for name in path[:-1]:
        owner = getattr(owner, name, None)
    import inspect  # takes long to load

    found = inspect.getattr_static(owner, path[-1], None)
    if found is None:
        raise AttributeError(
            f"offload={'.'.join([module.__name__, *path])!r}: {module.__name__} has no {'.'.join(path)}"
        )
    if isinstance(found, type):
        _offload_class(patcher, found, change)
    elif isinstance(owner, type):
        _offload_method(patcher, owner, path[-1], found, change)
    else:
        patcher.rebind(owner, path[-1], change.wrap(found), change.why)


def _is_submodule(module: ModuleType, name: str) -> bool:
    """Return whether the name is that of a submodule, even if the submodule is not imported yet."""
    if isinstance(getattr(module, name, None), ModuleType):
        return True
    is_package = hasattr(module, "__path__") and not hasattr(module, name)
    return is_package and importlib.util.find_spec(f"{module.__name__}.{name}") is not None


def _offload_class(patcher: Patcher, owner: type, change: _Change) -> None:
    for name, value in list(vars(owner).items()):
        if not name.startswith("_") and _may_be_offloaded(value):
            _offload_method(patcher, owner, name, value, change)


def _offload_method(patcher: Patcher, owner: type, name: str, value: Any, change: _Change) -> None:
    if isinstance(value, (staticmethod, classmethod)):
        new: Any = type(value)(change.wrap(value.__func__))
    else:
        new = change.wrap(value)
    patcher.member_in_place(owner, name, new, change.why)


def _may_be_offloaded(value: Any) -> bool:
    import inspect

    function = getattr(value, "__func__", value)
    return inspect.isroutine(function) and not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _is_of(module: ModuleType, value: Any) -> bool:
    """Return whether a function belongs to the module's package, and was not imported from elsewhere. C
    functions may lack a module's name."""
    source = getattr(value, "__module__", None) or module.__name__
    return _package(source) == _package(module.__name__)


def _package(name: str) -> str:
    return name.partition(".")[0].lstrip("_")


def names_of(names: str | Iterable[str]) -> list[str]:
    """Return the list of names that a program passes, one or several. Raise TypeError for anything else."""
    found = [names] if isinstance(names, str) else list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"offload expects import paths as str, such as 'zlib.compress', not {name!r}")
    return found
