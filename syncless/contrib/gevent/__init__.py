"""gevent on our loop::

    import syncless.contrib.gevent
    syncless.contrib.gevent.install()      # before gevent's hub is used

The patch does so when gevent is imported. Imports gevent only when it is installed here: the patch of
gevent.monkey comes in the midst of gevent's own import.
"""

from __future__ import annotations

import importlib


def install() -> None:
    """Make gevent wait in the loop of the thread, and gevent.monkey make our patch. Raise RuntimeError if a
    hub of gevent's own runs in this thread already, ImportError if gevent is not installed."""
    importlib.import_module("gevent")  # first: at its end the patch comes here
    for part in ("hub", "monkey"):
        importlib.import_module(f"{__name__}.{part}").install()


__all__ = ["install"]
