"""Lets `import old` give the package new: one module under two names, not a second copy.

``install("eventlet", "syncless.eventlet")`` imports nothing: the program's first import of it does.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any


class _Alias:
    """Finds old.x in new.x."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        self._specs: dict[str, Any] = {}
        """By the old name: the spec of a module, which the import system replaces."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.old and not name.startswith(self.old + "."):
            return None
        real = self._real(name)
        if real is None:
            return None
        return importlib.machinery.ModuleSpec(
            name,
            self,  # type: ignore[arg-type]
            origin=real.origin,
            is_package=real.submodule_search_locations is not None,
        )

    def _real(self, name: str) -> Any:
        return importlib.util.find_spec(self.new + name.removeprefix(self.old))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.new + spec.name.removeprefix(self.old))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        for name in [name for name in self._specs if sys.modules.get(name) is module]:
            module.__spec__ = self._specs.pop(name)

    def get_code(self, name: str) -> CodeType | None:
        """For ``python -m eventlet.x``."""
        real = self._real(name)
        code: CodeType | None = real.loader.get_code(real.name)
        return code


def install(old: str, new: str) -> None:
    """From now on, ``import old`` gives `new`, whether a package of the old name is installed or not. Raise
    RuntimeError if such a package has been imported."""
    found = sys.modules.get(old)
    if found is not None and found.__name__ != new:
        raise RuntimeError(f"{old} has been imported already: call install() before")
    if not any(isinstance(finder, _Alias) and finder.old == old for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias(old, new))  # type: ignore[arg-type]
