"""The hub of each OS thread, and trampoline(), which waits for a descriptor.

There is one loop, ours, so use_hub() takes any name and changes nothing that a program notices.
"""

from __future__ import annotations

import importlib
import os
import weakref
from types import ModuleType
from typing import Any

from syncless._core.current import wait_readable, wait_writable
from syncless._core.loop import Loop
from syncless._core.threadloop import current_loop
from syncless._core.wait.select import readable, select, writable
from syncless.eventlet import _greenlet
from syncless.eventlet.support import greenlets
from syncless.eventlet.timeout import Timeout

__all__ = ["get_default_hub", "get_hub", "notify_close", "notify_opened", "trampoline", "use_hub"]

NAMES = ("asyncio", "epolls", "kqueue", "poll", "pyevent", "selects")

_hubs: weakref.WeakKeyDictionary[Loop, Any] = weakref.WeakKeyDictionary()
_chosen: Any = None


class HubError(Exception):
    """The name of a hub is not known."""


def get_default_hub() -> ModuleType:
    """Return the module of the hub that a program gets which chooses none."""
    return importlib.import_module(f"{__name__}.epolls")


def use_hub(mod: Any = None) -> None:
    """Accept what eventlet accepts: a name, a module or a class; later calls of get_hub() use it."""
    global _chosen
    if isinstance(mod, str):
        if not mod.strip():
            raise HubError("use_hub() needs a name")
        if ":" in mod:
            name, _, attribute = mod.partition(":")
            mod = getattr(importlib.import_module(name), attribute)
        elif "." in mod:
            mod = importlib.import_module(mod)
        elif mod in NAMES:
            mod = importlib.import_module(f"{__name__}.{mod}")
        else:
            raise HubError(f"unknown hub {mod!r}: choose from {', '.join(NAMES)}")
    _chosen = mod
    _hubs.pop(current_loop(), None)


def get_hub() -> Any:
    """Return the hub of this OS thread."""
    loop = current_loop()
    hub = _hubs.get(loop)
    if hub is None:
        if _chosen is None and os.environ.get("EVENTLET_HUB"):
            use_hub(os.environ["EVENTLET_HUB"])
        chosen: Any = get_default_hub() if _chosen is None else _chosen
        hub = _hubs[loop] = getattr(chosen, "Hub", chosen)()
    return hub


_greenlet.find_hub = get_hub


def trampoline(
    fd: Any,
    read: bool | None = None,
    write: bool | None = None,
    timeout: float | None = None,
    timeout_exc: Any = Timeout,
    mark_as_closed: Any = None,
) -> None:
    """Wait until the descriptor can be read or written. Raise timeout_exc after `timeout` seconds."""
    if greenlets.in_hub():
        raise RuntimeError("trampoline() in a call of the hub, which cannot wait")
    if read and write:
        ready = select([readable(fd), writable(fd)], timeout)[0] is not None
    elif not read and not write:
        raise ValueError("trampoline() needs read=True or write=True")
    else:
        ready = (wait_readable if read else wait_writable)(fd, timeout)
    if not ready:
        raise timeout_exc


def notify_close(fd: int) -> None:
    """The loop notices by itself."""


def notify_opened(fd: int) -> None:
    """The loop notices by itself."""
