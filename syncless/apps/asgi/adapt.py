"""Detects applications that speak ASGI."""

from __future__ import annotations

from typing import Any

from syncless.apps.signature import ASGI, CO_COROUTINE, check, is_plain, takes


def is_asgi(thing: Any) -> bool:
    """Return whether calling the thing returns a coroutine, as ASGI 3 requires, or an awaitable object, as
    with Starlette's HTTPEndpoint. A functools.partial is unwrapped."""
    while hasattr(thing, "func") and hasattr(thing, "keywords"):
        thing = thing.func
    if is_plain(thing):
        return bool(thing.__code__.co_flags & CO_COROUTINE)
    if isinstance(thing, type):
        return hasattr(thing, "__await__")
    import inspect

    call = getattr(type(thing), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(thing) or inspect.iscoroutinefunction(call)


def is_asgi2(thing: Any) -> bool:
    """Return whether the thing is an ASGI 2 application: application(scope) returns a coroutine function of
    receive and send."""
    if isinstance(thing, type):
        import inspect

        call = getattr(thing, "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(call) and takes(call, len(("self", "receive", "send")))
    return False


def as_asgi(application: Any) -> Any:
    """Return the application if it can be called as ASGI 3, otherwise raise TypeError."""
    if is_asgi2(application):
        raise TypeError(
            f"{application!r} is an ASGI 2 application, called in two steps; syncless speaks ASGI 3: pass "
            "an instance that is called with (scope, receive, send), or wrap it: "
            "asgiref.compatibility.guarantee_single_callable(app)"
        )
    if not callable(application):
        raise TypeError(f"cannot serve {application!r} as ASGI: it is not callable")
    check(application, ASGI)
    return application
