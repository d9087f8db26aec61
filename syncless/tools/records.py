"""Cheap frozen dataclasses for the modules that every server imports.

Fact: dataclasses imports inspect, which imports ast, dis and tokenize; they account for a tenth of the cost
of `import syncless.wsgi`. Decision: this module makes the methods of a frozen dataclass; a record becomes a
real dataclass only when its fields are first read, for example by dataclasses.fields(), replace() or a
subclass. Price: this file. Guarded by tests/tools/test_records.py and tests/test_lean.py.

Defaults must be immutable, because records share them. The types of fields must be strings (`from __future__
import annotations`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen):
        """Decorate a class like dataclasses.dataclass(frozen=True)."""
        assert frozen
        return _with_methods


class _Fields:
    """A stand-in for `__dataclass_fields__` that makes a real dataclass when it is first read."""

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        made = next((each for each in owner.__mro__ if vars(each).get("__dataclass_fields__") is self), None)
        if made is None:  # another thread was quicker
            return owner.__dataclass_fields__  # type: ignore[attr-defined]
        for name in (*METHODS, "__dataclass_fields__"):
            delattr(made, name)
        dataclasses.dataclass(frozen=True)(made)
        return made.__dict__["__dataclass_fields__"]


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({fields})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__match_args__])


def _setattr(self: Any, name: str, value: object) -> None:
    type(self).__dataclass_fields__  # it is a dataclass from now on, and refuses as one
    setattr(self, name, value)


def _delattr(self: Any, name: str) -> None:
    type(self).__dataclass_fields__  # it is a dataclass from now on, and refuses as one
    delattr(self, name)


def _replace(self: Any, /, **changes: object) -> Any:
    return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)


METHODS: dict[str, Any] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__replace__": _replace,
    "__init__": None,
    "__match_args__": None,
}


def _with_methods(made: type) -> type:
    annotations = made.__annotations__
    defaults = {f"_{name}": made.__dict__[name] for name in annotations if name in made.__dict__}
    arguments = ", ".join(f"{name}=_{name}" if f"_{name}" in defaults else name for name in annotations)
    values = ", ".join(f"{name}={name}" for name in annotations)
    after = "\n self.__post_init__()" if hasattr(made, "__post_init__") else ""
    exec(f"def __init__(self, {arguments}) -> None:\n self.__dict__.update({values}){after}", defaults)
    init = defaults["__init__"]
    init.__qualname__, init.__module__ = f"{made.__qualname__}.__init__", made.__module__
    init.__annotations__ = {**annotations, "return": None}
    methods = METHODS | {"__init__": init, "__match_args__": tuple(annotations)}
    methods["__dataclass_fields__"] = _Fields()
    for name, method in methods.items():
        setattr(made, name, method)
    return made
