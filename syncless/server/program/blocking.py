"""Warns about applications that can block the process because there is no patch. The caller of the program
provides the patch, which is applied before the application is imported."""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncless._core.calls.threads import start_os_thread
from syncless._core.cpython.functions import original_of
from syncless.debug import Watchdog
from syncless.http.log.errorlog import warn
from syncless.tools.blockers import is_patched

if TYPE_CHECKING:
    from syncless.server.server import Server

Patch = Callable[[], None]
"""Patches the standard library of this process; its str() names the areas."""

CURE = (
    "patch the standard library before anything else, with serve(..., patch=True) or the command `syncless`"
)
MODULES = (
    "MySQLdb",
    "botocore",
    "httpx",
    "pg8000",
    "psycopg",
    "psycopg2",
    "pymongo",
    "pymysql",
    "redis",
    "requests",
    "urllib3",
)
"""Modules whose calls wait in the standard library's sockets, or in their own."""
STALL_MILLISECONDS = 200
"""For which an application that is not patched may hold all others before that is told."""
PATCHED_STALL_MILLISECONDS = 1000
"""The same for one that is: it holds them by a computation, or by a library that waits in C."""


def warn_of_blocking_modules() -> None:
    """Warn about imported modules that will block, if sockets are not patched."""
    found = [] if is_patched("socket") else [name for name in MODULES if name in sys.modules]
    if found:
        warn(
            f"the application has imported {', '.join(found)}: a call that waits there blocks all "
            f"requests. To avoid that, {CURE}."
        )


LOOK_SECONDS = 1.0
_sleep = original_of(time.sleep)
get_ident = original_of(_thread.get_ident)


def warn_at_prompt(waiting: Callable[[], int], serves: Callable[[], bool]) -> None:
    """Warn once, with the stack, that a client waits in vain, because the code at the prompt does not wait
    cooperatively. An OS thread checks this. ``waiting`` returns the number of waiting clients; ``serves``
    returns whether the server still runs."""
    thread = get_ident()

    def look() -> None:
        before = 0
        while serves():
            _sleep(LOOK_SECONDS)
            now = waiting() if serves() else 0
            frame = sys._current_frames().get(thread)
            if before and now and frame is not None:
                import traceback  # not everybody needs it

                where = "".join(traceback.format_stack(frame)[-1:])
                warn(
                    "a client waits for this server, but the code at the prompt blocks its "
                    f"thread:\n{where}To serve meanwhile, {CURE_AT_PROMPT}. This warning appears once."
                )
                return
            before = now

    start_os_thread(look, ())


CURE_AT_PROMPT = "call syncless.patches.patch_all() first, or send the request with syncless.run_in_thread()"


STANDBY = "With --standby 1, or serve(..., standby_threads=1), another thread serves meanwhile"


class StallWarning:
    """StallWarning(server): warns once, with the stack, that the application blocks all requests, while it
    still does."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._patched = is_patched("time")
        milliseconds = max(STALL_MILLISECONDS, PATCHED_STALL_MILLISECONDS * self._patched)
        self._watchdog = Watchdog(milliseconds, self._tell)
        self._told = False

    def _tell(self, seconds: float, stack: str) -> None:
        if not self._told:
            self._told = True
            where = stack[stack.rfind("  File ") :]  # with the C function that it is in, and its cure
            remedy = f"If it waits here, {CURE}. If it computes, use run_in_thread() or more workers. "
            if self._patched:
                remedy = f"{STANDBY}. " if self._may_stand_by() else ""
            warn(
                f"the application has blocked all other requests for {seconds * 1000:.0f} ms, and still "
                f"does:\n{where}{remedy}This warning appears once."
            )

    def _may_stand_by(self) -> bool:
        """Return whether threads could stand by; a server whose threads do has no such warning."""
        listeners = self._server.listeners
        return listeners != [] and not any(listener.application.stays for listener in listeners)

    def __enter__(self) -> StallWarning:
        self._watchdog.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.stop()
