"""Checks an application's signature before its first request: whether it matches the interface, or belongs to
a factory, or to a class whose instances are applications.

For a plain function, its code object is examined, because the module inspect imports many other modules.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

WSGI, ASGI = ("environ", "start_response"), ("scope", "receive", "send")
CO_VARARGS, CO_COROUTINE = 0x04, 0x80
"""Of `co_flags`, as the module inspect has them."""


def is_plain(thing: Any) -> bool:
    """Return whether the thing is a function that no decorator has marked, so its code object is enough."""
    return type(thing) is FunctionType and not vars(thing)


def check(application: Any, arguments: tuple[str, ...]) -> None:
    """Raise TypeError, with what to write instead, if `application` cannot be called with these arguments. A
    callable without a signature, such as one in C, is accepted."""
    name = getattr(application, "__name__", "")
    called = f"({', '.join(arguments)})"
    kind, refused = "WSGI" if arguments is WSGI else "ASGI", f"cannot serve {application!r}"
    call = f"{name}() instead of {name}" if name.isidentifier() else "() after its name"
    instead = f"write {call}, or add --factory"
    if isinstance(application, type):
        if not _makes_responses(application, arguments):
            raise TypeError(f"{refused}: it is a class, {_of_class(application, name, instead)}")
    elif _is_factory(application, arguments):
        if _is_coroutine_function(application):
            raise TypeError(
                f"{refused}: it needs no argument, so it is a factory, which must not be async; write a "
                "function without async that returns the application"
            )
        raise TypeError(f"{refused}: it needs no argument, so it is a factory; {instead}")
    elif not takes(application, len(arguments)):
        advice = "if it is a factory, write the call with its arguments: 'module:create_app(\"production\")'"
        if arguments is WSGI and takes(application, len(ASGI)):
            advice = "if it is an ASGI application, add --interface asgi"
        elif arguments is ASGI and takes(application, len(WSGI)):
            advice = "a WSGI application needs no --interface, or --interface wsgi"
        raise TypeError(f"{refused} as {kind}: it cannot be called with {called}; {advice}")


def takes(thing: Any, count: int) -> bool:
    """Return whether the thing can be called with exactly that many arguments."""
    if is_plain(thing):
        code = thing.__code__
        least = code.co_argcount - len(thing.__defaults__ or ())
        named = code.co_kwonlyargcount - len(thing.__kwdefaults__ or ())
        most = count if code.co_flags & CO_VARARGS else code.co_argcount
        return bool(named == 0 and least <= count <= most)
    import inspect

    try:
        inspect.signature(thing).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a callable in C may have none
        pass
    return True


def _is_factory(thing: Any, arguments: tuple[str, ...]) -> bool:
    """Return whether the thing is a factory: it needs no argument, and its first parameter is not named like
    one of `arguments`."""
    if not takes(thing, 0):
        return False
    if is_plain(thing):
        code = thing.__code__
        first = code.co_varnames[0] if code.co_argcount else ""
        anything = not first and code.co_flags & CO_VARARGS > 0
    else:
        import inspect

        try:
            parameters = [*inspect.signature(thing).parameters.values()]
        except ValueError:
            return False
        positional = [one for one in parameters if one.kind < one.KEYWORD_ONLY]
        first = positional[0].name if positional else ""
        anything = bool(positional) and positional[0].kind == inspect.Parameter.VAR_POSITIONAL
    return not anything and first not in arguments


def _makes_responses(kind: type, arguments: tuple[str, ...]) -> bool:
    """Return whether instances of the class are responses, which are iterated or awaited (PEP 3333,
    Starlette's HTTPEndpoint). A class with a custom __new__ counts as well, because its result is unknown."""
    methods = ("__iter__", "__getitem__") if arguments is WSGI else ("__await__",)
    own = any(isinstance(make, FunctionType) for make in (kind.__new__, type(kind).__call__))
    made = own or any(hasattr(kind, name) for name in methods)
    return made and kind.__module__ != "builtins" and takes(kind, len(arguments))


def _of_class(kind: type, name: str, instead: str) -> str:
    if not any(word in vars(base) for base in kind.__mro__ for word in ("__call__", "wsgifunc")):
        return "and its instances are no applications, because they cannot be called"
    if takes(kind, 0):
        return f"and its instances are applications; {instead}"
    return f"and its instances are applications; serve one: 'module:{name}(...)' with literals as arguments"


def _is_coroutine_function(thing: Any) -> bool:
    if is_plain(thing):
        return bool(thing.__code__.co_flags & CO_COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(thing)
