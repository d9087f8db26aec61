"""One call of sqlite3 in a thread, as far as its connection may leave its own thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless._core.calls.threads import Share
from syncless.patches.sqlite.databases import Connection


class Threads:
    """Runs calls in the threads that a database may use."""

    def __init__(self, module: Any):
        self.module = module

    def run(self, known: Connection, share: Share, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args) in a thread, or here if the connection must stay in its thread."""
        if known.strict:
            return function(*args)
        try:
            seconds = known.timeout if share is known.database.entering else None
            return share.run_soon(seconds, self._noted, known, function, args)
        except self.module.ProgrammingError as wrong:
            if "created in a thread can only be used in that same thread" not in str(wrong):
                raise
            known.strict = True
        return function(*args)

    @staticmethod
    def _noted(known: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        token = object()
        known.in_threads.add(token)
        try:
            return function(*args)
        finally:
            known.in_threads.discard(token)
