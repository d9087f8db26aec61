"""gevent on our loop::

    import syncless.contrib.gevent
    syncless.contrib.gevent.install()      # before gevent's hub is used

`install()` is in hub.py.
"""

from __future__ import annotations

from syncless.contrib.gevent.hub import Hub, Loop, install

__all__ = ["Hub", "Loop", "install"]
