"""Which applications speak ASGI."""

from __future__ import annotations

from types import FunctionType
from typing import Any

CO_COROUTINE = 0x80
"""Of `co_flags`, as the module inspect has it, which imports much, such as ast."""


def is_asgi(thing: Any) -> bool:
    """Whether calling it makes a coroutine, as ASGI 3 demands. A functools.partial is looked through."""
    while hasattr(thing, "func") and hasattr(thing, "keywords"):
        thing = thing.func
    if type(thing) is FunctionType and not vars(thing):  # nothing marks it as a coroutine function
        return bool(thing.__code__.co_flags & CO_COROUTINE)
    import inspect

    call = getattr(type(thing), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(thing) or inspect.iscoroutinefunction(call)


def is_asgi2(thing: Any) -> bool:
    """Whether it is a double callable of ASGI 2: application(scope) gives a coroutine function that takes
    receive and send."""
    if isinstance(thing, type):
        import inspect

        return inspect.iscoroutinefunction(getattr(thing, "__call__", None))  # noqa: B004
    return False


def as_asgi(application: Any) -> Any:
    """The application, if it can be called as ASGI 3; TypeError for what cannot."""
    if is_asgi2(application):
        raise TypeError(
            f"{application!r} is an ASGI 2 application, called in two steps; syncless speaks ASGI 3: give an "
            "instance that is called with (scope, receive, send), or wrap it: "
            "asgiref.compatibility.guarantee_single_callable(app)"
        )
    if not callable(application):
        raise TypeError(f"cannot serve {application!r} as ASGI: it cannot be called")
    import inspect

    try:
        signature = inspect.signature(application)
    except (TypeError, ValueError):  # a callable in C may have none
        return application
    try:
        signature.bind("scope", "receive", "send")
    except TypeError:
        raise TypeError(
            f"cannot serve {application!r} as ASGI: it cannot be called with (scope, receive, send); "
            "a WSGI application needs no --interface, or --interface wsgi"
        ) from None
    return application
