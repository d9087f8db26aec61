"""The exceptions of killed tasklets and interrupted programs, and the report of uncaught exceptions.

An uncaught exception ends a tasklet or leaves a callback, and is passed to the error handler.
"""

import sys
from _signal import SIGINT, default_int_handler, getsignal  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import Any

from syncless._core import nonblockingtext


class TaskletExit(SystemExit):
    """Ends the tasklet in which it is raised, without a report (the name is Stackless Python's).
    Tasklet.kill() raises it."""


class TaskletKilled(Exception):
    """Raised by Tasklet.result() when the tasklet was killed, so that it has no result."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether the error may come from Ctrl-C: a KeyboardInterrupt while SIGINT has the interpreter's
    own handler, which may raise anywhere. With any other handler, only the program's code raises it."""
    return isinstance(error, KeyboardInterrupt) and getsignal(SIGINT) is default_int_handler


_ErrorHandler = Callable[[Any, BaseException], object]
_handler: _ErrorHandler | None = None


def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None:
    """Call `handler(where, exception)` for each exception that ends a tasklet; None prints exceptions to
    stderr. Return the previous handler."""
    global _handler
    previous, _handler = _handler, handler
    return previous


def has_error_handler() -> bool:
    return _handler is not None


def tell_uncaught(where: object, error: BaseException) -> None:
    """Report an uncaught exception. `where` is a tasklet, a callback or a text."""
    try:
        if _handler is not None:
            _handler(where, error)
            return
    except Exception as failure:  # also where it would have to wait, and cannot
        _print(_handler, failure)
    except BaseException:
        return
    _print(where, error)


def _print(where: object, error: BaseException) -> None:
    try:
        if sys.stderr is not None:
            stream = nonblockingtext.standard("stderr")
            stream.write(
                f"Exception in {where if isinstance(where, str) else repr(where)}:\n" + _stack_of(error)
            )
            stream.flush()
    except BaseException:
        pass  # stderr is gone or full: there is nobody left to tell


def _stack_of(error: BaseException) -> str:
    try:
        import traceback  # which few programs need
    except RuntimeError:  # a tasklet is just importing it, and the loop itself cannot wait for that
        return f"{type(error).__name__}: {error}\n"
    return "".join(traceback.format_exception(error))
