"""What has been patched: one record for each change, by which it is described and undone.

Two ways to change something, and no others: a member of a class is replaced in place, so that objects made earlier have it, too; and a
module's global is bound to something else, in that module and in every other one that has taken it over by ``from ... import``.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident  # the interpreter's own, whatever is put in its place later
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from syncless._core.threadlocks import set_in_type

_ABSENT: Any = object()


class Change(NamedTuple):
    """A row of the table that describe() shows."""

    area: str
    target: str
    """The dotted name of what was replaced."""
    replacement: str
    """Where what stands in its place comes from."""
    why: str


class Registry:
    """The changes that are in force, by area."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._patchers: dict[str, Patcher] = {}

    def areas(self) -> list[str]:
        return list(self._patchers)

    def changes(self) -> list[Change]:
        return [change for patcher in self._patchers.values() for change in patcher.made]

    def apply(self, area: str, patch: Callable[[Patcher], None]) -> bool:
        """Makes an area's changes, all or none. False if they are in force already. RuntimeError in another thread than the main one."""
        with self.lock:
            if area in self._patchers:
                return False
            if get_ident() != threading.main_thread().ident:
                raise RuntimeError(
                    "the standard library can be patched in the main thread only: it alone hears signals, and threads that are started "
                    "from then on are tasklets of it"
                )
            patcher = Patcher(area)
            try:
                patch(patcher)
            except BaseException:
                patcher.undo()
                raise
            self._patchers[area] = patcher
            return True

    def undo(self, area: str) -> None:
        """Takes an area's changes back, the last one first."""
        with self.lock:
            if area in self._patchers:
                self._patchers.pop(area).undo()


class Patcher:
    """Makes the changes of one area and keeps how to take them back."""

    def __init__(self, area: str):
        self.area = area
        self.made: list[Change] = []
        self._restores: list[Callable[[], None]] = []
        self._bound: list[Any] = []

    def undo(self) -> None:
        while self._restores:
            self._restores.pop()()
        self.made.clear()

    def at_undo(self, restore: Callable[[], None]) -> None:
        """What is to be done, last things first, when the changes are taken back."""
        self._restores.append(restore)

    def note(self, target: str, new: Any, why: str, restore: Callable[[], None]) -> None:
        """Records a change that has been made by other means."""
        source = getattr(new, "__module__", None) or type(new).__module__
        name = getattr(new, "__qualname__", None) or type(new).__qualname__
        self.made.append(Change(self.area, target, f"{source}.{name}", why))
        self.at_undo(restore)

    def member(self, owner: type, name: str, new: Any, why: str) -> None:
        """Replaces a member of a class in place."""
        old = owner.__dict__.get(name, _ABSENT)

        def restore() -> None:
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

        setattr(owner, name, new)
        self.note(f"{owner.__module__}.{owner.__qualname__}.{name}", new, why, restore)

    def default(self, function: Any, old: Any, new: Any, why: str) -> None:
        """Replaces what a function keeps as the default of an argument, where no rebinding reaches."""
        before = function.__defaults__
        function.__defaults__ = tuple(new if value is old else value for value in before)
        target = f"{function.__module__}.{function.__qualname__}()"
        self.note(target, new, why, lambda: setattr(function, "__defaults__", before))

    def member_in_place(self, owner: type, name: str, new: Any, why: str) -> None:
        """Replaces a member of a type that cannot be changed from Python."""
        old = set_in_type(owner, name, new)
        self.note(f"{owner.__module__}.{owner.__qualname__}.{name}", new, why, lambda: set_in_type(owner, name, old))

    def member_of_module(self, module: ModuleType, name: str, new: Any, why: str) -> None:
        """Binds a global of one module only."""
        old = getattr(module, name)
        setattr(module, name, new)
        self.note(f"{module.__name__}.{name}", new, why, lambda: setattr(module, name, old))

    def rebind(self, module: ModuleType, name: str, new: Any, why: str) -> None:
        """Binds a module's global to something else, everywhere where it has been taken over by name.

        What stands in its place bears its name, so that it is pickled, and shown, as what it is for everybody else.
        """
        old = getattr(module, name, _ABSENT)
        if old is _ABSENT or old is new:
            return
        if any(new is used for used in self._bound):
            raise ValueError(
                f"{new!r} stands for something else already: what is {module.__name__}.{name} could not be told when it is undone"
            )
        self._bound.append(new)
        names = {key: (getattr(new, key), getattr(old, key, None)) for key in ("__module__", "__name__", "__qualname__")}

        def restore() -> None:
            replace_globals(new, old)
            for key, (own, _) in names.items():
                setattr(new, key, own)

        self.note(f"{module.__name__}.{name}", new, why, restore)
        for key, (_, borrowed) in names.items():
            if borrowed is not None:
                setattr(new, key, borrowed)
        replace_globals(old, new)
        setattr(module, name, new)


def replace_globals(old: Any, new: Any) -> None:
    """Binds every module's globals that are bound to `old` to `new`; our own modules keep what they have."""
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == "syncless":
            continue
        names = vars(module)
        for name in [name for name, value in list(names.items()) if value is old]:
            names[name] = new
