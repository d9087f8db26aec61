"""Finds the loaded objects that a name means, now and later.

A name is that of a module ("MySQLdb", "psycopg2._psycopg", "pycurl") or of a file ("libpq.so.5", or its
path). A module means the extension modules in its package, and each library that they are linked against and
that waits itself. Objects that are loaded later are patched as soon as they have been loaded: extension
modules by the import system, plug-ins by a patched library (dlopen), others by ctypes or cffi.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from syncless.patches.libraries.parking import (
    Entry,
    count_of_loads,
    interposable,
    loaded_objects,
    needed_by,
    set_on_load,
)
from syncless.patches.registry import Change, Patcher
from syncless.tools.imports import when_executed
from syncless.tools.knownlibraries import is_in, is_refused, library, refuse

WHY = "waits in C"
LOCKS = {"pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock"}
HELPS = {*LOCKS, "dlopen"}
"""Entries that alone do not make an object one that waits."""
LOADERS = (("_imp", "create_dynamic"), ("ctypes", "_dlopen"), ("_cffi_backend", "load_library"))
"""The functions in Python that load objects, as they are called."""


class Rule:
    """A name to patch, and what has been patched for it."""

    def __init__(self, name: str, patcher: Patcher):
        self.name = name
        self.patcher = patcher
        self._path = os.path.abspath(name) if "/" in name else None
        self.entries: dict[str, list[Entry]] = {}
        row = library(name)
        self._files = re.compile(row.files) if row is not None and row.files else None

    def means(self, path: str) -> bool:
        """Return whether the name means this object, not only one that is linked against it."""
        path = os.path.abspath(path)
        file = path.rpartition("/")[2]
        if path == self._path or file == self.name or (file.startswith(self.name + ".") and ".so" in file):
            return True
        if self._files is not None and self._files.fullmatch(file):
            return True
        return is_in(self.name, path)

    def objects(self, paths: Iterable[str]) -> dict[str, bool]:
        """Return the objects that the name means: True for named objects, False for those that they need."""
        by_name = {path.rpartition("/")[2]: path for path in paths}
        found = {path: True for path in paths if self.means(path) and not is_refused(path)}
        todo = list(found)
        while todo:
            for needed in needed_by(todo.pop()):
                path = by_name.get(needed.rpartition("/")[2])
                if path is not None and path not in found and not is_refused(path):
                    found[path] = False
                    todo.append(path)
        return found

    def patch(self, path: str, named: bool) -> None:
        """Put interposers into the object's entries. Skip an unnamed object that never waits itself, because
        it may hold a lock while others wait."""
        entries = interposable(path)
        if not named and all(entry.name in HELPS for entry in entries):
            return
        self.entries[path] = entries
        for entry in entries:
            entry.interpose()
        file = path.rpartition("/")[2]
        for name in sorted({entry.name for entry in entries}):
            change = Change(self.patcher.area, f"{file}: {name}", "syncless.patches.libraries", WHY)
            self.patcher.made.append(change)

    def undo(self) -> None:
        for entries in self.entries.values():
            for entry in entries:
                entry.restore()
        self.entries.clear()


class Libraries:
    """The rules that are in force."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._loads = 0
        self._take_back: list[Callable[[], None]] = []

    def add(self, name: str, patcher: Patcher) -> None:
        refuse(name)
        rule = Rule(name, patcher)
        if not self._rules:
            self._listen()
        self._rules.append(rule)
        patcher.at_undo(lambda: self._remove(rule))
        self._patch([rule])

    def _remove(self, rule: Rule) -> None:
        self._rules.remove(rule)
        rule.undo()
        self._patch(self._rules)  # another may mean the same object
        if not self._rules:
            for take_back in self._take_back:
                take_back()
            self._take_back.clear()
            set_on_load(None)

    def _listen(self) -> None:
        for module, name in LOADERS:
            take_back = when_executed(module, partial(self._look_after, name=name))
            if take_back is not None:
                self._take_back.append(take_back)
        set_on_load(self.look)

    def _look_after(self, module: Any, name: str) -> None:
        """Call look() after each call of the module's function."""
        original = getattr(module, name)

        def load(*args: Any) -> Any:
            loaded = original(*args)
            self.look()
            return loaded

        def take_back() -> None:
            if getattr(module, name) is load:
                setattr(module, name, original)

        setattr(module, name, load)
        self._take_back.append(take_back)

    def look(self) -> None:
        """Patch what has been loaded since the last look."""
        if count_of_loads() != self._loads:
            self._patch(self._rules)

    def _patch(self, rules: list[Rule]) -> None:
        self._loads = count_of_loads()
        paths = loaded_objects()
        patched = {path for rule in self._rules for path in rule.entries}
        for rule in rules:
            for path, named in rule.objects(paths).items():
                if path not in patched:
                    rule.patch(path, named)
                    patched.update(rule.entries)
