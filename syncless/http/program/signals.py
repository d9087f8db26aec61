"""Signals that mean something else elsewhere: SIGHUP of a terminal that closes, and SIGUSR2, by which
gunicorn replaces its own program."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from syncless.http.errorlog import warn

UPGRADE = (
    "SIGUSR2 does nothing here. SIGHUP loads new code of the application (with workers). To run a new "
    "version of syncless, restart the server; with a systemd socket or --reuse-port no connection is refused."
)


class Terminal:
    """The terminal from which the server was started, if there is one."""

    def __init__(self) -> None:
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
        self._had = not ignored and _is_there()

    def is_gone(self) -> bool:
        """Asked at SIGHUP: whether it is the end of the terminal, which ends the server, or a reload."""
        return self._had and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextmanager
def refusing_upgrades() -> Iterator[None]:
    """In the main thread. SIGUSR2 would end the process; a handler of the application's stays."""
    if signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGUSR2, lambda number, frame: warn(UPGRADE))
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
