"""Exceptions that no code has caught: they end a tasklet, or leave a callback, and somebody is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from syncless._core import nonblockingtext

_ErrorHandler = Callable[[Any, BaseException], object]
_handler: _ErrorHandler | None = None


def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None:
    """`handler(where, exception)` is told of each exception that ended a tasklet; None prints it to stderr.
    Returns the last one."""
    global _handler
    previous, _handler = _handler, handler
    return previous


def tell_uncaught(where: object, error: BaseException) -> None:
    """`where` is a tasklet, a callback, or words."""
    try:
        if _handler is not None:
            _handler(where, error)
        elif sys.stderr is not None:
            import traceback  # which few programs need

            stream = nonblockingtext.standard("stderr")
            stream.write(
                f"Exception in {where if isinstance(where, str) else repr(where)}:\n"
                + "".join(traceback.format_exception(error))
            )
            stream.flush()
    except BaseException:
        pass  # stderr is gone or full: there is nobody left to tell
