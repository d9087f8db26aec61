"""Warns when a hub of gevent or eventlet begins to run in a thread that has a syncless loop.

Both hubs wait in C until their own greenlets are ready; meanwhile, no tasklet of the thread runs. Importing
these libraries is harmless, as is a hub that waits in our loop (contrib/gevent.py). Both the server and the
patch enable the warning.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from syncless._core.current import may_park
from syncless.tools.imports import when_executed

# library -> module, class, and the method that each of its hubs calls when it begins to run
HUBS = {"gevent": ("gevent.hub", "Hub", "run"), "eventlet": ("eventlet.hubs.hub", "BaseHub", "switch")}
_watched: set[str] = set()


REMEDIES = {
    "gevent": "Call syncless.contrib.gevent.install() first, so that gevent waits in this loop; or use",
    "eventlet": "Use",
}


def _warn(library: str) -> None:
    warnings.warn(
        f"the hub of {library} starts to run in the thread of syncless's loop. While it runs, it blocks all "
        f"requests and all other tasklets, and SIGTERM has no effect. {REMEDIES[library]} threads, which "
        f"are tasklets under the patch, instead of {library}: Flask-SocketIO and python-socketio by "
        f"async_mode='threading', other libraries by a setting of their own, or uninstall {library}.",
        RuntimeWarning,
        stacklevel=3,
    )


def _watch(library: str, kind: str, method: str, module: Any) -> None:
    hub = getattr(module, kind)
    original = getattr(hub, method)

    @functools.wraps(original)
    def watched(self: Any, *args: Any, **named: Any) -> Any:
        if may_park() and not getattr(self, "waits_in_our_loop", False):
            setattr(hub, method, original)  # once is enough
            _warn(library)
        return original(self, *args, **named)

    setattr(hub, method, watched)


def watch_hubs() -> None:
    """Warn about such hubs from now on, until the process ends."""
    for library, (module, kind, method) in HUBS.items():
        if library not in _watched:
            _watched.add(library)
            when_executed(module, functools.partial(_watch, library, kind, method))
