"""Changes modules as soon as they have been imported and executed. The patch uses this module; so does
otherhubs.py, which the server uses without the patch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class _ChangesModule:
    """A finder and loader of the import system that finds one module through the other finders, and changes
    it after it has been executed."""

    def __init__(
        self, name: str, change: Callable[[Any], None], around: Callable[[], AbstractContextManager[None]]
    ):
        self.name = name
        self.change = change
        self.around = around
        self._loader: Any = None
        self._spec: Any = None
        self._searches = False

    def wrap(self, spec: ModuleSpec) -> None:
        """Put a wrapper around the loader of a module."""
        self._spec = spec
        self._loader, spec.loader = spec.loader, self  # type: ignore[assignment]

    def unwrap(self) -> None:
        if self._spec.loader is self:
            self._spec.loader = self._loader

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name or self._searches:
            return None
        self._searches = True  # another change to the same module asks all finders, too
        try:
            for finder in sys.meta_path:
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(name, path, target)
                    if spec is not None and spec.loader is not None:
                        self.wrap(spec)
                        return spec
        finally:
            self._searches = False
        return None

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        with self.around():
            self._loader.exec_module(module)
        _executed.add(self.name)
        try:
            self.change(module)
        finally:
            _executed.discard(self.name)


_Lazy: Any = getattr(importlib.util, "_LazyModule", ())
"""The class of a module that LazyLoader has made, until its first attribute is asked for."""


_executed: set[str] = set()
"""Modules that are being changed. In newer interpreters a lazy one keeps its class until that is over."""


def loaded(name: str) -> Any:
    """Return the module of that name if it has been executed, else None."""
    module = sys.modules.get(name)
    return None if issubclass(type(module), _Lazy) and name not in _executed else module


def when_executed(
    name: str, change: Callable[[Any], None], around: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Callable[[], None] | None:
    """Call change(module) now, if the module has been executed, and return None. Otherwise call it after the
    first import, which runs inside `around`, and return a function that cancels this."""
    if loaded(name) is not None:
        change(sys.modules[name])
        return None
    finder = _ChangesModule(name, change, around)
    waits = name in sys.modules
    if waits:
        finder.wrap(object.__getattribute__(sys.modules[name], "__spec__"))
    sys.meta_path.insert(0, finder)

    def take_back() -> None:
        sys.meta_path.remove(finder)
        if waits:
            finder.unwrap()

    return take_back
