"""Makes the changes of the patch, and keeps a record of each, by which it is described and undone.

There are only three ways to change something. A member of a class is replaced in place, so that existing
objects have the new one too. A module's built-in function is changed in place, so that every existing
reference to it calls the replacement. Any other global of a module is rebound, in that module and in every
module that has imported it with ``from ... import``.
"""

from __future__ import annotations

import _thread
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import wraps
from importlib import import_module
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType
from typing import Any, NamedTuple, TypeVar

from syncless._core.cpython.functions import original_of, take_place
from syncless._core.cpython.replacing import change_builtin, change_builtin_back, set_in_type
from syncless._core.current import uninterrupted
from syncless.tools.imports import when_executed

T = TypeVar("T")
_ABSENT: Any = object()
_get_os_ident = original_of(_thread.get_ident)
_acquire, _release = original_of(_thread.RLock.acquire), original_of(_thread.RLock.release)
_members_of: Callable[[ModuleType], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__


class Change(NamedTuple):
    """A row of the table that describe() shows."""

    area: str
    target: str
    """The dotted name of what was replaced."""
    replacement: str
    """The dotted name of the replacement."""
    why: str


def _show_signature(old: Any, new: Any) -> None:
    """Make inspect.signature() of the replacement show the signature of the original, if there is one."""
    shown = getattr(new, "__func__", new)
    if getattr(old, "__text_signature__", None) or (hasattr(old, "__code__") and not isinstance(shown, type)):
        with suppress(AttributeError):
            shown.__wrapped__ = old


def _check_thread(done: str) -> None:
    if _get_os_ident() != threading.main_thread().ident:
        raise RuntimeError(
            f"the standard library can be {done} only in the main thread: it gets the signals, and each "
            "thread started under the patch is a tasklet of it"
        )


def _is_class(owner: Any, member: str) -> bool:
    """Return whether the owner is a class. If another tool has replaced the class, warn and return False."""
    if issubclass(type(owner), type):  # isinstance() believes what an object says
        return True
    text = f"{member}() of {owner!r} is not patched, because that is not a class, and may block all tasklets"
    warnings.warn(text, RuntimeWarning, stacklevel=3)
    return False


class CannotPatch(ValueError):
    """Requested areas cannot be patched on this Python; the message says what to do."""


class Unavailable:
    """A stand-in for the function of an area that cannot be patched on this Python."""

    def __init__(self, error: Exception):
        self.error = error

    def __call__(self, patcher: Patcher) -> None:
        raise self.error


class Registry:
    """The changes that are in force, by area."""

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        self._patchers: dict[str, Patcher] = {}
        self._globals = Globals()
        self._methods = Methods()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out changes by other OS threads. The methods of the lock itself may change meanwhile."""
        _acquire(self._lock)
        try:
            yield
        finally:
            _release(self._lock)

    def areas(self) -> list[str]:
        return list(self._patchers)

    def changes(self) -> list[Change]:
        return [change for patcher in self._patchers.values() for change in patcher.made]

    def apply(
        self,
        areas: Mapping[str, Callable[[Patcher], None]],
        leave_out: Callable[[str, Exception], bool] = lambda area, error: False,
    ) -> list[str]:
        """Make the changes of all these areas. If one area fails, undo all of them, or only that area if
        leave_out() returns true for it. Return the areas that are newly in force.

        Raise RuntimeError outside of the main thread.
        """
        with self._alone():
            new = {
                area: Patcher(area, self._globals, self._methods)
                for area in areas
                if area not in self._patchers
            }
            if not new:
                return []
            _check_thread("patched")
            try:
                for area, patcher in list(new.items()):
                    try:
                        areas[area](patcher)
                    except Exception as error:
                        if not leave_out(area, error):
                            raise
                        new.pop(area).undo()
            except BaseException:
                for patcher in reversed(new.values()):
                    patcher.undo()
                raise
            finally:
                self._globals.replace()
                self._methods.replace()
            self._patchers.update(new)
            return list(new)

    def undo(self, *areas: str) -> None:
        """Undo the changes of these areas, the last change of each area first. Raise RuntimeError outside of
        the main thread."""
        with self._alone():
            if self._patchers:
                _check_thread("unpatched")
            for area in areas:
                if area in self._patchers:
                    self._patchers.pop(area).undo()
            self._globals.replace()
            self._methods.replace()


class Globals:
    """Globals of any module to rebind, collected so that one pass over all modules suffices."""

    def __init__(self) -> None:
        self._wanted: dict[int, tuple[Any, Any]] = {}

    def add(self, old: Any, new: Any) -> None:
        if id(new) in self._wanted and self._wanted[id(new)][1] is old:
            del self._wanted[id(new)]  # the opposite change, which has not been made yet
        else:
            self._wanted[id(old)] = old, new

    def replace(self) -> None:
        """Rebind the globals in every module except our own.

        Reading an attribute of a module may run code: a lazily loaded module executes itself, and a module
        that makes names on demand makes `__name__` too. So only the dict of the module object is read.
        """
        wanted, self._wanted = self._wanted, {}
        for module in list(sys.modules.values()) if wanted else ():
            if issubclass(type(module), ModuleType):
                names = _members_of(module)
                own = names.get("__name__")
                if isinstance(own, str) and own.partition(".")[0] == "syncless":
                    continue
                if wanted.keys().isdisjoint(map(id, list(names.values()))):
                    continue
                for name, value in [item for item in list(names.items()) if id(item[1]) in wanted]:
                    names[name] = wanted[id(value)][1]


METHODS = BuiltinFunctionType, *BuiltinFunctionType.__subclasses__()
"""The classes of bound methods of C. Nobody else can make one."""


def _member_of(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


class Methods:
    """Bound C methods that a program stored before their classes were changed: they are changed, too."""

    def __init__(self) -> None:
        self._members: dict[str, list[Any]] = {}
        """By name. They are held: another object could have the number of one that is gone."""
        self._changed: list[weakref.ref[Any]] = []

    def add(self, owner: type, name: str, new: Any) -> None:
        """Add `new`, the replacement for the member `name` of a class. Skip `__exit__`, so that a `with`
        block ends as it began, but not that of Lock, for which tasklets may wait."""
        if name == "__exit__" and owner is not _thread.LockType:
            return
        if not name.startswith("__") or name in ("__enter__", "__exit__"):
            self._members.setdefault(name, []).append(new)

    def drop(self, name: str, new: Any) -> None:
        """Remove the replacement `new` of the member `name`."""
        left = [each for each in self._members.pop(name, ()) if each is not new]
        if left:
            self._members[name] = left

    def replace(self) -> None:
        """Change the existing bound methods, and restore those whose classes have the originals again."""
        for reference in self._changed:
            method = reference()
            if method is not None:
                change_builtin_back(method)
        self._changed.clear()
        for each in gc.get_objects() if self._members else ():
            if type(each) in METHODS and each.__name__ in self._members:
                owner = each.__self__
                if owner is None or isinstance(owner, (ModuleType, type)):
                    continue
                new = _member_of(type(owner), each.__name__)
                if any(new is member for member in self._members[each.__name__]):
                    change_builtin(each, new.__get__(owner, type(owner)))
                    self._changed.append(weakref.ref(each))


class Patcher:
    """Makes the changes of one area and remembers how to undo them."""

    def __init__(self, area: str, module_globals: Globals, methods: Methods):
        self.area = area
        self._methods = methods
        self.made: list[Change] = []
        self._restores: list[Callable[[], None]] = []
        self._globals = module_globals
        self._bound: list[Any] = []

    def undo(self) -> None:
        while self._restores:
            self._restores.pop()()
        self.made.clear()

    def at_undo(self, restore: Callable[[], None]) -> None:
        """Add a step that is taken when the changes are undone. The last step added runs first."""
        self._restores.append(restore)

    def rebind_now(self) -> None:
        """Do the rebinding collected by rebind() now, for a change made later than the area's others."""
        self._globals.replace()

    def note(self, target: str, new: Any, why: str, restore: Callable[[], None]) -> None:
        """Record a change that has been made by other means."""
        source = getattr(new, "__module__", None) or type(new).__module__
        name = getattr(new, "__qualname__", None) or type(new).__qualname__
        self.made.append(Change(self.area, target, f"{source}.{name}", why))
        self.at_undo(restore)

    def member(self, owner: type, name: str, new: Any, why: str, kept: bool = False) -> None:
        """Replace a member of a class in place. With `kept`, existing references to the old member, a C
        method of the class or its bases, call the new one, too; our own code calls the original through
        original_of()."""
        if not _is_class(owner, name):
            return
        if kept:
            self._take_place(owner, name, new)
        old = owner.__dict__.get(name, _ABSENT)

        def restore() -> None:
            self._methods.drop(name, new)
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

        setattr(owner, name, new)
        self._methods.add(owner, name, new)
        _show_signature(old, new)
        self.note(f"{owner.__module__}.{owner.__qualname__}.{name}", new, why, restore)

    def _take_place(self, owner: type, name: str, new: Any) -> None:
        kind, old = next(
            ((kind, vars(kind)[name]) for kind in owner.__mro__ if name in vars(kind)), (owner, None)
        )
        if type(old) is not MethodDescriptorType:
            return
        if kind is not owner:  # objects of the class that it is inherited from are not changed
            set_in_type(kind, name, original_of(old))
            self.at_undo(lambda: set_in_type(kind, name, old))
        take_back = take_place(old, new)
        assert take_back is not None
        self.at_undo(take_back)

    def member_in_place(self, owner: type, name: str, new: Any, why: str, kept: bool = False) -> None:
        """Replace a member of a type that cannot be changed from Python, with `kept` as in member()."""
        if not _is_class(owner, name):
            return
        if kept:
            self._take_place(owner, name, new)
        old = set_in_type(owner, name, new)
        self._methods.add(owner, name, new)
        _show_signature(old, new)
        target = f"{owner.__module__}.{owner.__qualname__}.{name}"

        def restore() -> None:
            self._methods.drop(name, new)
            set_in_type(owner, name, old)

        self.note(target, new, why, restore)

    def done_whole(self, owner: type, name: str, why: str) -> None:
        """Delay exceptions thrown at a tasklet in this method until its next wait after the method."""
        method = getattr(owner, name)

        @wraps(method)
        def whole(*args: Any, **kwargs: Any) -> Any:
            return uninterrupted(method, *args, **kwargs)

        self.member(owner, name, whole, why)

    def member_of_module(self, module: ModuleType, name: str, new: Any, why: str) -> None:
        """Bind a global of one module only."""
        old = getattr(module, name)
        setattr(module, name, new)
        _show_signature(old, new)
        self.note(f"{module.__name__}.{name}", new, why, lambda: setattr(module, name, old))

    def rebind(self, module: ModuleType, name: str, new: Any, why: str) -> None:
        """Replace a module's global. If it is a function, every existing reference to it calls the new one.
        Anything else, and a function written in Python, is also rebound in every module that has imported it
        by name.

        The replacement gets the original's name, so that it is pickled and shown as the original.
        """
        old = getattr(module, name, _ABSENT)
        if old is _ABSENT or old is new:
            return
        if any(new is used for used in self._bound):
            raise ValueError(
                f"{new!r} already replaces something else, so undoing the changes could not distinguish "
                f"{module.__name__}.{name} from it"
            )
        self._bound.append(new)
        take_back = take_place(old, new)
        is_builtin = type(old) is BuiltinFunctionType and take_back is not None
        borrowed = {} if is_builtin else {"__module__": module.__name__}
        for key in ("__name__", "__qualname__"):  # a TypeError for wrong arguments tells them
            borrowed[key] = getattr(old, key, name)
        own = {key: getattr(new, key, None) for key in borrowed}

        def restore() -> None:
            if take_back is not None:
                take_back()
            if not is_builtin:
                self._globals.add(new, old)
                setattr(module, name, old)
            for key, value in own.items():
                setattr(new, key, value)

        self.note(f"{module.__name__}.{name}", new, why, restore)
        for key, value in borrowed.items():
            setattr(new, key, value)
        if not is_builtin:
            _show_signature(old, new)
            self._globals.add(old, new)
            setattr(module, name, new)


def instances_of(kind: type[T]) -> list[T]:
    """Return all instances of a class written in Python and of its subclasses. Each instance refers to its
    class."""
    classes: list[type] = [kind]
    for each in classes:
        classes.extend(each.__subclasses__())
    return [found for found in gc.get_referrers(*classes) if type(found) in classes]


def later(module: str, name: str) -> Callable[[Patcher, Any], None]:
    """Return a change for when_imported() that imports one of our modules and calls its function."""

    def change(patcher: Patcher, found: Any) -> None:
        getattr(import_module(module), name)(patcher, found)

    return change


def when_imported(
    patcher: Patcher,
    name: str,
    change: Callable[[Patcher, Any], None],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Call change(patcher, module) now, or when the module is first imported. The module is executed inside
    `around`."""

    ahead = True

    def change_now(module: Any) -> None:
        change(patcher, module)
        if not ahead:  # else the registry does it, for all areas at once
            patcher.rebind_now()

    take_back = when_executed(name, change_now, around)
    ahead = False
    if take_back is not None:
        patcher.at_undo(take_back)
