"""sqlite3: statements, commits and the wait for a database that is locked are done in threads, because SQLite waits in C.

A row after the first is fetched directly. Connections made under the patch may be used from any thread, since the threads of the pool use
them; what is not allowed to leave the thread in which it was made stays there, and may stop it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from syncless._core.filecalls import FileFunction, parks_now
from syncless._core.threads import ThreadPool
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher

CONNECTION = ("execute", "executemany", "executescript", "commit", "rollback", "close", "backup", "__exit__")
CURSOR = ("execute", "executemany", "executescript", "fetchall", "fetchmany")

CHECK_SAME_THREAD = 4
"""The argument's position in sqlite3.connect."""

_pool = ThreadPool(32)


def _in_thread(original: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not parks_now():
            return original(self, *args, **kwargs)
        try:
            return _pool.run(original, self, *args, **kwargs)
        except error as wrong:
            if "created in a thread can only be used in that same thread" not in str(wrong):
                raise
        return original(self, *args, **kwargs)

    return method


def _patch(patcher: Patcher, module: Any) -> None:
    why = "waits for a database that is locked, and for a disk"
    for owner, names in ((module.Connection, CONNECTION), (module.Cursor, CURSOR)):
        for name in names:
            patcher.member_in_place(owner, name, _in_thread(owner.__dict__[name], module.ProgrammingError), why)
    open_it = FileFunction(module.connect)

    def connect(*args: Any, **kwargs: Any) -> Any:
        if len(args) > CHECK_SAME_THREAD:
            args = (*args[:CHECK_SAME_THREAD], False, *args[CHECK_SAME_THREAD + 1 :])
        else:
            kwargs["check_same_thread"] = False
        return open_it(*args, **kwargs)

    patcher.rebind(module, "connect", functools.update_wrapper(connect, module.connect), why)
    patcher.rebind_now()


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "sqlite3", _patch)
