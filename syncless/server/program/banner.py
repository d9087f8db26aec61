"""Prints the addresses that a server serves (with more details on a terminal), and logs the events of its
life in the error log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import syncless
from syncless._core.poll.backends import BACKENDS
from syncless.http.log.errorlog import inform
from syncless.http.log.notices import tell
from syncless.server.program.blocking import Patch


class Events:
    """Events(quiet): logs the events that it is called with, at level INFO."""

    def __init__(self, quiet: bool, began: float | None = None):
        self.quiet = quiet
        self.began = time.monotonic() if began is None else began

    def __call__(self, event: str) -> None:
        if not self.quiet:
            inform(event)

    def begin(self, event: str) -> None:
        """Log the beginning of an event that takes time. The first event begins when this object is made."""
        self.began = time.monotonic()
        self(event)

    def end(self, event: str) -> None:
        """Log the end of the event and its duration."""
        self(f"{event} after {time.monotonic() - self.began:.3f} s")

    def will_stop(self, seconds: float) -> None:
        self(f"stop begins in {seconds:g} s; a second signal begins it now")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def announce(
    urls: Sequence[str], workers: int = 0, patch: Patch | None = None, status: Sequence[str] = ()
) -> None:
    """Print the served addresses, and those of the status page. ``patch`` is the patch of the workers, or
    None for that of this process."""
    first, *others = urls
    processes = counted(workers, "worker")
    if not is_terminal():
        how = processes if workers else f"loop: {loop_name()}"
        for url in urls:
            tell(f"syncless {syncless.__version__} serves on {url} ({how}, pid {os.getpid()})")
        for url in status:
            tell(f"syncless {syncless.__version__} shows its status on {url}")
        return
    tell(f"syncless {syncless.__version__} serves on {first}")
    for url in others:
        tell(f"{'and on':>{len(syncless.__version__) + 19}} {url}")
    areas = patched_areas() if patch is None else str(patch)
    tell(f"  processes  {processes} of master {os.getpid()}" if workers else f"  process    {os.getpid()}")
    tell(f"  patched    {areas or 'nothing: a call that waits blocks all requests'}")
    tell(f"  Python     {sys.version.split()[0]}, loop: {loop_name()}")
    for url in status:
        tell(f"  status     {url}")
    tell("  Ctrl-C shuts down gracefully, after the requests in flight; a second Ctrl-C stops immediately.")


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def loop_name() -> str:
    """Return the backend of the loops of this process, and of its workers."""
    return os.environ.get("SYNCLESS_LOOP") or next(iter(BACKENDS))


def patched_areas() -> str:
    """Return the patched areas of this process."""
    patches = sys.modules.get("syncless.patches")
    return "" if patches is None else str(patches.described())
