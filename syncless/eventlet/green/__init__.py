"""Modules of the standard library that let other green threads run, also without the patch.

A few are files here. Any other is made at its first import: a second copy that uses those of here
(patcher.import_patched). Under the patch each is the standard module itself.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from syncless import patches
from syncless.eventlet import patcher

OLD_NAMES = {
    "BaseHTTPServer": "http.server",
    "CGIHTTPServer": "http.server",
    "Queue": "queue",
    "SimpleHTTPServer": "http.server",
    "SocketServer": "socketserver",
    "_thread": "_thread",
    "asynchat": "asynchat",
    "asyncore": "asyncore",
    "builtin": "builtins",
    "ftplib": "ftplib",
    "http": "http",
    "httplib": "http.client",
    "profile": "profile",
    "queue": "queue",
    "selectors": "selectors",
    "socketserver": "socketserver",
    "threading": "threading",
    "urllib": "urllib",
    "urllib2": "urllib.request",
}
"""Name here -> name of the standard module, of those that are no files."""


class _Finder:
    """Makes the modules that are no files."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(__name__ + "."):
            return None
        first, _, rest = name[len(__name__) + 1 :].partition(".")
        if first not in OLD_NAMES:
            return None
        standard = OLD_NAMES[first] + ("." + rest if rest else "")
        found = importlib.util.find_spec(standard)
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=is_package)  # type: ignore[arg-type]
        spec.loader_state = standard
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, made: ModuleType) -> None:
        assert made.__spec__ is not None
        standard: str = made.__spec__.loader_state
        patched = patches.is_patched("socket") and patches.is_patched("thread")
        if patched or standard in patcher.SHARED:
            copy = importlib.import_module(standard)
        else:
            copy = patcher.import_patched(standard)
        fill(made, copy)


def fill(made: ModuleType, other: ModuleType) -> None:
    """Give a module the names of another."""
    for name, value in vars(other).items():
        if not name.startswith("__") or name in ("__all__", "__getattr__"):
            made.__dict__[name] = value


sys.meta_path.append(_Finder())  # type: ignore[arg-type]
