"""install() lets `import eventlet` give syncless.eventlet: one module under two names, not a second copy."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

OLD, NEW = "eventlet", "syncless.eventlet"


class _Alias:
    """Finds eventlet.x in syncless.eventlet.x."""

    def __init__(self) -> None:
        self._specs: dict[str, Any] = {}
        """By the old name: the spec of a module, which the import system replaces."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != OLD and not name.startswith(OLD + "."):
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
        return importlib.util.find_spec(NEW + name.removeprefix(OLD))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(NEW + spec.name.removeprefix(OLD))
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


def install() -> None:
    """From now on, ``import eventlet`` gives syncless.eventlet, whether eventlet is installed or not.
    Raise RuntimeError if the real one has been imported."""
    found = sys.modules.get(OLD)
    if found is not None and found.__name__ != NEW:
        raise RuntimeError("eventlet has been imported already: call install() before")
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias())  # type: ignore[arg-type]
    sys.modules[OLD] = importlib.import_module(NEW)
