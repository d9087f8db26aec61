"""A hub for eventlet that waits in our loop. Under the patch it is eventlet's default.

eventlet keeps its hub in a threading.local, so each tasklet that calls eventlet has one of its own. Without
the patch it would be one hub for all tasklets of the thread, and go on inside another one's wait.
"""

from __future__ import annotations

import math
import select
import sys
from typing import Any

from eventlet.hubs import poll
from greenlet import GreenletExit, getcurrent

from syncless._core.current import sleep


def is_available() -> bool:
    """eventlet asks the module of a hub."""
    return hasattr(select, "poll")


class Hub(poll.Hub):  # type: ignore[misc]
    waits_in_our_loop = True  # tools/otherhubs.py need not warn

    # raised in the hub's greenlet when the tasklet has ended, and with it its threading.local
    SYSTEM_EXCEPTIONS = (*poll.Hub.SYSTEM_EXCEPTIONS, GreenletExit)

    def __init__(self, clock: Any = None):
        super().__init__(clock)
        self.poll = select.poll()  # eventlet's own is of a fresh copy of the module, which is not patched

    def do_poll(self, seconds: float) -> list[tuple[int, int]]:
        return self.poll.poll(math.ceil(seconds * 1000))

    def wait(self, seconds: float | None = None) -> None:
        if self.listeners[self.READ] or self.listeners[self.WRITE]:
            super().wait(seconds)
        else:
            sleep(seconds or 0)

    def switch(self) -> Any:
        """As eventlet's, except for the parent of the greenlet that waits, which must not be changed: it may
        be a carrier."""
        switch_out = getattr(getcurrent(), "switch_out", None)
        if switch_out is not None:
            try:
                switch_out()
            except Exception:
                self.squelch_generic_exception(sys.exc_info())
        self.ensure_greenlet()
        return self.greenlet.switch()
