"""Redirects functions of modules, and methods of C classes, to other functions, wherever a reference to them
is kept.

Fact: a program keeps a function in many places: globals, classes, defaults, closures, partial objects, slots.
Decision: the function itself is changed. It stays the same object, with its name, docstring and signature,
and is pickled as before; a built-in function does not become a method in a class that adopts it. But it calls
another function: a built-in function or method gets new internals (replacing.pyx); a Python function gets new
code. Price: our own code gets the originals that it calls from original_of(). Guarded by
tests/patches/test_kept.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any, TypeVar

from syncless._core.cpython.replacing import (
    change_builtin,
    change_builtin_back,
    change_method,
    change_method_back,
    copy_of_builtin,
    copy_of_method,
)

T = TypeVar("T")

_originals: dict[int, tuple[Any, Any]] = {}
"""id of a function that has been asked for, or changed -> it, and its copy."""
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


def original_of(function: T) -> T:
    """Return the unpatched function, whatever replaces it now or later. An object that take_place() does not
    change is returned as it is."""
    if not _may_change(function):
        return function
    if id(function) not in _originals:
        _originals[id(function)] = function, _copy_of(function)
    found: T = _originals[id(function)][1]
    return found


def take_place(original: Any, function: Callable[..., Any]) -> Callable[[], None] | None:
    """Make every reference to the original call the other function. Return a function that undoes this, or
    None if the original cannot be changed, because it is neither a function of a module nor a method of a C
    class."""
    copy = original_of(original)
    if copy is original:
        return None
    if type(original) is FunctionType:
        return _change_python(original, function)
    if type(original) is MethodDescriptorType:
        change_method(original, function)
        return partial(change_method_back, original)
    change_builtin(original, function)
    return partial(change_builtin_back, original)


def class_of(module: ModuleType, name: str) -> Any:
    """Return the class that a module defines by that name, even if a profiler or a tracer has replaced it
    with a wrapper or a subclass. If there is no such class, return whatever has that name."""
    found = getattr(module, name)
    is_class = isinstance(found, type)
    classes: list[type] = [*reversed(found.__mro__)] if is_class else [object]
    for each in classes:
        if each.__module__ == module.__name__ and each.__qualname__ == name:
            return each
        if not is_class:
            classes.extend(type.__subclasses__(each))
    return found


def _may_change(function: Any) -> bool:
    if type(function) is FunctionType:
        return function.__closure__ is None
    if type(function) is MethodDescriptorType:
        return True
    return type(function) is BuiltinFunctionType and isinstance(function.__self__, ModuleType)


def _copy_of(function: Any) -> Any:
    if type(function) is BuiltinFunctionType:
        return copy_of_builtin(function)
    if type(function) is MethodDescriptorType:
        return copy_of_method(function)
    made: Any = FunctionType(function.__code__, function.__globals__)
    made.__defaults__ = function.__defaults__
    made.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(made, function, updated=())
    del made.__wrapped__
    return made


def _relay(*args: Any, **kwargs: Any) -> Any:
    other: Any = "other"
    return other(*args, **kwargs)


def _change_python(original: Any, function: Callable[..., Any]) -> Callable[[], None]:
    code = _relay.__code__
    before = [getattr(original, part) for part in _PARTS]
    constants = (function if each == "other" else each for each in code.co_consts)
    original.__code__ = code.replace(co_consts=tuple(constants), co_name=original.__name__)
    original.__defaults__ = original.__kwdefaults__ = None
    original.__wrapped__ = original_of(original)  # inspect.signature looks there

    def take_back() -> None:
        for part, value in zip(_PARTS, before, strict=True):
            setattr(original, part, value)
        del original.__wrapped__

    return take_back
