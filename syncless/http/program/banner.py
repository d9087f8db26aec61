"""The server's message when it serves: a line for each address; on a terminal a few lines about itself."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Collection, Sequence

import syncless
from syncless._core.poll.backends import BACKENDS
from syncless.http.notices import tell
from syncless.http.program.blocking import Patch, is_patched


def announce(
    urls: Sequence[str], workers: int = 0, patch: Patch | None = None, status: Sequence[str] = ()
) -> None:
    """Says on stdout that these addresses are served, and where the status page is. ``patch``: the areas that
    workers patch, or None for those of this process."""
    first, *others = urls
    processes = f"{workers} worker{'' if workers == 1 else 's'}"
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
    tell(f"  processes  {processes} of master {os.getpid()}" if workers else f"  process    {os.getpid()}")
    tell(f"  patched    {patched_areas(patch)}")
    tell(f"  Python     {platform.python_version()}, loop: {loop_name()}")
    for url in status:
        tell(f"  status     {url}")
    tell("  Ctrl-C stops when the requests in flight have ended; once more stops at once.")


def is_terminal() -> bool:
    """Whether somebody reads stdout as it comes."""
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def loop_name() -> str:
    """The backend of the loops of this process, and of its workers."""
    return os.environ.get("SYNCLESS_LOOP") or next(iter(BACKENDS))


def patched_areas(patch: Patch | None) -> str:
    if patch is False or (patch is None and "syncless.patches" not in sys.modules):
        return "nothing: a call that waits holds up all requests"
    patches = importlib.import_module("syncless.patches")  # as in patch_process()
    usual = [area for area in patches.AREAS if area not in patches.OFF]
    if patch is None:
        on: Collection[str] = [area for area in patches.AREAS if is_patched(area)]
    else:
        choice = {} if patch is True else patch
        on = [area for area in patches.AREAS if choice.get(area, area not in patches.OFF)]
    missing = [area for area in usual if area not in on]
    if not on:
        return "nothing: a call that waits holds up all requests"
    if len(missing) > len(usual) // 2:
        return ", ".join(on)
    more = [area for area in on if area in patches.OFF]
    return (
        "the standard library"
        + (f" but {', '.join(missing)}" if missing else "")
        + (f", and {', '.join(more)}" if more else "")
    )
