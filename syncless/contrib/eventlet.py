"""A hub for eventlet that waits in our loop. Under the patch it is eventlet's default.

eventlet keeps its hub in a threading.local, so each tasklet that calls eventlet has its own. Without the
patch, all tasklets of the thread would share one hub, which would continue inside the wait of another
tasklet.
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
    """Return whether this hub can be used; eventlet calls this."""
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
        """Switch as eventlet's own hub does, but keep the parent of the waiting greenlet, which may be a
        carrier."""
        switch_out = getattr(getcurrent(), "switch_out", None)
        if switch_out is not None:
            try:
                switch_out()
            except Exception:
                self.squelch_generic_exception(sys.exc_info())
        self.ensure_greenlet()
        return self.greenlet.switch()
